//! The published job (`f2fs/job.fio` of the study's artifact). Each writer has ten files. It overwrites every block of
//! 4 KiB once in random order, then starts again. After every 32 blocks it syncs the data of one file.

use super::{F2fsBandwidth, Spec};
use rand::RngExt;
use rand::seq::SliceRandom;
use senesce_core::failure::failed;
use senesce_core::{Bytes, ExitCode, Failure, Seed};
use senesce_runner::Context;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

const BLOCK: u64 = 4096;
const FILES_PER_WRITER: u64 = 10;
const BLOCKS_PER_SYNC: u64 = 32;
const POINTS: u64 = 100;

#[derive(Debug, Clone, Copy)]
pub(crate) struct WriterFiles {
    writers: u64,
    blocks_per_file: u64,
}

impl WriterFiles {
    pub(crate) fn of(spec: &Spec, drive_size: Bytes) -> Self {
        let writers = u64::from(spec.writers);
        let bytes = drive_size.0 as f64 * spec.fullness;
        let blocks_per_file = (bytes / (writers * FILES_PER_WRITER * BLOCK) as f64) as u64;
        Self { writers, blocks_per_file: blocks_per_file.clamp(1, u64::from(u32::MAX) / FILES_PER_WRITER) }
    }

    fn blocks_per_writer(self) -> u64 {
        FILES_PER_WRITER * self.blocks_per_file
    }

    pub(crate) fn bytes(self) -> Bytes {
        Bytes(self.writers * self.blocks_per_writer() * BLOCK)
    }

    /// Returns the bytes of `overwrites` passes over all files.
    pub(crate) fn bytes_for(self, overwrites: f64) -> u64 {
        self.blocks_for(overwrites) * self.writers * BLOCK
    }

    fn blocks_for(self, overwrites: f64) -> u64 {
        ((self.blocks_per_writer() as f64 * overwrites) as u64).max(1)
    }

    pub(crate) fn lay_out(self, root: &Path, context: &Context<'_, F2fsBandwidth>) -> Result<Vec<Writer>, Failure> {
        let mut content = vec![0; 1 << 20];
        rand::Rng::fill_bytes(&mut context.seed.stream("f2fs-bandwidth/content"), &mut content);
        let file = |writer: u64, number: u64| {
            context.check_interrupt()?;
            let path = root.join(format!("{writer:03}-{number}"));
            let file = File::create(&path).map_err(failed("create", &path))?;
            let bytes = self.blocks_per_file * BLOCK;
            for offset in (0..bytes).step_by(content.len()) {
                let length = content.len().min((bytes - offset) as usize);
                file.write_all_at(&content[..length], offset).map_err(failed("write", &path))?;
            }
            file.sync_all().map_err(failed("sync", &path))?;
            Ok((path, file))
        };
        let writer = |writer| (0..FILES_PER_WRITER).map(|number| file(writer, number)).collect();
        (0..self.writers).map(writer).collect()
    }
}

pub(crate) type Writer = Vec<(PathBuf, File)>;

#[derive(Debug, Clone, Copy)]
pub(crate) struct WriteProgress {
    /// Since the run began.
    pub seconds: f64,
    pub bytes: u64,
}

struct Shared {
    shape: WriterFiles,
    blocks: u64,
    blocks_each: u64,
    begin: Instant,
    /// Blocks between two samples.
    stretch: u64,
    written: AtomicU64,
    is_stopped: AtomicBool,
}

