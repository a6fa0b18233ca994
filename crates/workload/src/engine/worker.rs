//! A thread that executes its program until the run ends.

use super::aio::AioQueue;
use super::file_calls::FileCalls;
use super::latency::Recorder;
use super::memory::Memory;
use super::program::{Flowop, Operation, Program};
use super::shared::{Ending, Shared, SystemCall, ThreadRecord};
use crate::model::resolve_flow::MAX_SLOT;
use crate::model::{Direction, RandomVariable, Value};
use crate::wml::syntax::QuitMode;
use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;
use rustix::io::Errno;
use senesce_core::failure::errno_message;
use std::sync::atomic::{AtomicU32, Ordering};

/// Reason why a flowop does not return normally.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stop {
    Over,
    NoFile(String),
    /// The thread has created or removed the last directory of a file set.
    Exhausted(String),
    Finished(String),
    Failed(String),
}

pub(crate) type Outcome = Result<(), Stop>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileId {
    pub fileset: u32,
    pub entry: u32,
}

pub(crate) struct Slot<H> {
    /// The open file, if any.
    pub handle: Option<H>,
    /// The last file opened here; kept when it is closed, as in Filebench.
    pub file: Option<FileId>,
}

pub(crate) struct Worker<'a, B: FileCalls> {
    pub shared: &'a Shared<B>,
    pub program: &'a Program,
    pub record: &'a ThreadRecord,
    pub slots: Vec<Slot<B::Handle>>,
    /// The next slot of the rotation (`opennext`); 0 before the first.
    pub slot_rotor: usize,
    /// This thread's rotors, one per file set (`opennext`).
    pub rotors: Vec<AtomicU32>,
    pub memory: Memory,
    pub generator: Pcg64,
    pub variables: Vec<Pcg64>,
    pub semaphores: Vec<usize>,
    /// Last value seen by limits, per flowop; `None` before the first.
    pub limit_seen: Vec<Option<u64>>,
    /// Constant working sets and values, drawn once.
    pub constants: Vec<(u64, u64)>,
    pub aio: Option<AioQueue>,
    pub latencies: Recorder,
    /// Sums of testrandvar: count, sum, sum of squares.
    pub tested: (u64, f64, f64),
}

impl<'a, B: FileCalls> Worker<'a, B> {
    /// Creates the `number`-th thread of the run. `semaphores` has one index per flowop.
    pub(crate) fn new(
        shared: &'a Shared<B>,
        record: &'a ThreadRecord,
        number: usize,
        semaphores: Vec<usize>,
    ) -> Result<Self, Stop> {
        let program = &shared.programs.list[record.program];
        let stream = |name: &str| shared.seed.stream(&format!("workload/thread/{number}/{name}"));
        let mut worker = Self {
            shared,
            program,
            record,
            slots: (0..=MAX_SLOT).map(|_| Slot { handle: None, file: None }).collect(),
            slot_rotor: 0,
            rotors: shared.filesets.iter().map(|_| AtomicU32::new(0)).collect(),
            memory: Memory::new(program.memsize, number as u64).map_err(|error| {
                Stop::Failed(format!("allocate {} bytes of thread memory: {}", program.memsize, errno_message(&error)))
            })?,
            generator: stream("choice"),
            variables: shared.randoms.iter().map(|variable| stream(&variable.name)).collect(),
            semaphores,
            limit_seen: vec![None; program.flowops],
            constants: Vec::new(),
            aio: None,
            latencies: Recorder::default(),
            tested: (0, 0.0, 0.0),
        };
        worker.constants = program
            .flowops()
            .map(|flowop| (worker.value(flowop.spec.workingset), worker.value(flowop.spec.value)))
            .collect();
        if program.asynchronous && B::ASYNCHRONOUS {
            worker.aio = Some(AioQueue::new().map_err(|error| {
                Stop::Failed(format!(
                    "set up io_uring, which aiowrite needs: {}; allow it (sysctl kernel.io_uring_disabled=0)",
                    errno_message(&error)
                ))
            })?);
        }
        Ok(worker)
    }

