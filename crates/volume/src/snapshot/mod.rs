//! Snapshots of images and devices, and their restore.
//!
//! A snapshot is a sparse copy (or a reflink) next to the image, with a digest of each chunk. After a traced command
//! with a valid trace, a restore rewrites the ranges that the command wrote or discarded; otherwise it rewrites all
//! differences. Then it verifies the content by the digests. A journal records that a restore or a traced command is
//! under way. After a kill, the target can only be restored.

mod digests;
mod folder;
mod interrupted;
mod journal;
mod manifest;
mod medium;
mod proof;
mod restore;

pub(crate) use manifest::Manifest;
pub(crate) use proof::Verification;
pub use proof::{Scope, Verify};

use crate::error::TargetError;
use crate::image_file::{refuse_existing, write_to};
use crate::kernel_log::KernelLog;
use crate::loop_device::LoopDevice;
use crate::mount::Mount;
use crate::open::existing_file_system;
use crate::sparse::{CopyBy, NamedFile, Range, merge};
use crate::trace::{BlockTrace, TraceSession};
use crate::{BlockDevice, ClaimedDevice, TargetSpec};
use digests::Digests;
use medium::{Medium, clone_to};
use proof::Proof;
use serde::{Deserialize, Serialize};
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Shares blocks with the image if the host's file system can, else copies. A loop device over an image with shared
    /// blocks is slower at its first writes.
    Reflink,
    Copy,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RollbackReport {
    /// Bytes written back or freed.
    pub restored_bytes: u64,
    pub extents: u64,
    /// `trace` (changes of the command, by a valid trace), `comparison` (differences from the digests), `copy`
    /// (everything), `reflink` (everything, shared), `unchanged` (everything was compared, no differences).
    pub method: String,
    /// Whether all compared data equals the snapshot. `false`: the snapshot is damaged, and so is the target.
    pub verified: bool,
    pub verification: Verification,
    /// Seconds without the command and without the comparison.
    pub elapsed_seconds: f64,
    /// Unusual events: an interrupted restore before this one, an invalid trace.
    pub note: Option<String>,
}

/// The first step of a restore, before the comparison restores the remaining differences.
enum RestoreMethod {
    Everything,
    Altered(Vec<Range>),
    Comparison,
}

#[derive(Debug)]
pub struct TracedRun<T> {
    pub result: Result<T, TargetError>,
    /// The requests from before the mount until after the unmount.
    pub trace: BlockTrace,
    pub kernel_warnings: Vec<String>,
    pub rollback: RollbackReport,
}

#[derive(Debug)]
pub struct Snapshots {
    folder: PathBuf,
    medium: Medium,
    /// A target that may be written without proof that the snapshot is its own.
    erase: Option<String>,
}

impl Snapshots {
    /// Opens the snapshots of a target, which is locked and must not be in use. They are in `folder`, or next to an
    /// image (`FILE.snapshots`) or in the cache directory for a device. Writes nothing, even after an interrupted
    /// restore. [`TargetError::Usage`] for a directory or memory.
    pub fn of(spec: &TargetSpec, folder: Option<&Path>) -> Result<Self, TargetError> {
        Self::allowing(spec, folder, None)
    }

    /// Opens the snapshots like [`Self::of`]; `erase` repeats the path of a target without proof that the snapshot is
    /// its own. Such a target is a device without a serial number after a reboot or a new attachment, or an image that
    /// was moved.
    pub fn allowing(spec: &TargetSpec, folder: Option<&Path>, erase: Option<&str>) -> Result<Self, TargetError> {
        let medium = Medium::open(spec)?;
        if let Some(word) =
            erase.filter(|word| !medium.is_named(Some(word)) && !crate::guard::names(word, medium.path()))
        {
            return Err(TargetError::refused(
                medium.path().display(),
                format!("--erase {word} does not name it"),
                "repeat its path, or leave out --erase",
            ));
        }
        let folder = folder.map_or_else(|| medium.default_folder(), Path::to_path_buf);
        if let Some(found) = senesce_core::output::obstacle(&folder) {
            return Err(TargetError::of_obstacle(&found));
        }
        Ok(Self { folder, medium, erase: erase.map(str::to_string) })
    }

