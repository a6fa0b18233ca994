//! How version-control and backup systems bear many files and a large one (DMV study, chapter on existing systems).

mod analysis;
mod cell;

use crate::own_image;
use cell::{Cell, Kind, Measured, Skipped};
use rand::seq::SliceRandom;
use senesce_core::{
    Analysis, Bytes, Experiment, Failure, Parameter, ParameterKind, Plan, Record, RunContext, RunKind, Settings,
};
use senesce_objstore::vcs::System;
use senesce_target::{FileSystem, OpenOptions, TargetSpec};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The experiment.
pub struct VcsScaling;

impl RunKind for VcsScaling {
    fn kind(&self) -> &'static str {
        "vcs-scaling"
    }

    fn analyse(&self, record: &Record) -> Result<Analysis, Failure> {
        let measured: Vec<Measured> = record.events_of("cell").collect();
        let skipped: Vec<Skipped> = record.events_of("skipped").collect();
        analysis::analyse(&measured, &skipped, self.published())
    }
}

const SYSTEMS: &[&str] = &["git", "hg", "bup", "copy", "restic", "borg", "own-pack", "own-2x1", "own-2x2"];
const ALL_SYSTEMS: &str = "git,hg,bup,copy,restic,borg,own-pack,own-2x1,own-2x2";

impl Experiment for VcsScaling {
    fn title(&self) -> &'static str {
        "How do version-control and backup systems bear many files and a large one?"
    }

    fn parameters(&self) -> &'static [Parameter] {
        const PARAMETERS: &[Parameter] = &[
            Parameter {
                name: "systems",
                help: "systems; one whose program is missing is skipped and said",
                kind: ParameterKind::Choices(SYSTEMS),
                defaults: ["git,copy,own-pack,own-2x1", ALL_SYSTEMS, ALL_SYSTEMS],
            },
            Parameter {
                name: "files",
                help: "numbers of files of 1 KiB, separated by commas",
                kind: ParameterKind::Text,
                defaults: [
                    "100",
                    "100,1000,10000",
                    "1,2,4,6,10,25,50,75,100,250,500,750,1000,2500,5000,7500,10000,25000,50000,75000,100000,250000,500000,750000,1000000",
                ],
            },
            Parameter {
                name: "sizes",
                help: "sizes of the large file, separated by commas",
                kind: ParameterKind::Text,
                defaults: ["1M", "1M,64M", "1K,1M,16M,64M,256M,1G,2G,4G,8G,12G,16G"],
            },
            Parameter {
                name: "repeats",
                help: "times every cell is measured, on a fresh file system each",
                kind: ParameterKind::Integer { min: 1, max: 100 },
                defaults: ["1", "1", "4"],
            },
            Parameter {
                name: "time-limit",
                help: "ends a single command",
                kind: ParameterKind::Duration,
                defaults: ["20s", "60s", "19800s"],
            },
            Parameter {
                name: "target",
                help: "where; made anew for every cell: memory:SIZE, image:FILE,size=SIZE, a block device",
                kind: ParameterKind::Text,
                defaults: ["memory:512M", "memory:1G", "image:vcs-scaling.img,size=64G"],
            },
            Parameter {
                name: "fs",
                help: "file system",
                kind: ParameterKind::Choice(&["ext4", "xfs", "btrfs", "f2fs", "nilfs2"]),
                defaults: ["ext4", "ext4", "ext4"],
            },
            Parameter {
                name: "mkfs-options",
                help: "options of mkfs",
                kind: ParameterKind::Text,
                defaults: ["-m 0 -i 4096", "-m 0 -i 8192", "-m 0 -i 8192"],
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
        include_str!("../../../docs/experiments/vcs-scaling.md")
    }

    fn published(&self) -> &'static str {
        include_str!("../../../data/published/vcs-scaling.csv")
    }

    fn plan(&self, settings: &Settings) -> Result<Plan, Failure> {
        let request = Request::read(settings)?;
        let mut plan = Plan::new(self.kind(), settings.seed(), settings.to_map());
        for cell in request.cells(settings) {
            plan.step(format!("{}: init, generate, commit, edit, commit, compare", cell.words()), &request.target_text);
            plan.bytes_to_write += 4 * cell.kind.bytes();
        }
        plan.estimated_seconds = 3.0 * plan.steps.len() as f64 + plan.bytes_to_write as f64 / 5e7;
        Ok(plan)
    }

    fn run(&self, settings: &Settings, context: &mut RunContext<'_>) -> Result<(), Failure> {
        let mut request = Request::read(settings)?;
        request.options.erase = own_image::erase(&request.target, settings.text("erase"), context.directory)?;
        let done = cell::done(context.directory.earlier_events());
        let mut skipped = Vec::new();
        for system in &request.systems {
            let (program, package) = system.program();
            if find_program(program).is_none() {
                let missing =
                    Skipped { system: system.name().into(), program: program.into(), package: package.into() };
                context.progress.say(&missing.words());
                let said = context.directory.earlier_events().iter().any(|event| {
                    event.kind == "skipped" && event.data.get("system").is_some_and(|name| name == system.name())
                });
                if !said {
                    context.directory.append("skipped", &missing)?;
                }
                skipped.push(*system);
            }
        }
        let cells: Vec<Cell> =
            request.cells(settings).into_iter().filter(|cell| !skipped.contains(&cell.system)).collect();
        context.progress.phase("vcs-scaling", cells.len() as u64, "cells");
        for (index, cell) in cells.iter().enumerate() {
            context.check_interrupt()?;
            context.progress.position(index as u64, &cell.words());
            if !done.contains(&cell.words()) {
                let measured = cell.measure(&request, settings, context)?;
                context.directory.append("cell", &measured)?;
            }
        }
        Ok(())
    }
}

