//! Overwrites until a file system reaches its age by each profile (technical report CMU-PDL-16-105, overwrites until
//! convergence).

mod plan_progress;
mod rates;
mod values;

pub(crate) use rates::{ExecutedProfile, Pace};

use clap::Args;
use plan_progress::PlanProgress;
use senesce_aging::profile::AgeRow;
use senesce_aging::{AgingPlan, Churn, PlanSpec, Profile, Truncate};
use senesce_core::Rows;
use senesce_core::analysis::*;
use senesce_core::parameter::{names, real};
use senesce_core::published::{self, PublishedValue};
use senesce_core::{Bytes, Failure, Level, Seed, Size};
use senesce_runner::{Context, Experiment, Needs, Planned, Recorded, Run, Special};
use senesce_sys::clock::thread_cpu_time;
use senesce_volume::FileSystem;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;

pub(crate) struct AgeConvergence;

const PROFILES: [&str; 9] =
    ["agrawal", "meyer", "douceur", "wang_os", "wang_lanl", "dabre", "grundman", "pramod", EVEN_AGES];

/// Profiles to plan and to execute.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Args)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Spec {
    /// profiles to plan
    #[arg(long, value_delimiter = ',', value_parser = PROFILES)]
    pub profiles: Vec<String>,
    /// profiles that are also executed on ext4 in memory (needs root)
    #[arg(long, value_delimiter = ',', value_parser = PROFILES)]
    pub execute: Vec<String>,
    /// rounds of the speed test on each file system, with one and two threads (needs root)
    #[arg(long, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub rates: u32,
    /// size of the volume
    #[arg(long)]
    pub size: Size,
    /// allocated bytes of files / volume size
    #[arg(long, value_parser = real(0.05..=0.95))]
    pub fullness: f64,
}

const THREADS: usize = 2;

const POINTS: u32 = 40;

/// A profile planned to its end.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct PlayedOut {
    profile: String,
    files: u64,
    t_bound: f64,
    t_end: u64,
    overwrites: f64,
    overwrites_churn_by_bins: Option<f64>,
    /// With churn by bins, at the size and fullness at which the released tool was measured.
    overwrites_as_the_tool: Option<f64>,
    truncated_bins: usize,
    /// Number of different operations in two plans with the same seed, out of the first [`COMPARED`].
    operations_that_differ: u64,
    rmse_age: f64,
    rmse_size: f64,
    rmse_depth: f64,
    /// Errors of sizes and of depths at the end of the fill; this and the next are null in records of earlier versions.
    rmse_size_fill: Option<f64>,
    rmse_depth_fill: Option<f64>,
    /// Maximum errors of sizes and of depths after the fill.
    rmse_size_greatest: Option<f64>,
    rmse_depth_greatest: Option<f64>,
    /// Operations after which the ages are first as close as whole files allow; more than the plan has if they never are.
    ages_met: Option<u64>,
    created_size_tv: f64,
    /// Maximum deviation from the target after the fill, as a share of the size, and the allowed deviation.
    fullness_error: f64,
    fullness_allowance: f64,
    fullness_min: f64,
    fullness_max: f64,
    plan_cpu_seconds: f64,
    /// Overwrites and RMSE of the relative ages during the plan.
    course: Vec<(f64, f64)>,
}

/// One result of a step.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Event {
    /// A profile was planned to its end.
    Planned(Box<PlayedOut>),
    /// A profile was executed.
    Executed(ExecutedProfile),
}

/// A unit of work that completes or is repeated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Step {
    /// Plan a profile to its end.
    Plan(String),
    /// Execute a profile on a file system.
    Execute(String),
    /// Execute a short aging on a file system to measure its rate.
    Rate(Pace),
}

fn step_needs(_spec: &Spec, step: &Step) -> Option<(Needs, &'static str)> {
    let without = "measured without executing the plans: loop devices need root";
    matches!(step, Step::Execute(_) | Step::Rate(_))
        .then(|| (Needs::root("plans are executed on loop devices"), without))
}

impl Run for AgeConvergence {
    const KIND: &'static str = "age-convergence";
    const PUBLISHED: &'static str = include_str!("../data/published/age-convergence.csv");
    const CLAIMS: &'static str = include_str!("../data/published/age-convergence.claims.toml");
    const SPECIAL: Special<Self> = Special { step_needs, ..Special::NONE };
    type Spec = Spec;
    type Event = Event;
    type Step = Step;

