//! Compares compressed agings with full ones: how far an aging can be compressed with a layout that is proven equal.

mod analysis;
pub(crate) mod certificate;

use crate::aged_image::{self, AgedImage, age_image, plan_spec};
use clap::Args;
use senesce_aging::{AgingPlan, Compression, Data, ExecuteOptions, Limit, PlanSpec};
use senesce_core::analysis::{Analysis, Better};
use senesce_core::parameter::{names, real};
use senesce_core::{Bytes, Failure, Level, Measurement, Seed, Size};
use senesce_runner::{Context, Experiment, Needs, Planned, Recorded, Run};
use senesce_volume::FileSystem;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

pub(crate) struct CompressedAging;

/// File systems, profiles and compressions to age with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Args)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Spec {
    /// file systems
    #[arg(long, value_delimiter = ',')]
    pub fs: Vec<FileSystem>,
    /// aging profiles, names or files
    #[arg(long, value_delimiter = ',')]
    pub profiles: Vec<String>,
    /// ceilings to try: maximum turnovers of the live files in each age bin
    #[arg(long, value_delimiter = ',', value_parser = real(0.01..=1000.0))]
    pub turnovers: Vec<f64>,
    /// size of an image (held in memory)
    #[arg(long)]
    pub size: Size,
    /// allocated bytes of files / volume size
    #[arg(long, value_parser = real(0.05..=0.9))]
    pub fullness: f64,
    /// agings of each kind, with different seeds
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub agings: u32,
    /// worker threads of every aging
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub threads: u32,
    /// overwrites of the reference if the full plan takes more; half of them must then give an equal layout
    #[arg(long, value_parser = real(1.0..=100_000.0))]
    pub reference: f64,
}

/// Length of an aging.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum AgingKind {
    /// In full: to its end, or to the overwrites of the reference.
    Full,
    /// Half of the overwrites of a reference that is not executed to its end.
    Half,
    /// Compressed to this maximum of turnovers.
    Compressed(f64),
}

/// One aging.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Step {
    profile: String,
    fs: FileSystem,
    kind: AgingKind,
    aging: u32,
}

/// One result of a step.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Event {
    /// An aging and its layout.
    Aged(Box<Aged>),
}

/// An aging, the operations that it represents, and its layout.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Aged {
    step: Step,
    /// Operations that it represents.
    virtual_t: u64,
    /// Operations after which the ages match the profile.
    t_bound: f64,
    image: AgedImage,
}

impl Run for CompressedAging {
    const KIND: &'static str = "compressed-aging";
    const PUBLISHED: &'static str = include_str!("../data/published/compressed-aging.csv");
    const CLAIMS: &'static str = include_str!("../data/published/compressed-aging.claims.toml");
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
            let kinds = kinds(spec, profile, seed)?;
            for aging in 0..spec.agings {
                for fs in &spec.fs {
                    for (kind, operations) in &kinds {
                        let step = Step { profile: profile.clone(), fs: *fs, kind: *kind, aging };
                        let action = format!("age {}, aging {aging}", kind.words());
                        steps.push(aged_image::planned(step, action, *fs, profile, *operations));
                    }
                }
            }
        }
        Ok(steps)
    }

    fn begin(_spec: &Spec, _context: &mut Context<'_, Self>) -> Result<Self, Failure> {
        Ok(Self)
    }

    fn step(&mut self, spec: &Spec, step: &Step, context: &mut Context<'_, Self>) -> Result<(), Failure> {
        let seed = context.seed.child(&format!("compressed-aging/{}/{}", step.kind.words(), step.aging));
        let plan = Arc::new(plan(spec, &step.profile, step.kind, seed)?);
        let words = format!("age {} by {}, {}, aging {}", step.fs, step.profile, step.kind.words(), step.aging);
        let execution = ExecuteOptions { threads: spec.threads as usize, ..ExecuteOptions::default() };
        let image = age_image(&plan, step.fs, Data::Fallocate, &execution, &words, context)?;
        let (virtual_t, t_bound) = (plan.summary().virtual_t, plan.summary().t_bound);
        context.record(Event::Aged(Box::new(Aged { step: step.clone(), virtual_t, t_bound, image })));
        Ok(())
    }

    fn analyse(spec: &Spec, recorded: &Recorded<Self>) -> Result<Analysis, Failure> {
        Ok(analysis::analyse(spec, &agings(recorded)))
    }

    fn measurements(spec: &Spec, recorded: &Recorded<Self>) -> Vec<Measurement> {
        let cells = analysis::cells(spec, &agings(recorded));
        let value = |cell: &certificate::Cell| {
            let one = Measurement::new("saved factor", "times", Better::Higher, cell.saved_factor).ok()?;
            let equal = cell.equivalent.map(|equal| if equal { "yes" } else { "no" })?;
            let one = one.under("fs", &*cell.file_system).under("profile", &*cell.profile);
            Some(one.under("turnovers", cell.turnovers.to_string()).under("equal", equal))
        };
        let greatest = analysis::largest_factors(spec, &cells);
        cells.iter().filter_map(value).chain(greatest).collect()
    }
}

