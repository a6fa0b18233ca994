//! `senesce zns`: one job on one drive, recorded.

use senesce_core::analysis::Table;
use senesce_core::interrupt::Interrupt;
use senesce_core::{
    Analysis, Axis, Better, Environment, Failure, Figure, FigureKind, Mark, Plan, Progress, Record, RunDirectory,
    RunKind, Seed, Series,
};
use senesce_zoned::Operation;
use senesce_zoned::job::{Job, JobResult};
use senesce_zoned::run::{DeviceName, RunOptions, plan_job, run_job};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// Runs of `senesce zns`.
pub struct Zns;

/// What the user asked for.
pub struct Request<'a> {
    /// The drive.
    pub device: DeviceName,
    /// The job.
    pub job: Job,
    /// The identity of a real drive whose data may be lost.
    pub erase: Option<String>,
    /// Root seed.
    pub seed: Seed,
    /// Whom to tell.
    pub progress: &'a dyn Progress,
    /// Whether to stop.
    pub interrupt: &'a Interrupt,
}

impl Request<'_> {
    /// Checks the job against the drive and says what would be done.
    pub fn plan(&self) -> Result<Plan, Failure> {
        let (checked, geometry) = plan_job(&self.device, &self.job)?;
        let text = toml::to_string(&self.job).map_err(|error| Failure::usage(format!("job: {error}")))?;
        let settings = BTreeMap::from([("device".to_string(), self.device.to_string()), ("job".to_string(), text)]);
        let mut plan = Plan::new("zns", self.seed, settings);
        for step in &checked.steps {
            let zones = format!("zones {}..{}", step.zones.start, step.zones.end);
            plan.step(format!("{} {zones}", step.step.name()), geometry.name.clone());
        }
        for actor in &checked.actors {
            let spec = &actor.spec;
            let words = format!(
                "{}: {} of {} at depth {}, {} workers, zones {}..{}",
                spec.name,
                spec.op.name(),
                spec.bs,
                spec.qd,
                actor.jobs,
                actor.zones.start,
                actor.zones.end
            );
            plan.step(words, geometry.name.clone());
            plan.bytes_to_write += bytes_written(actor, &geometry);
        }
        plan.bytes_to_write += checked.preparation_bytes(&geometry);
        plan.estimated_seconds = match self.device {
            DeviceName::Path(_) | DeviceName::Null => longest(&self.job),
            DeviceName::Sim(_) => 0.0,
        };
        Ok(plan)
    }

    /// Runs the job; the record goes to `directory`.
    pub fn run(&self, directory: &Path) -> Result<JobResult, Failure> {
        let plan = self.plan()?;
        let mut directory = RunDirectory::open(directory, &plan, &Environment::capture())?;
        let options = RunOptions { seed: self.seed, progress: self.progress, interrupt: self.interrupt };
        let outcome = run_job(&self.device, &self.job, self.erase.as_deref(), &options);
        let result = match outcome {
            Ok(result) => result,
            Err(error) => {
                directory.append("failed", &json!({"reason": error.to_string()}))?;
                return Err(error.into());
            }
        };
        record(&mut directory, &result)?;
        if !result.interrupted {
            directory.finish(&result.to_json())?;
        }
        Ok(result)
    }
}

/// At most: what a rate allows in the time, else nothing is known.
fn bytes_written(actor: &senesce_zoned::job::CheckedActor, geometry: &senesce_zoned::Geometry) -> u64 {
    let spec = &actor.spec;
    if spec.op.reads() {
        return 0;
    }
    let by_count = spec.count.map(|count| count * spec.bs.0 * u64::from(actor.jobs));
    let by_rate = spec.rate.zip(spec.time).map(|(rate, time)| (rate.0.0 as f64 * time.0.as_secs_f64()) as u64);
    let zones = u64::from(actor.zones.end - actor.zones.start);
    by_count.or(by_rate.map(|bytes| bytes * u64::from(actor.jobs))).unwrap_or(zones * geometry.capacity_bytes())
}

fn longest(job: &Job) -> f64 {
    let spans = job.actors.iter().map(|actor| actor.start.0 + actor.time.unwrap_or_default().0);
    spans.map(|span| span.as_secs_f64()).fold(0.0, f64::max) + job.ramp.0.as_secs_f64()
}

fn record(directory: &mut RunDirectory, result: &JobResult) -> Result<(), Failure> {
    for actor in &result.actors {
        directory.append("actor", &actor.to_json())?;
        for operation in Operation::ALL {
            if let Some(latency) = actor.tally.latency(operation) {
                let name = format!("{}-{}", file_word(&actor.name), operation.name());
                directory.write_histogram(&name, &latency.histogram)?;
            }
        }
        if let Some(latency) = &actor.tally.from_intended {
            let name = format!("{}-from-intended-start", file_word(&actor.name));
            directory.write_histogram(&name, &latency.histogram)?;
        }
    }
    directory.append("result", &result.to_json())?;
    Ok(())
}

fn file_word(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

/// Tables and figures of actors in the form of the JSON result.
pub fn analysis_of(result: Value) -> Analysis {
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

impl RunKind for Zns {
    fn kind(&self) -> &'static str {
        "zns"
    }

    fn analyse(&self, record: &Record) -> Result<Analysis, Failure> {
        let result = record.events_of::<Value>("result").last();
        Ok(analysis_of(result.unwrap_or_else(|| {
            let actors: Vec<Value> = record.events_of("actor").collect();
            json!({"device": record.plan.settings.get("device"), "actors": actors})
        })))
    }
}
