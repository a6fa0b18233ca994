//! How many objects a file system takes under a scheme of directories, and what ends it (DMV study, chapter on directory
//! layout).

mod analysis;

use clap::Args;
use senesce_core::{Analysis, Bytes, Failure, Level, Seed, Size};
use senesce_objstore::fill::{Full, Write, fill};
use senesce_objstore::{Scheme, advise, occupancy};
use senesce_runs::run::{Context, Experiment, Needs, Planned, Recorded, Run};
use senesce_volume::{FileSystem, MountedTarget, OpenOptions, TargetSpec, open};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::str::FromStr;

/// Writes from this long on are unusual.
const UNUSUAL_NS: u64 = 1_000_000;

/// Rows of writes per event of the record.
const ROWS: usize = 1000;

/// The experiment.
pub struct ObjectDirs;

/// What is filled, how, and with what.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Args)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Spec {
    /// directory schemes, DIGITSxDEPTH separated by commas, or 'published' for all of the study
    #[arg(long)]
    pub schemes: Schemes,
    /// what is filled, made anew for every scheme: memory:SIZE, image:FILE,size=SIZE, a block device
    #[arg(long)]
    pub target: TargetSpec,
    /// file system
    #[arg(long)]
    pub fs: FileSystem,
    /// options of mkfs; 'published' is -I 128 -m 0 on ext4 and nothing elsewhere
    #[arg(long, allow_hyphen_values = true)]
    pub mkfs_options: String,
    /// bytes of an object
    #[arg(long)]
    pub object_size: Size,
}

/// Schemes in the order given, each once.
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
            return Err("no scheme is given: write for example --schemes 2x1,2x2".into());
        }
        Ok(Self(schemes))
    }
}

/// What happened.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "kind", content = "data", rename_all = "kebab-case")]
pub enum Event {
    /// Writes in columns.
    Writes(Writes),
    /// One scheme, filled.
    Filled(Filled),
}

/// Writes in columns.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Writes {
    scheme: String,
    /// Number of the first write, from 0.
    first: u64,
    write_ns: Vec<u64>,
    entries: Vec<u64>,
    directories: Vec<u64>,
    bytes_free: Vec<u64>,
    inodes_free: Vec<u64>,
}

/// One scheme, filled.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Filled {
    scheme: Scheme,
    object_bytes: u64,
    device: String,
    full: Full,
}

impl Run for ObjectDirs {
    const KIND: &'static str = "object-dirs";
    const PUBLISHED: &'static str = include_str!("../../../data/published/object-dirs.csv");
    const CLAIMS: &'static str = include_str!("../../../data/published/object-dirs.claims.toml");
    type Spec = Spec;
    type Event = Event;
    type Step = Scheme;

    fn needs(_spec: &Spec) -> Needs {
        Needs::root("object-dirs makes file systems on loop devices")
    }

    fn steps(spec: &Spec, _seed: Seed) -> Result<Vec<Planned<Scheme>>, Failure> {
        if matches!(spec.target, TargetSpec::Directory(_)) {
            return Err(Failure::usage(
                "a directory cannot be made anew for every scheme: give memory:SIZE, image:FILE,size=SIZE or a block device",
            ));
        }
        let capacity = spec.capacity();
        spec.check_space(capacity)?;
        let seconds = 0.5 + capacity.0 as f64 / 1e8;
        let planned = |scheme: &Scheme| {
            let action = format!("make {}, fill it with objects of {} under {scheme}", spec.fs, spec.object_size.0);
            Planned::new(*scheme, action, spec.target.to_string()).costing(capacity, seconds)
        };
        Ok(spec.schemes.0.iter().map(planned).collect())
    }

    fn begin(_spec: &Spec, _context: &mut Context<'_, Self>) -> Result<Self, Failure> {
        Ok(Self)
    }

