//! How many objects a file system takes under a scheme of directories, and what ends it (DMV study, chapter on directory
//! layout).

mod analysis;
mod findings;

use crate::own_image;
use senesce_core::{
    Analysis, Bytes, Experiment, Failure, Parameter, ParameterKind, Plan, Record, RunContext, RunKind, Settings,
};
use senesce_objstore::fill::{Full, Write, fill};
use senesce_objstore::{Scheme, advise, occupancy};
use senesce_target::{FileSystem, MountedTarget, OpenOptions, TargetSpec, open};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The experiment.
pub struct ObjectDirs;

/// Writes from this long on are unusual.
const UNUSUAL_NS: u64 = 1_000_000;

/// Rows of writes per event of the record.
const ROWS: usize = 1000;

/// Writes in columns.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Writes {
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
#[derive(Debug, Serialize, Deserialize)]
struct Filled {
    scheme: Scheme,
    object_bytes: u64,
    device: String,
    full: Full,
}

impl RunKind for ObjectDirs {
    fn kind(&self) -> &'static str {
        "object-dirs"
    }

    fn analyse(&self, record: &Record) -> Result<Analysis, Failure> {
        analysis::analyse(record, self.published())
    }
}

impl Experiment for ObjectDirs {
    fn title(&self) -> &'static str {
        "How many objects fit under a scheme of directories, and what ends it?"
    }

    fn parameters(&self) -> &'static [Parameter] {
        const PARAMETERS: &[Parameter] = &[
            Parameter {
                name: "schemes",
                help: "directory schemes, DIGITSxDEPTH separated by commas, or 'published' for all of the study",
                kind: ParameterKind::Text,
                defaults: ["2x2,4x9", "published", "published"],
            },
            Parameter {
                name: "target",
                help: "what is filled, made anew for every scheme: memory:SIZE, image:FILE,size=SIZE, a block device",
                kind: ParameterKind::Text,
                defaults: ["memory:100M", "memory:100M", "memory:100M"],
            },
            Parameter {
                name: "fs",
                help: "file system",
                kind: ParameterKind::Choice(&["ext4", "xfs", "btrfs", "f2fs", "nilfs2"]),
                defaults: ["ext4", "ext4", "ext4"],
            },
            Parameter {
                name: "mkfs-options",
                help: "options of mkfs; 'published' is -I 128 -m 0 on ext4 and nothing elsewhere",
                kind: ParameterKind::Text,
                defaults: ["published", "published", "published"],
            },
            Parameter {
                name: "object-size",
                help: "bytes of an object",
                kind: ParameterKind::Size,
                defaults: ["4K", "4K", "4K"],
            },
            Parameter {
                name: "erase",
                help: "path or serial number of a target whose content may be lost",
                kind: ParameterKind::Text,
                defaults: ["", "", ""],
            },
        ];
        PARAMETERS
    }

    fn doc(&self) -> &'static str {
        include_str!("../../../docs/experiments/object-dirs.md")
    }

    fn published(&self) -> &'static str {
        include_str!("../../../data/published/object-dirs.csv")
    }

    fn plan(&self, settings: &Settings) -> Result<Plan, Failure> {
        let request = Request::read(settings)?;
        let mut plan = Plan::new(self.kind(), settings.seed(), settings.to_map());
        let capacity = match &request.target {
            TargetSpec::Memory { size } | TargetSpec::Image { size: Some(size), .. } => *size,
            _ => Bytes::default(),
        };
        request.check_room(capacity)?;
        for scheme in &request.schemes {
            let action = format!("make {}, fill it with {} objects under {scheme}", request.fs, request.object_bytes);
            plan.step(action, request.target.to_string());
        }
        plan.bytes_to_write = capacity.0 * request.schemes.len() as u64;
        plan.estimated_seconds = request.schemes.len() as f64 * (0.5 + capacity.0 as f64 / 1e8);
        Ok(plan)
    }

    fn run(&self, settings: &Settings, context: &mut RunContext<'_>) -> Result<(), Failure> {
        let mut request = Request::read(settings)?;
        request.options.erase = own_image::erase(&request.target, settings.text("erase"), context.directory)?;
        let done: Vec<String> = context
            .directory
            .earlier_events()
            .iter()
            .filter(|event| event.kind == "scheme")
            .filter_map(|event| Some(event.data.get("scheme")?.as_str()?.to_string()))
            .collect();
        context.progress.phase("object-dirs", request.schemes.len() as u64, "schemes");
        for (index, scheme) in request.schemes.iter().enumerate() {
            context.progress.position(index as u64, &scheme.to_string());
            if !done.contains(&scheme.to_string()) {
                request.fill_one(*scheme, settings, context)?;
            }
        }
        Ok(())
    }
}

struct Request {
    schemes: Vec<Scheme>,
    target: TargetSpec,
    fs: FileSystem,
    options: OpenOptions,
    object_bytes: Bytes,
}

