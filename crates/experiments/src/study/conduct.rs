//! Does what a study asks for: images first, then every run on a restored image.

use super::device_state::DeviceState;
use super::images::{ImageFacts, Images, fail_on};
use super::lab;
use super::matrix::{ImageId, RunId, is_planned, runs};
use super::spec::{CellSpec, StateKind, StudySpec};
use super::subject::{Measured, Subject};
use senesce_aging::Data;
use senesce_core::measurement::EVENT;
use senesce_core::{Environment, Event, Failure, Measurement, RunContext, Seed};
use senesce_devmodel::DeviceModel;
use senesce_target::{AppliedLimits, Limits, MountedTarget, TraceSession};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// A run that was done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunEvent {
    /// Which one.
    pub id: RunId,
    /// Its metrics; the first is judged.
    pub metrics: Vec<Measurement>,
    /// Seconds of restoring the image, mounting, and making it cold.
    pub overhead_seconds: f64,
    /// Seconds of everything.
    pub seconds: f64,
}

/// A run or an image that failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FailureEvent {
    /// The run.
    pub id: RunId,
    /// Why.
    pub reason: String,
}

/// Does what is not done yet.
pub fn run(spec: &StudySpec, context: &mut RunContext<'_>) -> Result<(), Failure> {
    let done = done_in(context.directory.earlier_events());
    let left: Vec<RunId> = runs(spec).into_iter().filter(|run| !done.contains(run)).collect();
    let (here, in_lab) = lab::split(spec, left);
    run_here(spec, &here, context)?;
    for (kernel, wanted) in &in_lab {
        context.check_interrupt()?;
        lab::run_group(spec, kernel, wanted, context)?;
    }
    Ok(())
}

fn run_here(spec: &StudySpec, left: &[RunId], context: &mut RunContext<'_>) -> Result<(), Failure> {
    if left.is_empty() {
        return Ok(());
    }
    let mut wanted: Vec<ImageId> = left.iter().map(|run| run.on).collect();
    wanted.sort();
    wanted.dedup();
    let images = Images::open(memory_needed(spec, &wanted), context.directory.path())?;
    let mut facts = Environment::default();
    facts.put("study.images_in_memory", images.in_memory.to_string());
    context.directory.add_environment(&facts)?;
    let ready = provide_all(spec, &images, &wanted, context)?;
    for (number, id) in left.iter().enumerate() {
        context.check_interrupt()?;
        context.progress.phase(&format!("{} of {}: {}", number + 1, left.len(), words(spec, *id)), 0, "operations");
        let outcome = match &ready[&id.on] {
            Ok(facts) => one(spec, &images, facts, *id, context),
            Err(reason) => Err(Failure::usage(reason.clone())),
        };
        match outcome {
            Ok(event) => record(spec, &event, context)?,
            Err(failure) if context.interrupt.requested() => return Err(failure),
            Err(failure) => {
                context.progress.say(&format!("{} failed: {failure}", words(spec, *id)));
                context.directory.append("failed-run", &FailureEvent { id: *id, reason: failure.to_string() })?;
            }
        }
    }
    Ok(())
}

/// The runs that these events settle.
pub(super) fn done_in(events: &[Event]) -> BTreeSet<RunId> {
    events
        .iter()
        .filter(|event| event.kind == "run" || event.kind == "failed-run")
        .filter_map(|event| serde_json::from_value(event.data.get("id")?.clone()).ok())
        .collect()
}

/// Masters, the working copy and its successor; what is free in an image, or allocated but never written, takes no room.
pub(super) fn memory_needed(spec: &StudySpec, wanted: &[ImageId]) -> u64 {
    let used = |id: &ImageId| {
        let state = &spec.state[id.state];
        let source = spec.source(state);
        let holds_data = state.kind == StateKind::Image || is_planned(state) && source.data == Data::Write;
        METADATA + if holds_data { source.fullness.unwrap_or(0.8) } else { 0.0 }
    };
    let fullest = wanted.iter().map(used).fold(0.0, f64::max);
    let shares = wanted.iter().map(used).sum::<f64>() + 2.0 * (fullest + WORKLOAD).min(1.0);
    (spec.size.0 as f64 * shares) as u64
}

/// Share of an image that metadata and a journal take, and share that a workload writes, at most.
const METADATA: f64 = 0.1;
const WORKLOAD: f64 = 0.2;

type Ready = BTreeMap<ImageId, Result<ImageFacts, String>>;

/// All images, before the first run. An image that cannot be made costs its own runs only.
fn provide_all(
    spec: &StudySpec,
    images: &Images,
    wanted: &[ImageId],
    context: &mut RunContext<'_>,
) -> Result<Ready, Failure> {
    let mut ready = Ready::new();
    let known: BTreeSet<ImageId> = context
        .directory
        .earlier_events()
        .iter()
        .filter(|event| event.kind == "image")
        .filter_map(|event| serde_json::from_value(event.data.get("id")?.clone()).ok())
        .collect();
    for id in wanted {
        context.check_interrupt()?;
        let provided = images.provide(spec, *id, context.progress, context.interrupt);
        if provided.is_err() && context.interrupt.requested() {
            context.check_interrupt()?;
        }
        if let (Ok(facts), false) = (&provided, known.contains(id)) {
            context.directory.append("image", facts)?;
        }
        ready.insert(*id, provided.map_err(|failure| format!("its image could not be made: {failure}")));
    }
    Ok(ready)
}

