//! How long does a defragmentation last? In virtual time, the same plan gives the same layout in every guest. So each arm ages
//! its own image to the same layout, defragments it or not, and continues with the rest of the plan.

mod analysis;
mod arm;
mod image;

use arm::Arm;
use clap::Args;
use image::ImageState;
use senesce_core::parameter::{names, real};
use senesce_core::{Analysis, Bytes, Failure, Level, Measurement, Seed, Size};
use senesce_guest::carry::{AGING_LIMIT, GuestPool, GuestSpec, PoolJob};
use senesce_guest::installed;
use senesce_runner::{Context, Experiment, Planned, Recorded, Run};
use senesce_volume::FileSystem;
use senesce_volume::guest::Guest;
use serde::{Deserialize, Serialize};

pub(crate) struct DefragmentationLasts(GuestPool<DefragmentationLasts>);

/// File systems, profiles, and moments of measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Args)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Spec {
    /// user-mode kernel with virtual time: a series (6.12) stands for its latest build
    #[arg(long)]
    pub kernel: String,
    /// file systems: ext4, xfs, btrfs, f2fs
    #[arg(long, value_delimiter = ',')]
    pub fs: Vec<FileSystem>,
    /// aging profiles, names or files
    #[arg(long, value_delimiter = ',')]
    pub profiles: Vec<String>,
    /// treatments of the aged file system; none: the control
    #[arg(long, value_delimiter = ',')]
    pub arms: Vec<Arm>,
    /// size of an image (held in the guest's memory)
    #[arg(long)]
    pub size: Size,
    /// allocated bytes of files / volume size
    #[arg(long, value_parser = real(0.05..=0.95))]
    pub fullness: f64,
    /// temporal locality of births; 0: births do not depend on directories
    #[arg(long, value_parser = real(0.0..=1.0))]
    pub locality: f64,
    /// bytes created / volume size before the defragmentation
    #[arg(long, value_parser = real(1.0..=100.0))]
    pub overwrites: f64,
    /// bytes created / volume size between the defragmentation and each measurement
    #[arg(long, value_delimiter = ',', value_parser = real(0.01..=100.0))]
    pub moments: Vec<f64>,
    /// agings with different seeds
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub seeds: u32,
}

/// One image.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Step {
    kernel: String,
    fs: FileSystem,
    profile: String,
    arm: Arm,
    seed: u32,
}

/// Result of a step.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Event {
    /// An image at its moments.
    Lasted(Box<ImageHistory>),
}

/// An image before its treatment, after it, and at the moments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ImageHistory {
    step: Step,
    /// Digest of the layout before the treatment.
    before: Option<String>,
    /// The first is right after the treatment.
    moments: Vec<ImageState>,
}

impl Run for DefragmentationLasts {
    const KIND: &'static str = "defragmentation-lasts";
    const PUBLISHED: &'static str = include_str!("../data/published/defragmentation-lasts.csv");
    const CLAIMS: &'static str = include_str!("../data/published/defragmentation-lasts.claims.toml");
    const GOES_ON: bool = true;
    type Spec = Spec;
    type Event = Event;
    type Step = Step;

    fn steps(spec: &Spec, seed: Seed) -> Result<Vec<Planned<Step>>, Failure> {
        check(spec, seed)?;
        let kernel = installed::resolve(&spec.kernel);
        let mut steps = Vec::new();
        for seed in 0..spec.seeds {
            for (fs, profile) in spec.fs.iter().flat_map(|fs| spec.profiles.iter().map(move |profile| (*fs, profile))) {
                let arms = spec.arms.iter().filter(|arm| arm.exists_for(fs));
                let step = |arm: &Arm| Step { kernel: kernel.clone(), fs, profile: profile.clone(), arm: *arm, seed };
                steps.extend(arms.map(step).map(|step| planned(spec, step)));
            }
        }
        Ok(steps)
    }

    fn begin(spec: &Spec, context: &mut Context<'_, Self>) -> Result<Self, Failure> {
        let used = images(context.recorded());
        let names = std::slice::from_ref(&spec.kernel);
        installed::check(names, used.iter().map(|one| one.step.kernel.as_str()))?;
        Ok(Self(GuestPool::default()))
    }

