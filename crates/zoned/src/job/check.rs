//! Checks a job against a drive before the first command, and fills in defaults.

use super::bounds;
use super::spec::{Activity, ActorSpec, Job, Preparation, PrepareStep};
use super::values::Zones;
use crate::error::ZonedError;
use crate::geometry::{Geometry, ZoneInfo, ZoneState};
use crate::hardware::Submission;
use crate::sim::HostPath;
use std::ops::Range;

/// Maximum commands in flight of one worker.
pub(crate) const MAX_DEPTH: u32 = 4096;
pub(crate) const MAX_WORKERS: u32 = 512;

#[derive(Debug, Clone)]
pub struct CheckedActor {
    pub spec: ActorSpec,
    pub zones: Range<u32>,
    pub jobs: u32,
    pub blocks: u32,
    /// Blocks a zone is filled to before a reset or finish.
    pub occupancy_blocks: Option<u64>,
}

impl CheckedActor {
    pub(crate) fn share(&self, number: u32) -> Range<u32> {
        let (count, jobs) = (u64::from(self.zones.end - self.zones.start), u64::from(self.jobs));
        let border = |number: u64| self.zones.start + (count * number / jobs) as u32;
        border(u64::from(number))..border(u64::from(number) + 1)
    }
}

#[derive(Debug, Clone)]
pub struct CheckedStep {
    pub step: PrepareStep,
    pub zones: Range<u32>,
    /// Number of blocks to fill a zone up to.
    pub blocks: u64,
}

#[derive(Debug, Clone)]
pub struct CheckedJob {
    pub job: Job,
    pub steps: Vec<CheckedStep>,
    pub actors: Vec<CheckedActor>,
    pub warnings: Vec<String>,
}

impl CheckedJob {
    /// Returns the bytes that preparation writes if every step must use commands.
    pub fn preparation_bytes(&self, geometry: &Geometry) -> u64 {
        let filled = self.steps.iter().filter(|step| step.step == PrepareStep::Fill);
        filled.map(|step| u64::from(step.zones.len() as u32) * step.blocks * u64::from(geometry.block_bytes)).sum()
    }

    pub(crate) fn workers(&self) -> u32 {
        self.actors.iter().map(|actor| actor.jobs).sum()
    }
}

pub(super) fn wrong(place: &str, problem: impl Into<String>, remedy: impl Into<String>) -> ZonedError {
    ZonedError::Job { place: place.into(), problem: problem.into(), remedy: remedy.into() }
}

pub fn check(job: &Job, geometry: &Geometry, zones: &[ZoneInfo]) -> Result<CheckedJob, ZonedError> {
    if job.actors.is_empty() {
        return Err(wrong("job", "it has no actor", "add an [[actor]] with an op, or give --op"));
    }
    if let Some(bytes) = job.lbaf.filter(|bytes| *bytes != geometry.block_bytes) {
        let known: Vec<String> = geometry.formats.iter().map(|format| format!("{} B", format.block_bytes)).collect();
        return Err(wrong(
            "lbaf",
            format!("the drive is formatted with blocks of {} B, not {bytes} B", geometry.block_bytes),
            format!("it has the formats {}; change the format first or omit lbaf", known.join(", ")),
        ));
    }
    check_rings(job)?;
    let mut next_zone = 0;
    let mut actors = Vec::new();
    for (index, spec) in job.actors.iter().enumerate() {
        let actor = check_actor(index, spec, job, geometry, next_zone)?;
        next_zone = next_zone.max(actor.zones.end);
        actors.push(actor);
    }
    distinct_names(&mut actors);
    check_overlap(&actors)?;
    check_limits(&actors, geometry)?;
    if actors.iter().map(|actor| actor.jobs).sum::<u32>() > MAX_WORKERS {
        return Err(wrong("job", format!("it has more than {MAX_WORKERS} workers"), "reduce jobs"));
    }
    let steps = match &job.prepare {
        Some(steps) => steps.iter().map(|step| check_step(step, geometry)).collect::<Result<_, _>>()?,
        None => default_steps(&actors, geometry),
    };
    for fault in &job.faults {
        if fault.at.0 > bounds::LONGEST {
            return Err(wrong("fault", "'at' is longer than 366 days", "choose a shorter time"));
        }
        if fault.zone >= geometry.zones || !matches!(fault.state, ZoneState::ReadOnly | ZoneState::Offline) {
            return Err(wrong(
                "fault",
                "it needs a zone of the drive and the state read-only or offline",
                "correct it",
            ));
        }
    }
    let checked = CheckedJob { job: job.clone(), steps, warnings: warnings(job, &actors), actors };
    check_states(&checked, geometry, zones)?;
    Ok(checked)
}

