//! Runs a job on a drive that the user names: `sim:MODEL`, `null`, `auto` or a device path.

use crate::device::{Clock, ZonedDevice};
use crate::error::ZonedError;
use crate::geometry::{Geometry, ZoneInfo};
use crate::job::drive::drive;
use crate::job::prepare::prepare;
use crate::job::worker::Worker;
use crate::job::{ActorResult, CheckedJob, Job, JobResult, Pointers, PrepareStep, check};
use crate::null::NullDevice;
use crate::sim::model::Model;
use crate::sim::{SimDevice, SimOptions};
use senesce_core::heartbeat::Heartbeat;
use senesce_core::interrupt::Interrupt;
use senesce_core::{Progress, Seed};
use senesce_sys::clock::thread_cpu_time;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceName {
    Sim(String),
    Null,
    Path(PathBuf),
}

impl FromStr for DeviceName {
    type Err = ZonedError;

    fn from_str(text: &str) -> Result<Self, ZonedError> {
        match text.strip_prefix("sim:") {
            Some(model) => Ok(Self::Sim(model.into())),
            None if text == "null" => Ok(Self::Null),
            None if text == "auto" => crate::hardware::only_zoned_drive().map(Self::Path),
            None if text.starts_with('/') || text.starts_with('.') => Ok(Self::Path(text.into())),
            None => Err(ZonedError::Usage(format!(
                "'{text}' is not a device: use sim:MODEL, null, auto, or a path such as /dev/ng0n1 or /dev/nvme0n1"
            ))),
        }
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sim(model) => write!(formatter, "sim:{model}"),
            Self::Null => formatter.write_str("null"),
            Self::Path(path) => write!(formatter, "{}", path.display()),
        }
    }
}

pub struct RunOptions<'a> {
    pub seed: Seed,
    pub progress: &'a dyn Progress,
    pub interrupt: &'a Interrupt,
}

pub fn open_sim(model: &Model, job: &Job, seed: Seed) -> Result<SimDevice, ZonedError> {
    without_kernel(job)?;
    let mut device = SimDevice::new(model, SimOptions { block_bytes: job.lbaf, path: job.path }, seed)?;
    let wears = |steps: &Vec<crate::job::Preparation>| steps.iter().any(|step| step.step == PrepareStep::Wear);
    if job.prepare.as_ref().is_some_and(wears) {
        device.wear();
    }
    Ok(device)
}

fn open_null(job: &Job) -> Result<NullDevice, ZonedError> {
    without_kernel(job)?;
    if !job.faults.is_empty() {
        return Err(ZonedError::Usage("faults require a simulated drive: use sim:MODEL".into()));
    }
    NullDevice::new(job.lbaf)
}

pub fn check_on<D: ZonedDevice + ?Sized>(device: &mut D, job: &Job) -> Result<CheckedJob, ZonedError> {
    let geometry = device.geometry().clone();
    let zones = device.report(0, geometry.zones)?;
    let checked = check(job, &geometry, &zones)?;
    crate::job::resources::check(&checked, &geometry, &zones, device.presets())?;
    Ok(checked)
}

/// Refuses kernel options on drives without a kernel interface.
fn without_kernel(job: &Job) -> Result<(), ZonedError> {
    if job.rings() == crate::hardware::RingOptions::default() {
        return Ok(());
    }
    Err(ZonedError::Job {
        place: "job".into(),
        problem: "submission and polling require a real drive".into(),
        remedy: "omit them on sim: and null".into(),
    })
}

pub fn run_sim(model: &Model, job: &Job, options: &RunOptions<'_>) -> Result<JobResult, ZonedError> {
    let mut device = open_sim(model, job, options.seed)?;
    let checked = check_on(&mut device, job)?;
    let unusable = prepare(&mut device, &checked, options.progress, options.interrupt)?;
    let now = device.now_ns();
    for fault in &job.faults {
        device.fail_zone(fault.zone, fault.state, now + fault.at.ns());
    }
    let completed_before = device.completed();
    let mut result = run_prepared(&mut device, &checked, options)?;
    let commands = device.completed() - completed_before;
    mark_outside(&mut result.result, model, &checked, device.geometry().block_bytes);
    result.result.unusable = unusable;
    result.result.simulated_seconds = Some((device.now_ns() - now) as f64 / 1e9);
    Ok(result.with_cost(commands))
}

fn mark_outside(result: &mut JobResult, model: &Model, checked: &CheckedJob, block_bytes: u32) {
    let reasons = crate::sim::domain::outside(model, checked, block_bytes);
    for (actor, outside) in result.actors.iter_mut().zip(reasons) {
        let words =
            [(" is", &outside.all), (": its rate is", &outside.rates), (": its latencies are", &outside.latencies)];
        for (part, why) in words.into_iter().filter_map(|(part, why)| Some((part, why.as_ref()?))) {
            let words = format!("actor {}{part} outside the domain of model {}: {why}", actor.name, model.name);
            result.warnings.push(words);
        }
        actor.outside_model = outside.all;
        (actor.rates_outside_model, actor.latencies_outside_model) = (outside.rates, outside.latencies);
    }
}

pub fn run_null(job: &Job, options: &RunOptions<'_>) -> Result<JobResult, ZonedError> {
    let mut device = open_null(job)?;
    let checked = check_on(&mut device, job)?;
    let unusable = prepare(&mut device, &checked, options.progress, options.interrupt)?;
    let mut result = run_prepared(&mut device, &checked, options)?;
    let commands = result.result.actors.iter().map(|actor| actor.tally.commands).sum();
    result.result.unusable = unusable;
    Ok(result.with_cost(commands))
}

