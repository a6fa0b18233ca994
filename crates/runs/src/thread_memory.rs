//! The memory that a run needs under a limit.

use senesce_core::Bytes;
use senesce_workload::Workload;

/// Memory of the program itself within a limit: a block trace, counters, stacks.
pub const OWN_MEMORY: Bytes = Bytes::mib(64);

pub fn memory_of_threads(workload: &Workload) -> u64 {
    let threads = workload.processes.iter().flat_map(|process| process.threads.iter().map(move |one| (process, one)));
    threads.map(|(process, one)| process.instances.saturating_mul(one.instances).saturating_mul(one.memsize)).sum()
}
