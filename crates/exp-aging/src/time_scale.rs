//! Layout against the pace of an aging, in virtual time: the same plans at several rates, and with several commit shares at the
//! speed of the machine.

mod analysis;

use crate::aged_image::{self, AgedImage, age_image, overwriting_plan, plan_spec};
use clap::Args;
use senesce_aging::{AgingPlan, Clock, CommitShare, Data, ExecuteOptions};
use senesce_core::analysis::{Analysis, Better};
use senesce_core::heartbeat::leap;
use senesce_core::parameter::{names, real};
use senesce_core::{Bytes, Failure, Level, Measurement, Seed, Size};
use senesce_guest::carry::{AGING_LIMIT, GuestPool, GuestSpec, PoolJob};
use senesce_guest::installed;
use senesce_runner::{Context, Experiment, Planned, Recorded, Run};
use senesce_volume::FileSystem;
use senesce_volume::guest::Guest;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// Each aging has its own guest: earlier work of a kernel changes the layout.
pub(crate) struct TimeScale(GuestPool<TimeScale>);

/// File systems, profiles and rates to age with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Args)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Spec {
    /// kernel with virtual time: a version, or a name of vm list
    #[arg(long)]
    pub kernel: String,
    /// file systems
    #[arg(long, value_delimiter = ',')]
    pub fs: Vec<FileSystem>,
    /// aging profiles, names or files
    #[arg(long, value_delimiter = ',')]
    pub profiles: Vec<String>,
    /// size of an image (held in the guest's memory)
    #[arg(long)]
    pub size: Size,
    /// allocated bytes of files / volume size
    #[arg(long, value_parser = real(0.05..=0.9))]
    pub fullness: f64,
    /// bytes created / volume size
    #[arg(long, value_parser = real(1.0..=10000.0))]
    pub overwrites: f64,
    /// operations per second of virtual time
    #[arg(long, value_delimiter = ',', value_parser = real(1e-4..=1e6))]
    pub rates: Vec<f64>,
    /// commit shares of agings without a pace; none: the file system decides
    #[arg(long, value_delimiter = ',')]
    pub shares: Vec<CommitShare>,
    /// agings with different seeds, for each rate or share
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub seeds: u32,
}

/// What decides when freed blocks become available.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum CommitPolicy {
    /// Operations per second; the file system's own timers commit.
    Rate(f64),
    /// No pace; commits by the share of freed space.
    Share(CommitShare),
}

/// One aging.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Step {
    kernel: String,
    profile: String,
    fs: FileSystem,
    way: CommitPolicy,
    seed: u32,
}

/// One result of a step.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Event {
    /// An aging and its layout.
    Aged(Box<Aged>),
}

/// An aging and its layout.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Aged {
    step: Step,
    image: AgedImage,
}

impl Aged {
    /// Returns whether the aging kept its pace: waits of the file system itself take virtual time.
    fn kept_pace(&self) -> bool {
        let CommitPolicy::Rate(rate) = self.step.way else { return true };
        let seconds = |seconds| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        // The first operation starts at once.
        let pauses = self.image.operations.saturating_sub(1) as f64;
        leap(seconds(self.image.seconds), seconds(pauses / rate)).is_none()
    }
}

impl Run for TimeScale {
    const KIND: &'static str = "time-scale";
    const PUBLISHED: &'static str = include_str!("../data/published/time-scale.csv");
    const CLAIMS: &'static str = include_str!("../data/published/time-scale.claims.toml");
    const GOES_ON: bool = true;
    type Spec = Spec;
    type Event = Event;
    type Step = Step;

    fn steps(spec: &Spec, seed: Seed) -> Result<Vec<Planned<Step>>, Failure> {
        aged_image::check_size(&spec.fs, spec.size)?;
        let kernel = &installed::resolve(&spec.kernel);
        let mut steps = Vec::new();
        for profile in &spec.profiles {
            let operations = plan(spec, profile, Clock::NONE, seed)?.len();
            for seed in 0..spec.seeds {
                for fs in &spec.fs {
                    let step = |way| Step { kernel: kernel.clone(), profile: profile.clone(), fs: *fs, way, seed };
                    let one = |way| planned(step(way), operations);
                    steps.extend(commit_policies(spec).map(one));
                }
            }
        }
        Ok(steps)
    }

    fn begin(spec: &Spec, context: &mut Context<'_, Self>) -> Result<Self, Failure> {
        let used = agings(context.recorded());
        let names = std::slice::from_ref(&spec.kernel);
        installed::check(names, used.iter().map(|one| one.step.kernel.as_str()))?;
        Ok(Self(GuestPool::default()))
    }

    fn step(&mut self, spec: &Spec, step: &Step, context: &mut Context<'_, Self>) -> Result<(), Failure> {
        if Guest::here().is_none() {
            return self.0.run(spec, step, |step| job(spec, step), context);
        }
        let (clock, pace) = match step.way {
            CommitPolicy::Rate(rate) => (Clock::NONE, Some(rate)),
            CommitPolicy::Share(commit_share) => (Clock { commit_share, sync_every: 0 }, None),
        };
        let seed = context.seed.child(&format!("time-scale/{}", step.seed));
        let plan = Arc::new(plan(spec, &step.profile, clock, seed)?);
        let execution = ExecuteOptions { pace, ..ExecuteOptions::default() };
        let image = age_image(&plan, step.fs, Data::Write, &execution, &action(step), context)?;
        context.record(Event::Aged(Box::new(Aged { step: step.clone(), image })));
        Ok(())
    }

