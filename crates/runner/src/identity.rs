//! Finds records of the same run: copies share its random identity. Imports of one file have the same content.

use crate::Common;
use crate::contradiction::{canonical, digits};
use senesce_core::record::Event;
use senesce_core::{Measurement, Record};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

type Digest = [u8; 32];

/// Number of significant digits of a repetition that two repetitions do not share by chance.
const OF_A_REPETITION: usize = 20;

/// The default is the identity of no run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    /// The random identity; none for an empty record.
    run: Option<String>,
    /// None: the record was not imported.
    imported: Option<Content>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Content {
    /// Of all events of its kind and all measured values, in any order and without their times; none for an empty
    /// record.
    whole: Option<Digest>,
    /// Of each repetition on each image, whatever its number.
    repetitions: BTreeSet<Digest>,
}

impl Identity {
    pub fn of(record: &Record, measured: &[Measurement]) -> Self {
        let run = record.identity().map(str::to_string);
        Self { run, imported: is_imported(record, measured).then(|| Content::of(record, measured)) }
    }

    /// Returns whether both are one run, or imports of the same content.
    pub fn is_same_run(&self, other: &Self) -> bool {
        self.is_copy_of(other)
            || self.have_imported(other, |ours, theirs| ours.whole.is_some() && ours.whole == theirs.whole)
    }

    /// As [`Self::is_same_run`], but imports may have the same values by chance, if these have few digits.
    fn is_copy_of(&self, other: &Self) -> bool {
        self.run.is_some() && self.run == other.run || self.have_imported(other, Content::shares_repetitions)
    }

    fn have_imported(&self, other: &Self, is_same: impl Fn(&Content, &Content) -> bool) -> bool {
        self.imported.as_ref().zip(other.imported.as_ref()).is_some_and(|(ours, theirs)| is_same(ours, theirs))
    }
}

/// Runs among which copies are found without a comparison of all pairs.
#[derive(Default)]
pub struct KnownRuns<'i> {
    runs: HashSet<&'i str>,
    /// Imports with the same repetitions count once.
    imports: HashSet<&'i BTreeSet<Digest>>,
    of_repetition: HashMap<&'i Digest, Vec<&'i BTreeSet<Digest>>>,
}

impl<'i> KnownRuns<'i> {
    /// Adds a run. Returns whether it is a copy of a known one: imports may have the same values by chance, if these
    /// have few digits.
    pub fn add(&mut self, identity: &'i Identity) -> bool {
        let is_known = identity.run.as_deref().is_some_and(|run| !self.runs.insert(run));
        let shares = identity.imported.as_ref().is_some_and(|content| self.add_import(&content.repetitions));
        is_known || shares
    }

    fn add_import(&mut self, own: &'i BTreeSet<Digest>) -> bool {
        if own.is_empty() || !self.imports.insert(own) {
            return !own.is_empty();
        }
        let mut candidates: HashMap<*const BTreeSet<Digest>, (usize, usize)> = HashMap::new();
        for earlier in own.iter().filter_map(|one| self.of_repetition.get(one)).flatten() {
            candidates.entry(std::ptr::from_ref(*earlier)).or_insert((0, earlier.len())).0 += 1;
        }
        let is_copy = candidates.values().any(|(shared, of)| is_mostly_shared(*shared, *of, own.len()));
        own.iter().for_each(|one| self.of_repetition.entry(one).or_default().push(own));
        is_copy
    }
}

/// Returns whether at least half of the smaller import is a copy from the larger.
fn is_mostly_shared(shared: usize, one: usize, other: usize) -> bool {
    shared > 0 && 2 * shared >= one.min(other)
}

/// Returns whether a record has the checksum of the file that it was imported from. Layouts are not imported.
fn is_imported(record: &Record, measured: &[Measurement]) -> bool {
    record.plan.spec.contains_key("crc32") && measured.iter().all(|one| one.layout.is_none())
}

impl Content {
    fn of(record: &Record, measured: &[Measurement]) -> Self {
        let is_measured = |kind: &str| kind == senesce_core::measurement::EVENT || !Common::is_kind(kind);
        let events = record.events.iter().filter(|event| is_measured(&event.kind));
        let of_event = |event: &Event| format!("{} {}", event.kind, canonical(event.data.value()));
        // A digest for each line: the lines of all events together are as large as the record.
        let lines: Vec<Digest> = events.map(|event| *blake3::hash(of_event(event).as_bytes()).as_bytes()).collect();
        Self { whole: (!lines.is_empty()).then(|| digest(lines)), repetitions: repetitions(measured) }
    }

    fn shares_repetitions(&self, other: &Self) -> bool {
        let shared = self.repetitions.intersection(&other.repetitions).count();
        is_mostly_shared(shared, self.repetitions.len(), other.repetitions.len())
    }
}

/// Returns a digest for each repetition on each image, whatever its number, except those whose values may agree by
/// chance.
fn repetitions(measured: &[Measurement]) -> BTreeSet<Digest> {
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