/// Runs a job on the named drive. `erase` repeats the identity of a real drive whose data may be lost.
pub fn run_job(
    name: &DeviceName,
    job: &Job,
    erase: Option<&str>,
    options: &RunOptions<'_>,
) -> Result<JobResult, ZonedError> {
    match name {
        DeviceName::Sim(model) => run_sim(&Model::load(model)?, job, options),
        DeviceName::Null => run_null(job, options),
        DeviceName::Path(path) => crate::hardware::run(path, job, erase, options),
    }
}

/// Plans a job without opening the drive for writing.
pub fn plan_job(name: &DeviceName, job: &Job) -> Result<(CheckedJob, Geometry), ZonedError> {
    let mut device: Box<dyn ZonedDevice> = match name {
        DeviceName::Sim(model) => Box::new(open_sim(&Model::load(model)?, job, Seed(0))?),
        DeviceName::Null => Box::new(open_null(job)?),
        DeviceName::Path(path) => crate::hardware::open_for_reading(path, job.path)?,
    };
    let checked = check_on(&mut *device, job)?;
    Ok((checked, device.geometry().clone()))
}

pub fn open(
    name: &DeviceName,
    block_bytes: Option<u32>,
    erase: Option<&str>,
    seed: Seed,
) -> Result<Box<dyn ZonedDevice>, ZonedError> {
    Ok(match name {
        DeviceName::Sim(model) => {
            let options = SimOptions { block_bytes, ..SimOptions::default() };
            Box::new(SimDevice::new(&Model::load(model)?, options, seed)?)
        }
        DeviceName::Null => Box::new(NullDevice::new(block_bytes)?),
        DeviceName::Path(path) => crate::hardware::open_claimed(path, erase)?,
    })
}

pub struct CostedResult {
    result: JobResult,
    cpu_ns: u64,
}

impl CostedResult {
    fn with_cost(mut self, commands: u64) -> JobResult {
        let commands = commands.max(1) as f64;
        self.result.commands_per_cpu_second = commands * 1e9 / self.cpu_ns.max(1) as f64;
        self.result.cpu_us_per_command = self.cpu_ns as f64 / commands / 1000.0;
        self.result
    }
}

/// Runs all actors on one device handle in this thread.
pub fn run_prepared<D: ZonedDevice + ?Sized>(
    device: &mut D,
    checked: &CheckedJob,
    options: &RunOptions<'_>,
) -> Result<CostedResult, ZonedError> {
    let geometry = device.geometry().clone();
    let zones = device.report(0, geometry.zones)?;
    let (mut workers, owner_of_tag) = workers_of(checked, &geometry, &zones, options.seed);
    let largest = checked.actors.iter().map(|actor| actor.spec.bs.0).max().unwrap_or(0);
    device.reserve(owner_of_tag.len() as u32, largest as u32)?;
    let heartbeat = (device.clock() == Clock::Real).then(Heartbeat::begin);
    let now = device.now_ns();
    workers.iter_mut().for_each(|worker| worker.begin(now, checked.job.ramp.ns()));
    options.progress.phase("run", 0, "commands");
    let cpu = thread_cpu_time();
    let interrupted = drive(device, &mut workers, &owner_of_tag, &[options.interrupt])?;
    let lost = heartbeat.and_then(|heartbeat| heartbeat.end().lost());
    let cpu_ns = (thread_cpu_time() - cpu).as_nanos() as u64;
    let mut pointers = Pointers::of(&zones);
    workers.iter().for_each(|worker| pointers.follow(&worker.written()));
    pointers.check(&device.report(0, geometry.zones)?)?;
    let mut result = JobResult {
        device: geometry.name.clone(),
        actors: checked.actors.iter().map(ActorResult::new).collect(),
        unusable: Vec::new(),
        warnings: checked.warnings.clone(),
        interrupted,
        lost,
        stopped: workers.iter().any(|worker| worker.stopped),
        simulated_seconds: None,
        commands_per_cpu_second: 0.0,
        cpu_us_per_command: 0.0,
    };
    if device.clock() == Clock::Real && workers.len() > 1 {
        result.warnings.push("all workers ran on one thread".into());
    }
    gather(&mut result, checked, workers, device.now_ns());
    result.warn_of_early_end();
    result.warn_of_lost_zones();
    result.warn_of_missing_commands();
    result.warn_of_cut_off_latencies();
    Ok(CostedResult { result, cpu_ns })
}

pub(crate) fn workers_of(
    checked: &CheckedJob,
    geometry: &Geometry,
    zones: &[ZoneInfo],
    seed: Seed,
) -> (Vec<Worker>, Vec<u16>) {
    let (mut workers, mut owner_of_tag) = (Vec::new(), Vec::new());
    for actor in &checked.actors {
        for number in 0..actor.jobs {
            let index = workers.len() as u16;
            let mut worker = Worker::new(actor, number, index, owner_of_tag.len() as u32, geometry, zones, seed);
            if checked.job.on_lost_zone == crate::job::OnLostZone::Stop {
                worker.stop_on_lost_zone();
            }
            owner_of_tag.resize(owner_of_tag.len() + worker.depth() as usize, index);
            workers.push(worker);
        }
    }
    (workers, owner_of_tag)
}

fn gather(result: &mut JobResult, checked: &CheckedJob, workers: Vec<Worker>, now_ns: u64) {
    let owners: Vec<usize> =
        checked.actors.iter().enumerate().flat_map(|(index, actor)| vec![index; actor.jobs as usize]).collect();
    for worker in workers {
        let (queue, tally) = worker.finish(now_ns);
        result.actors[owners[queue]].tally.add(&tally);
    }
}
