//! Values of object-dirs under the conditions that its claims name.

use super::analysis::{Row, quantities};
use super::{Event, FilledScheme, ObjectDirs, Spec, UNUSUAL_NS, Writes};
use senesce_claims::Facts;
use senesce_core::{Better, Finite, Measurement};
use senesce_runner::Recorded;
use senesce_volume::FileSystem;
use std::collections::BTreeMap;

/// Claims' names of the study's partition and disk drive.
const PARTITION: &str = "ext4 of 100 MiB with 25,688 inodes";
const DISK: &str = "ST3250318AS";

pub(super) fn facts(recorded: &Recorded<ObjectDirs>, mut facts: Facts) -> Facts {
    let mut filled = recorded.events().filter_map(Event::filled).peekable();
    if filled.peek().is_some() && filled.all(FilledScheme::is_published_partition) {
        facts.drives.push(PARTITION.into());
    }
    facts.drives.extend(crate::is_on(&recorded.environment, DISK).then(|| DISK.into()));
    facts
}

pub(super) fn measurements(spec: &Spec, events: &[&Event]) -> Vec<Measurement> {
    let rows = Row::all(events.iter().copied());
    let mut found = quantities(&rows).measurements();
    found.extend(rows.iter().filter_map(|row| partition(spec, &row.filled)));
    quick_writes(&rows, &mut found);
    found
}

fn partition(spec: &Spec, filled: &FilledScheme) -> Option<Measurement> {
    let options = spec.options().mkfs_options;
    let size = options.split_whitespace().skip_while(|word| *word != "-I").nth(1)?;
    let mib = spec.capacity().0 >> 20;
    if spec.fs != FileSystem::Ext4 || mib == 0 || filled.full.inodes_total == 0 {
        return None;
    }
    let inodes = filled.full.inodes_total as f64;
    let one = Measurement::new("inodes of the partition", "inodes", Better::Neither, inodes).ok()?;
    let one = Measurement { repetition: filled.repeat, ..one };
    Some(one.under("capacity_mib", mib.to_string()).under("inode_size", size))
}

/// Sizes in GiB of stores with published times.
pub(super) const STORES_GIB: [u64; 3] = [1, 2, 8];

/// Times of the writes of a fill.
#[derive(Default)]
pub(super) struct Times {
    write_ns: Vec<u64>,
    put_ns: Vec<u64>,
}

/// A store is filled by whole objects, including the directories that each needed.
impl Times {
    pub fn add(&mut self, writes: &Writes) {
        self.write_ns.extend(&writes.write_ns);
        self.put_ns.extend(&writes.put_ns);
    }

    pub fn unusual(&self) -> usize {
        self.write_ns.iter().filter(|ns| **ns >= UNUSUAL_NS).count()
    }

    pub fn longest(&self) -> Option<f64> {
        self.write_ns.iter().max().map(|ns| *ns as f64 / 1e9)
    }

    pub fn median(&self) -> Option<f64> {
        let mut sorted = self.write_ns.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).map(|ns| *ns as f64 / 1e9)
    }

    pub fn per_file(&self) -> Option<Finite> {
        Finite::per(seconds(&self.put_ns), self.put_ns.len() as f64).ok()
    }

    /// Returns the rate of the first tenth of the writes in MiB/s.
    pub fn first_rate(&self, object_bytes: u64) -> Option<Finite> {
        rate(&self.put_ns[..self.put_ns.len() / 10], object_bytes)
    }

    /// Returns the rate of the last tenth of the writes in MiB/s.
    pub fn last_rate(&self, object_bytes: u64) -> Option<Finite> {
        rate(&self.put_ns[self.put_ns.len() - self.put_ns.len() / 10..], object_bytes)
    }

    /// Returns the seconds until the store holds `bytes`.
    pub fn of_bytes(&self, bytes: u64, object_bytes: u64) -> Option<f64> {
        self.put_ns.get(..bytes.div_ceil(object_bytes) as usize).map(seconds)
    }
}

fn seconds(ns: &[u64]) -> f64 {
    ns.iter().sum::<u64>() as f64 / 1e9
}

fn rate(ns: &[u64], object_bytes: u64) -> Option<Finite> {
    let mib = (ns.len() as u64 * object_bytes) as f64 / f64::from(1 << 20);
    Finite::per(mib, seconds(ns)).ok().filter(|_| !ns.is_empty())
}

/// Adds the share of writes up to 1 ms in a round, over all schemes as published.
fn quick_writes(rows: &[Row], found: &mut Vec<Measurement>) {
    let mut rounds: BTreeMap<u32, (usize, usize)> = BTreeMap::new();
    for row in rows {
        let (quick, all) = rounds.entry(row.filled.repeat).or_default();
        *quick += row.times.write_ns.iter().filter(|ns| **ns <= UNUSUAL_NS).count();
        *all += row.times.write_ns.len();
    }
    for (repetition, (quick, all)) in rounds {
        let share = Finite::per(100.0 * quick as f64, all as f64).ok();
        let one = share.and_then(|share| Measurement::new("writes up to 1 ms", "%", Better::Higher, share).ok());
        found.extend(one.map(|one| Measurement { repetition, ..one }.timing(true)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object_dirs::tests::{filled, writes};
    use senesce_claims::{ClaimSet, untested};
    use senesce_core::Level;
    use senesce_objstore::occupancy::Limit;
    use senesce_runner::{Experiment, Run};

    /// Fills of schemes that claims name, with objects of 64 MiB so that few of them make the published stores.
    fn measured(inode_size: &str) -> Vec<Measurement> {
        let mut spec = ObjectDirs::defaults(Level::Paper);
        spec.mkfs_options = format!("-I {inode_size} -m 0");
        let schemes = [("0x0", 0), ("1x1", 0), ("1x2", 0), ("2x1", 0), ("1x4", 1), ("2x2", 1), ("4x6", 1)];
        let mut events = Vec::new();
        for repeat in 0..spec.repeats {
            for (scheme, inodes_end) in schemes {
                let mut one = filled(scheme, repeat);
                one.object_bytes = 64 << 20;
                one.full.ended_by = Some(if inodes_end == 1 { Limit::Inodes } else { Limit::Bytes });
                events.extend([Event::Writes(writes(scheme, repeat, 130)), Event::Filled(one)]);
            }
        }
        measurements(&spec, &events.iter().collect::<Vec<_>>())
    }

    #[test]
    fn every_claim_finds_its_values() {
        let set = ClaimSet::parse(ObjectDirs::CLAIMS, ObjectDirs::PUBLISHED).unwrap();
        let all = [measured("128"), measured("256")].concat();
        assert_eq!(untested(&set, &all), Vec::<String>::new());
    }

    #[test]
    fn uncounted_inodes_have_no_measurement() {
        let mut one = filled("2x1", 0);
        (one.full.inodes_total, one.full.inodes_used) = (0, 0);
        let found = measurements(&ObjectDirs::defaults(Level::Smoke), &[&Event::Filled(one)]);
        let names: Vec<&str> = found.iter().map(|one| one.metric.as_str()).collect();
        assert!(names.contains(&"files_when_full"), "{names:?}");
        assert!(names.iter().all(|name| !name.contains("inodes") && !name.contains("naive")), "{names:?}");
    }
}