impl Experiment for CompressedAging {
    const TITLE: &'static str = "Compressed agings compared with full ones";
    const PAGE: &'static str = include_str!("../docs/experiments/compressed-aging.md");

    fn defaults(level: Level) -> Spec {
        let all = || vec![FileSystem::Ext4, FileSystem::Xfs, FileSystem::Btrfs];
        Spec {
            fs: level.of([vec![FileSystem::Ext4], all(), all()]),
            profiles: level.of([
                names(&["agrawal"]),
                names(&["agrawal", "wang_lanl"]),
                names(&["agrawal", "wang_lanl", "wang_os", "meyer", "grundman", "douceur"]),
            ]),
            turnovers: level.of([vec![1.0], vec![2.0, 4.0, 8.0], vec![1.0, 2.0, 4.0, 8.0]]),
            size: Size(level.of([Bytes::mib(24), Bytes::mib(512), Bytes::gib(8)])),
            fullness: level.of([0.6, 0.8, 0.8]),
            agings: level.of([2, 8, 8]),
            threads: 1,
            reference: 100.0,
        }
    }
}

impl AgingKind {
    fn words(self) -> String {
        match self {
            Self::Full => "in full".into(),
            Self::Half => "half of the reference".into(),
            Self::Compressed(turnovers) => format!("at most {turnovers} turnovers a class"),
        }
    }
}

fn kinds(spec: &Spec, profile: &str, seed: Seed) -> Result<Vec<(AgingKind, u64)>, Failure> {
    let mut kinds = vec![(AgingKind::Full, plan(spec, profile, AgingKind::Full, seed)?.len())];
    if !ends_at_the_bound(spec, profile, seed)? {
        kinds.push((AgingKind::Half, kinds[0].1 / 2));
    }
    for turnovers in &spec.turnovers {
        let kind = AgingKind::Compressed(*turnovers);
        let plan = plan(spec, profile, kind, seed)?;
        if plan.summary().t_end < plan.summary().virtual_t {
            kinds.push((kind, plan.len()));
        }
    }
    Ok(kinds)
}

fn ends_at_the_bound(spec: &Spec, profile: &str, seed: Seed) -> Result<bool, Failure> {
    Ok(plan_to(spec, profile, Limit::Bound, None, seed)?.summary().overwrites <= spec.reference)
}

fn plan(spec: &Spec, profile: &str, kind: AgingKind, seed: Seed) -> Result<AgingPlan, Failure> {
    match kind {
        AgingKind::Compressed(turnovers) => plan_to(spec, profile, Limit::Bound, Some(Compression { turnovers }), seed),
        AgingKind::Half => plan_to(spec, profile, Limit::Overwrites(spec.reference / 2.0), None, seed),
        AgingKind::Full if ends_at_the_bound(spec, profile, seed)? => plan_to(spec, profile, Limit::Bound, None, seed),
        AgingKind::Full => plan_to(spec, profile, Limit::Overwrites(spec.reference), None, seed),
    }
}

fn plan_to(
    spec: &Spec,
    profile: &str,
    limit: Limit,
    compression: Option<Compression>,
    seed: Seed,
) -> Result<AgingPlan, Failure> {
    let base = plan_spec(profile, spec.size, spec.fullness, seed)?;
    Ok(AgingPlan::new(&PlanSpec { limit, compression, ..base })?)
}

fn agings(recorded: &Recorded<CompressedAging>) -> Vec<Aged> {
    recorded.events().map(|Event::Aged(aged)| (**aged).clone()).collect()
}
