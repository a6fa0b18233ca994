//! Ages a file system in memory with traced requests, and reads it cold.

use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;
use senesce_core::failure::failed;
use senesce_core::interrupt::Interrupt;
use senesce_core::progress::Silent;
use senesce_core::{ExitCode, Failure, Seed};
use senesce_devmodel::{Operation, Request};
use senesce_runner::interrupted;
use senesce_runs::cold;
use senesce_volume::trace::ValidTrace;
use senesce_volume::{BlockTrace, FileSystem, MountedTarget, OpenOptions, TargetSpec, TraceSession, open};
use std::fs::{File, OpenOptions as FileOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Above this share of the volume, files are removed, 20 at a time.
const FULL: f64 = 0.7;
const REMOVED: usize = 20;
const LARGEST_BLOCKS: u64 = 128;
const BLOCK: u64 = 4096;
const FOLDERS: u64 = 16;

pub(crate) struct Aged {
    pub history: Vec<Request>,
    pub reads: Vec<Request>,
    pub caveat: Option<&'static str>,
}

impl Aged {
    /// Ages until the given number of bytes is written, then reads everything cold.
    ///
    /// # Errors
    /// The volume cannot be made, written or read cold, or the user interrupts the run.
    pub(crate) fn make(
        target: &TargetSpec,
        fs: FileSystem,
        bytes: u64,
        seed: Seed,
        interrupt: &Interrupt,
    ) -> Result<Self, Failure> {
        let mut target = open(target, &OpenOptions::fresh(fs))?;
        let folder = target.directory().path().join("data");
        let trace = traced(&target, || {
            let full = (target.capacity().0 as f64 * FULL) as u64;
            let mut churn = Churn::new(&folder, full, seed)?;
            while churn.written < bytes {
                if interrupt.requested() {
                    return Err(interrupted());
                }
                churn.operation()?;
            }
            Ok(target.sync()?)
        })?;
        let valid = trace.valid()?;
        let history = chosen(&valid, |operation| matches!(operation, Operation::Write | Operation::Discard));
        target.remount()?;
        let mut caveat = None;
        let trace = traced(&target, || {
            let (read, account) = cold::read(&target, &folder, &Silent, interrupt)?;
            caveat = account.judge(&read)?;
            Ok(())
        })?;
        let reads = chosen(&trace.valid()?, |operation| operation == Operation::Read);
        target.close()?;
        Ok(Self { history, reads, caveat })
    }
}

/// Traces the requests of the target's device during `work`.
fn traced(target: &MountedTarget, work: impl FnOnce() -> Result<(), Failure>) -> Result<BlockTrace, Failure> {
    let device = target.block_device_info().ok_or_else(|| Failure::new(ExitCode::Missing, "no block device below"))?;
    let session = TraceSession::start(&device)?;
    work()?;
    Ok(session.stop()?)
}

fn chosen(trace: &ValidTrace<'_>, keep: impl Fn(Operation) -> bool) -> Vec<Request> {
    trace.for_models().into_iter().filter(|request| keep(request.operation)).collect()
}

/// Creates, extends, overwrites and removes files. Each operation ends with an fsync, so that the device receives it in order.
struct Churn {
    folder: PathBuf,
    files: Vec<(PathBuf, u64)>,
    full: u64,
    used: u64,
    written: u64,
    number: u64,
    random: Pcg64,
    content: Vec<u8>,
}

impl Churn {
    fn new(folder: &Path, full: u64, seed: Seed) -> Result<Self, Failure> {
        for number in 0..FOLDERS {
            let path = folder.join(number.to_string());
            std::fs::create_dir_all(&path).map_err(failed("create directory", &path))?;
        }
        let mut content = vec![0; (LARGEST_BLOCKS * BLOCK) as usize];
        seed.stream("content").fill_bytes(&mut content);
        let random = seed.stream("operations");
        Ok(Self { folder: folder.into(), files: Vec::new(), full, used: 0, written: 0, number: 0, random, content })
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.random.next_u64() % limit.max(1)
    }

    fn operation(&mut self) -> Result<(), Failure> {
        if self.used > self.full {
            return (0..REMOVED).try_for_each(|_| self.remove());
        }
        match self.below(10) {
            5..=7 if !self.files.is_empty() => self.append(),
            8.. if !self.files.is_empty() => self.overwrite(),
            _ => self.create(),
        }
    }

    fn create(&mut self) -> Result<(), Failure> {
        let bytes = (1 + self.below(LARGEST_BLOCKS)) * BLOCK;
        let path = self.folder.join(format!("{}/f{}", self.number % FOLDERS, self.number));
        self.number += 1;
        let file = File::create(&path).map_err(failed("create", &path))?;
        self.write(&file, &path, 0, bytes)?;
        self.used += bytes;
        self.files.push((path, bytes));
        Ok(())
    }

    fn append(&mut self) -> Result<(), Failure> {
        let bytes = (1 + self.below(16)) * BLOCK;
        let chosen = self.below(self.files.len() as u64) as usize;
        let (path, end) = self.files[chosen].clone();
        self.write_into(&path, end, bytes)?;
        self.files[chosen].1 += bytes;
        self.used += bytes;
        Ok(())
    }

    fn overwrite(&mut self) -> Result<(), Failure> {
        let chosen = self.below(self.files.len() as u64) as usize;
        let (path, end) = self.files[chosen].clone();
        let from = self.below(end / BLOCK) * BLOCK;
        let bytes = ((1 + self.below(16)) * BLOCK).min(end - from);
        self.write_into(&path, from, bytes)
    }

    fn write_into(&mut self, path: &Path, offset: u64, bytes: u64) -> Result<(), Failure> {
        let file = FileOptions::new().write(true).open(path).map_err(failed("open", path))?;
        self.write(&file, path, offset, bytes)
    }

    fn write(&mut self, file: &File, path: &Path, offset: u64, bytes: u64) -> Result<(), Failure> {
        file.write_all_at(&self.content[..bytes as usize], offset).map_err(failed("write", path))?;
        file.sync_all().map_err(failed("synchronise", path))?;
        self.written += bytes;
        Ok(())
    }

    fn remove(&mut self) -> Result<(), Failure> {
        if self.files.is_empty() {
            return Ok(());
        }
        let chosen = self.below(self.files.len() as u64) as usize;
        let (path, bytes) = self.files.swap_remove(chosen);
        std::fs::remove_file(&path).map_err(failed("remove", &path))?;
        self.used -= bytes;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_follow_from_the_seed_and_stay_below_the_limit() {
        let grown = |seed| {
            let temporary = tempfile::tempdir().unwrap();
            let mut churn = Churn::new(temporary.path(), 8 << 20, Seed(seed)).unwrap();
            while churn.written < 24 << 20 {
                churn.operation().unwrap();
                let there: u64 = churn.files.iter().map(|(path, _)| path.metadata().unwrap().len()).sum();
                assert_eq!(there, churn.used);
                assert!(churn.used <= (8 << 20) + LARGEST_BLOCKS * BLOCK);
            }
            churn.files.iter().map(|(path, bytes)| (path.file_name().unwrap().to_owned(), *bytes)).collect::<Vec<_>>()
        };
        assert_eq!(grown(1), grown(1));
        assert_ne!(grown(1), grown(2));
    }
}
