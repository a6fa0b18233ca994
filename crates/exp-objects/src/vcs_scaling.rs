//! Scaling of version-control and backup systems with many files and with a large one (DMV study, chapter on existing systems).

mod analysis;
mod cell;
mod measurements;

use cell::{Cell, CellKind, MeasuredCell, Skipped};
use clap::Args;
use rand::seq::SliceRandom;
use senesce_claims::Facts;
use senesce_core::parameter::names;
use senesce_core::{Analysis, Bytes, ExitCode, Failure, Level, Measurement, Seed, Size, Span};
use senesce_objstore::vcs::System;
use senesce_runner::{Context, Experiment, Needs, Planned, Recorded, Run};
use senesce_volume::{FileSystem, OpenOptions, TargetSpec, holds_only_ours};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

pub(crate) struct VcsScaling;

/// Files, systems and target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Args)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Spec {
    /// systems; those with a missing program are skipped and reported
    #[arg(long, value_delimiter = ',', value_parser = SYSTEMS)]
    pub systems: Vec<String>,
    /// numbers of files of 1 KiB, separated by commas
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..))]
    pub files: Vec<u64>,
    /// sizes of the large file, separated by commas
    #[arg(long, value_delimiter = ',')]
    pub sizes: Vec<Size>,
    /// measurements of each cell, each on a fresh file system
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=100))]
    pub repeats: u64,
    /// time limit of a single command
    #[arg(long)]
    pub time_limit: Span,
    /// target with a new file system for each cell: memory:SIZE, image:FILE,size=SIZE, a block device
    #[arg(long)]
    pub target: TargetSpec,
    /// file system
    #[arg(long)]
    pub fs: FileSystem,
    /// options of mkfs
    #[arg(long, allow_hyphen_values = true)]
    pub mkfs_options: String,
}

/// One result of a step.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Event {
    /// A cell was measured.
    Cell(MeasuredCell),
    /// A system is not installed.
    Skipped(Skipped),
}

fn as_cell(event: &Event) -> Option<&MeasuredCell> {
    if let Event::Cell(cell) = event { Some(cell) } else { None }
}

const DISK: &str = "ST3250318AS";

const SYSTEMS: [&str; 9] = ["git", "hg", "bup", "copy", "restic", "borg", "own-pack", "own-2x1", "own-2x2"];

const PAPER_FILES: [u64; 25] = [
    1, 2, 4, 6, 10, 25, 50, 75, 100, 250, 500, 750, 1000, 2500, 5000, 7500, 10_000, 25_000, 50_000, 75_000, 100_000,
    250_000, 500_000, 750_000, 1_000_000,
];

impl Run for VcsScaling {
    const KIND: &'static str = "vcs-scaling";
    const PUBLISHED: &'static str = include_str!("../data/published/vcs-scaling.csv");
    const CLAIMS: &'static str = include_str!("../data/published/vcs-scaling.claims.toml");
    type Spec = Spec;
    type Event = Event;
    type Step = Cell;

    fn needs(_spec: &Spec) -> Needs {
        Needs::root("vcs-scaling makes file systems on loop devices")
    }

    fn facts(_spec: &Spec, recorded: &Recorded<Self>, mut facts: Facts) -> Facts {
        facts.drives.extend(crate::is_on(&recorded.environment, DISK).then(|| DISK.into()));
        facts
    }

    fn steps(spec: &Spec, seed: Seed) -> Result<Vec<Planned<Cell>>, Failure> {
        if spec.files.is_empty() && spec.sizes.is_empty() {
            return Err(Failure::usage("nothing to measure: --files and --sizes are empty"));
        }
        if spec.sizes.iter().any(|size| size.bytes() == 0) {
            return Err(Failure::usage("--sizes: must be above 0"));
        }
        if matches!(spec.target, TargetSpec::Directory(_)) {
            return Err(Failure::usage(
                "a directory cannot get a new file system for each cell: use memory:SIZE, image:FILE,size=SIZE or a block device",
            ));
        }
        let planned = |cell: Cell| {
            let (bytes, text) = (4 * cell.kind.bytes(), cell.text());
            let action = format!("{text}: init, generate, commit, edit, commit, compare");
            Planned::new(cell, action, spec.target.to_string()).costing(Bytes(bytes), 3.0 + bytes as f64 / 5e7)
        };
        Ok(spec.cells(seed).into_iter().map(planned).collect())
    }

    fn next(spec: &Spec, recorded: &Recorded<Self>) -> Result<Vec<Planned<Cell>>, Failure> {
        let mut left = Self::steps(spec, recorded.seed)?;
        left.retain(|planned| is_installed(planned.step.system) && !recorded.is_done(&planned.step));
        Ok(left)
    }

