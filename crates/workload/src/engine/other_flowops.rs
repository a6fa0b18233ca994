//! Dispatch, and flowops without I/O: waiting, limits, ends, messages.

use super::file_calls::FileCalls;
use super::program::{Flowop, Target};
use super::shared::SystemCall;
use super::worker::{FileId, Outcome, Stop, Worker};
use crate::model::{FlowopKind, Value};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const NOBODY: FileId = FileId { fileset: 0, entry: 0 };

#[derive(Clone, Copy, PartialEq, Eq)]
enum LimitedQuantity {
    Operations,
    ReadsAndWrites,
    Bytes,
}

impl<'a, B: FileCalls> Worker<'a, B> {
    #[inline]
    pub(super) fn execute(&mut self, flowop: &'a Flowop) -> Outcome {
        use FlowopKind as K;
        match flowop.spec.kind {
            K::Read => self.read(flowop),
            K::Write => self.write(flowop),
            K::ReadWholeFile => self.read_whole(flowop),
            K::WriteWholeFile => self.write_whole(flowop),
            K::AppendFile => self.append(flowop),
            K::AppendFileRandom => self.append_random(flowop),
            K::CreateFile => self.create(flowop),
            K::OpenFile => {
                let slot = self.slot(flowop)?;
                self.open(flowop, slot)
            }
            K::CloseFile => {
                self.aio_drain(flowop)?;
                self.close(flowop)
            }
            K::DeleteFile => self.delete(flowop),
            K::StatFile => self.stat(flowop),
            K::Fsync => self.fsync(flowop),
            K::FsyncSet => self.fsync_set(flowop),
            K::MakeDirectory => self.make_directory(flowop),
            K::RemoveDirectory => self.remove_directory(flowop),
            K::ListDirectory => self.list_directory(flowop),
            K::AioWrite => self.aio_write(flowop),
            K::AioWait => self.aio_wait(flowop),
            _ => self.execute_other(flowop),
        }
    }

