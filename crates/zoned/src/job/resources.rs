//! Checks before the first command that open and active zones suffice for preparation and workers.

use super::check::{CheckedActor, CheckedJob, CheckedStep, wrong};
use super::spec::{Activity, PrepareStep};
use crate::command::{Command, Operation, ZoneFault};
use crate::error::ZonedError;
use crate::geometry::{Geometry, ZoneInfo, ZoneState};
use crate::zone_table::ZoneTable;
use std::collections::BTreeSet;

/// Refuses steps that a zone would refuse, and workers without a free open or active zone. `presets`: the drive sets
/// zone states without commands.
pub(crate) fn check(
    job: &CheckedJob,
    geometry: &Geometry,
    zones: &[ZoneInfo],
    presets: bool,
) -> Result<(), ZonedError> {
    if !geometry.zoned {
        return Ok(());
    }
    let mut table = ZoneTable::new(geometry).with_zones(zones);
    for step in &job.steps {
        for zone in step.zones.clone() {
            apply(&mut table, step, zone, geometry, presets).map_err(|fault| refused(step, zone, fault, geometry))?;
        }
    }
    check_workers(job, geometry, &table, presets)
}

/// Simulates one step on one zone. Lost zones are skipped.
fn apply(
    table: &mut ZoneTable,
    step: &CheckedStep,
    zone: u32,
    geometry: &Geometry,
    presets: bool,
) -> Result<(), ZoneFault> {
    let Some(found) = table.zone(zone).copied() else { return Err(ZoneFault::OutOfRange) };
    if matches!(found.state, ZoneState::ReadOnly | ZoneState::Offline) {
        return Ok(());
    }
    let mut run = |operation, blocks| {
        let block = geometry.start(zone);
        table.apply(&Command { tag: 0, queue: 0, operation, zone, block, blocks }).map(|_| ())
    };
    match step.step {
        PrepareStep::Wear => Ok(()),
        PrepareStep::Reset => run(Operation::Reset, 0),
        PrepareStep::Finish => run(Operation::Finish, 0),
        PrepareStep::Open => run(Operation::Open, 0),
        PrepareStep::Close => run(Operation::Close, 0),
        PrepareStep::Fill if found.state == ZoneState::Full && step.blocks >= geometry.capacity_blocks => Ok(()),
        PrepareStep::Fill if presets => table.preset(zone, Some(step.blocks as u32)),
        PrepareStep::Fill => {
            run(Operation::Reset, 0)?;
            if step.blocks == 0 { Ok(()) } else { run(Operation::Write, step.blocks as u32) }
        }
    }
}

fn refused(step: &CheckedStep, zone: u32, fault: ZoneFault, geometry: &Geometry) -> ZonedError {
    let remedy = match fault {
        ZoneFault::TooManyActive | ZoneFault::TooManyOpen => format!(
            "the drive allows {} open and {} active zones: prepare fewer, fill them completely, or finish some first",
            limit_words(geometry.max_open),
            limit_words(geometry.max_active)
        ),
        _ => "check the steps before it: open needs an empty or closed zone, close an open one".into(),
    };
    wrong(&format!("prepare {}", step.step.name()), format!("the drive would refuse zone {zone}: {fault}"), remedy)
}

fn limit_words(limit: u32) -> String {
    if limit == 0 { "any number of".into() } else { limit.to_string() }
}

/// Checks the zone limits of all workers. A worker holds at most one zone more than preparation left. It starts with
/// its first one, and takes the next when that is full or empty again.
fn check_workers(job: &CheckedJob, geometry: &Geometry, table: &ZoneTable, presets: bool) -> Result<(), ZonedError> {
    let openers: Vec<&CheckedActor> =
        job.actors.iter().filter(|actor| opens(actor, geometry.capacity_blocks, presets)).collect();
    let firsts = |actor: &CheckedActor| (0..actor.jobs).map(|number| actor.share(number).start).collect::<Vec<_>>();
    // Zones that are reset or finished free resources at an unknown time.
    let stay = |zone: &u32| !job.actors.iter().any(|actor| frees_zones(actor) && actor.zones.contains(zone));
    let at_once = openers.iter().filter(|actor| actor.spec.start.is_zero());
    judge(geometry, table, stay, at_once.flat_map(|actor| firsts(actor)).collect())?;
    // Actors that start later may find the zones of all others released.
    let unused = |zone: &u32| !job.actors.iter().any(|actor| actor.zones.contains(zone));
    openers.iter().try_for_each(|actor| judge(geometry, table, unused, firsts(actor).into_iter().take(1).collect()))
}

fn opens(actor: &CheckedActor, capacity: u64, presets: bool) -> bool {
    let fills = actor.occupancy_blocks.is_some_and(|blocks| !presets || blocks < capacity);
    actor.spec.op.streams_writes() || actor.spec.op == Activity::OpenClose || fills
}

fn frees_zones(actor: &CheckedActor) -> bool {
    matches!(actor.spec.op, Activity::Reset | Activity::Finish)
}

/// Counts prepared zones, `counted` zones and the first zones of workers against the limits. Implicitly opened zones
/// are closed on demand.
fn judge(
    geometry: &Geometry,
    table: &ZoneTable,
    counted: impl Fn(&u32) -> bool,
    firsts: BTreeSet<u32>,
) -> Result<(), ZonedError> {
    if firsts.is_empty() {
        return Ok(());
    }
    let in_state = |holds: fn(ZoneState) -> bool| {
        let prepared = (0..geometry.zones).filter(|zone| table.zone(*zone).is_some_and(|zone| holds(zone.state)));
        prepared.filter(&counted).filter(|zone| !firsts.contains(zone)).count() + firsts.len()
    };
    let active = (in_state(ZoneState::is_active), geometry.max_active, "active", "finish or reset");
    let open = (in_state(|state| state == ZoneState::ExplicitlyOpen), geometry.max_open, "open", "close");
    for (needed, limit, kind, way) in [active, open] {
        if limit > 0 && needed > limit as usize {
            let problem = format!("preparation and workers need {needed} {kind} zones, but the drive allows {limit}");
            return Err(wrong("job", problem, format!("{way} prepared zones, or reduce zones or jobs")));
        }
    }
    Ok(())
}