    fn begin(spec: &Spec, context: &mut Context<'_, Self>) -> Result<Self, Failure> {
        for system in spec.systems().into_iter().filter(|system| !is_installed(*system)) {
            let (program, package) = system.program();
            let missing = Skipped { system: system.name().into(), program: program.into(), package: package.into() };
            context.progress.say(&missing.text());
            let is_said =
                context.recorded().events().any(|event| matches!(event, Event::Skipped(said) if *said == missing));
            if !is_said {
                context.record(Event::Skipped(missing));
            }
        }
        Ok(Self)
    }

    fn step(&mut self, spec: &Spec, cell: &Cell, context: &mut Context<'_, Self>) -> Result<(), Failure> {
        let measured = cell.measure(spec, context)?;
        context.record(Event::Cell(measured));
        Ok(())
    }

    fn exit_code(_spec: &Spec, recorded: &Recorded<Self>) -> ExitCode {
        let mut cells = recorded.events().filter_map(as_cell).peekable();
        let nothing_counts = cells.peek().is_some() && cells.all(|cell| !cell.is_valid());
        if nothing_counts { ExitCode::RunFailed } else { ExitCode::Done }
    }

    fn measurements(_spec: &Spec, recorded: &Recorded<Self>) -> Vec<Measurement> {
        recorded.events().filter_map(as_cell).flat_map(MeasuredCell::measurements).collect()
    }

    fn analyse(_spec: &Spec, recorded: &Recorded<Self>) -> Result<Analysis, Failure> {
        let (mut measured, mut skipped) = (Vec::new(), Vec::new());
        for event in recorded.events().cloned() {
            match event {
                Event::Cell(cell) => measured.push(cell),
                Event::Skipped(system) => skipped.push(system),
            }
        }
        analysis::analyse(&measured, &skipped, Self::PUBLISHED)
    }
}

impl Experiment for VcsScaling {
    const TITLE: &'static str = "How do version-control and backup systems scale with many files and a large file?";
    const PAGE: &'static str = include_str!("../docs/experiments/vcs-scaling.md");

    fn defaults(level: Level) -> Spec {
        let sizes = |text: &str| text.split(',').map(|word| word.parse().expect("a size")).collect::<Vec<Size>>();
        let memory = |size| TargetSpec::Memory { size };
        let image = TargetSpec::Image { path: "vcs-scaling.img".into(), size: Some(Bytes::gib(64)) };
        Spec {
            systems: level.of([names(&["git", "copy", "own-pack", "own-2x1"]), names(&SYSTEMS), names(&SYSTEMS)]),
            files: level.of([vec![100], vec![100, 1000, 10_000], PAPER_FILES.to_vec()]),
            sizes: level.of([sizes("1M"), sizes("1M,64M"), sizes("1K,1M,16M,64M,256M,1G,2G,4G,8G,12G,16G")]),
            repeats: level.of([1, 1, 4]),
            time_limit: Span::from_millis(level.of([20_000, 60_000, 19_800_000])),
            target: level.of([memory(Bytes::mib(512)), memory(Bytes::gib(1)), image]),
            fs: FileSystem::Ext4,
            mkfs_options: level.of(["-m 0 -i 4096", "-m 0 -i 8192", "-m 0 -i 8192"]).into(),
        }
    }
}

impl Spec {
    fn systems(&self) -> Vec<System> {
        self.systems.iter().filter_map(|name| System::named(name)).collect()
    }

    fn options(&self, context: &mut Context<'_, VcsScaling>) -> Result<OpenOptions, Failure> {
        let mkfs_options = if self.fs == FileSystem::Ext4 { self.mkfs_options.clone() } else { String::new() };
        let erase = context.may_erase(self.target.image(), holds_only_ours)?;
        Ok(OpenOptions { mkfs_options, erase, ..OpenOptions::fresh(self.fs) })
    }

    /// Returns all cells, with the systems in random order, so that drift of the machine does not affect a single
    /// system.
    fn cells(&self, seed: Seed) -> Vec<Cell> {
        let mut random = seed.stream("vcs-scaling/order");
        let files = self.files.iter().map(|count| CellKind::ManyFiles(*count));
        let kinds: Vec<CellKind> =
            files.chain(self.sizes.iter().map(|size| CellKind::FileSize(size.bytes()))).collect();
        let mut cells = Vec::new();
        for repeat in 0..self.repeats {
            for kind in &kinds {
                let mut systems = self.systems();
                systems.shuffle(&mut random);
                cells.extend(systems.into_iter().map(|system| Cell { system, kind: *kind, repeat }));
            }
        }
        cells
    }
}

fn is_installed(system: System) -> bool {
    find_program(system.program().0).is_some()
}

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