    /// Takes a snapshot. Refuses an existing name, a target that was written meanwhile or has an interrupted restore,
    /// and a folder that others may write.
    pub fn create(&self, name: &str, method: Method) -> Result<Manifest, TargetError> {
        manifest::check_name(name)?;
        folder::check(&self.folder, &self.medium)?;
        self.refuse_interrupted()?;
        if self.manifest_path(name).exists() {
            return Err(TargetError::refused(
                format!("the name {name}"),
                "a snapshot has this name",
                format!("choose another, or remove {} with its .json and .blake3", self.image_path(name).display()),
            ));
        }
        for path in [self.image_path(name), self.digests_path(name)] {
            // Another user's file, or left by a killed run: this cannot be determined.
            refuse_existing(&path)?;
        }
        let mut maker = fs::DirBuilder::new();
        let made = maker.recursive(true).mode(0o700).create(&self.folder);
        made.map_err(TargetError::io("make directory", &self.folder))?;
        let identity = self.medium.identity(&self.folder);
        let stamp = self.medium.stamp()?;
        let (from, path, size) = (self.medium.named(), self.image_path(name), self.medium.size());
        let shared = method == Method::Reflink && !self.medium.is_device() && clone_to(from, &path)?;
        if !shared {
            let by = if self.medium.is_device() || method == Method::Copy { CopyBy::Memory } else { CopyBy::Kernel };
            write_to(from, &path, size, by)?;
        }
        let snapshot = fs::File::open(&path).map_err(TargetError::io("open the snapshot", &path))?;
        let digests = Digests::of(NamedFile { file: &snapshot, path: &path }, size)?;
        if !digests.differing(from, &digests.used(from)?)?.is_empty() || self.medium.stamp()? != stamp {
            let _ = fs::remove_file(&path);
            return Err(TargetError::refused(
                self.medium.path().display(),
                "it was written during the copy, or the copy is damaged",
                "ensure that nothing else uses it, and take the snapshot again",
            ));
        }
        let digests = digests.save(&self.digests_path(name))?;
        let manifest = Manifest::new(&self.medium, identity, if shared { "reflink" } else { "copy" }, stamp, digests);
        manifest.save(&self.manifest_path(name))?;
        Ok(manifest)
    }

    pub fn names(&self) -> Vec<String> {
        manifest::names(&self.folder)
    }

    /// Compares everything with the snapshot and restores the differences. `full`: restores everything, then compares.
    /// It completes or replaces an interrupted restore. Refuses a target in use, and a snapshot or an interrupted
    /// restore of another target. After an I/O error, the next call completes the restore.
    pub fn rollback(&mut self, name: &str, full: bool) -> Result<RollbackReport, TargetError> {
        let mut manifest = self.manifest(name)?;
        let interrupted = self.interrupted_here()?;
        let report = self.go_back(name, &mut manifest, full)?;
        let note = interrupted.filter(|_| report.verified).map(|journal| match journal.name == name {
            true => format!("an interrupted restore of {name} was completed"),
            false => format!("a restore of {} had been interrupted before", journal.name),
        });
        Ok(RollbackReport { note: note.or(report.note), ..report })
    }

    fn go_back(&self, name: &str, manifest: &mut Manifest, full: bool) -> Result<RollbackReport, TargetError> {
        let (digests, without) = match self.digests(name, manifest) {
            Err(error @ TargetError::Damaged { .. }) => {
                let of_bytes = self.with_snapshot(name, |snapshot| Digests::of(snapshot, manifest.size))?;
                (of_bytes, Some(format!("everything was restored and compared with the snapshot's bytes: {error}")))
            }
            digests => (digests?, None),
        };
        // Reading the digests takes time.
        self.medium.check_unused()?;
        let way = if full || without.is_some() { RestoreMethod::Everything } else { RestoreMethod::Comparison };
        let report = self.restore(name, &digests, way, Verify::Full)?;
        self.settle(name, manifest, &report)?;
        Ok(RollbackReport { note: without.or(report.note), ..report })
    }

    /// Mounts the target, runs `action` on its mount point, unmounts it and restores the changes. The trace runs from
    /// before the mount until after the unmount; if it is not valid, the differences are found by comparison. Refuses a
    /// target that changed since the snapshot. A target still in use after the unmount stays as it is, and the next
    /// call restores it.
    pub fn run_and_rollback<T>(
        &mut self,
        name: &str,
        mount_options: &str,
        verify: Verify,
        action: impl FnOnce(&Path) -> Result<T, TargetError>,
    ) -> Result<TracedRun<T>, TargetError> {
        let mut manifest = self.manifest(name)?;
        self.refuse_interrupted()?;
        let digests = self.digests(name, &mut manifest)?;
        if manifest.stamp != self.medium.stamp()? {
            return Err(TargetError::refused(
                self.medium.path().display(),
                format!("it changed since the snapshot {name}"),
                format!("restore it first: senesce snapshot restore TARGET {name}"),
            ));
        }
        self.begin(name)?;
        let ran = self.run_traced(mount_options, action);
        if let Err(in_use) = self.medium.check_unused() {
            // The journal stays: the next call restores.
            return Err(ran.err().unwrap_or(in_use));
        }
        let (way, invalid) = match ran.as_ref().map(|(_, trace, _)| trace.valid()) {
            Ok(Ok(trace)) => (RestoreMethod::Altered(restore::altered_ranges(trace, self.medium.size())), None),
            Ok(Err(invalid)) => (RestoreMethod::Comparison, Some(format!("the trace was not used: {invalid}"))),
            Err(_) => (RestoreMethod::Comparison, None),
        };
        let report = self.restore(name, &digests, way, verify)?;
        self.settle(name, &mut manifest, &report)?;
        let rollback = RollbackReport { note: invalid.or(report.note), ..report };
        let (result, trace, kernel_warnings) = ran?;
        Ok(TracedRun { result, trace, kernel_warnings, rollback })
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
        let log = KernelLog::since_now(Some(&device));
        let file_system = match (self.medium.claimed(), &attached) {
            (None, Some(own)) => existing_file_system(&ClaimedDevice::claim_own(own)?, self.medium.path(), None)?,
            (Some(claimed), _) => existing_file_system(claimed, path, None)?,
            (None, None) => existing_file_system(&ClaimedDevice::claim_unused(path)?, path, None)?,
        };
        let session = TraceSession::start(&device)?;
        let mut mount = Mount::new(path, file_system, mount_options, self.medium.lock_handle())?;
        let result = action(mount.point());
        mount.unmount()?;
        device.flush_buffers()?;
        drop(mount);
        let trace = session.stop()?;
        Ok((result, trace, log.warnings()))
    }

