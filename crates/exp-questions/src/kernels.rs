//! Did kernel development change how file systems age? The same plans in user-mode kernels of several versions.

mod analysis;
mod variant;

use clap::Args;
use senesce_core::parameter::{names, real};
use senesce_core::{Analysis, Bytes, Failure, Level, Measurement, Seed, Size};
use senesce_gate::AgingSpec;
use senesce_gate::aged::{Aged, ImageAging, age, estimated_seconds};
use senesce_guest::carry::{AGING_LIMIT, GuestPool, GuestSpec, PoolJob, guests_at_a_time};
use senesce_guest::installed;
use senesce_runner::{Context, Experiment, Planned, Recorded, Run};
use senesce_volume::guest::Guest;
use serde::{Deserialize, Serialize};
use variant::Variant;

pub(crate) struct Kernels(GuestPool<Kernels>);

/// Kernels, file systems and agings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Args)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Spec {
    /// kernels, oldest first: a series (6.12) stands for its latest build in `senesce vm list`
    #[arg(long, value_delimiter = ',')]
    pub kernels: Vec<String>,
    /// file systems
    #[arg(long, value_delimiter = ',')]
    pub fs: Vec<Variant>,
    /// aging profiles, names or files
    #[arg(long, value_delimiter = ',')]
    pub profiles: Vec<String>,
    /// operations per second of virtual time; 0: no pace, commits follow from the plan
    #[arg(long, value_delimiter = ',', value_parser = real(0.0..=1e6))]
    pub rates: Vec<f64>,
    /// size of an image (held in the guest's memory)
    #[arg(long)]
    pub size: Size,
    /// allocated bytes of files / volume size
    #[arg(long, value_parser = real(0.05..=0.95))]
    pub fullness: f64,
    /// bytes created / volume size
    #[arg(long, value_parser = real(1.0..=10000.0))]
    pub overwrites: f64,
    /// agings with different seeds
    #[arg(long, value_parser = clap::value_parser!(u32).range(5..=1000))]
    pub seeds: u32,
}

/// One aging.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Step {
    kernel: String,
    fs: Variant,
    profile: String,
    rate: f64,
    seed: u32,
    /// Whether a file was created and deleted before.
    sham: bool,
}

impl Step {
    fn cell(&self) -> (Variant, &str, f64) {
        (self.fs, &self.profile, self.rate)
    }
}

/// Result of a step.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Event {
    /// An image was aged.
    Aged(Box<AgedStep>),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct AgedStep {
    step: Step,
    aged: Aged,
}

impl Run for Kernels {
    const KIND: &'static str = "kernels";
    const PUBLISHED: &'static str = include_str!("../data/published/kernels.csv");
    const CLAIMS: &'static str = include_str!("../data/published/kernels.claims.toml");
    const GOES_ON: bool = true;
    type Spec = Spec;
    type Event = Event;
    type Step = Step;

    fn steps(spec: &Spec, seed: Seed) -> Result<Vec<Planned<Step>>, Failure> {
        check(spec, seed)?;
        let installed: Vec<String> = spec.kernels.iter().map(|name| installed::resolve(name)).collect();
        let mut steps = Vec::new();
        // Seeds are outermost, so that a run that is stopped early has all kernels.
        for seed in 0..spec.seeds {
            for (profile, rate) in
                spec.profiles.iter().flat_map(|profile| spec.rates.iter().map(move |rate| (profile, rate)))
            {
                for fs in &spec.fs {
                    let one = |kernel: &String, sham| {
                        let (kernel, profile) = (kernel.clone(), profile.clone());
                        planned(spec, Step { kernel, fs: *fs, profile, rate: *rate, seed, sham })
                    };
                    steps.extend(installed.iter().map(|kernel| one(kernel, false)));
                    steps.extend(installed.first().map(|kernel| one(kernel, true)));
                }
            }
        }
        Ok(steps)
    }

    fn begin(spec: &Spec, context: &mut Context<'_, Self>) -> Result<Self, Failure> {
        let used = agings(context.recorded());
        installed::check(&spec.kernels, used.iter().map(|one| one.step.kernel.as_str()))?;
        Ok(Self(GuestPool::default()))
    }

    fn step(&mut self, spec: &Spec, step: &Step, context: &mut Context<'_, Self>) -> Result<(), Failure> {
        if Guest::here().is_none() {
            return self.0.run(spec, step, |step| job(spec, step), context);
        }
        let event = age_here(spec, step, context)?;
        context.record(event);
        Ok(())
    }

    fn analyse(spec: &Spec, recorded: &Recorded<Self>) -> Result<Analysis, Failure> {
        Ok(analysis::analyse(spec, &agings(recorded)))
    }

