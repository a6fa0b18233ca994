//! Flowops on names and descriptors: open, create, close, delete, stat, fsync, directories.

use super::file_calls::FileCalls;
use super::program::Flowop;
use super::shared::{ActiveFileset, SystemCall};
use super::worker::{FileId, Outcome, Slot, Stop, Worker};
use crate::fileset::pick::{EntryTable, PickFrom, PickOrder};
use crate::model::Value;
use rand_pcg::rand_core::Rng;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::sync::atomic::AtomicU32;

const DIRECTORY_BUFFER: usize = 32 << 10;

/// Turns a missing file into the end of the work, because each directory is created or removed once.
fn exhausted(stop: Stop) -> Stop {
    match stop {
        Stop::NoFile(why) => Stop::Exhausted(why),
        other => other,
    }
}

impl<'a, B: FileCalls> Worker<'a, B> {
    fn fileset(&self, flowop: &Flowop) -> Result<(u32, &'a ActiveFileset), Stop> {
        match flowop.spec.fileset {
            Some(index) => Ok((index as u32, &self.shared.filesets[index])),
            None => Err(self.mistake(
                flowop,
                &format!("descriptor slot fd={} is not open and no filesetname is given", flowop.spec.fd),
            )),
        }
    }

    fn pick(&mut self, flowop: &Flowop, table: &EntryTable, which: PickFrom, rotor: &AtomicU32) -> Result<u32, Stop> {
        let how = match flowop.spec.indexed {
            Some(value) => {
                let number = match value {
                    Value::Constant(number) => number as f64,
                    Value::Random(index) => self.draw(index),
                };
                let entries = table.len().max(1) as u64;
                PickOrder::Index((number * (entries / 2) as f64) as u64 % entries)
            }
            None if self.shared.random_choice => PickOrder::Random(self.generator.next_u64()),
            None => PickOrder::Rotation(rotor),
        };
        if let Some(entry) = table.pick(which, how, self.shared.waits.flag()) {
            return Ok(entry);
        }
        if self.shared.waits.stopped() {
            return Err(Stop::Over);
        }
        let state = if which == PickFrom::Missing { "missing" } else { "existing" };
        let fileset = flowop.spec.fileset.map_or("", |index| &self.shared.filesets[index].name);
        Err(Stop::NoFile(format!(
            "{} could not obtain a file: file set '{fileset}' has no {state} entry left",
            self.flowop_label(flowop)
        )))
    }

    pub(super) fn open(&mut self, flowop: &Flowop, slot: usize) -> Outcome {
        if self.slots[slot].handle.is_some() {
            return Err(self.mistake(flowop, &format!("opens descriptor slot fd={slot} without closing it first")));
        }
        let (index, fileset) = self.fileset(flowop)?;
        let own = std::mem::take(&mut self.rotors[index as usize]);
        let rotor = if flowop.spec.opennext { &own } else { &fileset.files.rotor };
        let picked = self.pick(flowop, &fileset.files, PickFrom::Existing, rotor);
        self.rotors[index as usize] = own;
        let entry = picked?;
        let file = FileId { fileset: index, entry };
        let path = &fileset.file_paths[entry as usize];
        let size = fileset.sizes[entry as usize];
        let start = self.begin(flowop, SystemCall::Openat, file);
        let opened = self.opened(flowop, self.shared.backend.open(fileset.root.as_fd(), path, flowop.open_flags, size));
        self.end(flowop, start, 0);
        match opened {
            Ok(handle) => {
                fileset.files.release(entry, 1);
                self.slots[slot] = Slot { handle: Some(handle), file: Some(file) };
                Ok(())
            }
            Err(errno) => {
                fileset.files.release(entry, 0);
                Err(self.failed(flowop, "openat", Some(file), errno))
            }
        }
    }

    fn opened(&self, flowop: &Flowop, handle: Result<B::Handle, Errno>) -> Result<B::Handle, Errno> {
        let handle = handle?;
        if flowop.spec.noreadahead {
            self.shared.backend.advise_random(&handle)?;
        }
        Ok(handle)
    }

