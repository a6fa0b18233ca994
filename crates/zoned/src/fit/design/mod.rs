//! Plans the measurements that determine a model's constants, and those that check it.

mod checks;
mod concurrent;
mod data;
mod zones;

use super::block::Block;
use super::probe::{Probe, Work};
use crate::error::ZonedError;
use crate::geometry::{Geometry, ZoneState};
use crate::job::{ActorSpec, Job, Preparation, PrepareStep, Span, Zones, check};
use crate::sim::HostPath;
use crate::sim::model::{GeometryModel, Model};
use crate::survey::{DriveNature, Survey};
use std::collections::BTreeMap;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Effort {
    pub commands: u64,
    pub seconds: f64,
    pub rounds: u32,
}

impl Effort {
    /// Returns the default: smaller for drives simulated in processor time, larger for others.
    pub fn usual(simulated: bool) -> Self {
        match simulated {
            true => Self { commands: 40_000, seconds: 3.0, rounds: 3000 },
            false => Self { commands: 200_000, seconds: 20.0, rounds: 100 },
        }
    }
}

#[derive(Debug, Clone)]
pub struct Design {
    /// Constants with the probes that show them, in fitting order.
    pub blocks: Vec<Block>,
    pub checks: Vec<Probe>,
    /// Reason: probes that the drive cannot run, or unused table rows.
    pub left_out: BTreeMap<String, Vec<String>>,
}

impl Design {
    pub fn probes(&self) -> impl Iterator<Item = &Probe> {
        self.blocks.iter().flat_map(|block| &block.probes).chain(&self.checks)
    }
}

pub fn design(survey: &Survey, effort: Effort) -> Result<Design, ZonedError> {
    let maker = Maker::new(survey, effort)?;
    let mut blocks =
        vec![data::writes(&maker), zones::single_commands(&maker), concurrent::flash(&maker), data::reads(&maker)];
    blocks.extend([zones::resets(&maker), zones::finishes(&maker)]);
    blocks.extend([HostPath::None, HostPath::MqDeadline, HostPath::Passthrough].map(|path| data::host(&maker, path)));
    blocks.extend([HostPath::Direct, HostPath::None, HostPath::MqDeadline].map(|path| data::streams(&maker, path)));
    blocks.extend([concurrent::appends(&maker), concurrent::reads_with_writes(&maker), concurrent::resets(&maker)]);
    if maker.small {
        blocks.extend([data::small_blocks(&maker), data::small_streams(&maker)]);
    }
    let mut design = Design { blocks, checks: checks::checks(&maker), left_out: BTreeMap::new() };
    let Design { blocks, checks, left_out } = &mut design;
    for probes in blocks.iter_mut().map(|block| &mut block.probes).chain([checks]) {
        probes.retain(|probe| match obstacle(survey, probe) {
            None => true,
            Some(why) => {
                left_out.entry(why).or_default().push(probe.key.clone());
                false
            }
        });
    }
    design.blocks.retain(|block| !block.probes.is_empty());
    if design.blocks.is_empty() {
        let why: Vec<&str> = design.left_out.keys().map(String::as_str).collect();
        return Err(ZonedError::Usage(format!("{} cannot run any of the points: {}", survey.name, why.join("; "))));
    }
    Ok(design)
}

fn obstacle(survey: &Survey, probe: &Probe) -> Option<String> {
    let Work::Job(job) = &probe.work else { return None };
    if !survey.ways.contains(&job.path) {
        return Some(format!("{} does not support the path {}", survey.name, job.path.name()));
    }
    // A real drive has no user-space driver: both are the same path.
    if job.path == HostPath::Passthrough && survey.nature != DriveNature::Simulated {
        return Some("on this machine the direct path is passthrough".into());
    }
    let (geometry, zones) = survey.in_blocks(job.lbaf.unwrap_or(survey.geometry.block_bytes));
    match check(job, &geometry, &zones) {
        Ok(_) => None,
        Err(ZonedError::Job { problem, .. }) => Some(problem),
        Err(error) => Some(error.to_string()),
    }
}

/// Returns the start model with the drive's zones, limits and formats; the current format comes last.
pub fn start_model(survey: &Survey, start: &Model, name: &str) -> Result<Model, ZonedError> {
    let geometry = &survey.geometry;
    let mib = |what: &str, blocks: u64| {
        let bytes = blocks * u64::from(geometry.block_bytes);
        match bytes >> 20 << 20 == bytes && bytes > 0 {
            true => Ok(bytes >> 20),
            false => {
                let words = format!("{}: the {what} of a zone, {bytes} B, is not a whole number of MiB", survey.name);
                Err(ZonedError::Usage(format!("{words}, which a model needs")))
            }
        }
    };
    let mut formats: Vec<u32> = geometry.formats.iter().map(|format| format.block_bytes).collect();
    formats.retain(|bytes| *bytes != geometry.block_bytes);
    formats.push(geometry.block_bytes);
    formats.dedup();
    let geometry = GeometryModel {
        zones: geometry.zones,
        zone_size_mib: mib("size", geometry.zone_blocks)?,
        zone_capacity_mib: mib("capacity", geometry.capacity_blocks)?,
        conventional_zones: survey.zones.iter().take_while(|zone| zone.state == ZoneState::Conventional).count() as u32,
        max_open: geometry.max_open,
        max_active: geometry.max_active,
        formats,
        transfer_limit_kib: geometry.transfer_limit >> 10,
        append_limit_kib: geometry.append_limit >> 10,
    };
    let mut model = Model { name: name.into(), geometry, fit: None, ..start.clone() };
    if survey.nature != DriveNature::Simulated {
        model.host.passthrough = None;
    }
    model.checked()
}