    fn steps(spec: &Spec, seed: Seed) -> Result<Vec<Planned<Step>>, Failure> {
        let (mut plans, mut plays) = (Vec::new(), Vec::new());
        for name in &spec.profiles {
            let operations = aging_plan(spec, seed, name, Churn::Profile)?.summary().t_end;
            let words = format!("plan {operations} operations");
            plans.push(Planned::new(Step::Plan(name.clone()), words, name).costing(Bytes(0), operations as f64 / 5e6));
            if spec.execute.contains(name) {
                let words = "age an image in memory (blocks are allocated, not written)";
                let step = Planned::new(Step::Execute(name.clone()), words, name);
                plays.push(step.costing(Bytes(0), FileSystem::Ext4.seconds_of_operations(operations)));
            }
        }
        plans.extend(plays);
        plans.extend(rates::steps(spec.rates, seed));
        Ok(plans)
    }

    fn begin(_spec: &Spec, _context: &mut Context<'_, Self>) -> Result<Self, Failure> {
        Ok(Self)
    }

    fn step(&mut self, spec: &Spec, step: &Step, context: &mut Context<'_, Self>) -> Result<(), Failure> {
        match step {
            Step::Plan(name) => {
                let planned = follow(spec, name, context)?;
                values::measurements(&planned).into_iter().for_each(|one| context.measure(one));
                context.record(Event::Planned(Box::new(planned)));
            }
            Step::Execute(name) => {
                let executed = play(spec, name, context)?;
                values::rate(values::RATE_IN_FULL, &executed, &Pace::of_play(THREADS))
                    .into_iter()
                    .for_each(|one| context.measure(one));
                context.record(Event::Executed(executed));
            }
            Step::Rate(pace) => {
                let executed = pace.play(context)?;
                values::rate(values::RATE, &executed, pace).into_iter().for_each(|one| context.measure(one));
            }
        }
        Ok(())
    }

    fn analyse(spec: &Spec, recorded: &Recorded<Self>) -> Result<Analysis, Failure> {
        let published = published::parse(Self::PUBLISHED).map_err(|error| Failure::usage(error.to_string()))?;
        let (mut planned, mut executed) = (Vec::new(), Vec::new());
        for event in recorded.events().cloned() {
            match event {
                Event::Planned(one) => planned.push(*one),
                Event::Executed(one) => executed.push(one),
            }
        }
        let size = &spec.size.to_string();
        Ok(Analysis {
            title: "Overwrites until a file system has its age".into(),
            summary: summary(&planned),
            figures: vec![convergence_figure(&planned, size), overwrites(&planned, &published, size)],
            tables: vec![table(&planned, &executed)],
            findings: Vec::new(),
            caveats: vec![format!(
                "published values use uniform churn over the bins of the size histogram; here churn follows the \
                 profile, and the column 'churn by bins' has the overwrites of uniform churn at {size}"
            )],
            result: json!({"profiles": planned, "executed": executed}),
        })
    }
}

impl Experiment for AgeConvergence {
    const TITLE: &'static str = "Overwrites until convergence of the eight aging profiles";
    const PAGE: &'static str = include_str!("../docs/experiments/age-convergence.md");

    fn defaults(level: Level) -> Spec {
        let all = || names(&PROFILES);
        let all_but = |left_out: &[&str]| {
            PROFILES.into_iter().filter(|name| !left_out.contains(name)).map(str::to_string).collect::<Vec<_>>()
        };
        Spec {
            profiles: level.of([names(&["agrawal", "meyer", EVEN_AGES]), all(), all()]),
            execute: level.of([names(&["meyer"]), all_but(&["douceur", EVEN_AGES]), all_but(&[EVEN_AGES])]),
            rates: level.of([0, 5, 5]),
            size: Size(Bytes(1_000_000_000)),
            fullness: 0.8,
        }
    }
}

fn aging_plan(spec: &Spec, seed: Seed, name: &str, churn: Churn) -> Result<AgingPlan, Failure> {
    plan_of(named(name)?, spec.size.0, spec.fullness, seed, churn)
}

fn plan_of(profile: Profile, capacity: Bytes, fullness: f64, seed: Seed, churn: Churn) -> Result<AgingPlan, Failure> {
    let spec = PlanSpec {
        fullness: Some(fullness),
        churn,
        truncate: Truncate::Drop,
        ..PlanSpec::new(profile, capacity, seed)
    };
    Ok(AgingPlan::new(&spec)?)
}