    fn execute_other(&mut self, flowop: &'a Flowop) -> Outcome {
        use FlowopKind as K;
        match flowop.spec.kind {
            K::Block => self.waiting(flowop, |worker| {
                if let Some(index) = worker.block_index(flowop) {
                    worker.shared.waits.block(index);
                }
            }),
            K::Wakeup => self.waiting(flowop, |worker| {
                if let Target::Block(index) = flowop.target {
                    worker.shared.waits.wake(index);
                }
            }),
            K::SemaphoreBlock => {
                let value = self.value(flowop.spec.value);
                let semaphore = self.semaphores[flowop.local];
                self.waiting(flowop, |worker| worker.shared.waits.take(semaphore, value))
            }
            K::SemaphorePost => {
                let value = self.value(flowop.spec.value);
                self.waiting(flowop, |worker| {
                    if let Target::Semaphores(name) = &flowop.target {
                        worker.shared.waits.post(name, value, flowop.spec.blocking);
                    }
                })
            }
            K::Hog => self.hog(flowop),
            K::Delay => {
                let until = Instant::now() + Duration::from_secs(self.value(flowop.spec.value));
                self.waiting(flowop, |worker| worker.shared.waits.sleep_until(until))
            }
            K::EventLimit => match &self.shared.events {
                None => Ok(()),
                Some(events) => {
                    let until = events.take(1);
                    self.waiting(flowop, |worker| worker.shared.waits.sleep_until(until))
                }
            },
            K::BandwidthLimit => self.limit(flowop, LimitedQuantity::Bytes),
            K::IopsLimit => self.limit(flowop, LimitedQuantity::ReadsAndWrites),
            K::OpsLimit => self.limit(flowop, LimitedQuantity::Operations),
            K::FinishOnCount => self.finish(flowop, LimitedQuantity::Operations),
            K::FinishOnBytes => self.finish(flowop, LimitedQuantity::Bytes),
            K::Print => {
                let program = self.program;
                self.say(format!(
                    "process {}, thread {}-{}: {}",
                    program.process, program.thread, self.record.instance, flowop.spec.text
                ));
                Ok(())
            }
            K::TestRandomVariable => {
                let value = match flowop.spec.value {
                    Value::Constant(number) => number as f64,
                    Value::Random(index) => self.draw(index),
                };
                self.tested = (self.tested.0 + 1, self.tested.1 + value, self.tested.2 + value * value);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn block_index(&self, flowop: &Flowop) -> Option<usize> {
        self.shared.programs.blocks.iter().position(|name| *name == flowop.spec.name)
    }

    /// Measures a wait, which ends early with the run.
    fn waiting(&mut self, flowop: &'a Flowop, wait: impl FnOnce(&Self)) -> Outcome {
        let start = self.begin(flowop, SystemCall::Wait, NOBODY);
        wait(self);
        self.end(flowop, start, 0);
        if self.shared.waits.stopped() { Err(Stop::Over) } else { Ok(()) }
    }

    /// Writes one byte of memory `value` times.
    fn hog(&mut self, flowop: &Flowop) -> Outcome {
        let value = self.value(flowop.spec.value);
        let start = self.begin(flowop, SystemCall::None, NOBODY);
        if let Ok([byte, ..]) = self.memory.buffer(0, 1) {
            for _ in 0..value {
                // SAFETY: a valid reference; volatile keeps every write.
                unsafe { std::ptr::write_volatile(byte, 1) };
            }
        }
        self.end(flowop, start, 0);
        Ok(())
    }

    /// Returns the total for a limit or end: of its target in this thread, or of the whole workload.
    fn total(&self, flowop: &Flowop, what: LimitedQuantity) -> u64 {
        if let Target::Own(local) = flowop.target {
            let [count, bytes, _] = &self.record.counters[local];
            return if what == LimitedQuantity::Bytes { bytes } else { count }.load(Ordering::Relaxed);
        }
        let totals = &self.shared.totals;
        match what {
            LimitedQuantity::Operations => &totals.operations,
            LimitedQuantity::ReadsAndWrites => &totals.reads_and_writes,
            LimitedQuantity::Bytes => &totals.bytes,
        }
        .load(Ordering::Relaxed)
    }

    /// Waits until the event generator has issued an event for every operation, read or write, or MiB since the last time.
    /// Without a target, every operation of the workload is charged once, by the first thread that comes.
    fn limit(&mut self, flowop: &'a Flowop, what: LimitedQuantity) -> Outcome {
        let Some(events) = &self.shared.events else { return Ok(()) };
        let total = self.total(flowop, what);
        let fresh = if let Target::Own(_) = flowop.target {
            let seen = self.limit_seen[flowop.local].unwrap_or(0);
            self.charge(flowop, what, total, seen)
        } else {
            let totals = &self.shared.totals;
            let charged: &AtomicU64 = match what {
                LimitedQuantity::Operations => &totals.charged_operations,
                LimitedQuantity::ReadsAndWrites => &totals.charged_reads_and_writes,
                LimitedQuantity::Bytes => &totals.charged_bytes,
            };
            let whole = if what == LimitedQuantity::Bytes { total >> 20 << 20 } else { total };
            whole.saturating_sub(charged.fetch_max(whole, Ordering::Relaxed))
        };
        let needed = if what == LimitedQuantity::Bytes { fresh >> 20 } else { fresh };
        if needed == 0 {
            return Ok(());
        }
        let until = events.take(needed);
        self.waiting(flowop, |worker| worker.shared.waits.sleep_until(until))
    }

    /// Returns the increase of the total since `seen`, and records it as charged; bytes are charged in whole MiB.
    fn charge(&mut self, flowop: &Flowop, what: LimitedQuantity, total: u64, seen: u64) -> u64 {
        let fresh = total.saturating_sub(seen);
        let fresh = if what == LimitedQuantity::Bytes { fresh >> 20 << 20 } else { fresh };
        self.limit_seen[flowop.local] = Some(seen + fresh);
        fresh
    }

    fn finish(&mut self, flowop: &'a Flowop, what: LimitedQuantity) -> Outcome {
        let wanted = self.constants[flowop.local].1;
        let total = self.total(flowop, what);
        let start = self.begin(flowop, SystemCall::None, NOBODY);
        self.end(flowop, start, 0);
        let done = if what == LimitedQuantity::Bytes { total > wanted } else { total >= wanted };
        if !done {
            return Ok(());
        }
        let unit = if what == LimitedQuantity::Bytes { "bytes" } else { "operations" };
        Err(Stop::Finished(format!("{} ended the run after {total} {unit}", self.flowop_label(flowop))))
    }
}
