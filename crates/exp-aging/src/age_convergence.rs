//! How long each profile must be played until the file system has its age (technical report CMU-PDL-16-105, overwrites
//! until convergence).

mod values;

use clap::Args;
use senesce_aging::{
    AgingPlan, Churn, Data, DirectoryBackEnd, ExecuteOptions, PlanSpec, Profile, Stop, Truncate, execute,
};
use senesce_core::analysis::*;
use senesce_core::parameter::real;
use senesce_core::published::{self, PublishedValue};
use senesce_core::{Bytes, Failure, Level, Seed, Size};
use senesce_runs::run::{Context, Experiment, Needs, Planned, Recorded, Run};
use senesce_sys::clock::thread_cpu_time;
use senesce_volume::{FileSystem, OpenOptions, TargetSpec, open};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The experiment.
pub struct AgeConvergence;

const PROFILES: [&str; 8] = ["agrawal", "meyer", "douceur", "wang_os", "wang_lanl", "dabre", "grundman", "pramod"];

/// What is planned and played.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Args)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Spec {
    /// profiles that are planned
    #[arg(long, value_delimiter = ',', value_parser = PROFILES)]
    pub profiles: Vec<String>,
    /// profiles that are also played on ext4 in memory (needs root)
    #[arg(long, value_delimiter = ',', value_parser = PROFILES)]
    pub execute: Vec<String>,
    /// size of the volume
    #[arg(long)]
    pub size: Size,
    /// allocated bytes of files over the size
    #[arg(long, value_parser = real(0.05..=0.95))]
    pub fullness: f64,
}

/// Threads that play a plan.
const THREADS: usize = 2;

/// Points of a convergence curve.
const POINTS: u32 = 40;

/// A profile, planned to its end.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PlayedOut {
    profile: String,
    files: u64,
    t_bound: f64,
    t_end: u64,
    overwrites: f64,
    overwrites_churn_by_bins: Option<f64>,
    truncated_bins: usize,
    rmse_age: f64,
    rmse_size: f64,
    rmse_depth: f64,
    /// Errors of sizes and depths at the end of the fill, the larger.
    rmse_fill: f64,
    created_size_tv: f64,
    /// Farthest from the target since the fill, as a share of the size, and how far it may be.
    fullness_error: f64,
    fullness_allowance: f64,
    fullness_min: f64,
    fullness_max: f64,
    plan_cpu_seconds: f64,
    /// Overwrites and RMSE of the relative ages on the way.
    course: Vec<(f64, f64)>,
}

/// A profile, played on a file system.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Executed {
    profile: String,
    operations: u64,
    seconds: f64,
}

/// What happened.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "kind", content = "data", rename_all = "kebab-case")]
pub enum Event {
    /// A profile was planned to its end.
    Planned(PlayedOut),
    /// A profile was played.
    Executed(Executed),
}

/// What is done whole or not at all.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// A profile is planned to its end.
    Plan(String),
    /// A profile is played on a file system.
    Execute(String),
}

impl Run for AgeConvergence {
    const KIND: &'static str = "age-convergence";
    const PUBLISHED: &'static str = include_str!("../../../data/published/age-convergence.csv");
    const CLAIMS: &'static str = include_str!("../../../data/published/age-convergence.claims.toml");
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
                plays.push(step.costing(Bytes(0), operations as f64 * 30e-6));
            }
        }
        plans.extend(plays);
        Ok(plans)
    }

    fn step_needs(_spec: &Spec, step: &Step) -> Option<(Needs, &'static str)> {
        let without = "measured without playing the plans: loop devices need root";
        matches!(step, Step::Execute(_)).then(|| (Needs::root("plans are played on loop devices"), without))
    }

    fn begin(_spec: &Spec, _context: &mut Context<'_, Self>) -> Result<Self, Failure> {
        Ok(Self)
    }

    fn step(&mut self, spec: &Spec, step: &Step, context: &mut Context<'_, Self>) -> Result<(), Failure> {
        match step {
            Step::Plan(name) => {
                let planned = follow(spec, name, context)?;
                values::measurements(&planned).into_iter().for_each(|one| context.measure(one));
                context.record(Event::Planned(planned));
            }
            Step::Execute(name) => {
                let executed = play(spec, name, context)?;
                values::rate(&executed, THREADS).into_iter().for_each(|one| context.measure(one));
                context.record(Event::Executed(executed));
            }
        }
        Ok(())
    }

    fn analyse(spec: &Spec, recorded: &Recorded<Self>) -> Result<Analysis, Failure> {
        let published = published::parse(Self::PUBLISHED).map_err(|error| Failure::usage(error.to_string()))?;
        let (mut planned, mut executed) = (Vec::new(), Vec::new());
        for event in recorded.events().cloned() {
            match event {
                Event::Planned(one) => planned.push(one),
                Event::Executed(one) => executed.push(one),
            }
        }
        let size = &spec.size.to_string();
        Ok(Analysis {
            title: "Overwrites until a file system has its age".into(),
            summary: summary(&planned),
            figures: vec![course(&planned, size), overwrites(&planned, &published, size)],
            tables: vec![table(&planned, &executed)],
            findings: Vec::new(),
            caveats: vec![format!(
                "published values count churn that is uniform over the bins of the size histogram; here churn follows the \
                 profile, and the column 'churn by bins' shows what the other way would take at {size}"
            )],
            result: json!({"profiles": planned, "executed": executed}),
        })
    }
}

