//! Fills a volume in memory with one file, punches holes into it, and fills it with small files.

use super::{Fill, Mark, Spec, Step};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use senesce_core::Failure;
use senesce_core::failure::failed;
use senesce_core::interrupt::Interrupt;
use senesce_diagnose::PrognosisError;
use senesce_diagnose::headroom::{self, NewFiles, User};
use senesce_diagnose::twin::{self, Probe, Trial};
use senesce_layout::FileSystemSpace;
use senesce_layout::space::write_back;
use senesce_volume::{OpenOptions, ScratchDirectory, TargetSpec};
use std::fs::File;
use std::io::Write;
use std::path::Path;

const BLOCK: u64 = 4096;

pub(super) fn fill(spec: &Spec, step: Step, interrupt: &Interrupt) -> Result<Fill, Failure> {
    let (file_system, mkfs_options) = step.fs.mkfs();
    let options = OpenOptions { mkfs_options: mkfs_options.into(), ..OpenOptions::fresh(file_system) };
    let mut target = senesce_volume::open(&TargetSpec::Memory { size: spec.size.0 }, &options)?;
    let (holes, every) = step.punched.pattern();
    punch(&target.mount_point().join("large"), holes, every)?;
    target.remount()?;
    let size = spec.file_size.0.0;
    let scratch = ScratchDirectory::in_memory("early-enospc")?;
    let image = scratch.path().join("twin");
    let made = twin::make(target.mount_point(), &image, true)?;
    let trial = Trial::begin(&image, made.file_system, &made.mount_options)?;
    let on_twin = twin::fill(trial.directory(), NewFiles::of(size), User::Root)?;
    trial.end()?;
    let fill = watch(spec, step, target.mount_point(), size, (on_twin.files, on_twin.ends_by), interrupt)?;
    target.close()?;
    Ok(fill)
}

fn watch(
    spec: &Spec,
    step: Step,
    root: &Path,
    size: u64,
    (twin_files, twin_ends_by): (u64, headroom::EndsBy),
    interrupt: &Interrupt,
) -> Result<Fill, Failure> {
    let before = FileSystemSpace::of(root)?;
    let stride = (twin_files / u64::from(spec.marks)).max(1);
    let mut marks = vec![mark(root, 0, size)?];
    let mut probe = Probe::begin(root, NewFiles::of(size))?;
    let ended = loop {
        if interrupt.requested() {
            return Err(PrognosisError::Interrupted.into());
        }
        match probe.create(stride)? {
            Some(ended) => break ended,
            None if marks.len() < spec.marks as usize => marks.push(mark(root, probe.files, size)?),
            None => {}
        }
    };
    let after = FileSystemSpace::of(root)?;
    Ok(Fill {
        step,
        marks,
        twin_files,
        twin_ends_by,
        files: probe.files,
        ends_by: twin::ends_by(&before, &after, size, User::Root, ended),
        used_share: used_share(&after),
        free_bytes: after.free_blocks * after.block_size,
    })
}

fn mark(root: &Path, created: u64, size: u64) -> Result<Mark, Failure> {
    // As `diagnose` does: reservations for delayed allocation look like used blocks (fs/xfs/xfs_iomap.c).
    write_back(root)?;
    let space = FileSystemSpace::of(root)?;
    let said = headroom::one(&space, NewFiles::of(size), User::Root)
        .ok_or_else(|| Failure::usage("--fs: no rule exists for this file system"))?;
    Ok(Mark { created, used_share: used_share(&space), said })
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
