//! Executes a study: images first, then every run on a restored image.

use crate::adaptive::InterimAnalysis;
use crate::device_state::DeviceState;
use crate::estimate;
use crate::guest;
use crate::images::{ImageFacts, Images};
use crate::made;
use crate::matrix::{self, ImageId, RunId, is_planned, runs, warnings};
use crate::retry::measured_again;
use crate::spec::{CellSpec, FileSystemSpec, StateKind, StudySpec};
use crate::subject::{Subject, SubjectMeasurement};
use crate::trial;
use senesce_aging::Data;
use senesce_core::{Environment, ExitCode, Failure, Measurement, Seed, significant};
use senesce_devmodel::DeviceModel;
use senesce_guest::carry::NotDone;
use senesce_runner::{Context, Run};
use senesce_runs::kernel_log::fail_on;
use senesce_volume::{
    AppliedLimits, ClaimedDevice, Limits, MountedTarget, OpenOptions, TargetSpec, TraceSession, open,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// An image was made.
    Image(ImageFacts),
    /// A run was done.
    Run(RunEvent),
    /// An interim analysis was done.
    Look(InterimAnalysis),
}

/// A completed run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunEvent {
    /// Its identity.
    pub id: RunId,
    /// Its metrics; the first is compared.
    pub metrics: Vec<Measurement>,
    /// Seconds of restoring the image, mounting, and making it cold.
    pub overhead_seconds: f64,
    /// Seconds of everything.
    pub seconds: f64,
    /// Accelerator of the guest that did it, `kvm` or `tcg`; none: no guest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest: Option<String>,
}

pub struct Matrix {
    spec: StudySpec,
    images: Option<Images>,
    ready: ReadyImages,
    refused: BTreeMap<usize, String>,
    /// Estimated seconds of the remaining work, and its start.
    estimated: f64,
    begun: Instant,
    tried: BTreeMap<String, NotDone<RunId>>,
}

impl Matrix {
    /// Makes the images of all remaining runs here. An image that cannot be made fails only its own runs.
    pub fn begin<R: Run<Event = Event, Step = RunId>>(
        spec: StudySpec,
        context: &mut Context<'_, R>,
    ) -> Result<Self, Failure> {
        trial::options(&spec)?;
        for warning in warnings(&spec)?.into_iter().chain(trial::disturbances()) {
            context.progress.say(&format!("warning: {warning}"));
        }
        let refused = refused_devices(&spec, context.erase())?;
        let left = runs(&spec).into_iter().filter(|run| !context.recorded().is_done(run)).collect();
        let (here, _) = guest::split(&spec, left);
        let mut wanted: Vec<ImageId> = here.iter().map(|run| run.on).collect();
        wanted.sort();
        wanted.dedup();
        let (ready, tried, estimated, begun) = (ReadyImages::new(), BTreeMap::new(), 0.0, Instant::now());
        let mut matrix = Self { spec, images: None, ready, refused, estimated, begun, tried };
        if !wanted.is_empty() {
            matrix.provide_all(&wanted, context)?;
        }
        Ok(matrix)
    }

    pub fn step<R: Run<Event = Event, Step = RunId>>(
        &mut self,
        id: RunId,
        context: &mut Context<'_, R>,
    ) -> Result<(), Failure> {
        if let Some(kernel) = self.guest_kernel(id) {
            return self.step_in_guest(id, &kernel, context);
        }
        let failed = |reason: &str| Failure::new(ExitCode::RunFailed, reason);
        if let Some(reason) = self.refused.get(&id.on.fs) {
            return Err(failed(reason));
        }
        let (Some(images), Some(ready)) = (&self.images, self.ready.get(&id.on)) else {
            return Err(failed("its image was not requested"));
        };
        let facts = ready.as_ref().map_err(|reason| failed(reason))?;
        let event = counted(&self.spec, images, facts, id, context)?;
        let first = event
            .metrics
            .first()
            .map_or_else(String::new, |one| format!("{} {}", significant(one.value.get()), one.unit));
        context.progress.say(&format!("{}: {first}", run_text(&self.spec, id)));
        context.record(Event::Run(event));
        Ok(())
    }

    fn guest_kernel(&self, id: RunId) -> Option<String> {
        self.spec.guest_kernel(id.on.fs, id.on.state, &self.spec.workload[id.workload].name)
    }

    fn step_in_guest<R: Run<Event = Event, Step = RunId>>(
        &mut self,
        id: RunId,
        kernel: &str,
        context: &mut Context<'_, R>,
    ) -> Result<(), Failure> {
        if !self.tried.contains_key(kernel) {
            let left = runs(&self.spec).into_iter();
            let left = left.filter(|run| self.guest_kernel(*run).as_deref() == Some(kernel));
            let left: Vec<RunId> = left.filter(|run| !context.recorded().is_done(run)).collect();
            context.progress.phase(&format!("{} runs in the guest", left.len()), 0, "runs");
            let outcome = guest::measure(&self.spec, kernel, &left, context);
            context.check_interrupt()?;
            self.tried.insert(kernel.into(), NotDone::of(outcome));
        }
        match context.is_done_or_pending(&id) {
            true => Ok(()),
            false => Err(Failure::new(ExitCode::RunFailed, self.tried[kernel].reason(&id))),
        }
    }