fn one(
    spec: &StudySpec,
    images: &Images,
    facts: &ImageFacts,
    id: RunId,
    context: &RunContext<'_>,
) -> Result<RunEvent, Failure> {
    let begun = Instant::now();
    images.restore(&facts.key)?;
    let fs = &spec.file_system[id.on.fs];
    let exception = spec.exception(id.on.fs, id.on.state, &spec.workload[id.workload].name);
    let device_state = exception.device_state.unwrap_or_default();
    device_state.prepare(&images.working(), Seed(spec.seed).child(&format!("study/device/{}", id.repetition)))?;
    let mut target = images.open_restored(fs)?;
    if device_state == DeviceState::Discard {
        target.discard_free_space()?;
    }
    let mut overhead = begun.elapsed().as_secs_f64();
    let subject = Subject::of(&spec.workload[id.workload])?;
    let seed = Seed(spec.seed).child(&format!("study/run/{}/{}", id.repetition, id.twin));
    let mut trace = None;
    let mut limits: Option<AppliedLimits> = None;
    let measured = subject.run(&mut target, seed, context.progress, context.interrupt, |target| {
        let begun = Instant::now();
        target.remount()?;
        overhead += begun.elapsed().as_secs_f64();
        limits = apply_limits(&exception)?;
        trace = start_trace(spec, target)?;
        Ok(())
    });
    drop(limits);
    let measured = measured?;
    let modelled = stop_trace(spec, &target, trace, &subject, &measured)?;
    fail_on(target.kernel_warnings())?;
    target.close()?;
    let mut metrics = measured.metrics;
    metrics.extend(modelled);
    let metrics = metrics.into_iter().map(|one| under(spec, id, one)).collect();
    Ok(RunEvent { id, metrics, overhead_seconds: overhead, seconds: begun.elapsed().as_secs_f64() })
}

fn apply_limits(exception: &CellSpec) -> Result<Option<AppliedLimits>, Failure> {
    let limits = Limits { memory: exception.memory, cpus: exception.cpus };
    Ok(if limits == Limits::default() { None } else { Some(limits.apply()?) })
}

fn start_trace(spec: &StudySpec, target: &MountedTarget) -> Result<Option<TraceSession>, Failure> {
    match target.block_device_info() {
        Some(device) if !spec.models.is_empty() => Ok(Some(TraceSession::start(&device)?)),
        _ => Ok(None),
    }
}

/// Ends the trace after everything is written back, and times it on every model.
fn stop_trace(
    spec: &StudySpec,
    target: &MountedTarget,
    session: Option<TraceSession>,
    subject: &Subject,
    measured: &Measured,
) -> Result<Vec<Measurement>, Failure> {
    let Some(session) = session else { return Ok(Vec::new()) };
    target.sync()?;
    let trace = session.stop()?;
    if trace.lost_events() > 0 {
        return Err(Failure::new(
            senesce_core::ExitCode::RunFailed,
            format!("{} events of the block trace were lost, so it cannot be modelled", trace.lost_events()),
        ));
    }
    let requests = super::modelled::requests(&trace);
    let mut modelled = Vec::new();
    for name in &spec.models {
        let model = DeviceModel::builtin(name)?;
        modelled.extend(subject.modelled(name, measured, model.seconds(&requests)));
    }
    Ok(modelled)
}

fn under(spec: &StudySpec, id: RunId, one: Measurement) -> Measurement {
    let one = one
        .under("fs", &spec.file_system[id.on.fs].name)
        .under("state", &spec.state[id.on.state].name)
        .under("workload", &spec.workload[id.workload].name);
    Measurement { image: id.on.image, repetition: id.repetition, ..one }
}

/// A twin is no measurement of its own: it tells the noise.
fn record(spec: &StudySpec, event: &RunEvent, context: &mut RunContext<'_>) -> Result<(), Failure> {
    let words = words(spec, event.id);
    let first = event.metrics.first().map_or_else(String::new, |one| format!("{:.4} {}", one.value, one.unit));
    context.progress.say(&format!("{words}: {first}"));
    if !event.id.twin {
        for one in &event.metrics {
            context.directory.append(EVENT, one)?;
        }
    }
    Ok(context.directory.append("run", event)?)
}

fn words(spec: &StudySpec, id: RunId) -> String {
    format!(
        "{} / {} / {}, image {}, repetition {}{}",
        spec.file_system[id.on.fs].name,
        spec.state[id.on.state].name,
        spec.workload[id.workload].name,
        id.on.image,
        id.repetition,
        if id.twin { " (again, for the noise)" } else { "" }
    )
}