    /// Executes the program until the run ends.
    pub(crate) fn run(&mut self) {
        let stop = self.loops();
        self.latencies.settle(&self.shared.latencies);
        if let Err(error) = self.aio.as_mut().map_or(Ok(0), |queue| queue.wait(usize::MAX)) {
            // They were counted on submission.
            self.shared.fail_afterwards(format!(
                "asynchronous write of thread {}-{}, in flight when the run ended: {}",
                self.program.thread,
                self.record.instance,
                errno_message(&error)
            ));
        }
        match stop {
            Stop::Over => {}
            Stop::Finished(why) => self.shared.end(Ending::Finished(why)),
            Stop::Failed(why) => self.shared.end(Ending::Failed(why)),
            Stop::Exhausted(why) if self.shared.quit_mode != QuitMode::AllDone => {
                self.shared.end(Ending::Finished(why))
            }
            Stop::Exhausted(_) => {}
            Stop::NoFile(why) => match self.shared.quit_mode {
                QuitMode::AllDone => {}
                QuitMode::FirstDone => self.shared.end(Ending::Finished(why)),
                QuitMode::Timeout => self.shared.end(Ending::Invalid(format!(
                    "{why}: run for a shorter time, give the file set more entries, or write 'set mode quit firstdone'"
                ))),
            },
        }
        self.close_all();
    }

    fn loops(&mut self) -> Stop {
        let operations = &self.program.operations;
        let mut passes: Vec<u64> = Vec::new();
        let mut position = 0;
        loop {
            if self.shared.waits.stopped() {
                return Stop::Over;
            }
            match &operations[position] {
                Operation::Flowop(flowop) => {
                    if let Err(stop) = self.repeat(flowop) {
                        return stop;
                    }
                }
                Operation::Begin { iters, end } => match self.value(*iters) {
                    0 => position = *end,
                    iters => passes.push(iters),
                },
                Operation::End { begin } => match passes.last_mut() {
                    Some(left) if *left > 1 => {
                        *left -= 1;
                        position = *begin;
                    }
                    _ => drop(passes.pop()),
                },
            }
            position += 1;
            if position == operations.len() {
                position = 0;
            }
        }
    }

    fn repeat(&mut self, flowop: &'a Flowop) -> Outcome {
        let times = self.value(flowop.spec.iters);
        for _ in 0..times {
            self.execute(flowop)?;
            if times > 1 && self.shared.waits.stopped() {
                return Err(Stop::Over);
            }
        }
        Ok(())
    }

    /// Returns an attribute's value, drawn if it is random.
    #[inline]
    pub(crate) fn value(&mut self, value: Value) -> u64 {
        match value {
            Value::Constant(number) => number,
            Value::Random(index) => self.draw(index) as u64,
        }
    }

    pub(crate) fn draw(&mut self, index: usize) -> f64 {
        let variable: &RandomVariable = &self.shared.randoms[index];
        let generator = &mut self.variables[index];
        variable.sample(&mut || (generator.next_u64() >> 11) as f64 / (1u64 << 53) as f64)
    }

    /// Draws a uniform integer below `bound` (0 if `bound` is 0).
    #[inline]
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.generator.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Starts a measured operation; returns its start tick.
    #[inline]
    pub(crate) fn begin(&self, flowop: &Flowop, call: SystemCall, file: FileId) -> u64 {
        let activity = (flowop.local as u64 + 1) << 48
            | (call as u64) << 40
            | u64::from(file.fileset) << 32
            | u64::from(file.entry);
        let start = self.shared.clock.now();
        self.record.activity.store(activity, Ordering::Relaxed);
        self.record.since.store(start, Ordering::Relaxed);
        start
    }

