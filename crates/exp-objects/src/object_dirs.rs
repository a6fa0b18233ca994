//! Number of objects that a file system holds under a directory scheme, and the limit that ends the fill (DMV study,
//! chapter on directory layout).

mod analysis;
mod measurements;

use clap::Args;
use senesce_claims::Facts;
use senesce_core::heartbeat::Heartbeat;
use senesce_core::{Analysis, Bytes, Failure, Level, Measurement, Seed, Size};
use senesce_objstore::fill::{Full, Write, fill};
use senesce_objstore::{Scheme, advise, occupancy};
use senesce_runner::{Context, Experiment, Needs, Planned, Recorded, Run};
use senesce_volume::{FileSystem, MountedTarget, OpenOptions, TargetSpec, holds_only_ours, open};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::str::FromStr;

const UNUSUAL_NS: u64 = 1_000_000;

/// Rows of writes per event of the record.
const ROWS: usize = 1000;

pub struct ObjectDirs;

/// File system, schemes and objects.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Args)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Spec {
    /// directory schemes, DIGITSxDEPTH separated by commas, or 'published' for all of the study
    #[arg(long)]
    pub schemes: Schemes,
    /// target with a new file system for each scheme: memory:SIZE, image:FILE,size=SIZE, a block device
    #[arg(long)]
    pub target: TargetSpec,
    /// file system
    #[arg(long)]
    pub fs: FileSystem,
    /// options of mkfs; 'published' is -I 128 -m 0 on ext4 and none on others
    #[arg(long, allow_hyphen_values = true)]
    pub mkfs_options: String,
    /// bytes of an object
    #[arg(long)]
    pub object_size: Size,
    /// fills of each scheme, each on a new file system; claims about times need five
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    #[serde(default = "once")]
    pub repeats: u32,
}

/// Returns the value for records without this field.
fn once() -> u32 {
    1
}

/// One fill.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Fill {
    scheme: Scheme,
    repeat: u32,
}

/// Distinct schemes in the given order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Schemes(Vec<Scheme>);

impl FromStr for Schemes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
        let mut schemes = match text {
            "published" => Scheme::published(),
            _ => {
                words.map(|word| word.parse()).collect::<Result<Vec<Scheme>, _>>().map_err(|error| error.to_string())?
            }
        };
        let mut seen = BTreeSet::new();
        schemes.retain(|scheme| seen.insert(*scheme));
        if schemes.is_empty() {
            return Err("no scheme given; example: --schemes 2x1,2x2".into());
        }
        Ok(Self(schemes))
    }
}

/// One result of a step.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// Writes as columns.
    Writes(Writes),
    /// A scheme was filled.
    Filled(FilledScheme),
}

impl Event {
    fn filled(&self) -> Option<&FilledScheme> {
        if let Self::Filled(filled) = self { Some(filled) } else { None }
    }
}

/// Writes as columns.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Writes {
    scheme: String,
    #[serde(default)]
    repeat: u32,
    /// Index of the first write, from 0.
    first: u64,
    write_ns: Vec<u64>,
    /// Nanoseconds per write, including the creation of its directories; empty in older records.
    #[serde(default)]
    put_ns: Vec<u64>,
    entries: Vec<u64>,
    directories: Vec<u64>,
    bytes_free: Vec<u64>,
    inodes_free: Vec<u64>,
}

/// One filled scheme.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FilledScheme {
    scheme: Scheme,
    #[serde(default)]
    repeat: u32,
    object_bytes: u64,
    device: String,
    full: Full,
}

impl FilledScheme {
    /// Returns whether the partition is like the published one. Published values are comparable only on such a
    /// partition.
    fn is_published_partition(&self) -> bool {
        self.full.inodes_total == 25_688 && self.object_bytes == 4096 && self.full.free.block_bytes == 1024
    }

    /// Returns the number of files by the formula of the thesis; `None` if the file system does not count inodes.
    fn naive_files(&self) -> Option<f64> {
        let inodes = self.full.inodes_total;
        (inodes > 0).then(|| occupancy::naive_files(self.scheme, inodes))
    }
}

impl Run for ObjectDirs {
    const KIND: &'static str = "object-dirs";
    const PUBLISHED: &'static str = include_str!("../data/published/object-dirs.csv");
    const CLAIMS: &'static str = include_str!("../data/published/object-dirs.claims.toml");
    type Spec = Spec;
    type Event = Event;
    type Step = Fill;

