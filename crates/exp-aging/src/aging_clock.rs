//! Effect of the time scale of an aging on its layout: the same plan with different shares of the free space freed per commit,
//! repeated, and slowed down.

mod analysis;

use crate::aged_image::{self, AgedImage, age_image, overwriting_plan, plan_spec};
use clap::Args;
use senesce_aging::{AgingPlan, Clock, CommitShare, Data, ExecuteOptions};
use senesce_core::analysis::{Analysis, Better};
use senesce_core::parameter::{names, real};
use senesce_core::{Bytes, ExitCode, Failure, Level, Measurement, Seed, Size};
use senesce_runner::{Context, Experiment, Needs, Planned, Recorded, Run};
use senesce_volume::FileSystem;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

pub(crate) struct AgingClock;

/// File systems, profiles and shares to age with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Args)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Spec {
    /// file systems
    #[arg(long, value_delimiter = ',')]
    pub fs: Vec<FileSystem>,
    /// aging profiles, names or files
    #[arg(long, value_delimiter = ',')]
    pub profiles: Vec<String>,
    /// size of an image (held in memory)
    #[arg(long)]
    pub size: Size,
    /// allocated bytes of files / volume size
    #[arg(long, value_parser = real(0.05..=0.9))]
    pub fullness: f64,
    /// bytes created / volume size
    #[arg(long, value_parser = real(1.0..=10000.0))]
    pub overwrites: f64,
    /// shares of the free space freed between two commits; none: the file system decides
    #[arg(long, value_delimiter = ',')]
    pub shares: Vec<CommitShare>,
    /// agings of the same plan at each share
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub repeats: u32,
    /// factor by which one more aging is slowed, without a clock and at the smallest share; 0: no such aging
    #[arg(long, value_parser = real(0.0..=1000.0))]
    pub slowed: f64,
}

/// One aging.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Step {
    profile: String,
    fs: FileSystem,
    share: CommitShare,
    repeat: u32,
    /// Executed more slowly than the machine can.
    slowed: bool,
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

impl Run for AgingClock {
    const KIND: &'static str = "aging-clock";
    const PUBLISHED: &'static str = include_str!("../data/published/aging-clock.csv");
    const CLAIMS: &'static str = include_str!("../data/published/aging-clock.claims.toml");
    const GOES_ON: bool = true;
    type Spec = Spec;
    type Event = Event;
    type Step = Step;

    fn needs(spec: &Spec) -> Needs {
        aged_image::needs(Self::KIND, &spec.fs, spec.size)
    }

    fn steps(spec: &Spec, seed: Seed) -> Result<Vec<Planned<Step>>, Failure> {
        aged_image::check_size(&spec.fs, spec.size)?;
        let mut steps = Vec::new();
        for profile in &spec.profiles {
            let operations = plan(spec, profile, Clock::NONE, seed)?.len();
            for repeat in 0..spec.repeats {
                steps.extend(each(spec, |fs, share| planned(profile, fs, share, repeat, None, operations)));
            }
            if spec.slowed > 0.0 {
                let ends = [Some(&CommitShare::NONE), finest(spec)];
                let is_end = |step: &Planned<Step>| ends.contains(&Some(&step.step.share));
                let slow = |fs, share| planned(profile, fs, share, 0, Some(spec.slowed), operations);
                steps.extend(each(spec, slow).filter(is_end));
            }
        }
        Ok(steps)
    }

    fn begin(_spec: &Spec, _context: &mut Context<'_, Self>) -> Result<Self, Failure> {
        Ok(Self)
    }

    fn step(&mut self, spec: &Spec, step: &Step, context: &mut Context<'_, Self>) -> Result<(), Failure> {
        let clock = Clock { commit_share: step.share, sync_every: 0 };
        let plan = Arc::new(plan(spec, &step.profile, clock, context.seed)?);
        let words = format!("age {} by {}, commit share {}", step.fs, step.profile, step.share);
        let pace = if step.slowed { Some(pace(spec, step, context)?) } else { None };
        let execution = ExecuteOptions { pace, ..ExecuteOptions::default() };
        let image = age_image(&plan, step.fs, Data::Fallocate, &execution, &words, context)?;
        context.record(Event::Aged(Box::new(Aged { step: step.clone(), image })));
        Ok(())
    }

    fn analyse(spec: &Spec, recorded: &Recorded<Self>) -> Result<Analysis, Failure> {
        Ok(analysis::analyse(spec, &agings(recorded)))
    }

    fn measurements(_spec: &Spec, recorded: &Recorded<Self>) -> Vec<Measurement> {
        measurements(&agings(recorded))
    }
}

impl Experiment for AgingClock {
    const TITLE: &'static str = "Layout of an aged file system by operations per commit";
    const PAGE: &'static str = include_str!("../docs/experiments/aging-clock.md");

