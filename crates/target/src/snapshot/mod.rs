//! Snapshots of images and devices, and the way back to them.
//!
//! A snapshot is a sparse copy (or a reflink) beside the image. Going back after a traced command restores only what the
//! command wrote or discarded; everything else restores the whole. A journal says that a restore or a traced command is
//! under way, so that after a kill the next call completes it.

mod manifest;
mod medium;
mod restore;

pub use manifest::{Manifest, Stamp};

use crate::error::TargetError;
use crate::image_file::{replace, write_beside};
use crate::kernel_log::KernelLog;
use crate::loop_device::LoopDevice;
use crate::mount::Mount;
use crate::open::existing_file_system;
use crate::sparse::{CopyBy, Named, Range, merge};
use crate::trace::{BlockTrace, TraceSession};
use crate::{BlockDevice, ClaimedDevice, TargetSpec, drop_caches};
use medium::Medium;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// How a snapshot is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Shares blocks with the image where the host's file system can, else copies. A loop device over an image with shared
    /// blocks is slower at its first writes.
    Reflink,
    /// Copies what is used.
    Copy,
}

/// What a restore did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RollbackReport {
    /// Bytes written back or freed.
    pub restored_bytes: u64,
    /// Ranges they were in.
    pub extents: u64,
    /// `trace` (what the command altered), `copy` (everything), `reflink` (everything, shared), `unchanged`.
    pub method: String,
    /// Whether every byte was compared and found equal. `None`: it was not asked for.
    pub verified: Option<bool>,
    /// Seconds that it took, without the command and without the comparison.
    pub elapsed_seconds: f64,
    /// What is out of the ordinary: a completed restore, lost events.
    pub note: Option<String>,
}

/// What a command on a mounted target left.
#[derive(Debug)]
pub struct Traced<T> {
    /// What the caller's action returned.
    pub result: Result<T, TargetError>,
    /// The requests from before the mount to after the unmount.
    pub trace: BlockTrace,
    /// Kernel warnings about the device.
    pub kernel_warnings: Vec<String>,
    /// The way back.
    pub rollback: RollbackReport,
}

/// The snapshots of one image or device.
#[derive(Debug)]
pub struct Snapshots {
    folder: PathBuf,
    medium: Medium,
    note: Option<String>,
}

impl Snapshots {
    /// Opens the snapshots of a target, which is locked and must not be in use. They lie in `folder`, or beside an image
    /// (`FILE.snapshots`) or in the cache directory for a device. A restore that was interrupted is completed first.
    pub fn of(spec: &TargetSpec, folder: Option<&Path>) -> Result<Self, TargetError> {
        let medium = Medium::open(spec)?;
        let folder = folder.map_or_else(|| medium.default_folder(), Path::to_path_buf);
        let mut snapshots = Self { folder, medium, note: None };
        snapshots.complete_interrupted()?;
        Ok(snapshots)
    }

    /// Takes a snapshot. A name that exists is refused.
    pub fn create(&self, name: &str, method: Method) -> Result<Manifest, TargetError> {
        manifest::check_name(name)?;
        if self.manifest_path(name).exists() {
            return Err(TargetError::refused(
                format!("the name {name}"),
                "there is a snapshot of this name",
                format!("choose another, or remove {} and its .json", self.image_path(name).display()),
            ));
        }
        fs::create_dir_all(&self.folder).map_err(TargetError::io("make directory", &self.folder))?;
        let (from, path, size) = (self.medium.named(), self.image_path(name), self.medium.size());
        let shared = method == Method::Reflink && !self.medium.is_device() && clone_beside(from, &path)?;
        if !shared {
            let by = if self.medium.is_device() || method == Method::Copy { CopyBy::Memory } else { CopyBy::Kernel };
            write_beside(from, &path, size, by)?;
        }
        let manifest = Manifest::new(&self.medium, if shared { "reflink" } else { "copy" })?;
        manifest.save(&self.manifest_path(name))?;
        Ok(manifest)
    }

    /// The names of the snapshots.
    pub fn names(&self) -> Vec<String> {
        manifest::names(&self.folder)
    }

    /// Restores everything.
    pub fn rollback(&mut self, name: &str, verify: bool) -> Result<RollbackReport, TargetError> {
        let mut manifest = self.manifest(name)?;
        let begin = Instant::now();
        let mut report =
            if manifest.stamp == self.medium.stamp()? { restore::nothing() } else { self.restore(name, None)? };
        report.elapsed_seconds = begin.elapsed().as_secs_f64();
        self.settle(name, &mut manifest)?;
        report.note = self.note.take();
        report.verified = verify.then(|| self.verify(name)).transpose()?;
        Ok(report)
    }

    /// Mounts the target, lets `action` run on its mount point, unmounts it and restores what was altered: the trace runs
    /// from before the mount to after the unmount. A target that is not as the snapshot left it is refused.
    pub fn run_and_rollback<T>(
        &mut self,
        name: &str,
        mount_options: &str,
        verify: bool,
        action: impl FnOnce(&Path) -> Result<T, TargetError>,
    ) -> Result<Traced<T>, TargetError> {
        let mut manifest = self.manifest(name)?;
        if manifest.stamp != self.medium.stamp()? {
            return Err(TargetError::refused(
                self.medium.path().display(),
                format!("it changed since the snapshot {name}"),
                format!("go back first: senesce rollback TARGET {name}"),
            ));
        }
        self.begin(name)?;
        let ran = self.run_traced(mount_options, action);
        let begin = Instant::now();
        let (altered, lost) = match &ran {
            Ok((_, trace, _)) if trace.lost_events() == 0 => (Some(altered_ranges(trace, self.medium.size())), 0),
            Ok((_, trace, _)) => (None, trace.lost_events()),
            Err(_) => (None, 0),
        };
        let mut rollback = self.restore(name, altered)?;
        rollback.elapsed_seconds = begin.elapsed().as_secs_f64();
        self.settle(name, &mut manifest)?;
        rollback.note = self.note.take();
        if lost > 0 {
            rollback.note = Some(format!("{lost} events of the trace were lost, so everything was restored"));
        }
        rollback.verified = verify.then(|| self.verify(name)).transpose()?;
        let (result, trace, kernel_warnings) = ran?;
        Ok(Traced { result, trace, kernel_warnings, rollback })
    }