/// Refuses jobs that ioctl cannot run: an ioctl waits for its single command and bypasses the block layer.
fn check_rings(job: &Job) -> Result<(), ZonedError> {
    if job.submission == Submission::IoUring {
        return Ok(());
    }
    let polls = job.poll_submission || job.poll_completion;
    let deep = job.actors.iter().any(|actor| actor.qd > 1);
    if polls || deep || !job.path.bypasses_block_layer() {
        let problem = "ioctl runs one command at a time, requires passthrough and cannot poll";
        return Err(wrong("submission", problem, "use path direct and qd 1, or io-uring"));
    }
    Ok(())
}

fn check_actor(
    index: usize,
    spec: &ActorSpec,
    job: &Job,
    geometry: &Geometry,
    next: u32,
) -> Result<CheckedActor, ZonedError> {
    let mut spec = spec.clone();
    if spec.name.is_empty() {
        spec.name = spec.op.name().into();
    }
    let place = format!("actor {} ({})", index + 1, spec.name);
    let bad = |problem: String, remedy: &str| Err(wrong(&place, problem, remedy));
    let block = u64::from(geometry.block_bytes);
    if spec.bs.0 == 0 || !spec.bs.0.is_multiple_of(block) {
        let problem = format!("request size {} is not a multiple of the drive's block of {block} B", spec.bs);
        return bad(problem, "choose a multiple, or another LBA format");
    }
    let append = spec.op == Activity::Append;
    let limit = if append { geometry.append_limit } else { geometry.transfer_limit };
    if append && (limit == 0 || !job.path.bypasses_block_layer()) {
        let problem = "this path to the drive does not support append".to_string();
        return bad(
            problem,
            "the block layer does not offer append to programs, and conventional drives do not support it; use --path \
             direct on an NVMe zoned drive, or op=write",
        );
    }
    if spec.bs.0 > u64::from(limit) {
        let kind = if append { "append" } else { "transfer" };
        let limit = senesce_core::Bytes(u64::from(limit));
        return bad(
            format!("request size {} is above the drive's {kind} limit of {limit}", spec.bs),
            "choose smaller requests",
        );
    }
    if spec.op.manages() && !geometry.zoned {
        return bad(format!("{} needs zones; this drive is not zoned", spec.op.name()), "choose a zoned drive");
    }
    if spec.qd == 0 || spec.qd > MAX_DEPTH {
        return bad(format!("queue depth {} is outside 1..{MAX_DEPTH}", spec.qd), "choose a depth in that range");
    }
    if spec.op.manages() && spec.qd != 1 {
        return bad("zone commands run one at a time".into(), "leave qd at 1 and raise jobs");
    }
    if spec.rate.is_some_and(|rate| rate.0.0 == 0) {
        return bad("rate must be above 0".into(), "omit it to run at the speed of the drive");
    }
    if spec.time.is_none() && spec.count.is_none() && !spec.ends_after_one_pass() {
        return bad("it has neither time nor count".into(), "give one of them");
    }
    if let Some((problem, remedy)) = bounds::problem(job, &spec, spec.command_bytes(geometry)) {
        return bad(problem, remedy);
    }
    if spec.occupancy.is_some() && !matches!(spec.op, Activity::Reset | Activity::Finish) {
        return bad(format!("{} does not fill zones first", spec.op.name()), "occupancy is only for reset and finish");
    }
    if spec.occupancy.is_some_and(|share| !(0.0..=1.0).contains(&share)) {
        return bad("occupancy must be from 0 to 1".into(), "0.5 means half written");
    }
    if spec.at.is_some_and(|at| at.0 % block != 0 || at.0 >= geometry.capacity_bytes()) {
        return bad("'at' must be a multiple of the block below the zone's capacity".into(), "correct it");
    }
    let zones = settle(spec.zones, next, geometry).map_err(|problem| wrong(&place, problem, "choose other zones"))?;
    let count = zones.end - zones.start;
    let own_worker_each = !spec.op.manages() && count <= 64;
    let jobs = spec.jobs.unwrap_or(if own_worker_each { count } else { 1 });
    if jobs == 0 || jobs > count {
        return bad(format!("{jobs} workers cannot share {count} zones"), "give each worker at least one zone");
    }
    let capacity = geometry.capacity_blocks;
    let occupancy_blocks = spec.occupancy.map(|share| {
        let most = if spec.op == Activity::Finish { capacity - 1 } else { capacity };
        ((share * capacity as f64).round() as u64).min(most)
    });
    let blocks = (spec.bs.0 / block) as u32;
    if u64::from(blocks) > capacity {
        return bad("a request is larger than a zone".into(), "choose smaller requests");
    }
    Ok(CheckedActor { spec, zones, jobs, blocks, occupancy_blocks })
}

