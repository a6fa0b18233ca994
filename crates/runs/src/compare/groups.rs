//! Groups the measured values of a side by metric, condition, run and image.

use senesce_core::measurement::Seconds;
use senesce_core::{Failure, Measurement};
use std::collections::BTreeMap;

pub(super) fn agree_on_directions(sample: &Groups, reference: &Groups) -> Result<(), Failure> {
    let mut both = reference.iter().filter_map(|(key, (theirs, _))| Some((theirs, &sample.get(key)?.0)));
    both.try_for_each(|(theirs, ours)| same_direction(theirs, ours))
}

fn same_direction(one: &Measurement, other: &Measurement) -> Result<(), Failure> {
    match one.better == other.better {
        true => Ok(()),
        false => Err(Failure::usage(format!("the runs do not agree on which direction of {} is better", one.metric))),
    }
}

pub(super) type Key = (String, String, BTreeMap<String, String>);
pub(super) type Values = BTreeMap<(usize, u32), Vec<f64>>;
pub(super) type Group = (Measurement, Values);
pub(super) type Groups = BTreeMap<Key, Group>;

pub(super) fn key(one: &Measurement) -> Key {
    (one.metric.clone(), one.unit.clone(), one.condition.clone())
}

pub(super) fn groups_of(runs: impl IntoIterator<Item = (usize, Vec<Measurement>)>) -> Result<Groups, Failure> {
    let mut all = Groups::new();
    for (run, measured) in runs {
        for one in measured {
            let (image, value, seconds) = (one.image, one.value.get(), one.seconds);
            let entry = all.entry(key(&one)).or_insert_with(|| (one.clone(), BTreeMap::new()));
            same_direction(&entry.0, &one)?;
            if seconds == Seconds::Emulator {
                entry.0.seconds = seconds;
            }
            entry.1.entry((run, image)).or_default().push(value);
        }
    }
    Ok(all)
}

/// Returns the number of runs, and the values of each unit: of each run, or of each image of a single run.
pub(super) fn units(values: &Values) -> (usize, Vec<Vec<f64>>) {
    let mut runs: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for ((run, _), of_image) in values {
        runs.entry(*run).or_default().extend(of_image);
    }
    let groups = if runs.len() > 1 { runs.values().cloned().collect() } else { values.values().cloned().collect() };
    (runs.len(), groups)
}