    #[allow(clippy::type_complexity, reason = "used in one place")]
    fn run_traced<T>(
        &self,
        mount_options: &str,
        action: impl FnOnce(&Path) -> Result<T, TargetError>,
    ) -> Result<(Result<T, TargetError>, BlockTrace, Vec<String>), TargetError> {
        let attached = match self.medium.is_device() {
            true => None,
            false => {
                Some(LoopDevice::attach(&self.medium.open_again()?, &self.medium.path().to_string_lossy(), false)?)
            }
        };
        let path = attached.as_ref().map_or_else(|| self.medium.path(), LoopDevice::path);
        let device = BlockDevice::open(path)?;
        let mut log = KernelLog::since_now(device.name());
        let file_system = match self.medium.claimed() {
            Some(claimed) => existing_file_system(claimed, None)?,
            None => existing_file_system(&ClaimedDevice::claim_unused(path)?, None)?,
        };
        let session = TraceSession::start(&device)?;
        let mut mount = Mount::new(path, file_system, mount_options, self.medium.lock_handle())?;
        let result = action(mount.point());
        mount.unmount()?;
        device.flush_buffers()?;
        drop(mount);
        let trace = session.stop()?;
        Ok((result, trace, log.warnings().to_vec()))
    }

    /// Whether every byte is that of the snapshot.
    pub fn verify(&self, name: &str) -> Result<bool, TargetError> {
        let path = self.image_path(name);
        let file = fs::File::open(&path).map_err(TargetError::io("open the snapshot", &path))?;
        if self.medium.is_device() {
            drop_caches()?;
        }
        let snapshot = Named { file: &file, path: &path };
        Ok(crate::sparse::first_difference(self.medium.named(), snapshot, self.medium.size())?.is_none())
    }

    /// Restores `ranges`, or everything, under a journal.
    fn restore(&self, name: &str, ranges: Option<Vec<Range>>) -> Result<RollbackReport, TargetError> {
        self.begin(name)?;
        let path = self.image_path(name);
        let file = fs::File::open(&path).map_err(TargetError::io("open the snapshot", &path))?;
        let snapshot = Named { file: &file, path: &path };
        match ranges {
            Some(ranges) => restore::ranges(&self.medium, snapshot, &ranges),
            None => restore::everything(&self.medium, snapshot),
        }
    }

    /// The target is as the snapshot left it: its stamp is renewed and the journal ends.
    fn settle(&self, name: &str, manifest: &mut Manifest) -> Result<(), TargetError> {
        manifest.stamp = self.medium.stamp()?;
        manifest.save(&self.manifest_path(name))?;
        let journal = self.journal_path();
        match fs::remove_file(&journal) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(TargetError::io("remove the journal", &journal)(error))
            }
            _ => Ok(()),
        }
    }

    fn begin(&self, name: &str) -> Result<(), TargetError> {
        replace(&self.journal_path(), |to| {
            use std::os::unix::fs::FileExt;
            to.file.write_all_at(name.as_bytes(), 0).map_err(TargetError::io("write the journal", to.path))
        })
    }

    fn complete_interrupted(&mut self) -> Result<(), TargetError> {
        let Ok(name) = fs::read_to_string(self.journal_path()) else { return Ok(()) };
        let mut manifest = self.manifest(&name)?;
        self.restore(&name, None)?;
        self.settle(&name, &mut manifest)?;
        self.note = Some(format!("an interrupted way back to {name} was completed first"));
        Ok(())
    }

    fn manifest(&self, name: &str) -> Result<Manifest, TargetError> {
        manifest::check_name(name)?;
        let path = self.manifest_path(name);
        if !path.exists() {
            return Err(TargetError::Usage(format!(
                "there is no snapshot {name} of {}; there are: {}",
                self.medium.path().display(),
                if self.names().is_empty() { "none".into() } else { self.names().join(", ") }
            )));
        }
        let manifest = Manifest::load(&path)?;
        manifest.check(&self.medium, &self.image_path(name))?;
        Ok(manifest)
    }

    fn image_path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.img"))
    }

    fn manifest_path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.json"))
    }

    fn journal_path(&self) -> PathBuf {
        self.folder.join("journal")
    }
}

/// Makes a reflink. `false`: the host's file system has none.
fn clone_beside(from: Named, path: &Path) -> Result<bool, TargetError> {
    use rustix::io::Errno;
    replace(path, |to| match rustix::fs::ioctl_ficlone(to.file, from.file) {
        Ok(()) => Ok(true),
        Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::XDEV | Errno::NOTTY | Errno::NOSYS) => Ok(false),
        Err(errno) => Err(TargetError::errno("clone into", to.path)(errno)),
    })
}

/// Everything the trace altered, as ranges of bytes within the device.
fn altered_ranges(trace: &BlockTrace, size: u64) -> Vec<Range> {
    let altering = trace.iter().filter(|request| request.operation.alters() && request.sectors > 0);
    let ranges = altering.map(|request| Range {
        start: (request.sector.saturating_mul(512)).min(size),
        end: (request.end_sector().saturating_mul(512)).min(size),
    });
    merge(ranges.filter(|range| range.start < range.end).collect())
}