    pub(crate) fn end<R: Run<Event = Event, Step = RunId>>(self, context: &mut Context<'_, R>) -> Result<(), Failure> {
        // The number of runs of a sequential study is unknown in advance.
        if self.spec.until_decided || self.estimated <= 0.0 || context.interrupt.requested() {
            return Ok(());
        }
        let took = self.begun.elapsed().as_secs_f64();
        let ratio = took / self.estimated;
        context
            .progress
            .say(&format!("estimated {:.0} s, took {took:.0} s ({ratio:.2} times the estimate)", self.estimated));
        let mut facts = Environment::default();
        facts.0.insert(ESTIMATED.into(), self.estimated.into());
        facts.0.insert(TOOK.into(), took.into());
        context.add_environment(&facts)
    }

    fn provide_all<R: Run<Event = Event, Step = RunId>>(
        &mut self,
        wanted: &[ImageId],
        context: &mut Context<'_, R>,
    ) -> Result<(), Failure> {
        let images = Images::open(memory_needed(&self.spec, wanted), context.path())?;
        let mut facts = Environment::default();
        facts.put("study.images_in_memory", images.in_memory.to_string());
        for fs in wanted.iter().map(|id| &self.spec.file_system[id.fs]) {
            if let Ok(version) = fs.kind().map_err(Failure::usage).and_then(|kind| Ok(kind.mkfs_version()?)) {
                facts.put(&format!("mkfs.version.{}", fs.kind), version);
            }
        }
        context.add_environment(&facts)?;
        let mut new = Vec::new();
        for id in wanted {
            if !images.is_stored(&self.spec, *id)? {
                new.push(*id);
            }
        }
        self.estimated = estimate::of(&self.spec, &new, |run| !context.recorded().is_done(run))?;
        for (index, id) in wanted.iter().enumerate() {
            context.check_interrupt()?;
            let left = self.estimated - self.begun.elapsed().as_secs_f64();
            let (fs, state) = (&self.spec.file_system[id.fs].name, &self.spec.state[id.state].name);
            let text = format!("image {} of {fs}, {state}", id.image);
            context.progress.step(index + 1, wanted.len(), &text, left.max(0.0));
            let provided = images.provide(&self.spec, *id, context.progress, context.interrupt);
            if provided.is_err() {
                context.check_interrupt()?;
            }
            if let Ok(facts) = &provided
                && made::is_new(context.recorded().events(), facts)
            {
                context.record_now(Event::Image(facts.clone()))?;
            }
            let provided = provided.map_err(|failure| format!("its image could not be made: {failure}"));
            self.ready.insert(*id, provided);
        }
        self.images = Some(images);
        Ok(())
    }
}

/// Masters, the working copy and its successor; free and unwritten space of an image takes no memory.
pub(crate) fn memory_needed(spec: &StudySpec, wanted: &[ImageId]) -> u64 {
    let used = |id: &ImageId| {
        let state = &spec.state[id.state];
        let source = spec.source(state);
        let is_made_elsewhere = matches!(state.kind, StateKind::Image | StateKind::Command);
        let holds_data = is_made_elsewhere || is_planned(state) && source.data == Data::Write;
        let share = state.space.map(|space| space.0 as f64 / spec.size.0 as f64).or(source.fullness);
        METADATA + if holds_data { share.unwrap_or(0.8) } else { 0.0 }
    };
    let fullest = wanted.iter().map(used).fold(0.0, f64::max);
    let shares = wanted.iter().map(used).sum::<f64>() + 2.0 * (fullest + WORKLOAD).min(1.0);
    (spec.size.0 as f64 * shares) as u64
}

const METADATA: f64 = 0.1;
const WORKLOAD: f64 = 0.2;

type ReadyImages = BTreeMap<ImageId, Result<ImageFacts, String>>;

/// Does a run until no time is lost; its seconds include all attempts.
fn counted<R: Run>(
    spec: &StudySpec,
    images: &Images,
    facts: &ImageFacts,
    id: RunId,
    context: &mut Context<'_, R>,
) -> Result<RunEvent, Failure> {
    let (begun, progress, interrupt) = (Instant::now(), context.progress, context.interrupt);
    let lost = |failure: &Failure| {
        progress.say(&format!("{}: measured again: {failure}", run_text(spec, id)));
        if interrupt.requested() { Err(senesce_runner::interrupted()) } else { Ok(()) }
    };
    let event = measured_again(|| one(spec, images, facts, id, context), lost)?;
    Ok(RunEvent { seconds: begun.elapsed().as_secs_f64(), ..event })
}

