//! One side of a comparison: its runs, each counted once, and their measurements.

use super::identical::LayoutValues;
use super::{Groups, groups_of};
use crate::measurements;
use senesce_core::{Failure, Measurement, Record, number_of};
use senesce_runner::Identity;
use senesce_runner::Registry;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

pub(super) struct Side<'a> {
    pub records: Vec<&'a Record>,
    pub groups: Groups,
    /// Counted units: runs, or images if several runs with the same seed share an image.
    pub units: usize,
    pub caveats: Vec<String>,
    pub layout_values: LayoutValues,
    identities: Vec<Identity>,
}

/// Returns the start of a run (RFC 3339, UTC); none for imports without a date.
pub(super) fn date(record: &Record) -> Option<&str> {
    record.environment.0.get("run.date").and_then(Value::as_str)
}

impl<'a> Side<'a> {
    /// Reads the measurements of the runs. A usage error if they do not agree on the direction of a metric.
    pub(crate) fn of(registry: &Registry, name: &str, records: &'a [Record]) -> Result<Self, Failure> {
        let mut sorted: Vec<&Record> = records.iter().collect();
        sorted.sort_by(|a, b| date(a).cmp(&date(b)));
        let (mut kept, mut identities, mut measured, mut caveats) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for record in sorted {
            let values = measurements::of(registry, record)?;
            let identity = Identity::of(record, &values);
            let same = identities.iter().position(|known: &Identity| known.is_same_run(&identity));
            if let Some(index) = same {
                let first: &Record = kept[index];
                caveats.push(copy(record, first, &format!("and counts once in the {name}")));
                continue;
            }
            kept.push(record);
            identities.push(identity);
            measured.push(values);
        }
        let is_timed = measured.iter().flatten().any(Measurement::is_timing);
        let layout_values = LayoutValues::of(&kept, &measured);
        let (numbers, units) = numbered(&kept, is_timed);
        if units < kept.len() {
            caveats.push(format!(
                "the {} runs of the {name} age {}: runs with the same seed make the same image, and count as one",
                kept.len(),
                number_of(units, "seed")
            ));
        }
        let mut groups = groups_of(numbers.iter().copied().zip(measured).collect::<Vec<(usize, Vec<Measurement>)>>())?;
        merge_images(&mut groups, &numbers);
        Ok(Self { records: kept, groups, units, caveats, layout_values, identities })
    }

    /// Returns caveats for the runs that both sides contain.
    pub(crate) fn shared_with(&self, other: &Self) -> Vec<String> {
        let pairs = self.records.iter().zip(&self.identities).filter_map(|(record, identity)| {
            let same = other.identities.iter().position(|known| known.is_same_run(identity))?;
            Some(copy(record, other.records[same], "and both sides contain it: the gate cannot pass"))
        });
        pairs.collect()
    }
}

fn copy(record: &Record, first: &Record, what: &str) -> String {
    format!("{} contains the same run as {}, {what}", shown(&record.path), shown(&first.path))
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// Returns the number of each counted run, and the total. Runs that draw from the plan's seed and measure no times (an
/// aging) are one image for each seed.
fn numbered(records: &[&Record], is_timed: bool) -> (Vec<usize>, usize) {
    let (mut seeds, mut units): (BTreeMap<String, usize>, usize) = (BTreeMap::new(), 0);
    let mut next = || {
        units += 1;
        units - 1
    };
    let numbers = records.iter().map(|record| match record.plan.spec.get("seed").filter(|_| !is_timed) {
        Some(seed) => *seeds.entry(seed.to_string()).or_insert_with(&mut next),
        None => next(),
    });
    let numbers = numbers.collect();
    (numbers, units)
}

/// Gives each image that several runs made one value, which is their mean.
fn merge_images(groups: &mut Groups, numbers: &[usize]) {
    let is_shared = |run: usize| numbers.iter().filter(|number| **number == run).count() > 1;
    for ((run, _), values) in groups.values_mut().flat_map(|(_, values)| values) {
        let is_equal = values.windows(2).all(|pair| pair[0] == pair[1]);
        match senesce_stats::mean(values) {
            Some(_) if is_shared(*run) && is_equal => values.truncate(1),
            Some(mean) if is_shared(*run) => *values = vec![mean],
            _ => {}
        }
    }
}