    fn defaults(level: Level) -> Spec {
        let share = |percent: f64| CommitShare::of(percent / 100.0).unwrap_or_default();
        let shares = |percents: &[f64]| {
            let some = percents.iter().map(|percent| share(*percent));
            std::iter::once(CommitShare::NONE).chain(some).collect::<Vec<_>>()
        };
        let all = || vec![FileSystem::Ext4, FileSystem::Xfs, FileSystem::Btrfs];
        Spec {
            fs: level.of([vec![FileSystem::Ext4], all(), all()]),
            profiles: level.of([names(&["agrawal"]), names(&["agrawal"]), names(&["agrawal", "meyer", "wang_lanl"])]),
            size: Size(level.of([Bytes::mib(64), Bytes::gib(1), Bytes::gib(8)])),
            fullness: level.of([0.6, 0.8, 0.8]),
            overwrites: level.of([1.5, 4.0, 20.0]),
            shares: level.of([
                shares(&[5.0]),
                shares(&[100.0, 25.0, 5.0, 1.25]),
                shares(&[100.0, 25.0, 5.0, 1.25, 0.5]),
            ]),
            repeats: level.of([2, 6, 8]),
            slowed: level.of([0.0, 20.0, 20.0]),
        }
    }
}

fn each(spec: &Spec, step: impl Fn(FileSystem, CommitShare) -> Planned<Step>) -> impl Iterator<Item = Planned<Step>> {
    spec.fs
        .iter()
        .flat_map(move |fs| spec.shares.iter().map(|share| (*fs, *share)))
        .map(move |(fs, share)| step(fs, share))
}

fn planned(
    profile: &str,
    fs: FileSystem,
    share: CommitShare,
    repeat: u32,
    slowed: Option<f64>,
    operations: u64,
) -> Planned<Step> {
    let step = Step { profile: profile.into(), fs, share, repeat, slowed: slowed.is_some() };
    let action = match slowed {
        Some(factor) => format!("age {factor} times slower, commit share {share}"),
        None => format!("age, commit share {share}, aging {repeat}"),
    };
    aged_image::planned(step, action, fs, profile, (operations as f64 * slowed.unwrap_or(1.0)) as u64)
}

/// Returns the smallest share, with which the others are compared.
fn finest(spec: &Spec) -> Option<&CommitShare> {
    let shares = spec.shares.iter().filter(|share| share.share().is_some());
    shares.min_by(|a, b| a.share().unwrap_or(1.0).total_cmp(&b.share().unwrap_or(1.0)))
}

fn plan(spec: &Spec, profile: &str, clock: Clock, seed: Seed) -> Result<AgingPlan, Failure> {
    overwriting_plan(plan_spec(profile, spec.size, spec.fullness, seed)?, spec.overwrites, clock)
}

fn pace(spec: &Spec, step: &Step, context: &Context<'_, AgingClock>) -> Result<f64, Failure> {
    let first = Step { repeat: 0, slowed: false, ..step.clone() };
    let known = agings(context.recorded()).into_iter().find(|aged| aged.step == first);
    let known = known.ok_or_else(|| {
        Failure::new(ExitCode::RunFailed, "the aging at full speed is missing: run the same command again")
    })?;
    Ok(known.image.operations as f64 / known.image.seconds.max(1e-3) / spec.slowed)
}

fn agings(recorded: &Recorded<AgingClock>) -> Vec<Aged> {
    recorded.events().map(|Event::Aged(aged)| (**aged).clone()).collect()
}

/// Returns the values of all agings, and the distance of each from the first one of the same plan.
fn measurements(agings: &[Aged]) -> Vec<Measurement> {
    let mut measured = Vec::new();
    for aged in agings {
        let (step, layout) = (&aged.step, &aged.image.layout);
        let under = |one: Measurement| Measurement {
            image: step.repeat,
            ..one
                .under("fs", step.fs.name())
                .under("profile", &*step.profile)
                .under("commit-share", step.share.to_string())
                .under("speed", if step.slowed { "slowed" } else { "full" })
        };
        let mut add = |metric: &str, unit: &str, value: f64| {
            measured.extend(Measurement::new(metric, unit, Better::Neither, value).ok().map(under));
        };
        add("extents per file", "", layout.extents_per_file());
        add("fragmented files", "", layout.fragmented_files as f64);
        add("free extents", "", layout.free_extents as f64);
        add("static layout score", "", layout.static_layout_score);
        if aged.image.commits > 0 {
            add("operations per commit", "", aged.image.operations as f64 / aged.image.commits as f64);
        }
        let first =
            |other: &&Aged| !other.step.slowed && other.step == Step { repeat: 0, slowed: false, ..step.clone() };
        if let Some(first) = agings.iter().find(first).filter(|first| *first != aged) {
            add("free extents that differ between agings of one plan", "%", free_extent_difference(first, aged));
            add(
                "layouts that differ between agings of one plan",
                "%",
                f64::from(first.image.layout != *layout) * 100.0,
            );
        }
    }
    measured
}

fn free_extent_difference(first: &Aged, other: &Aged) -> f64 {
    let (first, other) = (first.image.layout.free_extents as f64, other.image.layout.free_extents as f64);
    (other / first.max(1.0) - 1.0).abs() * 100.0
}