fn one<R: Run>(
    spec: &StudySpec,
    images: &Images,
    facts: &ImageFacts,
    id: RunId,
    context: &mut Context<'_, R>,
) -> Result<RunEvent, Failure> {
    let begun = Instant::now();
    images.restore(&facts.key)?;
    let fs = &spec.file_system[id.on.fs];
    if let Some(device) = &fs.device {
        let erase = word_for(spec, device, context.erase());
        senesce_volume::images::copy(&images.working(), device, senesce_volume::images::Extent::Used, erase)?;
    }
    let exception = spec.exception(id.on.fs, id.on.state, &spec.workload[id.workload].name);
    let device_state = exception.device_state.unwrap_or_default();
    device_state.prepare(&images.working(), Seed(spec.seed).child(&format!("study/device/{}", id.repetition)))?;
    let mut target = match &fs.device {
        Some(device) => {
            let target = on_device(fs, device, word_for(spec, device, context.erase()))?;
            fs.run_hook(&target)?;
            target
        }
        None => images.open_restored(fs)?,
    };
    if device_state == DeviceState::Discard {
        target.discard_free_space()?;
    }
    let mut overhead = begun.elapsed().as_secs_f64();
    let subject = Subject::of(&spec.workload_of(id.on.fs, id.on.state, id.workload))?;
    let seed = Seed(spec.seed).child(&format!("study/run/{}/{}", id.repetition, id.twin));
    let mut trace = None;
    let mut limits: Option<AppliedLimits> = None;
    let measured = subject.run(&mut target, seed, context.progress, context.interrupt, |target| {
        let begun = Instant::now();
        target.remount()?;
        fs.run_hook(target)?;
        overhead += begun.elapsed().as_secs_f64();
        limits = apply_limits(&exception)?;
        trace = start_trace(spec, target)?;
        Ok(())
    });
    drop(limits);
    // Also of an attempt that lost time and is repeated.
    fail_on(target.kernel_warnings())?;
    let measured = measured?;
    if let Some(caveat) = measured.caveat {
        context.caveat(format!("{}: {caveat}", matrix::cell_text(spec, &id)));
    }
    let modelled = stop_trace(spec, &target, trace, &subject, &measured)?;
    fail_on(target.kernel_warnings())?;
    target.kernel_log_caveat().into_iter().for_each(|message| context.caveat(message));
    target.close()?;
    let mut metrics = measured.metrics;
    metrics.extend(modelled);
    let metrics = metrics.into_iter().map(|one| under(spec, id, one)).collect();
    let guest = senesce_core::machine::guest_accelerator();
    Ok(RunEvent { id, metrics, overhead_seconds: overhead, seconds: begun.elapsed().as_secs_f64(), guest })
}

/// Names of facts: estimated and actual seconds.
pub(crate) const ESTIMATED: &str = "run.study_estimated_seconds";
pub(crate) const TOOK: &str = "run.study_seconds";

fn word_for<'a>(spec: &StudySpec, device: &Path, erase: Option<&'a str>) -> Option<&'a str> {
    let all: Vec<&Path> = spec.file_system.iter().filter_map(|fs| fs.device.as_deref()).collect();
    senesce_volume::guard::word_for(erase, device, &all)
}

fn on_device(fs: &FileSystemSpec, device: &Path, erase: Option<&str>) -> Result<MountedTarget, Failure> {
    let erase = erase.map(str::to_string);
    let options = OpenOptions { erase, keep_existing: true, ..fs.open_options("").map_err(Failure::usage)? };
    Ok(open(&TargetSpec::Device(device.into()), &options)?)
}

/// Devices that the guard refuses, by file system; the others are measured. Fails with the refusal if nothing is left
/// to measure.
fn refused_devices(spec: &StudySpec, erase: Option<&str>) -> Result<BTreeMap<usize, String>, Failure> {
    let mut refused = BTreeMap::new();
    let mut last = None;
    for (index, fs) in spec.file_system.iter().enumerate() {
        let Some(device) = &fs.device else { continue };
        let erase = word_for(spec, device, erase);
        let claimed = ClaimedDevice::claim(device, erase).map_err(Failure::from).and_then(|claimed| {
            match claimed.size() < spec.size {
                true => Err(Failure::usage(format!("{} is smaller than the study's {}", device.display(), spec.size))),
                false => Ok(()),
            }
        });
        if let Err(failure) = claimed {
            refused.insert(index, failure.to_string());
            last = Some(failure);
        }
    }
    match last {
        Some(failure) if refused.len() == spec.file_system.len() => Err(failure),
        _ => Ok(refused),
    }
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
    measured: &SubjectMeasurement,
) -> Result<Vec<Measurement>, Failure> {
    let Some(session) = session else { return Ok(Vec::new()) };
    target.sync()?;
    let trace = session.stop()?;
    let valid = trace.valid()?;
    if let Some(account) = measured.account {
        account.judge_trace(&trace)?;
    }
    let requests = valid.for_models();
    let mut modelled = Vec::new();
    for name in &spec.models {
        let model = DeviceModel::builtin(name)?;
        modelled.extend(subject.modelled(name, measured, model.seconds(&requests)?)?);
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

fn run_text(spec: &StudySpec, id: RunId) -> String {
    format!(
        "{} / {} / {}, image {}, repetition {}{}",
        spec.file_system[id.on.fs].name,
        spec.state[id.on.state].name,
        spec.workload[id.workload].name,
        id.on.image,
        id.repetition,
        if id.twin { " (again, as a control)" } else { "" }
    )
}
