//! Makes one of the four states.
//!
//! A ballast of the free bytes is allocated first, and the rest ages. A filler then takes all remaining blocks. Young files
//! are deleted and written again in path order into their own space; a reserve for the metadata of more extents is plugged
//! afterwards. Then the filler is deleted (aged free space), or as much of the ballast (young free space).

use super::tree::{BALLAST, FILLER, PLUG, Tree};
use super::{Aging, FilesOrFreeSpace, LayoutAge, Spec, Step};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use senesce_aging::{
    AgingPlan, Clock, CommitShare, Data, DirectoryTarget, ExecuteOptions, Limit, PlanSpec, Profile, Stop, Truncate,
    execute,
};
use senesce_core::failure::failed;
use senesce_core::{Bytes, Failure, Seed};
use senesce_layout::{Layout, Options};
use senesce_runner::{Context, interrupted};
use senesce_study::spec::FileSystemSpec;
use senesce_volume::{FileSystem, MountedTarget, TargetSpec, open};
use std::fs::{self, File};
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

const BLOCK: u64 = 4096;
/// Share of the volume for the metadata of young files, which may have more extents.
pub(super) const RESERVE: f64 = 0.01;
/// Unit of [`MetadataExt::blocks`].
const SECTOR: u64 = 512;

/// Returns the file system without space that only root or the file system may use: a filler takes the rest to the last
/// block.
fn file_system(fs: FileSystem) -> Option<FileSystemSpec> {
    let (mkfs, after_mount) = match fs {
        // Without -b, small images have 1 KiB blocks.
        FileSystem::Ext4 => ("-b 4096 -m 0", "echo 0 > $SYSFS/reserved_clusters"),
        // These features reserve blocks in each allocation group.
        FileSystem::Xfs => ("-m reflink=0,rmapbt=0,finobt=0,inobtcount=0 -i sparse=0", "xfs_io -x -c 'resblks 0' $MNT"),
        _ => return None,
    };
    let (name, kind) = (fs.name().to_string(), fs.name().to_string());
    Some(FileSystemSpec { kind, name, mkfs: mkfs.into(), after_mount: after_mount.into(), ..FileSystemSpec::default() })
}

pub(super) fn is_known(fs: FileSystem) -> bool {
    file_system(fs).is_some()
}

/// Makes the aging plan of a volume with `usable` bytes.
pub(super) fn plan(spec: &Spec, aging: &Aging, usable: Bytes, seed: Seed) -> Result<AgingPlan, Failure> {
    let spec = PlanSpec {
        fullness: Some(aging.live()),
        locality: (spec.locality > 0.0).then_some(spec.locality),
        truncate: Truncate::Drop,
        limit: Limit::Overwrites(aging.overwrites * aging.live()),
        clock: Clock { commit_share: CommitShare::DEFAULT, sync_every: 0 },
        ..PlanSpec::new(Profile::load(&aging.profile)?, usable, seed)
    };
    Ok(AgingPlan::new(&spec)?)
}

pub(super) struct State {
    pub target: MountedTarget,
    fs: FileSystemSpec,
    /// Free bytes of the empty file system.
    pub usable: u64,
    /// Digest of the layout that was aged and filled.
    pub base: Option<String>,
    pub tree: Tree,
}