impl Request {
    fn read(settings: &Settings) -> Result<Self, Failure> {
        let mut schemes = match settings.text("schemes") {
            "published" => Scheme::published(),
            _ => settings.list("schemes").iter().map(|text| text.parse()).collect::<Result<Vec<Scheme>, _>>()?,
        };
        let mut seen = BTreeSet::new();
        schemes.retain(|scheme| seen.insert(*scheme));
        if schemes.is_empty() {
            return Err(Failure::usage("no scheme is given: write for example --schemes 2x1,2x2"));
        }
        let fs: FileSystem = settings.text("fs").parse()?;
        let mkfs_options = match settings.text("mkfs-options") {
            "published" if fs == FileSystem::Ext4 => "-I 128 -m 0".into(),
            "published" => String::new(),
            other => other.to_string(),
        };
        let options = OpenOptions { mkfs_options, ..OpenOptions::fresh(fs) };
        let target = settings.text("target").parse()?;
        if matches!(target, TargetSpec::Directory(_)) {
            return Err(Failure::usage(
                "a directory cannot be made anew for every scheme: give memory:SIZE, image:FILE,size=SIZE or a block device",
            ));
        }
        Ok(Self { schemes, target, fs, options, object_bytes: settings.size("object-size")? })
    }

    /// Refuses, before anything is made, a partition that cannot hold one object.
    fn check_room(&self, capacity: Bytes) -> Result<(), Failure> {
        let Some(volume) = advise::Volume::planned(self.fs.name(), capacity).filter(|_| capacity.0 > 0) else {
            return Ok(());
        };
        for scheme in &self.schemes {
            if occupancy::predict(*scheme, &volume.room, self.object_bytes.0).files == 0 {
                return Err(Failure::usage(format!(
                    "{} on {} of {capacity} does not hold one object of {} under {scheme}: make the target larger or the object smaller",
                    self.fs, self.target, self.object_bytes
                )));
            }
        }
        Ok(())
    }

    fn fill_one(&self, scheme: Scheme, settings: &Settings, context: &mut RunContext<'_>) -> Result<(), Failure> {
        context.check_interrupt()?;
        let target: MountedTarget = open(&self.target, &self.options)?;
        context.directory.add_environment(&target.environment())?;
        let mut writes = Writes { scheme: scheme.to_string(), ..Writes::default() };
        let mut all = Vec::new();
        let seed = settings.seed().child(&format!("object-dirs/{scheme}"));
        let interrupt = context.interrupt;
        let full = fill(target.directory(), scheme, self.object_bytes.0 as usize, u64::MAX, seed, |write| {
            writes.push(write);
            if writes.write_ns.len() == ROWS {
                let first = writes.first + ROWS as u64;
                let empty = Writes { scheme: scheme.to_string(), first, ..Writes::default() };
                all.push(std::mem::replace(&mut writes, empty));
            }
            !interrupt.requested()
        })?;
        context.check_interrupt()?;
        for writes in all.iter().chain([&writes]) {
            context.directory.append("writes", writes)?;
        }
        if full.files == 0 {
            return Err(Failure::usage(format!(
                "{} does not hold one object of {} under {scheme} ({} failed): make it larger",
                self.target, self.object_bytes, full.failed_call
            )));
        }
        let device = format!("{} on {}, {} total", self.fs, settings.text("target"), Bytes(full.bytes_total));
        let filled = Filled { scheme, object_bytes: self.object_bytes.0, device, full };
        context.directory.append("scheme", &filled)?;
        Ok(target.close()?)
    }
}

impl Writes {
    fn push(&mut self, write: Write) {
        self.write_ns.push(write.write_ns);
        self.entries.push(write.entries);
        self.directories.push(write.directories);
        self.bytes_free.push(write.bytes_free);
        self.inodes_free.push(write.inodes_free);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_core::Level;

    fn settings(pairs: &[(&str, &str)]) -> Settings {
        let overrides = pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        Settings::resolve(ObjectDirs.parameters(), Level::Smoke, &overrides).unwrap()
    }

    #[test]
    fn bad_schemes_and_small_partitions_are_refused_before_anything_is_made() {
        for (name, value) in [("schemes", "7x6"), ("schemes", "2"), ("schemes", ","), ("target", "/tmp")] {
            let failure = ObjectDirs.plan(&settings(&[(name, value)])).unwrap_err();
            assert_eq!(failure.exit_code(), senesce_core::ExitCode::Usage, "{name}={value}");
        }
        let failure = ObjectDirs.plan(&settings(&[("object-size", "200M")])).unwrap_err();
        assert!(failure.to_string().contains("does not hold one object"), "{failure}");
        assert_eq!(ObjectDirs.plan(&settings(&[("schemes", "4x10,0x0,4x10")])).unwrap().steps.len(), 2);
    }
}