    fn needs(_spec: &Spec) -> Needs {
        Needs::root("object-dirs makes file systems on loop devices")
    }

    fn facts(_spec: &Spec, recorded: &Recorded<Self>, facts: Facts) -> Facts {
        measurements::facts(recorded, facts)
    }

    fn steps(spec: &Spec, _seed: Seed) -> Result<Vec<Planned<Fill>>, Failure> {
        if matches!(spec.target, TargetSpec::Directory(_)) {
            return Err(Failure::usage(
                "a directory cannot get a new file system for each scheme: use memory:SIZE, image:FILE,size=SIZE or a block device",
            ));
        }
        let capacity = spec.capacity();
        spec.check_space(capacity)?;
        let seconds = 0.5 + capacity.0 as f64 / 1e8;
        let planned = |repeat: u32, scheme: Scheme| {
            let action = format!("make {}, fill it with objects of {} under {scheme}", spec.fs, spec.object_size.0);
            Planned::new(Fill { scheme, repeat }, action, spec.target.to_string()).costing(capacity, seconds)
        };
        let round = |repeat| spec.schemes.0.iter().map(move |scheme| planned(repeat, *scheme));
        Ok((0..spec.repeats).flat_map(round).collect())
    }

    fn begin(_spec: &Spec, _context: &mut Context<'_, Self>) -> Result<Self, Failure> {
        Ok(Self)
    }

    fn step(&mut self, spec: &Spec, step: &Fill, context: &mut Context<'_, Self>) -> Result<(), Failure> {
        let Fill { scheme, repeat } = *step;
        let options = OpenOptions { erase: context.may_erase(spec.target.image(), holds_only_ours)?, ..spec.options() };
        let target: MountedTarget = open(&spec.target, &options)?;
        context.add_environment(&target.environment())?;
        let mut writes = Columns::new(scheme, repeat);
        let seed = context.seed.child(&match repeat {
            0 => format!("object-dirs/{scheme}"),
            repeat => format!("object-dirs/{scheme}/{repeat}"),
        });
        let interrupt = context.interrupt;
        let heartbeat = Heartbeat::begin();
        let full = fill(target.directory(), scheme, spec.object_size.bytes() as usize, u64::MAX, seed, |write| {
            writes.push(write);
            !interrupt.requested()
        })?;
        context.check_interrupt()?;
        heartbeat.end().check()?;
        if full.files == 0 {
            return Err(Failure::usage(format!(
                "{} does not hold one object of {} under {scheme} ({} failed); use a larger target",
                spec.target, spec.object_size.0, full.failed_call
            )));
        }
        writes.events().for_each(|writes| context.record(Event::Writes(writes)));
        let device = format!("{} on {}, {} total", spec.fs, spec.target, Bytes(full.bytes_total));
        let object_bytes = spec.object_size.bytes();
        context.record(Event::Filled(FilledScheme { scheme, repeat, object_bytes, device, full }));
        Ok(target.close()?)
    }

    fn analyse(_spec: &Spec, recorded: &Recorded<Self>) -> Result<Analysis, Failure> {
        analysis::analyse(recorded)
    }

    fn measurements(spec: &Spec, recorded: &Recorded<Self>) -> Vec<Measurement> {
        let events: Vec<&Event> = recorded.events().collect();
        measurements::measurements(spec, &events)
    }
}

impl Experiment for ObjectDirs {
    const TITLE: &'static str = "How many objects fit under a directory scheme, and do bytes or inodes run out first?";
    const PAGE: &'static str = include_str!("../docs/experiments/object-dirs.md");

    fn defaults(level: Level) -> Spec {
        let few = ["2x2", "4x9"].map(|text| text.parse().expect("a scheme")).to_vec();
        Spec {
            schemes: Schemes(level.of([few, Scheme::published(), Scheme::published()])),
            target: TargetSpec::Memory { size: Bytes::mib(100) },
            fs: FileSystem::Ext4,
            mkfs_options: "published".into(),
            object_size: Size(Bytes::kib(4)),
            repeats: level.of([1, 1, 5]),
        }
    }
}

impl Spec {
    /// Returns the size of the target; 0 for a device, which planning does not open.
    fn capacity(&self) -> Bytes {
        match self.target {
            TargetSpec::Memory { size } | TargetSpec::Image { size: Some(size), .. } => size,
            _ => Bytes(0),
        }
    }

