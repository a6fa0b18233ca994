//! Rehearses a plan without a target: exact measures and planning speed before any write.

use super::events::Rehearsal;
use super::extended_spec::ExtendedSpec;
use super::parts::{PartState, WholePlan};
use senesce_core::resume::{continue_with, same_command};
use senesce_core::{ExitCode, Failure, Progress};
use senesce_sys::clock::thread_cpu_time;
use serde::{Deserialize, Serialize};

const BETWEEN_LOOKS: u64 = 1 << 22;

/// Rehearsal by one process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Rehearsed {
    states: Vec<PartState>,
    cpu_seconds: f64,
    operations: u64,
}

/// Simulates the rest of some parts of an aging and measures their final states, one part at a time to bound memory.
pub(crate) fn rehearse(
    course: &ExtendedSpec,
    parts: &[u32],
    progress: &dyn Progress,
    stop: &dyn Fn() -> bool,
) -> Result<Rehearsed, Failure> {
    let mut rehearsed = Rehearsed { states: Vec::new(), cpu_seconds: 0.0, operations: 0 };
    for (done, part) in (0..).zip(parts) {
        let mut planner = course.planner(*part)?;
        let len = planner.plan().len();
        if done == 0 {
            progress.phase("planning", len * parts.len() as u64, "operations");
        }
        let (before, from) = (thread_cpu_time(), planner.operations_done());
        while planner.operations_done() < len {
            let reached = planner.operations_done();
            planner.skip_to((reached + BETWEEN_LOOKS).min(len));
            progress.position(done * len + planner.operations_done(), "");
            if stop() {
                let hint = continue_with(&same_command(None));
                let words = format!("interrupted while planning\nhint: {hint}");
                return Err(Failure::new(ExitCode::Interrupted, words));
            }
            if planner.operations_done() == reached {
                break;
            }
        }
        rehearsed.cpu_seconds += (thread_cpu_time() - before).as_secs_f64();
        rehearsed.operations += planner.operations_done() - from;
        rehearsed.states.push(PartState::of(*part, &planner));
    }
    Ok(rehearsed)
}

impl Rehearsal {
    pub(crate) fn of(course: &ExtendedSpec, rehearsed: Vec<Rehearsed>) -> Result<Self, Failure> {
        let plan_cpu_seconds: f64 = rehearsed.iter().map(|one| one.cpu_seconds).sum();
        let operations: u64 = rehearsed.iter().map(|one| one.operations).sum();
        let states = rehearsed.into_iter().flat_map(|one| one.states).collect();
        let WholePlan { summary, ends_by, measures, namespace_sha256, part_sha256, positions } =
            WholePlan::of(course, states)?;
        Ok(Self {
            summary,
            ends_by: ends_by.into(),
            plan_cpu_seconds,
            plan_ops_per_cpu_second: operations as f64 / plan_cpu_seconds.max(1e-9),
            measures,
            namespace_sha256,
            part_sha256,
            positions,
            course: Some(course.clone()),
        })
    }
}