impl Experiment for AgeConvergence {
    const TITLE: &'static str = "Overwrites until convergence of the eight aging profiles";
    const PAGE: &'static str = include_str!("../../../docs/experiments/age-convergence.md");

    fn defaults(level: Level) -> Spec {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_string()).collect();
        let all = || names(&PROFILES);
        let all_but_douceur = PROFILES.into_iter().filter(|name| *name != "douceur").map(str::to_string).collect();
        Spec {
            profiles: level.of([names(&["agrawal", "meyer"]), all(), all()]),
            execute: level.of([names(&["meyer"]), all_but_douceur, all()]),
            size: Size(Bytes(1_000_000_000)),
            fullness: 0.8,
        }
    }
}

fn aging_plan(spec: &Spec, seed: Seed, name: &str, churn: Churn) -> Result<AgingPlan, Failure> {
    let spec = PlanSpec {
        fullness: Some(spec.fullness),
        churn,
        truncate: Truncate::Drop,
        ..PlanSpec::new(Profile::builtin(name)?, spec.size.0, seed)
    };
    Ok(AgingPlan::new(&spec)?)
}

/// Streams a whole plan and measures on the way, at moments that grow by equal factors.
fn follow(spec: &Spec, name: &str, context: &Context<'_, AgeConvergence>) -> Result<PlayedOut, Failure> {
    let plan = Arc::new(aging_plan(spec, context.seed, name, Churn::Profile)?);
    let bins = aging_plan(spec, context.seed, name, Churn::Bins).ok().map(|plan| plan.summary().overwrites);
    let (begin, begin_cpu) = (plan.summary().files.max(1), thread_cpu_time());
    context.progress.phase(&format!("plan {name}"), plan.len(), "operations");
    let mut planner = plan.operations();
    planner.skip_to(begin);
    let filled = planner.measures().rmse;
    let mut course = Vec::new();
    let ratio = (plan.len() as f64 / begin as f64).powf(1.0 / f64::from(POINTS));
    for point in 0..=POINTS {
        context.check_interrupt()?;
        planner.skip_to((begin as f64 * ratio.powi(point as i32)).round() as u64);
        course.push((planner.overwrites(), planner.measures().rmse.age));
        context.progress.position(planner.operations_done(), "");
    }
    planner.skip_to(plan.len());
    let (measures, summary) = (planner.measures(), plan.summary());
    let fullness = measures.fullness;
    Ok(PlayedOut {
        profile: name.into(),
        files: summary.files,
        t_bound: summary.t_bound,
        t_end: summary.t_end,
        overwrites: measures.overwrites,
        overwrites_churn_by_bins: bins,
        truncated_bins: summary.truncated.len(),
        rmse_age: measures.rmse.age,
        rmse_size: measures.rmse.size,
        rmse_depth: measures.rmse.depth,
        rmse_fill: filled.size.max(filled.depth),
        created_size_tv: measures.created_size_tv,
        fullness_error: (fullness.max - fullness.target).max(fullness.target - fullness.min),
        fullness_allowance: values::allowance(&plan),
        fullness_min: fullness.min,
        fullness_max: fullness.max,
        plan_cpu_seconds: (thread_cpu_time() - begin_cpu).as_secs_f64(),
        course,
    })
}

