//! `senesce zoned measure`: one job on one drive, recorded.

pub(crate) mod cost;
mod measurements;
#[cfg(test)]
mod tests;

use crate::zns::drives::{self, Used, used};
use senesce_core::analysis::Table;
use senesce_core::{
    Analysis, Axis, Better, ExitCode, Failure, Figure, FigureKind, Mark, Measurement, Plan, Seed, Series,
};
use senesce_runner::{Context, Planned, Recorded, Run, Special, interrupted, new_plan};
use senesce_zoned::Operation;
use senesce_zoned::job::{Job, JobResult};
use senesce_zoned::run::{DeviceName, RunOptions, plan_job, run_job};
use senesce_zoned::survey::Survey;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub struct ZnsJob;

/// The job and its drive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// The drive: `sim:MODEL`, `null`, a device, or `auto`.
    pub device: String,
    pub job: Job,
}

/// A result of the job, as JSON of `senesce zoned measure --json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// One actor.
    Actor(Value),
    /// The whole job.
    Result(Value),
}

impl Run for ZnsJob {
    const KIND: &'static str = "zoned-measure";
    type Spec = Spec;
    type Event = Event;
    type Step = ();

    const SPECIAL: Special<Self> = Special { not_measured: &["sim_seconds"], ..Special::NONE };

    fn steps(spec: &Spec, _seed: Seed) -> Result<Vec<Planned<()>>, Failure> {
        let name: DeviceName = spec.device.parse()?;
        let (checked, geometry) = plan_job(&name, &spec.job)?;
        let (bytes, seconds) = cost::of_job(&checked, &geometry);
        let seconds = if matches!(name, DeviceName::Sim(_)) { 0.0 } else { seconds };
        Ok(vec![Planned::new((), "run the job", geometry.name).costing(bytes, seconds)])
    }

    fn plan(spec: &Spec, seed: Seed) -> Result<Plan, Failure> {
        let (checked, geometry) = plan_job(&spec.device.parse()?, &spec.job)?;
        let mut plan = new_plan::<Self>(spec, seed)?;
        for step in &checked.steps {
            let zones = format!("zones {}..{}", step.zones.start, step.zones.end);
            plan.step(format!("{} {zones}", step.step.name()), geometry.name.clone());
        }
        for actor in &checked.actors {
            let spec = &actor.spec;
            let workers = if actor.jobs == 1 { "one worker".into() } else { format!("{} workers", actor.jobs) };
            let words = format!(
                "{}: {} of {} at depth {}, {workers}, zones {}..{}",
                spec.name,
                spec.op.name(),
                spec.bs,
                spec.qd,
                actor.zones.start,
                actor.zones.end
            );
            plan.step(words, geometry.name.clone());
        }
        for planned in Self::steps(spec, seed)? {
            (plan.bytes_to_write, plan.estimated_seconds) = (planned.bytes_to_write.0, planned.seconds);
        }
        Ok(plan)
    }

    fn begin(spec: &Spec, context: &mut Context<'_, Self>) -> Result<Self, Failure> {
        let drive = Survey::of(&spec.device.parse()?)?;
        context.add_environment(&drives::facts(std::iter::once(&drive)))?;
        Ok(Self)
    }

    fn step(&mut self, spec: &Spec, _step: &(), context: &mut Context<'_, Self>) -> Result<(), Failure> {
        let options = RunOptions { seed: context.seed, progress: context.progress, interrupt: context.interrupt };
        let erase = context.erase().map(str::to_string);
        let result = run_job(&spec.device.parse()?, &spec.job, erase.as_deref(), &options)?;
        result.warnings.iter().for_each(|warning| context.progress.say(&format!("warning: {warning}")));
        result.lost.map_or(Ok(()), Err)?;
        record(&result, context)?;
        if result.interrupted { Err(interrupted()) } else { Ok(()) }
    }

    /// Returns a failure if the drive refused all commands, because nothing was measured.
    fn exit_code(spec: &Spec, recorded: &Recorded<Self>) -> ExitCode {
        let is_refused = |actor: &Value| actor["commands"] == 0 && actor["errors"] != 0;
        match result_of(spec, recorded)["actors"].as_array().is_some_and(|actors| actors.iter().any(is_refused)) {
            true => ExitCode::RunFailed,
            false => ExitCode::Done,
        }
    }

    fn analyse(spec: &Spec, recorded: &Recorded<Self>) -> Result<Analysis, Failure> {
        Ok(analysis_of(result_of(spec, recorded)))
    }

    fn measurements(spec: &Spec, recorded: &Recorded<Self>) -> Vec<Measurement> {
        let actors = result_of(spec, recorded)["actors"].take();
        measurements::of(actors.as_array().map_or(&[], Vec::as_slice), &drive_of(spec, recorded))
    }
}

