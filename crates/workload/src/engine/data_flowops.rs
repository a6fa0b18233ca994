//! Flowops that move data: reads, writes, appends, asynchronous writes.

use super::file_calls::FileCalls;
use super::program::Flowop;
use super::shared::SystemCall;
use super::worker::{FileId, Outcome, Stop, Worker};
use crate::model::resolve_flow::MAX_SLOT;
use rustix::io::Errno;
use senesce_core::failure::errno_message;

#[derive(Clone, Copy)]
struct Access {
    slot: usize,
    file: FileId,
    workingset: u64,
}

impl<'a, B: FileCalls> Worker<'a, B> {
    /// Returns the descriptor slot: the given one, or the next of the rotation (`opennext`). The rotation counts down
    /// from the last slot through as many as the file set has files.
    pub(super) fn slot(&mut self, flowop: &Flowop) -> Result<usize, Stop> {
        if flowop.spec.fd > 0 || !flowop.spec.opennext {
            return Ok(flowop.spec.fd);
        }
        let entries = flowop.spec.fileset.map_or(0, |index| self.shared.filesets[index].files.len());
        if entries == 0 || entries > MAX_SLOT / 2 {
            return Err(self.mistake(flowop, &format!("opennext needs a file set of 1 to {} files", MAX_SLOT / 2)));
        }
        if self.slot_rotor == 0 || entries == MAX_SLOT - self.slot_rotor {
            self.slot_rotor = MAX_SLOT;
        }
        self.slot_rotor -= 1;
        Ok(self.slot_rotor)
    }

    /// Finds the slot and opens a file on it if necessary; the opening counts for the flowop, as in Filebench.
    fn place(&mut self, flowop: &Flowop) -> Result<Access, Stop> {
        let slot = self.slot(flowop)?;
        let file = self.slots[slot].file.map(|file| file.fileset as usize);
        if slot > 0 && file.is_some() && flowop.spec.fileset.is_some() && file != flowop.spec.fileset {
            return Err(self.mistake(flowop, &format!("fd={slot} belongs to another file set than filesetname")));
        }
        if self.slots[slot].handle.is_none() {
            self.open(flowop, slot)?;
        }
        let Some(file) = self.slots[slot].file else {
            return Err(self.mistake(flowop, &format!("the file of fd={slot} was deleted")));
        };
        let workingset = match self.constants[flowop.local].0 {
            0 => self.shared.filesets[file.fileset as usize].sizes[file.entry as usize],
            given => given,
        };
        Ok(Access { slot, file, workingset })
    }

    /// Draws a random multiple of `bytes` in the thread's memory.
    fn memory_offset(&mut self, flowop: &Flowop, bytes: u64) -> Result<u64, Stop> {
        match self.memory.fixed_bytes() {
            0 => Ok(0),
            memsize if memsize < bytes => {
                Err(self.mistake(flowop, &format!("memsize={memsize} of its thread is smaller than its {bytes} bytes")))
            }
            memsize if memsize < 2 * bytes => Ok(0),
            memsize => Ok(self.below(memsize / bytes) * bytes),
        }
    }

    /// Draws a random multiple of `bytes` in the working set.
    fn file_offset(&mut self, flowop: &Flowop, place: Access, bytes: u64) -> Result<u64, Stop> {
        if place.workingset < bytes {
            return Err(self.mistake(
                flowop,
                &format!("its {bytes} bytes do not fit the {} bytes of the file or working set", place.workingset),
            ));
        }
        Ok(self.below(place.workingset / bytes) * bytes)
    }

    fn no_memory(&self, flowop: &Flowop, error: &std::io::Error) -> Stop {
        self.mistake(flowop, &format!("thread memory: {}", errno_message(error)))
    }

    fn short(&self, flowop: &Flowop, place: Access, written: usize, wanted: u64) -> Outcome {
        if written as u64 == wanted {
            return Ok(());
        }
        let path = self.file_path(place.file);
        // The rest would fail with ENOSPC: writes are short at the end of the volume or quota.
        let words = format!(
            "cannot write {path}: no space left on device (ENOSPC) after {written} of {wanted} bytes; the workload needs more space: \
                 make it smaller with --scale or --set, or use a larger target"
        );
        Err(self.mistake(flowop, &words))
    }