fn play(spec: &Spec, name: &str, context: &Context<'_, AgeConvergence>) -> Result<Executed, Failure> {
    let plan = Arc::new(aging_plan(spec, context.seed, name, Churn::Profile)?);
    // Metadata and the journal need room beside the declared size.
    let size = senesce_core::Bytes(spec.size.bytes().div_ceil(1 << 20) * (1152 << 10));
    let target = open(&TargetSpec::Memory { size }, &OpenOptions::fresh(FileSystem::Ext4))?;
    let back_end = DirectoryBackEnd::new(plan.clone(), target.directory(), Data::Fallocate);
    context.progress.phase(&format!("age by {name}"), plan.len(), "operations");
    let options = ExecuteOptions { threads: THREADS, ..ExecuteOptions::default() };
    let outcome = execute(&mut plan.operations(), &back_end, &options, context.interrupt, &mut |planner, done| {
        context.progress.position(done, &format!("{:.1} overwrites", planner.overwrites()));
        ControlFlow::Continue(())
    });
    if outcome.result? != Stop::Finished {
        context.check_interrupt()?;
    }
    target.close()?;
    Ok(Executed { profile: name.into(), operations: outcome.completed, seconds: outcome.seconds })
}

fn summary(planned: &[PlayedOut]) -> String {
    let worst = planned.iter().map(|one| one.rmse_age.max(one.rmse_size).max(one.rmse_depth) * one.files as f64);
    format!(
        "{} profiles were played to the least number of operations that gives every file its age. The largest error of a \
         histogram is {:.2} files.",
        planned.len(),
        worst.fold(0.0, f64::max)
    )
}

fn figure(id: &str, title: &str, caption: &str, size: &str, better: Better, kind: FigureKind) -> Figure {
    let device = format!("plan for a volume of {size}; no device is involved");
    Figure { id: id.into(), title: title.into(), caption: caption.into(), device, better, kind }
}

fn course(planned: &[PlayedOut], size: &str) -> Figure {
    let series = planned.iter().map(|one| {
        Series::new(&one.profile, Mark::Measured, one.course.iter().map(|(x, y)| (*x, y * 100.0)).collect())
    });
    let kind = FigureKind::Lines {
        x: Axis::linear("Overwrites (bytes created over the size of the volume)").log10(),
        y: Axis::linear("Error of the relative ages, RMSE (%)").log10(),
        series: series.collect(),
    };
    let caption = "Distance of the ages from the profile while the plan is played. Each line ends at its least number of operations.";
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
    let caption = "Bytes created until the ages are right, over the size of the volume; the axis is logarithmic.";
    figure("overwrites", "What convergence costs", caption, size, Better::Lower, kind)
}

fn value(published: &[PublishedValue], metric: &str, condition: &str) -> Option<f64> {
    published.iter().find(|one| one.metric == metric && one.condition == condition).map(|one| one.value)
}

fn table(planned: &[PlayedOut], executed: &[Executed]) -> Table {
    let columns = [
        "profile",
        "files (K)",
        "T bound",
        "T",
        "overwrites",
        "churn by bins",
        "RMSE age (%)",
        "RMSE size (%)",
        "RMSE depth (%)",
        "0.5/K (%)",
        "fullness from",
        "to",
        "bins dropped",
        "planning (M operations/CPU-s)",
        "played in (s)",
        "played (operations/s)",
    ];
    let mut table = Table::new("profiles", "Profiles", &columns);
    for one in planned {
        let played = executed.iter().find(|played| played.profile == one.profile);
        table.row(vec![
            json!(one.profile),
            json!(one.files),
            json!(one.t_bound),
            json!(one.t_end),
            json!(one.overwrites),
            json!(one.overwrites_churn_by_bins),
            json!(one.rmse_age * 100.0),
            json!(one.rmse_size * 100.0),
            json!(one.rmse_depth * 100.0),
            json!(50.0 / one.files as f64),
            json!(one.fullness_min),
            json!(one.fullness_max),
            json!(one.truncated_bins),
            json!(one.t_end as f64 / one.plan_cpu_seconds / 1e6),
            json!(played.map(|played| played.seconds)),
            json!(played.map(|played| played.operations as f64 / played.seconds)),
        ]);
    }
    table
}
