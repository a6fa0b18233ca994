//! Do aged files or aged free space cost time? One aging, a ballast and a filler give four states with the same files and bytes.
//! In virtual time, the same plan gives the same layout in every guest, so each state ages an image of its own.

mod analysis;
mod contrast;
mod proof;
mod state;
mod tree;
mod work;

use clap::Args;
use senesce_core::parameter::{names, real};
use senesce_core::{Analysis, Bytes, Failure, Level, Measurement, Seed, Size};
use senesce_guest::carry::{AGING_LIMIT, GuestPool, GuestSpec, PoolJob};
use senesce_guest::installed;
use senesce_runner::{Context, Experiment, Planned, Recorded, Run};
use senesce_volume::FileSystem;
use senesce_volume::guest::Guest;
use serde::{Deserialize, Serialize};
use std::fmt;
use work::MeasuredState;

pub(crate) struct FilesOrFreeSpace(GuestPool<FilesOrFreeSpace>);

/// File systems, agings and new files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Args)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Spec {
    /// user-mode kernel with virtual time: a series (6.12) stands for its latest build
    #[arg(long)]
    pub kernel: String,
    /// file systems: ext4, xfs
    #[arg(long, value_delimiter = ',')]
    pub fs: Vec<FileSystem>,
    /// aging profiles, names or files
    #[arg(long, value_delimiter = ',')]
    pub profiles: Vec<String>,
    /// size of an image (held in the guest's memory)
    #[arg(long)]
    pub size: Size,
    /// used bytes / volume size
    #[arg(long, value_delimiter = ',', value_parser = real(0.55..=0.95))]
    pub fullness: Vec<f64>,
    /// temporal locality of births; 0: births do not depend on directories
    #[arg(long, value_parser = real(0.0..=1.0))]
    pub locality: f64,
    /// bytes created / bytes of the live files
    #[arg(long, value_delimiter = ',', value_parser = real(1.0..=100.0))]
    pub overwrites: Vec<f64>,
    /// sizes of new files
    #[arg(long, value_delimiter = ',')]
    pub file_sizes: Vec<Size>,
    /// agings with different seeds
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub seeds: u32,
}

/// Whether files or free space are as the aging left them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LayoutAge {
    Young,
    Aged,
}

impl LayoutAge {
    const ALL: [Self; 2] = [Self::Young, Self::Aged];
}

impl fmt::Display for LayoutAge {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if *self == Self::Aged { "aged" } else { "young" })
    }
}

/// An aging without its seed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Aging {
    fs: FileSystem,
    profile: String,
    fullness: f64,
    overwrites: f64,
}

impl Aging {
    /// Returns the bytes of the tree over the size: ballast and filler have the same size, and one of them is deleted.
    fn live(&self) -> f64 {
        2.0 * self.fullness - 1.0 - state::RESERVE
    }
}

impl fmt::Display for Aging {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fs, profile, fullness, overwrites } = self;
        write!(formatter, "{fs} by {profile}, {:.0} % full, {overwrites} overwrites", fullness * 100.0)
    }
}

/// One state of an aging.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Step {
    kernel: String,
    aging: Aging,
    seed: u32,
    files: LayoutAge,
    free: LayoutAge,
}

/// Result of a step.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Event {
    /// A state was made and measured.
    Measured(Box<MeasuredState>),
}

impl Run for FilesOrFreeSpace {
    const KIND: &'static str = "files-or-free-space";
    const PUBLISHED: &'static str = include_str!("../data/published/files-or-free-space.csv");
    const CLAIMS: &'static str = include_str!("../data/published/files-or-free-space.claims.toml");
    const GOES_ON: bool = true;
    type Spec = Spec;
    type Event = Event;
    type Step = Step;

    fn steps(spec: &Spec, seed: Seed) -> Result<Vec<Planned<Step>>, Failure> {
        check(spec, seed)?;
        let kernel = installed::resolve(&spec.kernel);
        let states = LayoutAge::ALL.into_iter().flat_map(|files| LayoutAge::ALL.map(|free| (files, free)));
        let mut steps = Vec::new();
        // Seeds are outermost, so that a run that is stopped early has all agings.
        for seed in 0..spec.seeds {
            for aging in agings(spec) {
                let step = |(files, free)| Step { kernel: kernel.clone(), aging: aging.clone(), seed, files, free };
                steps.extend(states.clone().map(step).map(|step| planned(spec, step)));
            }
        }
        Ok(steps)
    }

    fn begin(spec: &Spec, context: &mut Context<'_, Self>) -> Result<Self, Failure> {
        let used = states(context.recorded());
        let names = std::slice::from_ref(&spec.kernel);
        installed::check(names, used.iter().map(|one| one.step.kernel.as_str()))?;
        Ok(Self(GuestPool::default()))
    }