    pub(super) fn create(&mut self, flowop: &Flowop) -> Outcome {
        let slot = flowop.spec.fd;
        if self.slots[slot].handle.is_some() {
            return Err(self.mistake(flowop, &format!("creates on descriptor slot fd={slot} without closing it first")));
        }
        let (index, fileset) = self.fileset(flowop)?;
        let entry = self.pick(flowop, &fileset.files, PickFrom::Missing, &fileset.files.missing_rotor)?;
        let file = FileId { fileset: index, entry };
        let path = &fileset.file_paths[entry as usize];
        let flags = flowop.open_flags | OFlags::CREATE;
        let (root, size) = (fileset.root.as_fd(), fileset.sizes[entry as usize]);
        let backend = &self.shared.backend;
        let start = self.begin(flowop, SystemCall::Openat, file);
        let mut created = backend.open(root, path, flags, size);
        if created.as_ref().err() == Some(&Errno::NOENT) {
            created = self.make_parents(fileset, path).and_then(|()| backend.open(root, path, flags, size));
        }
        let created = self.opened(flowop, created);
        self.end(flowop, start, 0);
        match created {
            Ok(handle) => {
                fileset.files.release_existing(entry, 1);
                self.slots[slot] = Slot { handle: Some(handle), file: Some(file) };
                Ok(())
            }
            Err(errno) => {
                fileset.files.release(entry, 0);
                Err(self.failed(flowop, "openat (create)", Some(file), errno))
            }
        }
    }

