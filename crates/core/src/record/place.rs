//! Where a run is kept: its folder, its lock, and that nothing else lies there.

use super::error::{RecordError, io_error};
use crate::output;
use rustix::fs::OFlags;
use senesce_sys::lock::Locked;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Folders that were made, the innermost first.
#[derive(Debug, Default)]
pub(super) struct Made(Vec<PathBuf>);

impl Made {
    /// Makes a folder and those above it that are not there.
    pub(super) fn folder(path: &Path) -> Result<Self, RecordError> {
        let is_missing = |above: &&Path| !above.as_os_str().is_empty() && above.symlink_metadata().is_err();
        let missing = path.ancestors().take_while(is_missing).map(PathBuf::from).collect();
        fs::create_dir_all(path).map_err(io_error("make run directory", path))?;
        Ok(Self(missing))
    }

    /// Removes those that are empty.
    pub(super) fn remove(&self) {
        self.0.iter().for_each(|folder| drop(fs::remove_dir(folder)));
    }
}

/// Whether a run may be begun or continued there, or what lies in its place; alters nothing.
pub(super) fn check(path: &Path) -> Result<(), RecordError> {
    match output::obstacle(path) {
        Some(found) => Err(RecordError::NoDirectory(found)),
        None if path.join("plan.toml").symlink_metadata().is_ok() => check_ours(path),
        None => refuse_foreign(path),
    }
}

/// A directory that is there must be a run's, or hold no more than the beginning of one. Its folder is no link.
pub(super) fn refuse_foreign(path: &Path) -> Result<(), RecordError> {
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(io_error("list", path))?,
    };
    let is_run = path.join("plan.toml").exists();
    let is_ours = |entry: fs::DirEntry| match &*entry.file_name().to_string_lossy() {
        "histograms" => entry.file_type().is_ok_and(|kind| kind.is_dir()),
        "lock" => true,
        _ => is_run,
    };
    if entries.flatten().all(is_ours) { Ok(()) } else { Err(RecordError::NotEmpty { path: path.into() }) }
}

/// Refuses to go on with a run that somebody else than root and this user may have written: its folder, a link to it, its plan or
/// its events are another's, or everybody may write there.
pub(super) fn check_ours(path: &Path) -> Result<(), RecordError> {
    let me = rustix::process::geteuid().as_raw();
    let look = |found: io::Result<fs::Metadata>, at: &Path| {
        let found = found.map_err(io_error("look at", at))?;
        let foreign = |found: String| Err(RecordError::Foreign { path: at.into(), found });
        match found.uid() {
            owner if owner != 0 && owner != me => foreign(format!("it belongs to user {owner}")),
            _ if !found.is_symlink() && found.mode() & 0o002 != 0 => foreign("everybody may write there".into()),
            _ => Ok(()),
        }
    };
    look(fs::symlink_metadata(path), path)?;
    look(fs::metadata(path), path)?;
    let files = ["plan.toml", "events.jsonl"].map(|name| path.join(name));
    files.iter().filter(|file| file.symlink_metadata().is_ok()).try_for_each(|file| look(file.symlink_metadata(), file))
}

/// The file of the events, to write behind what it holds.
pub(super) fn open_events(path: &Path) -> Result<File, RecordError> {
    open_own(OpenOptions::new().append(true), &path.join("events.jsonl"))
}

/// A run directory may come from somebody else: its files are not written through links, and a pipe in their place is not waited
/// for.
fn open_own(options: &mut OpenOptions, path: &Path) -> Result<File, RecordError> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = options.create(true).custom_flags(flags.bits() as i32).open(path);
    let is_own = |file: File| match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is no regular file")),
    };
    opened.and_then(is_own).map_err(io_error("open", path))
}

/// A child that a killed run was about to start holds its lock until its program begins.
const LOCK_PATIENCE: Duration = Duration::from_millis(250);

/// Takes the lock of a run directory.
pub(super) fn lock(path: &Path) -> Result<Locked, RecordError> {
    let name = path.join("lock");
    let file = open_own(OpenOptions::new().write(true).truncate(false), &name)?;
    let locked = Locked::within(file, LOCK_PATIENCE).map_err(|errno| io_error("lock", &name)(errno.into()))?;
    locked.ok_or_else(|| RecordError::InUse { path: path.into() })
}