    pub(super) fn read(&mut self, flowop: &Flowop) -> Outcome {
        let bytes = self.value(flowop.spec.iosize);
        let place = self.place(flowop)?;
        let memory = self.memory_offset(flowop, bytes)?;
        let offset = if flowop.spec.random { Some(self.file_offset(flowop, place, bytes)?) } else { None };
        let call = if offset.is_some() { SystemCall::Pread } else { SystemCall::Read };
        let start = self.begin(flowop, call, place.file);
        let read = {
            let (handle, buffer) = match (&mut self.slots[place.slot].handle, self.memory.buffer(memory, bytes)) {
                (Some(handle), Ok(buffer)) => (handle, buffer),
                (_, Err(error)) => return Err(self.no_memory(flowop, &error)),
                (None, _) => return Ok(()),
            };
            match offset {
                Some(offset) => self.shared.backend.read_at(handle, buffer, offset),
                None => self.shared.backend.read(handle, buffer),
            }
        };
        self.end(flowop, start, *read.as_ref().unwrap_or(&0) as u64);
        match read {
            Ok(0) => self.rewind(flowop, place),
            Ok(_) => Ok(()),
            Err(errno) => Err(self.failed(flowop, "read", Some(place.file), errno)),
        }
    }

    /// Rewinds at the end of the file, so that the next read starts at the beginning.
    fn rewind(&mut self, flowop: &Flowop, place: Access) -> Outcome {
        let Some(handle) = &mut self.slots[place.slot].handle else { return Ok(()) };
        let moved = self.shared.backend.seek_start(handle);
        moved.map_err(|errno| self.failed(flowop, "lseek", Some(place.file), errno))
    }

    pub(super) fn write(&mut self, flowop: &Flowop) -> Outcome {
        let bytes = self.value(flowop.spec.iosize);
        let place = self.place(flowop)?;
        let memory = self.memory_offset(flowop, bytes)?;
        let offset = if flowop.spec.random { Some(self.file_offset(flowop, place, bytes)?) } else { None };
        let call = if offset.is_some() { SystemCall::Pwrite } else { SystemCall::Write };
        let start = self.begin(flowop, call, place.file);
        let written = self.call(flowop, place, memory, bytes, |backend, handle, buffer| match offset {
            Some(offset) => backend.write_at(handle, buffer, offset),
            None => backend.write(handle, buffer),
        })?;
        self.end(flowop, start, bytes);
        let written = written.map_err(|errno| self.failed(flowop, "write", Some(place.file), errno))?;
        self.short(flowop, place, written, bytes)
    }

    /// Calls the back end on a slot with a piece of thread memory.
    fn call(
        &mut self,
        flowop: &Flowop,
        place: Access,
        memory: u64,
        bytes: u64,
        call: impl FnOnce(&B, &mut B::Handle, &mut [u8]) -> Result<usize, Errno>,
    ) -> Result<Result<usize, Errno>, Stop> {
        match (&mut self.slots[place.slot].handle, self.memory.buffer(memory, bytes)) {
            (Some(handle), Ok(buffer)) => Ok(call(&self.shared.backend, handle, buffer)),
            (_, Err(error)) => Err(self.no_memory(flowop, &error)),
            (None, _) => Ok(Err(Errno::BADF)),
        }
    }

    pub(super) fn read_whole(&mut self, flowop: &Flowop) -> Outcome {
        let place = self.place(flowop)?;
        let bytes = match self.value(flowop.spec.iosize) {
            0 => place.workingset.max(1),
            bytes => bytes,
        };
        let memory = self.memory_offset(flowop, bytes)?;
        let shared = self.shared;
        let start = self.begin(flowop, SystemCall::Read, place.file);
        let total = self.call(flowop, place, memory, bytes, |backend, handle, buffer| {
            backend.seek_start(handle)?;
            let mut total = 0;
            loop {
                match backend.read(handle, buffer)? {
                    0 => return Ok(total),
                    count => total += count,
                }
                if shared.waits.stopped() {
                    return Ok(total);
                }
            }
        })?;
        self.end(flowop, start, *total.as_ref().unwrap_or(&0) as u64);
        total.map(drop).map_err(|errno| self.failed(flowop, "read", Some(place.file), errno))
    }