    /// Directories are missing if the file set is not preallocated; creation adds them, as in Filebench.
    fn make_parents(&self, fileset: &ActiveFileset, path: &CStr) -> Result<(), Errno> {
        let text = path.to_string_lossy();
        for (position, _) in text.match_indices('/') {
            let parent = CString::new(&text[..position]).map_err(|_| Errno::INVAL)?;
            match self.shared.backend.mkdir(fileset.root.as_fd(), &parent) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    pub(super) fn close(&mut self, flowop: &Flowop) -> Outcome {
        let slot = flowop.spec.fd;
        let Some(handle) = self.slots[slot].handle.take() else {
            return Err(self.mistake(flowop, &format!("closes descriptor slot fd={slot}, which is not open")));
        };
        let nobody = FileId { fileset: 0, entry: 0 };
        let file = self.slots[slot].file;
        if let Some(file) = file {
            let files = &self.shared.filesets[file.fileset as usize].files;
            if !files.acquire(file.entry, self.shared.waits.flag()) {
                self.slots[slot].handle = Some(handle);
                return Err(Stop::Over);
            }
        }
        let start = self.begin(flowop, SystemCall::Close, file.unwrap_or(nobody));
        let closed = self.shared.backend.close(handle);
        self.end(flowop, start, 0);
        if let Some(file) = file {
            self.shared.filesets[file.fileset as usize].files.release(file.entry, -1);
        }
        closed.map_err(|errno| self.failed(flowop, "close", file, errno))
    }

    pub(super) fn delete(&mut self, flowop: &Flowop) -> Outcome {
        let slot = flowop.spec.fd;
        let given = if slot > 0 { self.slots[slot].file.take() } else { None };
        let file = match given {
            Some(file) => {
                let files = &self.shared.filesets[file.fileset as usize].files;
                if !files.acquire(file.entry, self.shared.waits.flag()) {
                    return Err(Stop::Over);
                }
                file
            }
            None => {
                let (index, fileset) = self.fileset(flowop)?;
                let entry = self.pick(flowop, &fileset.files, PickFrom::Closed, &fileset.files.rotor)?;
                FileId { fileset: index, entry }
            }
        };
        let fileset = &self.shared.filesets[file.fileset as usize];
        let own = u32::from(given.is_some() && self.slots[slot].handle.is_some());
        if fileset.files.open_count(file.entry) > own {
            // Another thread has it open: it is kept, and nothing is counted.
            fileset.files.release(file.entry, 0);
            return Ok(());
        }
        let start = self.begin(flowop, SystemCall::Unlinkat, file);
        let deleted = self.shared.backend.unlink(fileset.root.as_fd(), &fileset.file_paths[file.entry as usize]);
        self.end(flowop, start, 0);
        match deleted {
            Ok(()) => {
                fileset.files.release_missing(file.entry);
                Ok(())
            }
            Err(errno) => {
                fileset.files.release(file.entry, 0);
                Err(self.failed(flowop, "unlinkat", Some(file), errno))
            }
        }
    }

    pub(super) fn stat(&mut self, flowop: &Flowop) -> Outcome {
        let slot = &self.slots[flowop.spec.fd];
        if let (true, Some(handle), Some(file)) = (flowop.spec.fd > 0, slot.handle, slot.file) {
            let start = self.begin(flowop, SystemCall::Fstat, file);
            let found = self.shared.backend.fstat(&handle);
            self.end(flowop, start, 0);
            return found.map_err(|errno| self.failed(flowop, "fstat", Some(file), errno));
        }
        let (index, fileset) = self.fileset(flowop)?;
        let entry = self.pick(flowop, &fileset.files, PickFrom::Existing, &fileset.files.rotor)?;
        let file = FileId { fileset: index, entry };
        let start = self.begin(flowop, SystemCall::Newfstatat, file);
        let found = self.shared.backend.stat(fileset.root.as_fd(), &fileset.file_paths[entry as usize]);
        self.end(flowop, start, 0);
        fileset.files.release(entry, 0);
        found.map_err(|errno| self.failed(flowop, "newfstatat", Some(file), errno))
    }

    pub(super) fn fsync(&mut self, flowop: &Flowop) -> Outcome {
        let slot = flowop.spec.fd;
        if self.slots[slot].handle.is_none() {
            return Err(self.mistake(flowop, &format!("syncs descriptor slot fd={slot}, which is not open")));
        }
        self.fsync_slot(flowop, slot)
    }

    pub(super) fn fsync_set(&mut self, flowop: &Flowop) -> Outcome {
        for slot in 0..self.slots.len() {
            let file = self.slots[slot].file.map(|file| file.fileset as usize);
            if self.slots[slot].handle.is_some() && file == flowop.spec.fileset {
                self.fsync_slot(flowop, slot)?;
            }
        }
        Ok(())
    }

    fn fsync_slot(&mut self, flowop: &Flowop, slot: usize) -> Outcome {
        let Slot { handle: Some(handle), file } = &self.slots[slot] else { return Ok(()) };
        let start = self.begin(flowop, SystemCall::Fsync, file.unwrap_or(FileId { fileset: 0, entry: 0 }));
        let synced = self.shared.backend.fsync(handle);
        self.end(flowop, start, 0);
        synced.map_err(|errno| self.failed(flowop, "fsync", *file, errno))
    }

    pub(super) fn make_directory(&mut self, flowop: &Flowop) -> Outcome {
        let (index, fileset) = self.fileset(flowop)?;
        let table = &fileset.leaf_directories;
        let entry = self.pick(flowop, table, PickFrom::Missing, &table.missing_rotor).map_err(exhausted)?;
        let path = &fileset.leaf_directory_paths[entry as usize];
        let root = fileset.root.as_fd();
        let start = self.begin(flowop, SystemCall::Mkdirat, FileId { fileset: index, entry: 0 });
        let mut made = self.shared.backend.mkdir(root, path);
        if made == Err(Errno::NOENT) {
            made = self.make_parents(fileset, path).and_then(|()| self.shared.backend.mkdir(root, path));
        }
        self.end(flowop, start, 0);
        match made {
            Ok(()) => {
                table.release_existing(entry, 0);
                Ok(())
            }
            Err(errno) => {
                table.release(entry, 0);
                Err(self.failed_directory(flowop, "mkdirat", fileset, path, errno))
            }
        }
    }

    pub(super) fn remove_directory(&mut self, flowop: &Flowop) -> Outcome {
        let (index, fileset) = self.fileset(flowop)?;
        let table = &fileset.leaf_directories;
        let entry = self.pick(flowop, table, PickFrom::Existing, &table.rotor).map_err(exhausted)?;
        let path = &fileset.leaf_directory_paths[entry as usize];
        let start = self.begin(flowop, SystemCall::Unlinkat, FileId { fileset: index, entry: 0 });
        let removed = self.shared.backend.rmdir(fileset.root.as_fd(), path);
        self.end(flowop, start, 0);
        match removed {
            Ok(()) => {
                table.release_missing(entry);
                Ok(())
            }
            Err(errno) => {
                table.release(entry, 0);
                Err(self.failed_directory(flowop, "unlinkat (rmdir)", fileset, path, errno))
            }
        }
    }

    pub(super) fn list_directory(&mut self, flowop: &Flowop) -> Outcome {
        let (index, fileset) = self.fileset(flowop)?;
        let table = &fileset.directories;
        let entry = self.pick(flowop, table, PickFrom::Existing, &table.rotor)?;
        let path = &fileset.directory_paths[entry as usize];
        let mut buffer = vec![MaybeUninit::uninit(); DIRECTORY_BUFFER];
        let start = self.begin(flowop, SystemCall::Getdents, FileId { fileset: index, entry: 0 });
        let listed = self.shared.backend.list(fileset.root.as_fd(), path, &mut buffer);
        self.end(flowop, start, *listed.as_ref().unwrap_or(&0));
        table.release(entry, 0);
        listed.map(drop).map_err(|errno| self.failed_directory(flowop, "getdents64", fileset, path, errno))
    }

    fn failed_directory(
        &self,
        flowop: &Flowop,
        call: &str,
        fileset: &ActiveFileset,
        path: &CStr,
        errno: Errno,
    ) -> Stop {
        let full = fileset.path.join(path.to_string_lossy().as_ref());
        let message = senesce_core::failure::errno_message(&errno.into());
        Stop::Failed(format!("{}: {call} {}: {message}", self.flowop_label(flowop), full.display()))
    }
}
