//! Makes a profile from existing files, in a tree or a list. Keeps only counts, not names.

mod births;
pub mod changes;
mod edges;
pub mod list;
mod tally;
mod walk;

pub(crate) use edges::AgeEdge;
pub(crate) use tally::Tally;

use crate::error::AgingError;
use crate::profile::Profile;
use changes::{FileState, ObservedChanges, StatedBy};
use list::ListError;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[derive(Debug, Clone, PartialEq)]
pub struct CaptureOptions {
    pub name: String,
    pub threads: usize,
    /// Maximum number of operations per live file that an age edge may cost.
    pub most_per_file: f64,
    /// Maximum time of a walk; a longer one fails.
    pub most_time: Option<Duration>,
}

impl Default for CaptureOptions {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self { name: "captured".into(), threads, most_per_file: 100.0, most_time: None }
    }
}

/// A captured profile and its statistics.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CapturedProfile {
    pub profile: Profile,
    /// All candidates for age edges, and their costs.
    pub edges: Vec<AgeEdge>,
    pub files: u64,
    /// Bytes of these files.
    pub bytes: u64,
    /// Files whose age is that of their birth.
    pub by_birth: u64,
    /// Files whose age is that of their last modification, because their birth is unknown.
    pub by_modification: u64,
    /// Whether the locality is based on the order of inodes, because some births are unknown.
    #[serde(default)]
    pub locality_by_inode: bool,
    /// Directories without permission to read; their files are not in the profile.
    pub unreadable: u64,
    /// Entries that disappeared during the walk.
    pub vanished: u64,
    /// Mount points below the top, which are skipped.
    pub other_file_systems: u64,
    /// Changes since an earlier snapshot of the tree, if given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<ObservedChanges>,
}

/// Walks the tree below `top` on a single file system, which also gives the fullness. A file with several names counts once per
/// name.
///
/// # Errors
/// [`AgingError::Io`] when `top` or a directory cannot be read (directories without permission are only counted);
/// [`AgingError::Profile`] without a regular file; [`AgingError::Target`] when the threads cannot be started.
pub fn capture(top: &Path, options: &CaptureOptions) -> Result<CapturedProfile, AgingError> {
    of_tree(top, walk::walk(top, options, now(), false)?, options)
}

/// Makes a profile like [`capture`] from the `later` of two snapshots, with the changes since the `earlier` one. Ages
/// are relative to the latest time of the later snapshot that is not in the future. For copies, births are
/// ignored, because they are the times of copying.
///
/// # Errors
/// Those of [`capture`]; most files of both trees are newer in the earlier one.
pub fn capture_since(earlier: &Path, later: &Path, options: &CaptureOptions) -> Result<CapturedProfile, AgingError> {
    let before = snapshot(earlier, options)?;
    let mut tally = walk::walk(later, options, now(), true)?;
    let after = std::mem::take(&mut tally.seen);
    let observed = changes::compare(&before, &after);
    if observed.is_reversed() {
        return Err(AgingError::profile(
            &options.name,
            format!(
                "most files of both trees are newer in the earlier one (newer in {}: {}, in {}: {}); name the \
                 earlier snapshot first",
                earlier.display(),
                observed.older,
                later.display(),
                observed.newer
            ),
        ));
    }
    tally.reset_age_edges(&after, observed.told_by == StatedBy::Inode, now());
    let mut captured = of_tree(later, tally, options)?;
    captured.profile.changes = observed.rows();
    captured.changes = Some(observed);
    Ok(captured)
}

/// Lists every regular file below `top`.
///
/// # Errors
/// [`AgingError::Io`] when `top` cannot be read.
pub fn snapshot(top: &Path, options: &CaptureOptions) -> Result<Vec<FileState>, AgingError> {
    Ok(walk::walk(top, options, now(), true)?.seen)
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}

fn of_tree(top: &Path, tally: Tally, options: &CaptureOptions) -> Result<CapturedProfile, AgingError> {
    let room = rustix::fs::statvfs(top).map_err(|errno| AgingError::io("get the size of", top, errno))?;
    let used = room.f_blocks.saturating_sub(room.f_bfree) as f64 / room.f_blocks.max(1) as f64;
    finish(tally, options, "captured from a directory tree", (room.f_blocks > 0).then_some(used))
}

/// Reads a list of "SIZE TIME PATH" lines twice, because ages are relative to its latest time. A list has no fullness.
///
/// # Errors
/// [`AgingError::Io`] when the list cannot be read; [`AgingError::Profile`] with the first invalid line, or without a
/// file.
pub fn capture_list(path: &Path, options: &CaptureOptions) -> Result<CapturedProfile, AgingError> {
    let open = || File::open(path).map(BufReader::new).map_err(|source| AgingError::io("open", path, source));
    let failed = |error| match error {
        ListError::Read(source) => AgingError::io("read", path, source),
        ListError::Line { .. } => AgingError::profile(&path.display().to_string(), error.to_string()),
    };
    let newest = list::newest(open()?).map_err(failed)?;
    let tally = list::tally(open()?, newest).map_err(failed)?;
    finish(tally, options, "captured from a list of files", None)
}

fn finish(
    tally: Tally,
    options: &CaptureOptions,
    source: &str,
    used: Option<f64>,
) -> Result<CapturedProfile, AgingError> {
    let (profile, edges) = tally.profile(&options.name, source, used, options.most_per_file)?;
    Ok(CapturedProfile {
        profile,
        edges,
        files: tally.files,
        bytes: tally.bytes as u64,
        by_birth: tally.by_birth,
        by_modification: tally.by_modification,
        locality_by_inode: tally.births.locate().by_inode,
        unreadable: tally.unreadable,
        vanished: tally.vanished,
        other_file_systems: tally.other_file_systems,
        changes: None,
    })
}