    /// Writes a whole file in as many writes as its size needs. A file larger than iosize but not a multiple of it is written
    /// past its size, because the last length is computed one write too early; Filebench's numbers include this.
    pub(super) fn write_whole(&mut self, flowop: &Flowop) -> Outcome {
        let place = self.place(flowop)?;
        let bytes = match self.value(flowop.spec.iosize) {
            0 => place.workingset.max(1),
            bytes => bytes,
        };
        let source = self.slots[flowop.spec.srcfd].file;
        let size = match source {
            Some(file) => self.shared.filesets[file.fileset as usize].sizes[file.entry as usize],
            None if flowop.spec.srcfd == 0 => place.workingset,
            None => return Err(self.mistake(flowop, &format!("srcfd={} was never opened", flowop.spec.srcfd))),
        };
        let memory = self.memory_offset(flowop, bytes)?;
        let shared = self.shared;
        let start = self.begin(flowop, SystemCall::Write, place.file);
        let mut short = false;
        let total = self.call(flowop, place, memory, bytes, |backend, handle, buffer| {
            let (mut total, mut seek, mut length) = (0u64, 0u64, size.min(bytes));
            while seek < size && !shared.waits.stopped() {
                let written = backend.write(handle, &buffer[..length as usize])? as u64;
                total += written;
                if written < length {
                    short = true;
                    break;
                }
                // The order of these two is Filebench's.
                length = (size - seek).min(bytes);
                seek += length;
            }
            Ok(total as usize)
        })?;
        self.end(flowop, start, *total.as_ref().unwrap_or(&0) as u64);
        match total {
            Ok(total) if short => self.short(flowop, place, total, size),
            Ok(_) => Ok(()),
            Err(errno) => Err(self.failed(flowop, "write", Some(place.file), errno)),
        }
    }

    pub(super) fn append(&mut self, flowop: &Flowop) -> Outcome {
        let bytes = self.value(flowop.spec.iosize);
        self.append_bytes(flowop, bytes)
    }

    /// Appends 0 to iosize - 1 bytes; an append of 0 bytes does nothing but counts.
    pub(super) fn append_random(&mut self, flowop: &Flowop) -> Outcome {
        let most = self.value(flowop.spec.iosize);
        match self.below(most) {
            0 => {
                let start = self.begin(flowop, SystemCall::None, FileId { fileset: 0, entry: 0 });
                self.end(flowop, start, 0);
                Ok(())
            }
            bytes => self.append_bytes(flowop, bytes),
        }
    }

    fn append_bytes(&mut self, flowop: &Flowop, bytes: u64) -> Outcome {
        let place = self.place(flowop)?;
        let memory = self.memory_offset(flowop, bytes)?;
        let start = self.begin(flowop, SystemCall::Write, place.file);
        let written = self.call(flowop, place, memory, bytes, |backend, handle, buffer| {
            backend.seek_end(handle)?;
            backend.write(handle, buffer)
        })?;
        self.end(flowop, start, *written.as_ref().unwrap_or(&0) as u64);
        let written = written.map_err(|errno| self.failed(flowop, "write", Some(place.file), errno))?;
        self.short(flowop, place, written, bytes)
    }

    pub(super) fn aio_write(&mut self, flowop: &Flowop) -> Outcome {
        let bytes = self.value(flowop.spec.iosize);
        let place = self.place(flowop)?;
        let memory = self.memory_offset(flowop, bytes)?;
        let offset = self.file_offset(flowop, place, bytes)?;
        if self.memory.fixed_bytes() == 0 {
            // A growing buffer must not be in use.
            self.aio_drain(flowop)?;
        }
        let start = self.begin(flowop, SystemCall::IoUringEnter, place.file);
        let submitted = match (&mut self.aio, &self.slots[place.slot].handle, self.memory.buffer(memory, bytes)) {
            (Some(queue), Some(handle), Ok(buffer)) => match self.shared.backend.descriptor(handle) {
                // SAFETY: thread memory is unmapped and slots are closed only after the queue is dropped, which waits for all
                // writes; a close flowop in between waits too (see `execute`).
                Some(descriptor) => unsafe { queue.write(descriptor, buffer, offset) },
                None => Ok(()),
            },
            (_, _, Err(error)) => Err(error),
            _ => Ok(()),
        };
        self.end(flowop, start, bytes);
        submitted.map_err(|error| self.mistake(flowop, &format!("asynchronous write: {}", errno_message(&error))))
    }

    /// Waits for half of the writes in flight, at least one.
    pub(super) fn aio_wait(&mut self, flowop: &Flowop) -> Outcome {
        let start = self.begin(flowop, SystemCall::IoUringEnter, FileId { fileset: 0, entry: 0 });
        let done = self.aio.as_mut().map_or(Ok(0), |queue| queue.wait((queue.in_flight() / 2).max(1)));
        self.end(flowop, start, 0);
        self.aio_result(flowop, done)
    }

    /// Waits for all writes in flight, uncounted.
    pub(super) fn aio_drain(&mut self, flowop: &Flowop) -> Outcome {
        let done = self.aio.as_mut().map_or(Ok(0), |queue| queue.wait(usize::MAX));
        self.aio_result(flowop, done)
    }

    fn aio_result(&self, flowop: &Flowop, done: std::io::Result<usize>) -> Outcome {
        done.map(drop).map_err(|error| self.mistake(flowop, &format!("asynchronous write: {}", errno_message(&error))))
    }
}
