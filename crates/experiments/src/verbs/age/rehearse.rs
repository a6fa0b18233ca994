//! Plays a plan without a target: exact measures and the planning speed, before anything is touched.

use super::events::Rehearsal;
use senesce_aging::Planner;
use senesce_core::interrupt::Interrupt;
use senesce_core::{ExitCode, Failure, Progress};

const BETWEEN_LOOKS: u64 = 1 << 22;

/// Streams what is left of `planner` and measures the end.
pub fn rehearse(mut planner: Planner, progress: &dyn Progress, interrupt: &Interrupt) -> Result<Rehearsal, Failure> {
    let plan = planner.plan().clone();
    progress.phase("planning", plan.len(), "operations");
    let (before, from) = (thread_cpu_seconds(), planner.operations_done());
    while planner.operations_done() < plan.len() {
        let reached = planner.operations_done();
        planner.skip_to((reached + BETWEEN_LOOKS).min(plan.len()));
        progress.position(planner.operations_done(), "");
        if interrupt.requested() {
            return Err(Failure::new(ExitCode::Interrupted, "interrupted while planning; nothing was touched"));
        }
        if planner.operations_done() == reached {
            break;
        }
    }
    let plan_cpu_seconds = thread_cpu_seconds() - before;
    Ok(Rehearsal {
        summary: plan.summary().clone(),
        plan_cpu_seconds,
        plan_ops_per_cpu_second: (planner.operations_done() - from) as f64 / plan_cpu_seconds.max(1e-9),
        measures: planner.measures(),
        namespace_sha256: planner.namespace_sha256(),
    })
}

fn thread_cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