impl State {
    /// Makes and mounts a state.
    ///
    /// # Errors
    /// Any failure of mkfs, mount, or the aging; no space; an interrupt.
    pub(super) fn make(spec: &Spec, step: &Step, context: &Context<'_, FilesOrFreeSpace>) -> Result<Self, Failure> {
        let fs = file_system(step.aging.fs).ok_or_else(|| Failure::usage("a file system without states"))?;
        let target = open(&TargetSpec::Memory { size: spec.size.0 }, &fs.open_options("").map_err(Failure::usage)?)?;
        fs.run_hook(&target)?;
        let usable = free_bytes(target.mount_point())?;
        let blocks = |share: f64| (usable as f64 * share) as u64 / BLOCK * BLOCK;
        let (free, reserve) = (blocks(1.0 - step.aging.fullness), blocks(RESERVE));
        preallocate(&target.mount_point().join(BALLAST), free + reserve)?;
        let seed = context.seed.child(&format!("files-or-free-space/{}", step.seed));
        age(Arc::new(plan(spec, &step.aging, Bytes(usable), seed)?), &target, context)?;
        let mut state = Self { target, fs, usable, base: None, tree: Tree::default() };
        state.settle()?;
        fill(&state.target.mount_point().join(FILLER))?;
        state.settle()?;
        state.base = examine(state.target.mount_point())?.digest();
        state.tree = Tree::list(state.target.mount_point())?;
        shorten(&state.target.mount_point().join(BALLAST), free)?;
        state.settle()?;
        if step.files == LayoutAge::Young {
            state.tree.delete(state.target.mount_point())?;
            // Deleted blocks are free after a commit, and after XFS has inactivated the inodes.
            state.settle()?;
            state.tree.write(state.target.mount_point())?;
            state.settle()?;
        }
        fill(&state.target.mount_point().join(PLUG))?;
        state.release(step.free)?;
        state.settle()?;
        Ok(state)
    }

    /// Frees the same number of bytes in all states.
    fn release(&self, free: LayoutAge) -> Result<(), Failure> {
        let point = self.target.mount_point();
        let (ballast, filler) = (point.join(BALLAST), point.join(FILLER));
        let bytes = allocated(&ballast)?.min(allocated(&filler)?);
        let path = if free == LayoutAge::Aged { filler } else { ballast };
        match allocated(&path)? - bytes {
            0 => fs::remove_file(&path).map_err(failed("delete", &path)),
            rest => shorten(&path, rest),
        }
    }

    /// Unmounts and mounts again, so that preallocated and deleted blocks are free.
    pub(super) fn settle(&mut self) -> Result<(), Failure> {
        self.target.sync()?;
        self.target.settle()?;
        self.fs.run_hook(&self.target)
    }
}

pub(super) fn examine(folder: &Path) -> Result<Layout, Failure> {
    Ok(Layout::examine(folder, &Options { runs: true, extents: true, ..Options::default() })?)
}

pub(super) fn free_bytes(point: &Path) -> Result<u64, Failure> {
    let found = rustix::fs::statvfs(point).map_err(|errno| failed("check the space of", point)(errno.into()))?;
    Ok(found.f_bfree.saturating_mul(found.f_frsize))
}

fn allocated(path: &Path) -> Result<u64, Failure> {
    Ok(path.metadata().map_err(failed("check", path))?.blocks() * SECTOR)
}

fn age(plan: Arc<AgingPlan>, target: &MountedTarget, context: &Context<'_, FilesOrFreeSpace>) -> Result<(), Failure> {
    let back_end = DirectoryTarget::new(plan.clone(), target.directory(), Data::Write);
    let mut planner = plan.operations();
    let options = ExecuteOptions::default();
    let outcome = execute(&mut planner, &back_end, &options, context.interrupt, &mut |_, _| ControlFlow::Continue(()));
    match outcome.result? {
        Stop::Finished => Ok(()),
        _ => Err(interrupted()),
    }
}

fn preallocate(path: &Path, bytes: u64) -> Result<(), Failure> {
    let file = File::create_new(path).map_err(failed("create", path))?;
    fallocate(&file, FallocateFlags::empty(), 0, bytes).map_err(|errno| failed("allocate", path)(errno.into()))
}

fn shorten(path: &Path, bytes: u64) -> Result<(), Failure> {
    let file = File::options().write(true).open(path).map_err(failed("open", path))?;
    file.set_len(bytes).map_err(failed("shorten", path))
}

/// Allocates all free blocks to one file. They are unwritten, so that reading them takes no requests.
fn fill(path: &Path) -> Result<(), Failure> {
    let file = File::create_new(path).map_err(failed("create", path))?;
    let (mut end, mut step) = (0, 64 << 20);
    while step >= BLOCK {
        match fallocate(&file, FallocateFlags::empty(), end, step) {
            Ok(()) => end += step,
            Err(Errno::NOSPC) => step /= 2,
            Err(errno) => return Err(failed("allocate", path)(errno.into())),
        }
    }
    Ok(())
}
