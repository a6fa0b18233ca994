//! Runs workers on threads of their own, each with its own device handle and, if there are enough, its own processor.

use super::claim::ClaimedDrive;
use crate::error::ZonedError;
use crate::geometry::{Geometry, ZoneInfo};
use crate::job::drive::drive;
use crate::job::worker::Worker;
use crate::job::{ActorResult, CheckedActor, CheckedJob, JobResult, OnLostZone, Pointers, Tally};
use crate::run::RunOptions;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use senesce_core::heartbeat::Heartbeat;
use senesce_core::interrupt::Interrupt;
use senesce_sys::clock::thread_cpu_time;
use std::sync::Barrier;

struct WorkerResult {
    actor: usize,
    tally: Tally,
    cpu_ns: u64,
    interrupted: bool,
    stopped: bool,
    written: Vec<(u32, Option<u64>)>,
}

struct WorkerSpec<'a> {
    actor: usize,
    spec: &'a CheckedActor,
    number: u32,
    queue: u16,
    core: Option<usize>,
}

/// Runs the prepared job and returns how far it left the zones written.
pub(crate) fn run(
    claimed: &ClaimedDrive,
    checked: &CheckedJob,
    options: &RunOptions<'_>,
) -> Result<(JobResult, Pointers), ZonedError> {
    let (geometry, zones) = {
        let mut device = claimed.open(checked.job.rings())?;
        let geometry = device.geometry().clone();
        let zones = device.report(0, geometry.zones)?;
        (geometry, zones)
    };
    let (places, mut warnings) = place_workers(checked);
    warnings.splice(0..0, checked.warnings.clone());
    options.progress.phase("run", 0, "commands");
    let stop = Interrupt::new();
    let barrier = Barrier::new(places.len());
    let shared =
        Shared { claimed, checked, options, geometry: &geometry, zones: &zones, stop: &stop, barrier: &barrier };
    let heartbeat = Heartbeat::begin();
    let outcomes: Vec<Result<WorkerResult, ZonedError>> = std::thread::scope(|scope| {
        let handles: Vec<_> = places.iter().map(|place| scope.spawn(|| work(place, &shared))).collect();
        let lost = || Err(ZonedError::Usage("a worker's thread ended unexpectedly".into()));
        handles.into_iter().map(|handle| handle.join().unwrap_or_else(|_| lost())).collect()
    });
    let lost = heartbeat.end().lost();
    let mut result = JobResult {
        device: geometry.name.clone(),
        actors: checked.actors.iter().map(ActorResult::new).collect(),
        unusable: Vec::new(),
        warnings,
        interrupted: false,
        lost,
        stopped: false,
        simulated_seconds: None,
        commands_per_cpu_second: 0.0,
        cpu_us_per_command: 0.0,
    };
    let (mut commands, mut cpu_ns, mut pointers) = (0, 0, Pointers::of(&zones));
    for outcome in outcomes {
        let done = outcome?;
        pointers.follow(&done.written);
        commands += done.tally.commands;
        cpu_ns += done.cpu_ns;
        result.interrupted |= done.interrupted;
        result.stopped |= done.stopped;
        result.actors[done.actor].tally.add(&done.tally);
    }
    pointers.check(&claimed.zones()?)?;
    result.warn_of_early_end();
    result.warn_of_lost_zones();
    result.warn_of_missing_commands();
    result.warn_of_cut_off_latencies();
    result.cpu_us_per_command = cpu_ns as f64 / 1000.0 / commands.max(1) as f64;
    result.commands_per_cpu_second = commands as f64 * 1e9 / cpu_ns.max(1) as f64;
    Ok((result, pointers))
}

struct Shared<'a> {
    claimed: &'a ClaimedDrive,
    checked: &'a CheckedJob,
    options: &'a RunOptions<'a>,
    geometry: &'a Geometry,
    zones: &'a [ZoneInfo],
    stop: &'a Interrupt,
    barrier: &'a Barrier,
}

fn work(place: &WorkerSpec<'_>, shared: &Shared<'_>) -> Result<WorkerResult, ZonedError> {
    let opened = shared.claimed.open(shared.checked.job.rings());
    if let Some(core) = place.core {
        pin(core);
    }
    let (geometry, seed) = (shared.geometry, shared.options.seed);
    let mut worker = Worker::new(place.spec, place.number, place.queue, 0, geometry, shared.zones, seed);
    if shared.checked.job.on_lost_zone == OnLostZone::Stop {
        worker.stop_on_lost_zone();
    }
    let ready = opened.and_then(|mut device| {
        device.reserve(worker.depth(), place.spec.spec.bs.0.max(128 << 10) as u32)?;
        Ok(device)
    });
    if ready.is_err() {
        shared.stop.request();
    }
    // Failed workers reach the barrier as well, so that no worker waits forever.
    shared.barrier.wait();
    let mut device = ready?;
    let now = device.now_ns();
    worker.begin(now, shared.checked.job.ramp.ns());
    let owners = vec![0; worker.depth() as usize];
    let cpu = thread_cpu_time();
    let mut workers = [worker];
    let interrupted = drive(&mut *device, &mut workers, &owners, &[shared.options.interrupt, shared.stop])?;
    let cpu_ns = (thread_cpu_time() - cpu).as_nanos() as u64;
    let [worker] = workers;
    let (stopped, written) = (worker.stopped, worker.written());
    if stopped {
        shared.stop.request();
    }
    let (_, tally) = worker.finish(device.now_ns());
    Ok(WorkerResult {
        actor: place.actor,
        tally,
        cpu_ns,
        interrupted: interrupted && shared.options.interrupt.requested(),
        stopped,
        written,
    })
}

/// Pins every worker to a processor: the ones it names, otherwise the next free ones.
fn place_workers(checked: &CheckedJob) -> (Vec<WorkerSpec<'_>>, Vec<String>) {
    let allowed: Vec<usize> = match sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect(),
        Err(_) => Vec::new(),
    };
    let named: Vec<usize> = checked.actors.iter().flat_map(|actor| actor.spec.cores.iter().copied()).collect();
    let mut free = allowed.iter().copied().filter(|core| !named.contains(core));
    let (mut places, mut without) = (Vec::new(), 0);
    let mut warnings = Vec::new();
    for (index, actor) in checked.actors.iter().enumerate() {
        for number in 0..actor.jobs {
            let core = actor.spec.cores.get(number as usize).copied().or_else(|| free.next());
            without += u32::from(core.is_none());
            let queue = places.len() as u16;
            places.push(WorkerSpec { actor: index, spec: actor, number, queue, core });
        }
    }
    for core in named.iter().filter(|core| !allowed.contains(core)) {
        warnings.push(format!("processor {core} is not available to this process; its worker is not pinned"));
    }
    if without > 0 {
        warnings.push(format!(
            "{} workers share {} processors: {without} do not have their own, and latencies may include delays by the \
             host's scheduler",
            places.len(),
            allowed.len()
        ));
    }
    (places, warnings)
}

fn pin(core: usize) {
    let mut set = CpuSet::new();
    set.set(core);
    // Unavailable processors were reported before the run.
    let _ = sched_setaffinity(None, &set);
}
