//! Starts the threads of a run.

use super::file_calls::FileCalls;
use super::shared::{Ending, Shared, ThreadRecord};
use super::synchronize::Waits;
use super::this_thread::set_priorities;
use super::worker::{Stop, Worker};
use crate::model::FlowopKind;
use senesce_sys::usage;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Stack of a workload thread; flowops keep their buffers elsewhere.
const STACK_BYTES: usize = 128 << 10;

/// Assigns a semaphore to every semblock flowop of every thread. Returns one list per thread: semaphore by flowop.
pub(crate) fn semaphores(programs: &super::program::Programs, waits: &mut Waits) -> Vec<Vec<usize>> {
    let mut lists = Vec::new();
    for program in &programs.list {
        for _ in 0..program.instances {
            let mut list = vec![0; program.flowops];
            for flowop in program.flowops().filter(|flowop| flowop.spec.kind == FlowopKind::SemaphoreBlock) {
                list[flowop.local] = waits.add_semaphore(&flowop.spec.name, flowop.spec.highwater);
            }
            lists.push(list);
        }
    }
    lists
}

pub(super) fn records<B: FileCalls>(shared: &Shared<B>) -> Vec<Arc<ThreadRecord>> {
    let programs = shared.programs.list.iter().enumerate();
    programs
        .flat_map(|(index, program)| (1..=program.instances).map(move |instance| (index, program.flowops, instance)))
        .map(|(program, flowops, instance)| {
            Arc::new(ThreadRecord {
                program,
                instance,
                began: AtomicU64::new(u64::MAX),
                cut: AtomicU64::new(0),
                waiting: AtomicU64::new(u64::MAX),
                counters: (0..flowops).map(|_| std::array::from_fn(|_| AtomicU64::new(0))).collect(),
                activity: AtomicU64::new(0),
                since: AtomicU64::new(0),
                ended: AtomicBool::new(false),
            })
        })
        .collect()
}

pub(super) fn start<B: FileCalls>(
    shared: Arc<Shared<B>>,
    record: Arc<ThreadRecord>,
    number: usize,
    semaphores: Vec<usize>,
) -> std::io::Result<()> {
    let name: String = shared.programs.list[record.program].thread.chars().take(15).collect();
    let body = move || {
        let program = &shared.programs.list[record.program];
        let worker = Worker::new(&shared, &record, number, semaphores);
        if let Err(problem) = set_priorities(program.nice, program.io_priority) {
            shared.end(Ending::Failed(problem));
        }
        shared.ready.fetch_add(1, Ordering::SeqCst);
        shared.waits.wait_for_gate();
        record.began.store(shared.clock.now(), Ordering::Relaxed);
        match worker {
            Ok(mut worker) => worker.run(),
            Err(Stop::Failed(problem)) => shared.end(Ending::Failed(problem)),
            Err(_) => {}
        }
        if let Some(waited) = usage::wait_of_this_thread() {
            record.waiting.store(waited.as_nanos() as u64, Ordering::Relaxed);
        }
        record.ended.store(true, Ordering::SeqCst);
        shared.ended.fetch_add(1, Ordering::SeqCst);
    };
    std::thread::Builder::new().name(name).stack_size(STACK_BYTES).spawn(body).map(drop)
}