struct Maker {
    first: u32,
    /// Number of zones that are written concurrently; the same number is read.
    half: u32,
    /// Additional zones, to be reset.
    others: u32,
    /// Bytes per block of most probes.
    block: u32,
    /// Whether 512 B blocks can be selected as well.
    small: bool,
    simulated: bool,
    geometry: Geometry,
    effort: Effort,
}

const MOST_ZONES: u32 = 8;
const MOST_RESETS: u32 = 64;
/// The same for a simulated drive, whose zones are filled without cost.
const MOST_SIMULATED_RESETS: u32 = 512;

impl Maker {
    fn new(survey: &Survey, effort: Effort) -> Result<Self, ZonedError> {
        let usable = survey.usable();
        let (count, name) = (usable.len() as u32, &survey.name);
        if !survey.geometry.zoned {
            return Err(ZonedError::Usage(format!("cannot fit a model to {name}: it has no zones")));
        }
        if count < 6 {
            let words = format!("{name} has {}; a model needs at least 6", survey.usable_words());
            return Err(ZonedError::Usage(words));
        }
        let sizes = survey.block_sizes();
        let block = *sizes.iter().find(|bytes| **bytes == 4096).unwrap_or(&survey.geometry.block_bytes);
        // Open zones of one point must not keep the next one from filling other zones.
        let open = survey.geometry.writable_at_once();
        if open < 2 {
            return Err(ZonedError::Usage(format!("{name} allows one open zone; a model needs at least 2")));
        }
        let half = MOST_ZONES.min(count / 3).min(open - 1);
        let simulated = survey.nature == DriveNature::Simulated;
        let others = (count - 2 * half).min(if simulated { MOST_SIMULATED_RESETS } else { MOST_RESETS });
        let (geometry, _) = survey.in_blocks(block);
        Ok(Self {
            first: usable.start,
            half,
            others,
            block,
            small: block > 512 && sizes.contains(&512),
            simulated,
            geometry,
            effort,
        })
    }

    fn written(&self, count: u32) -> Zones {
        Zones::Range(self.first, self.first + count.clamp(1, self.half))
    }

    fn read(&self, count: u32) -> Zones {
        let first = self.first + self.half;
        Zones::Range(first, first + count.clamp(1, self.half))
    }

    fn reset(&self) -> Zones {
        let first = self.first + 2 * self.half;
        Zones::Range(first, first + self.others)
    }

    fn job(&self, path: HostPath, actors: Vec<ActorSpec>) -> Job {
        Job { lbaf: Some(self.block), path, ..Job::of(actors) }
    }

    /// Returns a probe of one actor that runs a number of commands, at most as many as fit its zones.
    fn single_actor(&self, name: &str, path: HostPath, mut actor: ActorSpec, kept: &str) -> Probe {
        let jobs = u64::from(actor.jobs.unwrap_or_else(|| actor.zones.count()));
        let fit = (self.geometry.capacity_bytes() / actor.bs.0.max(1)).max(2) - 1;
        let most = if actor.op.reads() { u64::MAX } else { fit };
        if actor.count.is_none() {
            actor.count = Some((self.effort.commands / jobs).clamp(1, most));
        }
        Probe::new(format!("{name}, {}", path.name()), Work::Job(Box::new(self.job(path, vec![actor]))), kept)
    }

    fn together(&self, name: &str, mut actors: Vec<ActorSpec>, seconds: f64, kept: &str) -> Probe {
        for actor in actors.iter_mut().filter(|actor| actor.count.is_none()) {
            actor.time = Some(Span::seconds(seconds));
        }
        let job = Job { ramp: Span::seconds(0.1), ..self.job(HostPath::Direct, actors) };
        Probe::new(name, Work::Job(Box::new(job)), kept)
    }

    /// Sets the number of runs of a probe: on a simulated drive, a measurement is the mean of `runs` runs.
    fn often(&self, runs: u32, mut probe: Probe) -> Probe {
        probe.runs = if self.simulated { runs } else { 1 };
        probe
    }

    /// Writes one block to each zone first, so that no timed write opens a zone.
    fn opened(&self, mut probe: Probe) -> Probe {
        if let Work::Job(job) = &mut probe.work {
            let one_block = 1.0 / self.geometry.capacity_blocks as f64;
            let zones: Vec<Zones> = job.actors.iter().map(|actor| actor.zones).collect();
            let step = |zones: &Zones| {
                [(PrepareStep::Reset, 1.0), (PrepareStep::Fill, one_block)].map(|(step, to)| Preparation {
                    step,
                    zones: *zones,
                    to,
                })
            };
            job.prepare = Some(zones.iter().flat_map(step).collect());
        }
        probe
    }
}