    fn analyse(spec: &Spec, recorded: &Recorded<Self>) -> Result<Analysis, Failure> {
        Ok(analysis::analyse(spec, &agings(recorded)))
    }

    fn measurements(_spec: &Spec, recorded: &Recorded<Self>) -> Vec<Measurement> {
        agings(recorded).iter().flat_map(measurements).collect()
    }
}

impl Experiment for TimeScale {
    const TITLE: &'static str = "Layout of an aged file system by its pace, in virtual time";
    const PAGE: &'static str = include_str!("../docs/experiments/time-scale.md");

    fn defaults(level: Level) -> Spec {
        let share = |percent: f64| CommitShare::of(percent / 100.0).unwrap_or_default();
        let all = || vec![FileSystem::Ext4, FileSystem::Xfs, FileSystem::Btrfs, FileSystem::F2fs];
        let every = ["agrawal", "douceur", "meyer", "wang_os", "wang_lanl", "dabre", "grundman", "pramod"];
        Spec {
            kernel: "6.12".into(),
            fs: level.of([vec![FileSystem::Ext4], all(), all()]),
            profiles: level.of([names(&["agrawal"]), names(&["agrawal"]), names(&every)]),
            size: Size(level.of([Bytes::mib(64), Bytes::mib(400), Bytes::mib(600)])),
            fullness: 0.7,
            overwrites: level.of([1.0, 2.0, 2.0]),
            rates: level.of([
                vec![10.0, 1000.0],
                vec![1.0, 10.0, 100.0, 1000.0],
                vec![0.1, 1.0, 10.0, 100.0, 1000.0, 10000.0],
            ]),
            shares: level.of([
                vec![CommitShare::NONE, CommitShare::DEFAULT],
                vec![CommitShare::NONE, CommitShare::DEFAULT],
                vec![CommitShare::NONE, share(25.0), CommitShare::DEFAULT, share(1.25), share(0.25)],
            ]),
            seeds: level.of([2, 5, 8]),
        }
    }
}

fn commit_policies(spec: &Spec) -> impl Iterator<Item = CommitPolicy> {
    let rates = spec.rates.iter().map(|rate| CommitPolicy::Rate(*rate));
    rates.chain(spec.shares.iter().map(|share| CommitPolicy::Share(*share)))
}

fn words(way: CommitPolicy) -> String {
    match way {
        CommitPolicy::Rate(rate) => format!("{rate}/s"),
        CommitPolicy::Share(share) => format!("commit share {share}"),
    }
}

fn action(step: &Step) -> String {
    format!("age {} by {}, {}", step.fs, step.profile, words(step.way))
}

fn job(spec: &Spec, step: &Step) -> PoolJob<TimeScale> {
    let Step { kernel, profile, fs, way, seed } = step;
    let guest = GuestSpec::in_virtual_time(kernel, Bytes(spec.size.bytes() + Bytes::gib(1).0), AGING_LIMIT);
    PoolJob {
        name: format!("{fs}-{}-{}-{seed}", profile.replace('/', "_"), words(*way).replace(['/', ' '], "-")),
        guest: if matches!(way, CommitPolicy::Rate(_)) { guest } else { guest.still() },
        spec: Spec { kernel: kernel.clone(), ..spec.clone() },
    }
}

fn planned(step: Step, operations: u64) -> Planned<Step> {
    let (fs, profile, action) = (step.fs, step.profile.clone(), action(&step));
    // Idle time costs nothing. Measured: 1 to 3 ms for each operation with its commit.
    let slowed = if matches!(step.way, CommitPolicy::Rate(_)) { 20 } else { 2 };
    aged_image::planned(step, action, fs, &profile, slowed * operations)
}

fn plan(spec: &Spec, profile: &str, clock: Clock, seed: Seed) -> Result<AgingPlan, Failure> {
    overwriting_plan(plan_spec(profile, spec.size, spec.fullness, seed)?, spec.overwrites, clock)
}

fn agings(recorded: &Recorded<TimeScale>) -> Vec<Aged> {
    recorded.events().map(|Event::Aged(aged)| (**aged).clone()).collect()
}

/// A layout value that is compared.
struct LayoutValue {
    name: &'static str,
    unit: &'static str,
    of: fn(&AgedImage) -> f64,
}

impl LayoutValue {
    fn with_unit(&self) -> String {
        if self.unit.is_empty() { self.name.into() } else { format!("{} ({})", self.name, self.unit) }
    }
}

const VALUES: [LayoutValue; 3] = [
    LayoutValue { name: "extents per file", unit: "", of: |image| image.layout.extents_per_file() },
    LayoutValue { name: "free extents", unit: "", of: |image| image.layout.free_extents as f64 },
    LayoutValue { name: "modelled read", unit: "s", of: |image| image.layout.read_seconds },
];

fn measurements(aged: &Aged) -> Vec<Measurement> {
    let step = &aged.step;
    let one = |value: &LayoutValue| {
        let measured = Measurement::new(value.name, value.unit, Better::Neither, (value.of)(&aged.image)).ok()?;
        let measured =
            measured.under("fs", step.fs.name()).under("profile", &*step.profile).under("pace", words(step.way));
        Some(Measurement { image: step.seed, ..measured })
    };
    VALUES.iter().filter_map(one).collect()
}