    fn with_snapshot<T>(
        &self,
        name: &str,
        act: impl FnOnce(NamedFile) -> Result<T, TargetError>,
    ) -> Result<T, TargetError> {
        let path = self.image_path(name);
        let file = folder::open(&path).map_err(TargetError::io("open the snapshot", &path))?;
        act(NamedFile { file: &file, path: &path })
    }

    /// Restores under a journal, and verifies.
    fn restore(
        &self,
        name: &str,
        digests: &Digests,
        way: RestoreMethod,
        verify: Verify,
    ) -> Result<RollbackReport, TargetError> {
        self.begin(name)?;
        let begin = Instant::now();
        let written = if let RestoreMethod::Altered(ranges) = &way { Some(ranges.clone()) } else { None };
        self.with_snapshot(name, |snapshot| {
            let (mut method, mut restored) = match way {
                RestoreMethod::Everything => restore::everything(&self.medium, snapshot)?,
                RestoreMethod::Altered(ranges) => {
                    restore::ranges(&self.medium, snapshot, &ranges)?;
                    ("trace", ranges)
                }
                RestoreMethod::Comparison => {
                    restore::sync(&self.medium)?;
                    ("comparison", Vec::new())
                }
            };
            let elapsed = begin.elapsed().as_secs_f64();
            let Proof { verification, restored: differed, restore_seconds } =
                proof::prove(&self.medium, snapshot, digests, written.as_deref(), verify)?;
            let missed = (method == "trace" && !differed.is_empty()).then(|| {
                format!(
                    "{} bytes that the trace did not contain were found by the comparison",
                    verification.differing_bytes
                )
            });
            if method == "comparison" && differed.is_empty() {
                method = "unchanged";
            }
            restored.extend(differed);
            let restored = merge(restored);
            Ok(RollbackReport {
                restored_bytes: restored.iter().map(|range| range.length()).sum(),
                extents: restored.len() as u64,
                method: method.into(),
                verified: verification.equal,
                verification,
                elapsed_seconds: elapsed + restore_seconds,
                note: missed,
            })
        })
    }

    /// Ends a restore: removes the journal. If the target is proven to equal the snapshot, renews its stamp and records
    /// the target as the snapshot's own.
    fn settle(&self, name: &str, manifest: &mut Manifest, report: &RollbackReport) -> Result<(), TargetError> {
        if report.verified {
            manifest.stamp = self.medium.stamp()?;
            manifest.identity = Some(self.medium.identity(&self.folder));
            manifest.save(&self.manifest_path(name))?;
        }
        let journal = self.journal_path();
        match fs::remove_file(&journal) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(TargetError::io("remove the journal", &journal)(error))
            }
            _ => Ok(()),
        }
    }

    fn digests(&self, name: &str, manifest: &mut Manifest) -> Result<Digests, TargetError> {
        let path = self.digests_path(name);
        if let Some(hash) = &manifest.digests {
            return Digests::load(&path, manifest.size, hash);
        }
        let digests = self.with_snapshot(name, |snapshot| Digests::of(snapshot, manifest.size))?;
        manifest.set_digests(digests.save(&path)?);
        manifest.save(&self.manifest_path(name))?;
        Ok(digests)
    }

    fn manifest(&self, name: &str) -> Result<Manifest, TargetError> {
        manifest::check_name(name)?;
        folder::check(&self.folder, &self.medium)?;
        let path = self.manifest_path(name);
        if !path.exists() {
            return Err(TargetError::Usage(format!(
                "snapshot {name} of {} not found; available: {}",
                self.medium.path().display(),
                if self.names().is_empty() { "none".into() } else { self.names().join(", ") }
            )));
        }
        let manifest = Manifest::load(&path)?;
        manifest.check(&self.medium, &self.image_path(name), self.erase.as_deref())?;
        Ok(manifest)
    }

    fn image_path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.img"))
    }

    fn digests_path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.blake3"))
    }

    fn manifest_path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.json"))
    }

    fn journal_path(&self) -> PathBuf {
        self.folder.join("journal")
    }
}