fn settle(zones: Zones, next: u32, geometry: &Geometry) -> Result<Range<u32>, String> {
    let range = match zones {
        Zones::Count(count) => next..next.saturating_add(count),
        Zones::Range(first, end) => first..end,
    };
    if range.is_empty() || range.end > geometry.zones {
        return Err(format!("zones {}..{} do not exist; the drive has {}", range.start, range.end, geometry.zones));
    }
    Ok(range)
}

fn check_step(step: &Preparation, geometry: &Geometry) -> Result<CheckedStep, ZonedError> {
    let place = format!("prepare {}", step.step.name());
    if !(0.0..=1.0).contains(&step.to) {
        return Err(wrong(&place, "'to' must be from 0 to 1", "0.5 means half written"));
    }
    if step.step == PrepareStep::Wear && geometry.zoned {
        return Err(wrong(&place, "only a conventional drive collects garbage", "leave the step out"));
    }
    let zones = settle(step.zones, 0, geometry).map_err(|problem| wrong(&place, problem, "choose other zones"))?;
    let blocks = (step.to * geometry.capacity_blocks as f64).round() as u64;
    Ok(CheckedStep { step: step.step, zones, blocks })
}

fn default_steps(actors: &[CheckedActor], geometry: &Geometry) -> Vec<CheckedStep> {
    if !geometry.zoned {
        return Vec::new();
    }
    let capacity = geometry.capacity_blocks;
    let step = |step, actor: &CheckedActor, blocks| CheckedStep { step, zones: actor.zones.clone(), blocks };
    let mut steps = Vec::new();
    for actor in actors {
        match actor.spec.op {
            Activity::Write | Activity::Append | Activity::OpenClose => {
                steps.push(step(PrepareStep::Reset, actor, 0));
            }
            op if op.reads() => steps.push(step(PrepareStep::Fill, actor, capacity)),
            // Each round fills the zone from its start.
            _ if actor.occupancy_blocks.is_some() => steps.push(step(PrepareStep::Reset, actor, 0)),
            _ => {}
        }
    }
    steps
}

/// Numbers actors of equal names, so that results can be distinguished.
fn distinct_names(actors: &mut [CheckedActor]) {
    for index in 1..actors.len() {
        let name = actors[index].spec.name.clone();
        let earlier = actors[..index].iter().filter(|actor| actor.spec.name == name).count();
        if earlier > 0 {
            actors[index].spec.name = format!("{name}-{}", earlier + 1);
        }
    }
}

fn check_overlap(actors: &[CheckedActor]) -> Result<(), ZonedError> {
    for (index, actor) in actors.iter().enumerate() {
        for other in &actors[..index] {
            let common = actor.zones.start < other.zones.end && other.zones.start < actor.zones.end;
            if common && !(actor.spec.op.reads() && other.spec.op.reads()) {
                return Err(wrong(
                    &format!("actors {} and {}", other.spec.name, actor.spec.name),
                    "one changes zones that the other uses",
                    "give them zones of their own",
                ));
            }
        }
    }
    Ok(())
}

fn check_limits(actors: &[CheckedActor], geometry: &Geometry) -> Result<(), ZonedError> {
    let writers: u32 = actors.iter().filter(|actor| !actor.spec.op.reads()).map(|actor| actor.jobs).sum();
    let limit = geometry.writable_at_once();
    if geometry.zoned && writers > limit {
        return Err(wrong(
            "job",
            format!("{writers} workers write or open zones at once, but the drive allows {limit} open zones"),
            "reduce zones or jobs",
        ));
    }
    Ok(())
}