/// Sizes and depths of Agrawal, with the same number of age bins, all of equal width and share.
const EVEN_AGES: &str = "uniform";

fn named(name: &str) -> Result<Profile, Failure> {
    if name != EVEN_AGES {
        return Ok(Profile::builtin(name)?);
    }
    let like = Profile::builtin("agrawal")?;
    let ages = (1..=like.ages.len()).map(|edge| AgeRow { edge: edge as f64, weight: 1.0 }).collect();
    Ok(Profile { name: EVEN_AGES.into(), ages, ..like })
}

/// The released tool was measured on a volume of this size at this fullness.
const TOOL_SIZE: Bytes = Bytes::gib(1);
const TOOL_FULLNESS: f64 = 0.6;

/// Number of operations of two plans that are compared.
const COMPARED: usize = 5_000_000;

fn operations_that_differ(spec: &Spec, name: &str, seed: Seed) -> Result<u64, Failure> {
    let plan = || Ok::<_, Failure>(Arc::new(aging_plan(spec, seed, name, Churn::Profile)?));
    let (mut first, mut second) = (plan()?.operations().take(COMPARED), plan()?.operations().take(COMPARED));
    let mut differing = 0;
    loop {
        match (first.next(), second.next()) {
            (None, None) => return Ok(differing),
            (ours, theirs) => differing += u64::from(ours != theirs),
        }
    }
}

/// Streams a whole plan and measures it at times that grow by a constant factor.
fn follow(spec: &Spec, name: &str, context: &Context<'_, AgeConvergence>) -> Result<PlayedOut, Failure> {
    let plan = Arc::new(aging_plan(spec, context.seed, name, Churn::Profile)?);
    let overwrites = |plan: Result<AgingPlan, Failure>| plan.ok().map(|plan| plan.summary().overwrites);
    let bins = overwrites(aging_plan(spec, context.seed, name, Churn::Bins));
    let tool = overwrites(plan_of(named(name)?, TOOL_SIZE, TOOL_FULLNESS, context.seed, Churn::Bins));
    let (begin, begin_cpu) = (plan.summary().files.max(1), thread_cpu_time());
    context.progress.phase(&format!("plan {name}"), plan.len(), "operations");
    let mut planner = plan.operations();
    planner.skip_to(begin);
    let filled = planner.measures().rmse;
    let mut way = Vec::new();
    let ratio = (plan.len() as f64 / begin as f64).powf(1.0 / f64::from(POINTS));
    for point in 0..=POINTS {
        context.check_interrupt()?;
        let place = (begin as f64 * ratio.powi(point as i32)).round() as u64;
        planner.skip_to(if point == POINTS { plan.len() } else { place });
        way.push(PlanProgress::of(&planner));
        context.progress.position(planner.operations_done(), "");
    }
    let (measures, summary) = (planner.measures(), plan.summary());
    let fullness = measures.fullness;
    let plan_cpu_seconds = (thread_cpu_time() - begin_cpu).as_secs_f64();
    Ok(PlayedOut {
        profile: name.into(),
        files: summary.files,
        t_bound: summary.t_bound,
        t_end: summary.t_end,
        overwrites: measures.overwrites,
        overwrites_churn_by_bins: bins,
        overwrites_as_the_tool: tool,
        operations_that_differ: operations_that_differ(spec, name, context.seed)?,
        truncated_bins: summary.truncated.len(),
        rmse_age: measures.rmse.age,
        rmse_size: measures.rmse.size,
        rmse_depth: measures.rmse.depth,
        rmse_size_fill: Some(filled.size),
        rmse_depth_fill: Some(filled.depth),
        rmse_size_greatest: Some(plan_progress::maximum_error(&way, |rmse| rmse.size)),
        rmse_depth_greatest: Some(plan_progress::maximum_error(&way, |rmse| rmse.depth)),
        ages_met: Some(plan_progress::operations_until_met(&plan, &way, context)?),
        created_size_tv: measures.created_size_tv,
        fullness_error: (fullness.max - fullness.target).max(fullness.target - fullness.min),
        fullness_allowance: values::allowance(&plan),
        fullness_min: fullness.min,
        fullness_max: fullness.max,
        plan_cpu_seconds,
        course: way.iter().map(|point| (point.overwrites, point.rmse.age)).collect(),
    })
}

