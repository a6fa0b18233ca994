//! Values of object-dirs under the conditions that its claims name.

use super::analysis::percent;
use super::{Event, Filled, ObjectDirs, Spec, UNUSUAL_NS, Writes};
use senesce_claims::Facts;
use senesce_core::{Better, Finite, Measurement};
use senesce_objstore::occupancy::{self, Limit};
use senesce_runner::Recorded;
use senesce_volume::FileSystem;
use std::collections::BTreeMap;

/// Claims' names of the study's partition and disk drive.
const PARTITION: &str = "ext4 of 100 MiB with 25,688 inodes";
const DISK: &str = "ST3250318AS";

pub(super) fn facts(recorded: &Recorded<ObjectDirs>, mut facts: Facts) -> Facts {
    let mut filled = recorded.events().filter_map(as_filled).peekable();
    if filled.peek().is_some() && filled.all(Filled::is_published_partition) {
        facts.drives.push(PARTITION.into());
    }
    facts.drives.extend(crate::is_on(&recorded.environment, DISK).then(|| DISK.into()));
    facts
}

fn as_filled(event: &Event) -> Option<&Filled> {
    if let Event::Filled(filled) = event { Some(filled) } else { None }
}

pub(super) fn measurements(spec: &Spec, events: &[&Event]) -> Vec<Measurement> {
    let mut times: BTreeMap<(&str, u32), Times> = BTreeMap::new();
    for event in events {
        if let Event::Writes(writes) = event {
            times.entry((&writes.scheme, writes.repeat)).or_default().add(writes);
        }
    }
    let mut found = Vec::new();
    for filled in events.iter().copied().filter_map(as_filled) {
        counts(filled, &mut found);
        found.extend(partition(spec, filled));
        if let Some(times) = times.get(&(filled.scheme.to_string().as_str(), filled.repeat)) {
            times.measure(filled, &mut found);
        }
    }
    quick_writes(&times, &mut found);
    found
}

fn counts(filled: &Filled, found: &mut Vec<Measurement>) {
    let full = &filled.full;
    let (files, directories) = (full.files as f64, full.directories as f64);
    let both = files + directories;
    let counts_inodes = full.inodes_total > 0;
    let counted = |value: f64| counts_inodes.then_some(value);
    let mut put = |keys: &[&str], metric: &str, unit: &str, value: Option<f64>| {
        let one = value.and_then(|value| Measurement::new(metric, unit, Better::Neither, value).ok());
        found.extend(one.map(|one| keys.iter().fold(filled.in_repeat(one), |one, key| filled.under(one, key))));
    };
    let law = occupancy::predict(filled.scheme, &full.free, filled.object_bytes).files as f64;
    put(&["scheme"], "files_when_full", "files", Some(files));
    put(&["scheme", "ended"], "directories_when_full", "directories", Some(directories));
    put(&["scheme", "ended"], "files and directories", "inodes", counted(both));
    put(&["scheme", "ended"], "inodes", "inodes", counted(full.inodes_total as f64));
    let possible = filled.naive_files().map(|naive| full.inodes_total as f64 - naive);
    put(&["scheme", "ended"], "possible directories", "directories", possible);
    put(&["digits", "depth"], "directories over files", "", Some(directories / files));
    let naive = filled.naive_files().map(|naive| percent(naive, files));
    put(&["scheme", "ended"], "error of the naive formula", "%", naive);
    put(&["scheme", "ended"], "error of the occupancy law", "%", Some(percent(law, files)));
    let free = full.bytes_total.saturating_sub(full.bytes_used) as f64;
    put(&["scheme"], "bytes free", "%", Some(100.0 * free / full.bytes_total as f64));
    put(&["scheme"], "inodes used per file", "inodes", counted(full.inodes_used as f64 / files));
}