    fn options(&self) -> OpenOptions {
        let mkfs_options = match self.mkfs_options.as_str() {
            "published" if self.fs == FileSystem::Ext4 => "-I 128 -m 0".into(),
            "published" => String::new(),
            other => other.to_string(),
        };
        OpenOptions { mkfs_options, ..OpenOptions::fresh(self.fs) }
    }

    fn check_space(&self, capacity: Bytes) -> Result<(), Failure> {
        let Some(volume) = advise::Volume::planned(self.fs.name(), capacity).filter(|_| capacity.0 > 0) else {
            return Ok(());
        };
        for scheme in &self.schemes.0 {
            if occupancy::predict(*scheme, &volume.free, self.object_size.bytes()).files == 0 {
                return Err(Failure::usage(format!(
                    "{} on {} of {capacity} does not hold one object of {} under {scheme}: make the target larger or the object smaller",
                    self.fs, self.target, self.object_size.0
                )));
            }
        }
        Ok(())
    }
}

struct Columns {
    full: Vec<Writes>,
    last: Writes,
}

impl Columns {
    fn new(scheme: Scheme, repeat: u32) -> Self {
        Self { full: Vec::new(), last: Writes { scheme: scheme.to_string(), repeat, ..Writes::default() } }
    }

    fn push(&mut self, write: Write) {
        let last = &mut self.last;
        last.write_ns.push(write.write_ns);
        last.put_ns.push(write.put_ns);
        last.entries.push(write.entries);
        last.directories.push(write.directories);
        last.bytes_free.push(write.bytes_free);
        last.inodes_free.push(write.inodes_free);
        if last.write_ns.len() == ROWS {
            let first = last.first + ROWS as u64;
            let empty = Writes { scheme: last.scheme.clone(), repeat: last.repeat, first, ..Writes::default() };
            self.full.push(std::mem::replace(last, empty));
        }
    }

    fn events(self) -> impl Iterator<Item = Writes> {
        self.full.into_iter().chain([self.last])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_objstore::occupancy::FreeSpace;

    pub(super) fn filled(scheme: &str, repeat: u32) -> FilledScheme {
        let free = FreeSpace {
            inodes: Some(25_677),
            bytes: 95 << 20,
            block_bytes: 1024,
            inode_bytes: 0,
            directories: Default::default(),
        };
        let full = Full {
            files: 20_000,
            directories: 257,
            bytes_used: 80 << 20,
            bytes_total: 96 << 20,
            inodes_used: 20_268,
            inodes_total: 25_688,
            ended_by: None,
            failed_call: "open".into(),
            free,
            seconds: 1.0,
        };
        FilledScheme { scheme: scheme.parse().unwrap(), repeat, object_bytes: 4096, device: "ext4".into(), full }
    }

    pub(super) fn writes(scheme: &str, repeat: u32, count: u64) -> Writes {
        let write_ns: Vec<u64> = (0..count).map(|index| 10_000 + 100 * index + u64::from(repeat)).collect();
        let put_ns = write_ns.iter().map(|ns| ns + 5000).collect();
        Writes { scheme: scheme.into(), repeat, write_ns, put_ns, ..Writes::default() }
    }

    fn steps(change: impl Fn(&mut Spec)) -> Result<Vec<Planned<Fill>>, Failure> {
        let mut spec = ObjectDirs::defaults(Level::Smoke);
        change(&mut spec);
        ObjectDirs::steps(&spec, Seed(1))
    }

    #[test]
    fn bad_schemes_and_small_partitions_are_refused_in_advance() {
        for text in ["7x6", "2", ","] {
            assert!(text.parse::<Schemes>().is_err(), "{text}");
        }
        let failure = steps(|spec| spec.target = TargetSpec::Directory("/tmp".into())).unwrap_err();
        assert_eq!(failure.exit_code(), senesce_core::ExitCode::Usage);
        let failure = steps(|spec| spec.object_size = Size(Bytes::mib(200))).unwrap_err();
        assert!(failure.to_string().contains("does not hold one object"), "{failure}");
        let few =
            |repeats| steps(move |spec| (spec.schemes, spec.repeats) = ("4x10,0x0,4x10".parse().unwrap(), repeats));
        assert_eq!((few(1).unwrap().len(), few(5).unwrap().len()), (2, 10));
    }
}