fn play(spec: &Spec, name: &str, context: &Context<'_, AgeConvergence>) -> Result<ExecutedProfile, Failure> {
    let plan = Arc::new(aging_plan(spec, context.seed, name, Churn::Profile)?);
    Pace::of_play(THREADS).play_plan(&plan, name, context)
}

fn summary(planned: &[PlayedOut]) -> String {
    let worst = planned.iter().map(|one| one.rmse_age.max(one.rmse_size).max(one.rmse_depth) * one.files as f64);
    format!(
        "{} profiles were planned to the minimum number of operations that gives every file its age. The largest \
         error of a histogram is {:.2} files.",
        planned.len(),
        worst.fold(0.0, f64::max)
    )
}

fn figure(id: &str, title: &str, caption: &str, size: &str, better: Better, kind: FigureKind) -> Figure {
    let device = format!("plan for a volume of {size}; no device is involved");
    Figure { id: id.into(), title: title.into(), caption: caption.into(), device, better, kind }
}

fn convergence_figure(planned: &[PlayedOut], size: &str) -> Figure {
    let series = planned.iter().map(|one| {
        Series::new(&one.profile, Mark::Measured, one.course.iter().map(|(x, y)| (*x, y * 100.0)).collect())
    });
    let kind = FigureKind::Lines {
        x: Axis::linear("Overwrites (bytes created over the size of the volume)").log10(),
        y: Axis::linear("Error of the relative ages, RMSE (%)").log10(),
        series: series.collect(),
    };
    let caption = "Distance of the ages from the profile over the plan. Each line ends at its minimum number of \
        operations.";
    figure("course", "Ages converge to the profile", caption, size, Better::Lower, kind)
}

fn overwrites(planned: &[PlayedOut], published: &[PublishedValue], size: &str) -> Figure {
    let names: Vec<String> = planned.iter().map(|one| one.profile.clone()).collect();
    let series = |name: &str, mark, value: &dyn Fn(&PlayedOut) -> Option<f64>| {
        let points = planned.iter().enumerate().filter_map(|(place, one)| Some((place as f64, value(one)?)));
        Series::new(name, mark, points.collect())
    };
    let kind = FigureKind::Bars {
        x: Axis::categories("Profile", names),
        y: Axis::linear("Overwrites until convergence").log10(),
        series: vec![
            series("churn by profile", Mark::Measured, &|one| Some(one.overwrites)),
            series("churn by bins", Mark::Measured, &|one| one.overwrites_churn_by_bins),
            series("published", Mark::Published, &|one| value(published, "overwrites", &one.profile)),
        ],
    };
    let caption = "Bytes created until the ages match the profile, over the size of the volume; the axis is \
        logarithmic.";
    figure("overwrites", "Cost of convergence", caption, size, Better::Lower, kind)
}

fn value(published: &[PublishedValue], metric: &str, condition: &str) -> Option<f64> {
    published.iter().find(|one| one.metric == metric && one.condition == condition).map(|one| one.value)
}

fn table(planned: &[PlayedOut], executed: &[ExecutedProfile]) -> Table {
    let played = |one: &PlayedOut| executed.iter().find(|played| played.profile == one.profile);
    Rows::of(planned)
        .column("profile", |one| &one.profile)
        .column("files (K)", |one| one.files)
        .column("T bound", |one| one.t_bound)
        .column("T", |one| one.t_end)
        .column("overwrites", |one| one.overwrites)
        .column("churn by bins", |one| one.overwrites_churn_by_bins)
        .column("RMSE age (%)", |one| one.rmse_age * 100.0)
        .column("RMSE size (%)", |one| one.rmse_size * 100.0)
        .column("RMSE depth (%)", |one| one.rmse_depth * 100.0)
        .column("maximum RMSE size (%)", |one| one.rmse_size_greatest.map(|error| error * 100.0))
        .column("maximum RMSE depth (%)", |one| one.rmse_depth_greatest.map(|error| error * 100.0))
        .column("0.5/K (%)", |one| 50.0 / one.files as f64)
        .column("fullness from", |one| one.fullness_min)
        .column("to", |one| one.fullness_max)
        .column("bins dropped", |one| one.truncated_bins)
        .column("planning (M operations/CPU-s)", |one| one.t_end as f64 / one.plan_cpu_seconds / 1e6)
        .column("played in (s)", |one| played(one).map(|played| played.seconds))
        .column("played (operations/s)", |one| played(one).map(|played| played.operations as f64 / played.seconds))
        .table("profiles", "Profiles")
}