    fn step(&mut self, spec: &Spec, step: &Step, context: &mut Context<'_, Self>) -> Result<(), Failure> {
        if Guest::here().is_none() {
            return self.0.run(spec, step, |step| job(spec, step), context);
        }
        let event = image::age(spec, step, context)?;
        context.record(event);
        Ok(())
    }

    fn analyse(spec: &Spec, recorded: &Recorded<Self>) -> Result<Analysis, Failure> {
        Ok(analysis::analyse(spec, &images(recorded)))
    }

    fn measurements(spec: &Spec, recorded: &Recorded<Self>) -> Vec<Measurement> {
        images(recorded).iter().flat_map(|image| analysis::measurements(spec, image)).collect()
    }
}

impl Experiment for DefragmentationLasts {
    const TITLE: &'static str = "How long a defragmentation lasts";
    const PAGE: &'static str = include_str!("../docs/experiments/defragmentation-lasts.md");

    fn defaults(level: Level) -> Spec {
        let all = || vec![FileSystem::Ext4, FileSystem::Xfs, FileSystem::Btrfs, FileSystem::F2fs];
        let every = ["agrawal", "douceur", "meyer", "wang_os", "wang_lanl", "dabre", "grundman", "pramod"];
        Spec {
            kernel: "6.12".into(),
            fs: level.of([vec![FileSystem::Ext4], vec![FileSystem::Ext4, FileSystem::Xfs, FileSystem::Btrfs], all()]),
            profiles: level.of([names(&["agrawal"]), names(&["agrawal", "meyer"]), names(&every)]),
            arms: level.of([
                vec![Arm::None, Arm::Copy],
                vec![Arm::None, Arm::Copy],
                vec![Arm::None, Arm::Copy, Arm::Tool],
            ]),
            size: Size(level.of([Bytes::mib(64), Bytes::mib(400), Bytes::gib(1)])),
            fullness: 0.75,
            locality: 0.0,
            overwrites: level.of([1.0, 2.0, 2.0]),
            moments: level.of([vec![0.5], vec![0.25, 0.5, 1.0, 2.0], vec![0.25, 0.5, 1.0, 2.0]]),
            seeds: level.of([1, 4, 8]),
        }
    }
}

fn check(spec: &Spec, seed: Seed) -> Result<(), Failure> {
    installed::check_size(spec.size, spec.fs.iter().copied())?;
    if !spec.arms.contains(&Arm::None) {
        return Err(Failure::usage("--arms: the control, none, is missing"));
    }
    spec.profiles.iter().try_for_each(|profile| image::plan(spec, profile, seed).map(|_| ()))
}

fn job(spec: &Spec, step: &Step) -> PoolJob<DefragmentationLasts> {
    let Step { kernel, fs, profile, arm, seed } = step;
    PoolJob {
        name: format!("{fs}-{}-{arm}-{seed}", profile.replace('/', "_")),
        // The copy is a second image.
        guest: GuestSpec::in_virtual_time(kernel, Bytes(2 * spec.size.bytes() + Bytes::gib(1).0), AGING_LIMIT).still(),
        spec: Spec { kernel: kernel.clone(), ..spec.clone() },
    }
}

fn planned(spec: &Spec, step: Step) -> Planned<Step> {
    let Step { fs, profile, arm, seed, .. } = &step;
    let action = format!("age {fs} by {profile}, {}, seed {seed}", arm.action());
    let last = spec.moments.iter().copied().fold(0.0, f64::max);
    // Measured: 60 MB of created files per second in a guest of 2026.
    let seconds = 2.0 + spec.size.bytes() as f64 * (spec.overwrites + last) / 60e6;
    Planned::new(step, action, "an image in memory").costing(Bytes(0), seconds)
}

fn images(recorded: &Recorded<DefragmentationLasts>) -> Vec<ImageHistory> {
    recorded.events().map(|Event::Lasted(one)| (**one).clone()).collect()
}
