//! Fills a volume in memory with one file, punches holes into it, and fills it with small files.

use super::{Fill, PredictionMark, Spec, Step};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use senesce_core::Failure;
use senesce_core::failure::failed;
use senesce_core::interrupt::Interrupt;
use senesce_diagnose::PrognosisError;
use senesce_diagnose::headroom::{self, NewFiles, User};
use senesce_diagnose::twin::{self, EnospcCall, Probe, Trial, TwinFacts};
use senesce_layout::FileSystemSpace;
use senesce_layout::space::write_back;
use senesce_volume::{OpenOptions, ScratchDirectory, TargetSpec};
use std::fs::File;
use std::io::Write;
use std::path::Path;

const BLOCK: u64 = 4096;
/// Files between two checks for an interrupt.
const BATCH: u64 = 1000;

pub(super) fn fill(spec: &Spec, step: Step, interrupt: &Interrupt) -> Result<Fill, Failure> {
    let (file_system, mkfs_options) = step.fs.mkfs();
    let options = OpenOptions { mkfs_options: mkfs_options.into(), ..OpenOptions::fresh(file_system) };
    let mut target = senesce_volume::open(&TargetSpec::Memory { size: spec.size.0 }, &options)?;
    let (holes, every) = step.punched.pattern();
    punch(&target.mount_point().join("large"), holes, every)?;
    target.remount()?;
    let new = NewFiles::of(spec.file_size.0.0);
    let scratch = ScratchDirectory::in_memory("early-enospc")?;
    let image = scratch.path().join("twin");
    let made = twin::make(target.mount_point(), &image, true)?;
    let twins = Twins { image: &image, made: &made, new, interrupt };
    let on_twin = twins.on(|directory| Ok(twin::fill(directory, new, User::Root)?))?;
    let first = predict(target.mount_point(), new)?;
    let before = FileSystemSpace::of(target.mount_point())?;
    let mut probe = Probe::begin(target.mount_point(), new)?;
    let ended = twins.create_all(&mut probe)?;
    let after = FileSystemSpace::of(target.mount_point())?;
    let files = probe.files;
    // It holds a directory of the volume open.
    drop(probe);
    target.close()?;
    let mut marks = vec![PredictionMark { came: files, ..first }];
    let stride = (on_twin.files / u64::from(spec.marks)).max(1);
    for mark in 1..u64::from(spec.marks) {
        let created = mark * stride;
        marks.extend((created < on_twin.files).then(|| twins.mark(created)).transpose()?);
    }
    Ok(Fill {
        step,
        marks,
        twin_files: on_twin.files,
        twin_ends_by: on_twin.ends_by,
        files,
        ends_by: twin::ends_by(&before, &after, new.size, User::Root, ended),
        used_share: used_share(&after),
        free_bytes: after.free_blocks * after.block_size,
    })
}

/// Trials on copies of the metadata. A prediction in the middle of a fill writes data back, which changes the rest of
/// that fill, so each has its own.
struct Twins<'a> {
    image: &'a Path,
    made: &'a TwinFacts,
    new: NewFiles,
    interrupt: &'a Interrupt,
}

impl Twins<'_> {
    fn on<T>(&self, work: impl FnOnce(&Path) -> Result<T, Failure>) -> Result<T, Failure> {
        let trial = Trial::begin(self.image, self.made.file_system, &self.made.mount_options)?;
        let done = work(trial.directory())?;
        trial.end()?;
        Ok(done)
    }

    fn mark(&self, created: u64) -> Result<PredictionMark, Failure> {
        self.on(|directory| {
            let mut probe = Probe::begin(directory, self.new)?;
            probe.create(created)?;
            let mark = predict(directory, self.new)?;
            self.create_all(&mut probe)?;
            Ok(PredictionMark { created, came: probe.files - created, ..mark })
        })
    }

    fn create_all(&self, probe: &mut Probe) -> Result<EnospcCall, Failure> {
        loop {
            if self.interrupt.requested() {
                return Err(PrognosisError::Interrupted.into());
            }
            if let Some(ended) = probe.create(BATCH)? {
                return Ok(ended);
            }
        }
    }
}

fn predict(root: &Path, new: NewFiles) -> Result<PredictionMark, Failure> {
    // As `diagnose` does: reservations for delayed allocation look like used blocks (fs/xfs/xfs_iomap.c).
    write_back(root)?;
    let space = FileSystemSpace::of(root)?;
    let said = headroom::one(&space, new, User::Root)
        .ok_or_else(|| Failure::usage("--fs: no rule exists for this file system"))?;
    Ok(PredictionMark { created: 0, used_share: used_share(&space), said, came: 0 })
}

fn used_share(space: &FileSystemSpace) -> f64 {
    1.0 - space.free_blocks as f64 / space.blocks.max(1) as f64
}

fn punch(path: &Path, holes: u64, every: u64) -> Result<(), Failure> {
    let mut file = File::create(path).map_err(failed("create", path))?;
    let data = vec![0u8; 1 << 20];
    let mut length = 0u64;
    loop {
        match file.write(&data) {
            Ok(count) => length += count as u64,
            Err(error) if error.kind() == std::io::ErrorKind::StorageFull => break,
            Err(error) => return Err(failed("write", path)(error)),
        }
    }
    file.sync_all().map_err(failed("synchronise", path))?;
    let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    for index in 0..length / BLOCK / every {
        match fallocate(&file, mode, index * every * BLOCK, holes * BLOCK) {
            Ok(()) => {}
            // btrfs frees nothing of a partly used extent, and recording the hole needs metadata space.
            Err(Errno::NOSPC) => break,
            Err(errno) => return Err(failed("punch a hole into", path)(errno.into())),
        }
    }
    file.sync_all().map_err(failed("synchronise", path))
}