    /// Ends a measured operation, and counts it if it is within the measured time.
    #[inline]
    pub(crate) fn end(&self, flowop: &Flowop, start: u64, bytes: u64) {
        let shared = self.shared;
        let end = shared.clock.now();
        self.latencies.settle(&shared.latencies);
        self.record.activity.store(0, Ordering::Relaxed);
        if shared.totals.kept && flowop.counted {
            self.add_to_totals(flowop, bytes);
        }
        let (from, until) = (shared.count_from.load(Ordering::Relaxed), shared.count_until.load(Ordering::Relaxed));
        if start < from || end > until {
            return self.cut(start.max(from), end.min(until));
        }
        if shared.operations_wanted != u64::MAX && flowop.counted && !self.take_place() {
            return self.cut(start, end);
        }
        let nanoseconds = shared.clock.nanoseconds(end.wrapping_sub(start));
        let [count, sum, time] = &self.record.counters[flowop.local];
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        sum.store(sum.load(Ordering::Relaxed) + bytes, Ordering::Relaxed);
        time.store(time.load(Ordering::Relaxed) + nanoseconds, Ordering::Relaxed);
        self.latencies.record(&shared.latencies, flowop.global, nanoseconds);
    }

    #[cold]
    fn cut(&self, start: u64, end: u64) {
        self.record.cut.fetch_add(end.saturating_sub(start), Ordering::Relaxed);
    }

    fn add_to_totals(&self, flowop: &Flowop, bytes: u64) {
        let totals = &self.shared.totals;
        totals.operations.fetch_add(1, Ordering::Relaxed);
        totals.bytes.fetch_add(bytes, Ordering::Relaxed);
        if flowop.spec.kind.entry().direction != Direction::Neither {
            totals.reads_and_writes.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Reserves one of the requested operations; the last one ends the run. `false`: none is left.
    fn take_place(&self) -> bool {
        let before = self.shared.places_taken.fetch_add(1, Ordering::Relaxed);
        if before + 1 == self.shared.operations_wanted {
            self.shared.stop_counting();
            self.shared.waits.stop();
        }
        before < self.shared.operations_wanted
    }

    pub(crate) fn failed(&self, flowop: &Flowop, call: &str, file: Option<FileId>, errno: Errno) -> Stop {
        let place = file.map_or_else(String::new, |file| format!(" {}", self.file_path(file)));
        let message = errno_message(&errno.into());
        Stop::Failed(format!("{}: {call}{place}: {message}", self.flowop_label(flowop)))
    }

    pub(crate) fn mistake(&self, flowop: &Flowop, what: &str) -> Stop {
        Stop::Failed(format!("{}: {what}", self.flowop_label(flowop)))
    }

    pub(crate) fn flowop_label(&self, flowop: &Flowop) -> String {
        format!("flowop {} of thread {}-{}", flowop.spec.name, self.program.thread, self.record.instance)
    }

    pub(crate) fn file_path(&self, file: FileId) -> String {
        let fileset = &self.shared.filesets[file.fileset as usize];
        fileset.path.join(fileset.file_paths[file.entry as usize].to_string_lossy().as_ref()).display().to_string()
    }

    fn close_all(&mut self) {
        self.aio = None;
        for slot in &mut self.slots {
            if let Some(handle) = slot.handle.take() {
                // The run is over; an error cannot be reported.
                let _ = self.shared.backend.close(handle);
            }
        }
        if self.tested.0 > 0 {
            let (count, sum, squares) = (self.tested.0 as f64, self.tested.1, self.tested.2);
            let mean = sum / count;
            let deviation = (squares / count - mean * mean).max(0.0).sqrt();
            self.say(format!("testrandvar: {count} samples, mean {mean:.2}, standard deviation {deviation:.2}"));
        }
    }

    pub(crate) fn say(&self, text: String) {
        let mut messages = self.shared.messages.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if messages.len() < 1000 {
            messages.push(text);
        }
    }
}