/// What was asked for.
pub(crate) struct Request {
    systems: Vec<System>,
    kinds: Vec<Kind>,
    repeats: u64,
    time_limit: Duration,
    target: TargetSpec,
    target_text: String,
    options: OpenOptions,
}

impl Request {
    fn read(settings: &Settings) -> Result<Self, Failure> {
        let systems = settings.list("systems").iter().filter_map(|name| System::named(name)).collect();
        let wrong = |name: &str, word: &str| Failure::usage(format!("--{name}: '{word}' is not a number above zero"));
        let mut kinds = Vec::new();
        for word in settings.list("files") {
            let count = word.parse().ok().filter(|count| *count > 0).ok_or_else(|| wrong("files", &word))?;
            kinds.push(Kind::ManyFiles(count));
        }
        for word in settings.list("sizes") {
            let size = word.parse::<Bytes>().ok().filter(|size| size.0 > 0).ok_or_else(|| wrong("sizes", &word))?;
            kinds.push(Kind::FileSize(size.0));
        }
        if kinds.is_empty() {
            return Err(Failure::usage("neither --files nor --sizes names anything to measure"));
        }
        let target_text = settings.text("target").to_string();
        let target: TargetSpec = target_text.parse()?;
        if matches!(target, TargetSpec::Directory(_)) {
            return Err(Failure::usage(
                "a directory cannot be made anew for every cell: give memory:SIZE, image:FILE,size=SIZE or a block device",
            ));
        }
        let fs: FileSystem = settings.text("fs").parse()?;
        let mkfs_options = if fs == FileSystem::Ext4 { settings.text("mkfs-options").into() } else { String::new() };
        let options = OpenOptions { mkfs_options, ..OpenOptions::fresh(fs) };
        let (repeats, time_limit) = (settings.integer("repeats")?, settings.duration("time-limit")?);
        Ok(Self { systems, kinds, repeats, time_limit, target, target_text, options })
    }

    /// All cells, every system in turn in random order, so that no drift of the machine falls on one system.
    fn cells(&self, settings: &Settings) -> Vec<Cell> {
        let mut random = settings.seed().stream("vcs-scaling/order");
        let mut cells = Vec::new();
        for repeat in 0..self.repeats {
            for kind in &self.kinds {
                let mut systems = self.systems.clone();
                systems.shuffle(&mut random);
                cells.extend(systems.into_iter().map(|system| Cell { system, kind: *kind, repeat }));
            }
        }
        cells
    }
}

/// Where a program is; `senesce` is this program.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    if name == "senesce" {
        let own = std::env::current_exe().ok().filter(|path| path.file_stem().is_some_and(|stem| stem == "senesce"));
        if own.is_some() {
            return own;
        }
    }
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':').map(|folder| Path::new(folder).join(name)).find(|candidate| candidate.is_file())
}
