//! Finds records of the same run: a copy has the same content, whatever its path, name or date.

use crate::Common;
use crate::contradiction::{canonical, digits};
use senesce_core::record::Event;
use senesce_core::{Measurement, Record};
use std::collections::{BTreeMap, BTreeSet};

pub type Digest = [u8; 32];

/// Number of significant digits of a repetition that two repetitions do not share by chance.
const OF_A_REPETITION: usize = 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Of all events of its kind and all measured values, in any order and without their times; none for an empty
    /// record.
    content: Option<Digest>,
    /// Of each repetition on each image, whatever its number.
    repetitions: BTreeSet<Digest>,
}

impl Identity {
    pub fn of(record: &Record, measured: &[Measurement]) -> Self {
        let is_measured = |kind: &str| kind == senesce_core::measurement::EVENT || !Common::is_kind(kind);
        let events = record.events.iter().filter(|event| is_measured(&event.kind));
        let of_event = |event: &Event| format!("{} {}", event.kind, canonical(event.data.value()));
        // A digest for each line: the lines of all events together are as large as the record.
        let lines: Vec<Digest> = events.map(|event| *blake3::hash(of_event(event).as_bytes()).as_bytes()).collect();
        Self { content: (!lines.is_empty()).then(|| digest(lines)), repetitions: repetitions(measured) }
    }

    /// Returns whether both are one run, or at least half of the smaller is a copy from the larger.
    pub fn is_same_run(&self, other: &Self) -> bool {
        let shared = self.repetitions.intersection(&other.repetitions).count();
        let smaller = self.repetitions.len().min(other.repetitions.len());
        let is_copy = shared > 0 && 2 * shared >= smaller;
        is_copy || self.content.is_some() && self.content == other.content
    }
}

/// Returns a digest for each repetition on each image, whatever its number, except those whose values may agree by
/// chance.
pub fn repetitions(measured: &[Measurement]) -> BTreeSet<Digest> {
    let mut values: BTreeMap<(u32, u32), Vec<&Measurement>> = BTreeMap::new();
    measured.iter().for_each(|one| values.entry((one.image, one.repetition)).or_default().push(one));
    let is_distinct = |values: &&Vec<&Measurement>| {
        values.iter().map(|one| digits(one.value.get())).sum::<usize>() >= OF_A_REPETITION
    };
    values
        .values()
        .filter(is_distinct)
        .map(|values| digest(values.iter().map(|one| value_line(one)).collect()))
        .collect()
}

fn value_line(one: &Measurement) -> String {
    format!("{}\n{}\n{}\n{:x}", one.metric, one.unit, one.condition_text(), one.value.get().to_bits())
}

fn digest<T: AsRef<[u8]> + Ord>(mut lines: Vec<T>) -> Digest {
    lines.sort();
    let mut hasher = blake3::Hasher::new();
    for line in lines.iter().map(AsRef::as_ref) {
        hasher.update(&(line.len() as u64).to_le_bytes()).update(line);
    }
    *hasher.finalize().as_bytes()
}