    fn step(&mut self, spec: &Spec, scheme: &Scheme, context: &mut Context<'_, Self>) -> Result<(), Failure> {
        let options = OpenOptions { erase: context.may_erase(&spec.target)?, ..spec.options() };
        let target: MountedTarget = open(&spec.target, &options)?;
        context.add_environment(&target.environment())?;
        let mut writes = Columns::new(*scheme);
        let seed = context.seed.child(&format!("object-dirs/{scheme}"));
        let interrupt = context.interrupt;
        let full = fill(target.directory(), *scheme, spec.object_size.bytes() as usize, u64::MAX, seed, |write| {
            writes.push(write);
            !interrupt.requested()
        })?;
        context.check_interrupt()?;
        if full.files == 0 {
            return Err(Failure::usage(format!(
                "{} does not hold one object of {} under {scheme} ({} failed): make it larger",
                spec.target, spec.object_size.0, full.failed_call
            )));
        }
        writes.events().for_each(|writes| context.record(Event::Writes(writes)));
        let device = format!("{} on {}, {} total", spec.fs, spec.target, Bytes(full.bytes_total));
        context.record(Event::Filled(Filled { scheme: *scheme, object_bytes: spec.object_size.bytes(), device, full }));
        Ok(target.close()?)
    }

    fn analyse(_spec: &Spec, recorded: &Recorded<Self>) -> Result<Analysis, Failure> {
        analysis::analyse(recorded)
    }
}

impl Experiment for ObjectDirs {
    const TITLE: &'static str = "How many objects fit under a scheme of directories, and what ends it?";
    const PAGE: &'static str = include_str!("../../../docs/experiments/object-dirs.md");

    fn defaults(level: Level) -> Spec {
        let few = ["2x2", "4x9"].map(|text| text.parse().expect("a scheme")).to_vec();
        Spec {
            schemes: Schemes(level.of([few, Scheme::published(), Scheme::published()])),
            target: TargetSpec::Memory { size: Bytes::mib(100) },
            fs: FileSystem::Ext4,
            mkfs_options: "published".into(),
            object_size: Size(Bytes::kib(4)),
        }
    }
}

impl Spec {
    /// Size of what is filled; 0: a device, which is not looked at to plan.
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

    /// Refuses, before anything is made, a partition that cannot hold one object.
    fn check_space(&self, capacity: Bytes) -> Result<(), Failure> {
        let Some(volume) = advise::Volume::planned(self.fs.name(), capacity).filter(|_| capacity.0 > 0) else {
            return Ok(());
        };
        for scheme in &self.schemes.0 {
            if occupancy::predict(*scheme, &volume.room, self.object_size.bytes()).files == 0 {
                return Err(Failure::usage(format!(
                    "{} on {} of {capacity} does not hold one object of {} under {scheme}: make the target larger or the object smaller",
                    self.fs, self.target, self.object_size.0
                )));
            }
        }
        Ok(())
    }
}

/// Writes on their way into the record.
struct Columns {
    full: Vec<Writes>,
    last: Writes,
}

impl Columns {
    fn new(scheme: Scheme) -> Self {
        Self { full: Vec::new(), last: Writes { scheme: scheme.to_string(), ..Writes::default() } }
    }

    fn push(&mut self, write: Write) {
        let last = &mut self.last;
        last.write_ns.push(write.write_ns);
        last.entries.push(write.entries);
        last.directories.push(write.directories);
        last.bytes_free.push(write.bytes_free);
        last.inodes_free.push(write.inodes_free);
        if last.write_ns.len() == ROWS {
            let first = last.first + ROWS as u64;
            let empty = Writes { scheme: last.scheme.clone(), first, ..Writes::default() };
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

    fn steps(change: impl Fn(&mut Spec)) -> Result<Vec<Planned<Scheme>>, Failure> {
        let mut spec = ObjectDirs::defaults(Level::Smoke);
        change(&mut spec);
        ObjectDirs::steps(&spec, Seed(1))
    }

    #[test]
    fn bad_schemes_and_small_partitions_are_refused_before_anything_is_made() {
        for text in ["7x6", "2", ","] {
            assert!(text.parse::<Schemes>().is_err(), "{text}");
        }
        let failure = steps(|spec| spec.target = TargetSpec::Directory("/tmp".into())).unwrap_err();
        assert_eq!(failure.exit_code(), senesce_core::ExitCode::Usage);
        let failure = steps(|spec| spec.object_size = Size(Bytes::mib(200))).unwrap_err();
        assert!(failure.to_string().contains("does not hold one object"), "{failure}");
        assert_eq!(steps(|spec| spec.schemes = "4x10,0x0,4x10".parse().unwrap()).unwrap().len(), 2);
    }
}