/// Returns the result of the last part of a run. An interrupted part yields the actors that it recorded.
fn result_of(spec: &Spec, recorded: &Recorded<ZnsJob>) -> Value {
    let mut actors = Vec::new();
    for event in recorded.events().rev() {
        match event {
            Event::Result(result) if actors.is_empty() => return result.clone(),
            Event::Result(_) => break,
            Event::Actor(actor) => actors.insert(0, actor.clone()),
        }
    }
    json!({"device": spec.device, "actors": actors})
}

/// Returns the drive in the record. Older records have only its name, which implies the kind of drive.
fn drive_of(spec: &Spec, recorded: &Recorded<ZnsJob>) -> Used {
    let by_name = || {
        let nature = match spec.device.as_str() {
            "null" => "emulated",
            name if name.starts_with("sim:") => "simulated",
            _ => "real",
        };
        Used { name: spec.device.clone(), nature: nature.into(), called: String::new() }
    };
    used(&recorded.environment).into_iter().next().unwrap_or_else(by_name)
}

fn record(result: &JobResult, context: &mut Context<'_, ZnsJob>) -> Result<(), Failure> {
    for actor in &result.actors {
        context.record_now(Event::Actor(actor.to_json()))?;
        for operation in Operation::ALL {
            if let Some(latency) = actor.tally.latency(operation) {
                let name = format!("{}-{}", file_word(&actor.name), operation.name());
                context.write_histogram(&name, &latency.histogram)?;
            }
        }
        if let Some(latency) = &actor.tally.from_intended {
            let name = format!("{}-from-intended-start", file_word(&actor.name));
            context.write_histogram(&name, &latency.histogram)?;
        }
    }
    context.record_now(Event::Result(result.to_json()))
}

fn file_word(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

fn analysis_of(result: Value) -> Analysis {
    let device = result["device"].as_str().unwrap_or_default().to_string();
    let actors = result["actors"].as_array().cloned().unwrap_or_default();
    let words =
        |value: &Value| value.as_array().into_iter().flatten().filter_map(|v| v.as_str().map(str::to_string)).collect();
    let mut caveats: Vec<String> = words(&result["warnings"]);
    let simulated = device.starts_with("sim:");
    if simulated {
        caveats.insert(0, format!("modelled, not measured: {device}"));
    }
    Analysis {
        title: format!("Zone job on {device}"),
        summary: "Latencies run from submission to completion.".into(),
        tables: vec![actor_table(&actors)],
        figures: bandwidth_figure(&actors, &device, simulated).into_iter().collect(),
        caveats,
        result,
        ..Analysis::default()
    }
}

fn actor_table(actors: &[Value]) -> Table {
    let columns = [
        "actor",
        "op",
        "request (B)",
        "depth",
        "zones",
        "1/s",
        "MiB/s",
        "mean (us)",
        "p50 (us)",
        "p95 (us)",
        "p99 (us)",
        "max (us)",
        "commands",
        "errors",
    ];
    let mut table = Table::new("actors", "Actors", &columns);
    for actor in actors {
        let get = |name: &str| actor[name].clone();
        let latency = |name: &str| actor["lat_us"][name].clone();
        table.row(vec![
            get("name"),
            get("op"),
            get("bs"),
            get("qd"),
            get("zones"),
            get("iops"),
            get("bw_mib"),
            latency("mean"),
            latency("p50"),
            latency("p95"),
            latency("p99"),
            latency("max"),
            get("commands"),
            get("errors"),
        ]);
    }
    table
}

fn bandwidth_figure(actors: &[Value], device: &str, simulated: bool) -> Option<Figure> {
    let mark = if simulated { Mark::Modelled } else { Mark::Measured };
    let series: Vec<Series> = actors
        .iter()
        .filter_map(|actor| {
            let values = actor["bw_mib_by_second"].as_array()?;
            let points =
                values.iter().enumerate().filter_map(|(second, value)| Some((second as f64 + 0.5, value.as_f64()?)));
            (values.len() > 1).then(|| Series::new(actor["name"].as_str().unwrap_or_default(), mark, points.collect()))
        })
        .collect();
    (!series.is_empty()).then(|| Figure {
        id: "bandwidth".into(),
        title: "Bandwidth over time".into(),
        caption: "Each point is one second of one actor.".into(),
        device: device.into(),
        better: Better::Higher,
        kind: FigureKind::Lines {
            x: Axis::linear("time (s)").from_zero(),
            y: Axis::linear("bandwidth (MiB/s)").from_zero(),
            series,
        },
    })
}