fn partition(spec: &Spec, filled: &Filled) -> Option<Measurement> {
    let options = spec.options().mkfs_options;
    let size = options.split_whitespace().skip_while(|word| *word != "-I").nth(1)?;
    let mib = spec.capacity().0 >> 20;
    if spec.fs != FileSystem::Ext4 || mib == 0 || filled.full.inodes_total == 0 {
        return None;
    }
    let inodes = filled.full.inodes_total as f64;
    let one = Measurement::new("inodes of the partition", "inodes", Better::Neither, inodes).ok()?;
    Some(filled.in_repeat(one).under("capacity_mib", mib.to_string()).under("inode_size", size))
}

impl Filled {
    fn in_repeat(&self, one: Measurement) -> Measurement {
        Measurement { repetition: self.repeat, ..one }
    }

    fn under(&self, one: Measurement, key: &str) -> Measurement {
        let word = match key {
            "digits" => self.scheme.digits().to_string(),
            "depth" => self.scheme.depth().to_string(),
            "ended" => self.full.ended_by.map_or("otherwise", Limit::name).into(),
            _ => self.scheme.to_string(),
        };
        one.under(key, word)
    }
}

#[derive(Default)]
struct Times {
    write_ns: Vec<u64>,
    put_ns: Vec<u64>,
}

/// Sizes in GiB of stores with published times.
const STORES_GIB: [u64; 3] = [1, 2, 8];

impl Times {
    fn add(&mut self, writes: &Writes) {
        self.write_ns.extend(&writes.write_ns);
        self.put_ns.extend(&writes.put_ns);
    }

    fn measure(&self, filled: &Filled, found: &mut Vec<Measurement>) {
        let mut put = |metric: &str, unit: &str, better, value: Option<Finite>, key: Option<(&str, &str)>| {
            let one = value.and_then(|value| Measurement::new(metric, unit, better, value).ok());
            let one = one.map(|one| filled.under(filled.in_repeat(one), "scheme"));
            found.extend(one.map(|one| key.into_iter().fold(one, |one, (key, word)| one.under(key, word))));
        };
        let mut sorted = self.write_ns.clone();
        sorted.sort_unstable();
        let at = |index: usize| sorted.get(index).and_then(|ns| Finite::new(*ns as f64 / 1e9).ok());
        put("longest write", "s", Better::Lower, at(sorted.len().saturating_sub(1)), None);
        put("median write", "s", Better::Lower, at(sorted.len() / 2), None);
        // A store is filled by whole objects, including the directories that each needed.
        let seconds = |ns: &[u64]| ns.iter().sum::<u64>() as f64 / 1e9;
        let count = self.put_ns.len();
        put("seconds per file", "s", Better::Lower, Finite::per(seconds(&self.put_ns), count as f64).ok(), None);
        let tenth = count / 10;
        let rate = |ns: &[u64]| {
            let mib = (ns.len() as u64 * filled.object_bytes) as f64 / f64::from(1 << 20);
            Finite::per(mib, seconds(ns)).ok().filter(|_| !ns.is_empty())
        };
        put("write rate", "MiB/s", Better::Higher, rate(&self.put_ns[..tenth]), Some(("part", "first")));
        put("write rate", "MiB/s", Better::Higher, rate(&self.put_ns[count - tenth..]), Some(("part", "last")));
        for gib in STORES_GIB {
            let objects = (gib << 30).div_ceil(filled.object_bytes) as usize;
            let time = self.put_ns.get(..objects).and_then(|ns| Finite::new(seconds(ns)).ok());
            put("store time", "s", Better::Lower, time, Some(("size", &gib.to_string())));
        }
    }
}

/// Share of writes below 1 ms in a round, over all schemes as published.
fn quick_writes(times: &BTreeMap<(&str, u32), Times>, found: &mut Vec<Measurement>) {
    let mut rounds: BTreeMap<u32, (usize, usize)> = BTreeMap::new();
    for ((_, repeat), times) in times {
        let (quick, all) = rounds.entry(*repeat).or_default();
        *quick += times.write_ns.iter().filter(|ns| **ns <= UNUSUAL_NS).count();
        *all += times.write_ns.len();
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