    fn measurements(_spec: &Spec, recorded: &Recorded<Self>) -> Vec<Measurement> {
        agings(recorded).iter().filter(|one| !one.step.sham).flat_map(analysis::measurements).collect()
    }
}

impl Experiment for Kernels {
    const TITLE: &'static str = "Whether newer kernels age file systems differently";
    const PAGE: &'static str = include_str!("../docs/experiments/kernels.md");

    fn defaults(level: Level) -> Spec {
        let all = || vec![Variant::Ext4, Variant::Ext4LinearScan, Variant::Xfs, Variant::Btrfs, Variant::F2fs];
        Spec {
            kernels: level.of([names(&["6.12"]), names(&["6.1", "7.3"]), names(&["6.1", "6.12", "7.2", "7.3"])]),
            fs: level.of([vec![Variant::Ext4], vec![Variant::Ext4, Variant::Xfs, Variant::Btrfs], all()]),
            profiles: level.of([names(&["agrawal"]), names(&["agrawal"]), names(&["agrawal", "meyer", "wang_os"])]),
            rates: level.of([vec![0.0], vec![0.0], vec![0.0, 10.0]]),
            size: Size(level.of([Bytes::mib(64), Bytes::gib(2), Bytes::gib(2)])),
            fullness: 0.75,
            overwrites: level.of([1.0, 2.0, 2.0]),
            seeds: level.of([5, 6, 20]),
        }
    }
}

fn check(spec: &Spec, seed: Seed) -> Result<(), Failure> {
    installed::check_size(spec.size, spec.fs.iter().map(|fs| fs.kind()))?;
    for profile in &spec.profiles {
        image_aging(&aging(spec, profile, 0.0), spec, seed, 0).plan_spec()?;
    }
    Ok(())
}

fn job(spec: &Spec, step: &Step) -> PoolJob<Kernels> {
    let Step { kernel, fs, profile, rate, seed, sham } = step;
    let sham = if *sham { "-sham" } else { "" };
    PoolJob {
        name: format!("{kernel}-{fs}-{}-{rate}-{seed}{sham}", profile.replace('/', "_")),
        guest: GuestSpec::in_virtual_time(kernel, memory(spec), AGING_LIMIT),
        spec: Spec { kernels: vec![kernel.clone()], ..spec.clone() },
    }
}

/// Returns the memory of a guest. Layouts depend on it, so it follows only from the size.
fn memory(spec: &Spec) -> Bytes {
    Bytes(spec.size.bytes() + Bytes::gib(1).0)
}

fn age_here(spec: &Spec, step: &Step, context: &mut Context<'_, Kernels>) -> Result<Event, Failure> {
    let root = context.seed.child(&format!("kernels/{}", step.seed));
    let aging = aging(spec, &step.profile, step.rate);
    let how = image_aging(&aging, spec, root, step.seed);
    let aged = age(&how, &step.fs.spec(), step.sham, (context.progress, context.interrupt))?;
    Ok(Event::Aged(Box::new(AgedStep { step: step.clone(), aged })))
}

fn aging(spec: &Spec, profile: &str, rate: f64) -> AgingSpec {
    AgingSpec {
        profile: profile.into(),
        fullness: spec.fullness,
        overwrites: spec.overwrites,
        operations_per_second: (rate > 0.0).then_some(rate),
        command: Vec::new(),
    }
}

fn image_aging<'a>(aging: &'a AgingSpec, spec: &Spec, seed: Seed, number: u32) -> ImageAging<'a> {
    ImageAging { size: spec.size.0, aging, seed, number }
}

fn planned(spec: &Spec, step: Step) -> Planned<Step> {
    let Step { kernel, fs, profile, rate, seed, sham } = &step;
    let pace = if *rate > 0.0 { format!(", {rate}/s") } else { String::new() };
    let sham = if *sham { ", sham" } else { "" };
    let action = format!("age {fs} by {profile}{pace}, kernel {kernel}, seed {seed}{sham}");
    // With the sham of the oldest kernel.
    let of_seed = spec.profiles.len() * spec.rates.len() * spec.fs.len() * (spec.kernels.len() + 1);
    let agings = spec.seeds as usize * of_seed;
    let seconds = estimated_seconds(spec.size.0, spec.overwrites, agings, guests_at_a_time());
    Planned::new(step, action, "an image in memory").costing(Bytes(0), seconds)
}

fn agings(recorded: &Recorded<Kernels>) -> Vec<AgedStep> {
    recorded.events().map(|Event::Aged(one)| (**one).clone()).collect()
}