/// Runs all writers until `wanted_bytes` are written. `announce` receives the progress, or `None` from time to time. Its
/// failure stops the writers.
pub(crate) fn run(
    writers: &[Writer],
    shape: WriterFiles,
    wanted_bytes: u64,
    begin: Instant,
    seed: Seed,
    mut announce: impl FnMut(Option<WriteProgress>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let blocks = wanted_bytes / BLOCK;
    let shared = Shared {
        shape,
        blocks,
        blocks_each: blocks / shape.writers,
        begin,
        stretch: (blocks / POINTS).max(BLOCKS_PER_SYNC),
        written: AtomicU64::new(0),
        is_stopped: AtomicBool::new(false),
    };
    std::thread::scope(|scope| {
        let (sender, receiver) = channel();
        let mut handles = Vec::new();
        for (number, files) in writers.iter().enumerate() {
            let (shared, sender) = (&shared, sender.clone());
            let seed = seed.child(&format!("f2fs-bandwidth/writer/{number}"));
            handles.push(scope.spawn(move || {
                let written = shared.write(files, seed, &sender);
                // A failure would otherwise be reported only after all other writers are done.
                shared.is_stopped.fetch_or(written.is_err(), Ordering::Relaxed);
                written
            }));
        }
        drop(sender);
        let (mut outcome, mut furthest) = (Ok(()), 0);
        loop {
            let course = match receiver.recv_timeout(Duration::from_millis(100)) {
                // Progress messages of several writers may arrive out of order.
                Ok(course) if course.bytes <= furthest => continue,
                Ok(course) => {
                    furthest = course.bytes;
                    Some(course)
                }
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            if outcome.is_ok()
                && let Err(failure) = announce(course)
            {
                shared.is_stopped.store(true, Ordering::Relaxed);
                outcome = Err(failure);
            }
        }
        let ended = || Failure::new(ExitCode::RunFailed, "a writer ended without a result");
        let written = handles.into_iter().try_for_each(|handle| handle.join().map_err(|_| ended())?);
        outcome.and(written)
    })
}

impl Shared {
    fn write(&self, files: &Writer, seed: Seed, sender: &Sender<WriteProgress>) -> Result<(), Failure> {
        let mut random = seed.stream("order");
        let mut content = vec![0; BLOCK as usize];
        rand::Rng::fill_bytes(&mut random, &mut content);
        let mut order: Vec<u32> = (0..self.shape.blocks_per_writer() as u32).collect();
        let mut left = self.blocks_each;
        while left > 0 {
            order.shuffle(&mut random);
            let count = left.min(order.len() as u64) as usize;
            for some in order[..count].chunks(BLOCKS_PER_SYNC as usize) {
                if self.is_stopped.load(Ordering::Relaxed) {
                    return Ok(());
                }
                for place in some {
                    let (file, block) = (
                        u64::from(*place) / self.shape.blocks_per_file,
                        u64::from(*place) % self.shape.blocks_per_file,
                    );
                    let (path, file) = &files[file as usize];
                    file.write_all_at(&content, block * BLOCK).map_err(failed("write", path))?;
                }
                let (path, file) = &files[random.random_range(0..files.len())];
                file.sync_data().map_err(failed("sync", path))?;
                self.count(some.len() as u64, sender);
            }
            left -= count as u64;
        }
        Ok(())
    }

    fn count(&self, blocks: u64, sender: &Sender<WriteProgress>) {
        let before = self.written.fetch_add(blocks, Ordering::Relaxed);
        let now = before + blocks;
        if now / self.stretch > before / self.stretch || now == self.blocks {
            // The receiver is gone when the run is over.
            let _ = sender.send(WriteProgress { seconds: self.begin.elapsed().as_secs_f64(), bytes: now * BLOCK });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_core::Level;
    use senesce_runner::Experiment;

    fn writers(folder: &Path, shape: WriterFiles) -> Vec<Writer> {
        let file = |name: String| {
            let path = folder.join(name);
            let file = File::create(&path).unwrap();
            file.set_len(shape.blocks_per_file * BLOCK).unwrap();
            (path, file)
        };
        (0..shape.writers)
            .map(|writer| (0..FILES_PER_WRITER).map(|number| file(format!("{writer}-{number}"))).collect())
            .collect()
    }

    #[test]
    fn every_block_is_written_once_per_pass() {
        let folder = tempfile::tempdir().unwrap();
        let shape = WriterFiles { writers: 3, blocks_per_file: 17 };
        let writers = writers(folder.path(), shape);
        let mut stated = Vec::new();
        let wanted = shape.bytes_for(1.0);
        assert_eq!(wanted, shape.bytes().0);
        let begin = Instant::now();
        run(&writers, shape, wanted, begin, Seed(1), |course| {
            stated.extend(course.map(|course| course.bytes));
            Ok(())
        })
        .unwrap();
        assert!(stated.is_sorted_by(|one, next| one < next), "{stated:?}");
        assert_eq!(stated.last(), Some(&wanted));
        let is_written = |(path, _): &(PathBuf, File)| {
            let content = std::fs::read(path).unwrap();
            content.chunks(BLOCK as usize).all(|block| block.iter().any(|byte| *byte != 0))
        };
        assert!(writers.iter().flatten().all(is_written));
    }

    #[test]
    fn failing_writer_stops_all() {
        let folder = tempfile::tempdir().unwrap();
        let shape = WriterFiles { writers: 2, blocks_per_file: 100 };
        let mut writers = writers(folder.path(), shape);
        let path = writers[1][0].0.clone();
        writers[1][0] = (path.clone(), File::open(&path).unwrap());
        let ended = run(&writers, shape, shape.bytes_for(1e6), Instant::now(), Seed(1), |_| Ok(())).unwrap_err();
        assert!(ended.to_string().contains("write"), "{ended}");
    }

    #[test]
    fn failing_progress_callback_stops_writers() {
        let folder = tempfile::tempdir().unwrap();
        let shape = WriterFiles { writers: 2, blocks_per_file: 100 };
        let writers = writers(folder.path(), shape);
        let stop = |course: Option<WriteProgress>| match course {
            Some(_) => Err(Failure::new(ExitCode::Interrupted, "enough")),
            None => Ok(()),
        };
        let ended = run(&writers, shape, shape.bytes_for(1000.0), Instant::now(), Seed(1), stop).unwrap_err();
        assert_eq!(ended.exit_code(), ExitCode::Interrupted);
    }

    #[test]
    fn the_paper_scale_has_the_published_shape() {
        let spec = F2fsBandwidth::defaults(Level::Paper);
        let shape = WriterFiles::of(&spec, Bytes::mib(904 * 1077));
        assert_eq!(shape.writers * FILES_PER_WRITER, 80);
        let gib = shape.bytes().0 as f64 / (1u64 << 30) as f64;
        assert!((gib - 720.0).abs() < 0.5, "{gib}");
    }
}