    fn step(&mut self, spec: &Spec, step: &Step, context: &mut Context<'_, Self>) -> Result<(), Failure> {
        if Guest::here().is_none() {
            return self.0.run(spec, step, |step| job(spec, step), context);
        }
        let event = work::measure(spec, step, context)?;
        context.record(event);
        Ok(())
    }

    fn analyse(spec: &Spec, recorded: &Recorded<Self>) -> Result<Analysis, Failure> {
        Ok(analysis::analyse(spec, &states(recorded)))
    }

    fn measurements(_spec: &Spec, recorded: &Recorded<Self>) -> Vec<Measurement> {
        states(recorded).iter().flat_map(analysis::measurements).collect()
    }
}

impl Experiment for FilesOrFreeSpace {
    const TITLE: &'static str = "Whether aged files or aged free space cost time";
    const PAGE: &'static str = include_str!("../docs/experiments/files-or-free-space.md");

    fn defaults(level: Level) -> Spec {
        let sizes = |all: &[u64]| all.iter().map(|kib| Size(Bytes::kib(*kib))).collect::<Vec<_>>();
        let both = || vec![FileSystem::Ext4, FileSystem::Xfs];
        Spec {
            kernel: "6.12".into(),
            fs: level.of([vec![FileSystem::Ext4], both(), both()]),
            profiles: level.of([names(&["agrawal"]), names(&["agrawal"]), names(&["agrawal", "meyer", "wang_os"])]),
            size: Size(level.of([Bytes::mib(64), Bytes::mib(400), Bytes::gib(1)])),
            fullness: level.of([vec![0.85], vec![0.6, 0.85], vec![0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95]]),
            locality: 0.0,
            overwrites: level.of([vec![2.0], vec![4.0], vec![2.0, 4.0, 8.0]]),
            file_sizes: level.of([sizes(&[16, 1024]), sizes(&[16, 256, 4096, 24576]), sizes(&[16, 256, 4096, 24576])]),
            seeds: level.of([1, 8, 12]),
        }
    }
}

fn agings(spec: &Spec) -> Vec<Aging> {
    let mut all = Vec::new();
    for fs in &spec.fs {
        for profile in &spec.profiles {
            for fullness in &spec.fullness {
                let one = |overwrites: &f64| Aging {
                    fs: *fs,
                    profile: profile.clone(),
                    fullness: *fullness,
                    overwrites: *overwrites,
                };
                all.extend(spec.overwrites.iter().map(one));
            }
        }
    }
    all
}

fn check(spec: &Spec, seed: Seed) -> Result<(), Failure> {
    if let Some(fs) = spec.fs.iter().find(|fs| !state::is_known(**fs)) {
        return Err(Failure::usage(format!(
            "--fs {fs}: its states cannot be made with the same bytes; use ext4 or xfs"
        )));
    }
    installed::check_size(spec.size, spec.fs.iter().copied())?;
    if let Some(size) = spec.file_sizes.iter().find(|size| size.bytes() == 0) {
        return Err(Failure::usage(format!("--file-sizes {size}: empty files have no extents")));
    }
    agings(spec).iter().try_for_each(|aging| state::plan(spec, aging, spec.size.0, seed).map(|_| ()))
}

fn job(spec: &Spec, step: &Step) -> PoolJob<FilesOrFreeSpace> {
    let Step { kernel, aging, seed, files, free } = step;
    let Aging { fs, profile, fullness, overwrites } = aging;
    PoolJob {
        name: format!("{fs}-{}-{fullness}-{overwrites}-{files}-{free}-{seed}", profile.replace('/', "_")),
        guest: GuestSpec::in_virtual_time(kernel, Bytes(spec.size.bytes() + Bytes::gib(1).0), AGING_LIMIT).still(),
        spec: Spec { kernel: kernel.clone(), ..spec.clone() },
    }
}

fn planned(spec: &Spec, step: Step) -> Planned<Step> {
    let Step { aging, seed, files, free, .. } = &step;
    let action = format!("age {aging}, {files} files, {free} free space, seed {seed}");
    // Measured: 300 MB of created and allocated files per second in a guest of 2026.
    let seconds = 2.0 + spec.size.bytes() as f64 * (aging.live() * (aging.overwrites + 1.0) + 1.0) / 300e6;
    Planned::new(step, action, "an image in memory").costing(Bytes(0), seconds)
}

fn states(recorded: &Recorded<FilesOrFreeSpace>) -> Vec<MeasuredState> {
    recorded.events().map(|Event::Measured(one)| (**one).clone()).collect()
}