/// Refuses conventional zones: the guard relies on write pointers, and data in a zone without one would go unnoticed.
fn refuse_conventional(place: &str, range: &Range<u32>, zones: &[ZoneInfo]) -> Result<(), ZonedError> {
    let is_conventional =
        |zone: &u32| zones.get(*zone as usize).is_some_and(|info| info.state == ZoneState::Conventional);
    let Some(zone) = range.clone().find(is_conventional) else { return Ok(()) };
    let first = zones.iter().position(|info| info.state != ZoneState::Conventional).unwrap_or(zones.len());
    Err(wrong(
        place,
        format!("zone {zone} is conventional: it has no write pointer, so its content is unknown"),
        format!("choose sequential zones; the first one is zone {first}"),
    ))
}

/// Writers must begin at the write pointer and readers need data, in the state after preparation.
fn check_states(checked: &CheckedJob, geometry: &Geometry, zones: &[ZoneInfo]) -> Result<(), ZonedError> {
    if !geometry.zoned {
        return Ok(());
    }
    for step in &checked.steps {
        refuse_conventional(&format!("prepare {}", step.step.name()), &step.zones, zones)?;
    }
    for actor in &checked.actors {
        refuse_conventional(&format!("actor {}", actor.spec.name), &actor.zones, zones)?;
    }
    let mut written: Vec<u64> = zones.iter().map(ZoneInfo::written).collect();
    let mut usable: Vec<bool> =
        zones.iter().map(|zone| !matches!(zone.state, ZoneState::ReadOnly | ZoneState::Offline)).collect();
    written.resize(geometry.zones as usize, 0);
    usable.resize(geometry.zones as usize, true);
    for step in &checked.steps {
        for zone in step.zones.clone() {
            match step.step {
                PrepareStep::Reset => written[zone as usize] = 0,
                PrepareStep::Fill => written[zone as usize] = step.blocks,
                PrepareStep::Finish => written[zone as usize] = geometry.capacity_blocks,
                _ => {}
            }
        }
    }
    for actor in &checked.actors {
        let place = format!("actor {}", actor.spec.name);
        for zone in actor.zones.clone() {
            let pointer = written[zone as usize];
            let begin = actor.spec.at.map_or(pointer, |at| at.0 / u64::from(geometry.block_bytes));
            if actor.spec.op.streams_writes() && begin != pointer {
                return Err(wrong(
                    &place,
                    format!("it would write zone {zone} at block {begin}, but the write pointer will be at {pointer}"),
                    "omit 'at', or prepare the zones so that their write pointers are there",
                ));
            }
            if actor.spec.op.streams_writes() && pointer >= geometry.capacity_blocks {
                let remedy = "prepare them with step reset, or leave prepare out";
                return Err(wrong(&place, format!("zone {zone} will be full when it starts to write"), remedy));
            }
            if actor.spec.op == Activity::OpenClose && pointer > 0 {
                let remedy = "it writes each from its start: prepare them with step reset, or leave prepare out";
                return Err(wrong(&place, format!("zone {zone} will hold data when it is opened"), remedy));
            }
            if actor.spec.op.reads() && pointer < u64::from(actor.blocks) {
                let remedy = "prepare them with step fill, or leave prepare out";
                return Err(wrong(&place, format!("zone {zone} will hold less than one request to read"), remedy));
            }
            if !usable[zone as usize] {
                return Err(wrong(&place, format!("zone {zone} is read-only or offline"), "choose other zones"));
            }
        }
    }
    Ok(())
}

fn warnings(job: &Job, actors: &[CheckedActor]) -> Vec<String> {
    let mut warnings = Vec::new();
    for actor in actors {
        let ordered = job.path == HostPath::MqDeadline;
        if actor.spec.op == Activity::Write && actor.spec.qd > 1 && !ordered {
            warnings.push(format!(
                "actor {}: several writes to one zone are in flight without a scheduler that keeps their order; a drive may \
                 refuse reordered writes (append and --path mq-deadline are safe)",
                actor.spec.name
            ));
        }
    }
    warnings
}
