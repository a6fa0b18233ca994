//! Folder and lock of a run.

use super::FORMAT;
use super::error::{RecordError, io_error, read_error, remedy_of_owner};
use super::files::{self, ENVIRONMENT, EVENTS, HISTOGRAMS, LOCK, PLAN};
use super::{limits, lines, overview};
use crate::input::InputFolder;
use crate::machine::owner_here;
use crate::output::{self, Folder, NewFile, UntrustedLink};
use crate::users::user_words;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use senesce_sys::lock::Locked;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Created folders, innermost first.
#[derive(Debug, Default)]
pub(super) struct CreatedFolders(Vec<PathBuf>);

impl CreatedFolders {
    /// Removes the empty ones.
    pub(super) fn remove(&self) {
        for folder in &self.0 {
            if let Ok((above, name)) = Folder::of(folder) {
                let _ = rustix::fs::unlinkat(above, name, AtFlags::REMOVEDIR);
            }
        }
    }
}

/// Checks whether a run can be started or continued there; changes nothing.
pub(super) fn check(path: &Path) -> Result<(), RecordError> {
    match output::obstacle(path) {
        Some(found) => Err(RecordError::NoDirectory(found)),
        None if path.symlink_metadata().is_ok() => RunFolder::open(path)?.check(),
        None => Ok(()),
    }
}

/// Folder of a run, opened once: a folder that replaces it is neither trusted nor written.
#[derive(Debug)]
pub(super) struct RunFolder {
    folder: Folder,
    path: PathBuf,
}

impl RunFolder {
    pub(super) fn open(path: &Path) -> Result<Self, RecordError> {
        let folder = Folder::open(path).map_err(|error| match UntrustedLink::in_error(&error) {
            Some(planted) => RecordError::NoDirectory(planted.into()),
            None => overview::not_a_run(path, &error),
        })?;
        Ok(Self { folder, path: path.into() })
    }

    pub(super) fn make(path: &Path) -> Result<(Self, CreatedFolders), RecordError> {
        let is_missing = |above: &&Path| !above.as_os_str().is_empty() && above.symlink_metadata().is_err();
        let missing = |path: &Path| path.ancestors().take_while(is_missing).map(PathBuf::from).collect();
        let made = CreatedFolders(missing(&path.join(HISTOGRAMS)));
        let above = path.parent().filter(|above| !above.as_os_str().is_empty());
        let folder = above.map_or(Ok(()), |above| Folder::make_for_caller(above).map(drop));
        let folder = folder.and_then(|()| Folder::make(path)).map_err(io_error("create run directory", path))?;
        match rustix::fs::mkdirat(&folder, HISTOGRAMS, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => Ok((Self { folder, path: path.into() }, made)),
            Err(errno) => Err(io_error("create directory", &path.join(HISTOGRAMS))(errno.into())),
        }
    }

    /// Opens the same folder for reading.
    pub(super) fn within(&self) -> Result<InputFolder, RecordError> {
        InputFolder::of(&self.folder).map_err(|error| overview::not_a_run(&self.path, &error))
    }

    pub(super) fn holds(&self, name: &str) -> bool {
        self.folder.stat_of(OsStr::new(name)).is_ok()
    }

    fn check(&self) -> Result<(), RecordError> {
        if self.holds(PLAN) { self.check_ours() } else { self.refuse_foreign() }
    }

    /// Refuses a folder that is neither a run nor the beginning of one. Its folder of histograms must not be a link. The
    /// beginning of a run has no plan and no event but its identity; other events are those of an incomplete copy.
    pub(super) fn refuse_foreign(&self) -> Result<(), RecordError> {
        let (is_run, within) = (self.holds(PLAN), self.within()?);
        // A run killed before it had its plan has its format, and perhaps its environment and its identity.
        let is_begun = matches!(
            overview::read_file(&within, &self.path, files::FORMAT),
            Ok(Ok(text)) if text == FORMAT.to_string().as_bytes()
        );
        let entries = within.entries().map_err(io_error("list", &self.path))?;
        let is_ours = |(name, kind): (std::ffi::OsString, FileType)| match name.to_str() {
            Some(HISTOGRAMS) => kind == FileType::Directory,
            Some(LOCK) => true,
            Some(files::FORMAT | ENVIRONMENT | EVENTS) if is_begun => kind == FileType::RegularFile,
            _ => is_run,
        };
        let records_nothing = || lines::read_events(&within, &self.path).is_ok_and(|found| found.records_nothing());
        match entries.into_iter().all(is_ours) && (is_run || records_nothing()) {
            true => Ok(()),
            false => Err(RecordError::NotEmpty { path: self.path.clone() }),
        }
    }

    /// Refuses to continue a run that another user may have written: another owner of its folder, a link to it, its plan or its
    /// events, or world-writable files.
    pub(super) fn check_ours(&self) -> Result<(), RecordError> {
        let look = |found: Result<Stat, Errno>, at: &Path| {
            check_owner(&found.map_err(|errno| io_error("inspect", at)(errno.into()))?, at)
        };
        look(rustix::fs::lstat(&self.path), &self.path)?;
        look(rustix::fs::fstat(&self.folder), &self.path)?;
        let files = [PLAN, EVENTS].into_iter().filter(|name| self.holds(name));
        files.into_iter().try_for_each(|name| look(self.folder.stat_of(OsStr::new(name)), &self.path.join(name)))
    }

    pub(super) fn open_events(&self) -> Result<File, RecordError> {
        self.open_own(EVENTS, OFlags::APPEND, 0o666)
    }

    /// Replaces the events with the first `bytes` of them and with `more`, and opens the new file. A kill leaves the old or
    /// the new one.
    pub(super) fn replace_events(&self, bytes: u64, more: &str) -> Result<File, RecordError> {
        let (name, path) = (OsStr::new(EVENTS), self.path.join(EVENTS));
        let mut kept = self.within()?.file(Path::new(EVENTS)).map_err(read_error("open", &path))?.take(bytes);
        let old = self.folder.stat_of(name).map_err(|errno| io_error("inspect", &path)(errno.into()))?;
        let new = NewFile::within(&self.folder, name, 0o666).map_err(io_error("create", &path))?;
        // The user whose run root continues must be able to append to it later.
        new.take_after(&old).map_err(io_error("set mode and owner of", &path))?;
        let mut to = new.file();
        io::copy(&mut kept, &mut to).map_err(io_error("write", &path))?;
        to.write_all(more.as_bytes()).map_err(io_error("write", &path))?;
        new.replace().map_err(io_error("rename into place", &path))?;
        self.sync()?;
        self.open_events()
    }

    /// Makes the names of its files durable.
    pub(super) fn sync(&self) -> Result<(), RecordError> {
        sync(&self.folder, &self.path)
    }

    pub(super) fn lock(&self) -> Result<Locked, RecordError> {
        let name = self.path.join(LOCK);
        let file = self.open_own(LOCK, OFlags::empty(), LOCK_MODE)?;
        keep_from_others(&file).map_err(|errno| io_error("set the mode of", &name)(errno.into()))?;
        let locked = Locked::within(file, LOCK_PATIENCE).map_err(|errno| io_error("lock", &name)(errno.into()))?;
        locked.ok_or_else(|| RecordError::InUse { path: self.path.clone() })
    }

    /// Opens a file in an untrusted run directory: does not write through links or wait for a pipe.
    fn open_own(&self, name: &str, how: OFlags, mode: u32) -> Result<File, RecordError> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let opened = rustix::fs::openat(&self.folder, name, how | flags | OFlags::CLOEXEC, Mode::from_raw_mode(mode));
        let is_own = |file: File| match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::other("it is not a regular file")),
        };
        opened
            .map_err(io::Error::from)
            .and_then(|file| is_own(file.into()))
            .map_err(io_error("open", &self.path.join(name)))
    }

    pub(super) fn write(&self, name: &str, bytes: &[u8]) -> Result<(), RecordError> {
        limits::check_file(name, &self.path.join(name), bytes)?;
        write_new(NewFile::within(&self.folder, OsStr::new(name), 0o666), &self.path.join(name), bytes)
    }

    /// Writes a file in or below it durably. Its folder must not be a link.
    pub(super) fn write_side_file(&self, name: &str, bytes: &[u8]) -> Result<(), RecordError> {
        let path = self.path.join(name);
        let (folder, file) = self.folder_of(name).map_err(io_error("open the folder of", &path))?;
        write_new(NewFile::within(&folder, OsStr::new(file), 0o666), &path, bytes)?;
        sync(&folder, &path)
    }

    /// Removes a file if it exists; `name` as in [`Self::write_side_file`].
    pub(super) fn remove(&self, name: &str) -> Result<(), RecordError> {
        let removed = self.folder_of(name).and_then(|(folder, file)| {
            rustix::fs::unlinkat(&folder, file, AtFlags::empty())?;
            Ok(())
        });
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(io_error("remove", &self.path.join(name))(error))
            }
            _ => Ok(()),
        }
    }

    /// Opens the folder of a file; a link in place of a subfolder is not followed.
    fn folder_of<'a>(&self, name: &'a str) -> io::Result<(Folder, &'a str)> {
        match name.rsplit_once('/') {
            Some((below, file)) => Ok((self.folder.below(OsStr::new(below))?, file)),
            None => Ok((self.folder.try_clone()?, name)),
        }
    }
}

/// Writes a file that becomes `path` when it is complete.
pub(super) fn write_new(new: io::Result<NewFile>, path: &Path, bytes: &[u8]) -> Result<(), RecordError> {
    let new = new.map_err(io_error("create", path))?;
    new.file().write_all(bytes).map_err(io_error("write", path))?;
    new.replace().map_err(io_error("rename into place", path))
}

fn sync(folder: &Folder, path: &Path) -> Result<(), RecordError> {
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(folder, ".", flags, Mode::empty());
    match opened.and_then(rustix::fs::fsync) {
        // Some network file systems cannot synchronise a folder.
        Ok(()) | Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => Ok(()),
        Err(errno) => Err(io_error("sync", path)(errno.into())),
    }
}

fn check_owner(found: &Stat, at: &Path) -> Result<(), RecordError> {
    let foreign = |found: String, remedy: String| Err(RecordError::Foreign { path: at.into(), found, remedy });
    let is_link = FileType::from_raw_mode(found.st_mode) == FileType::Symlink;
    match owner_here(found.st_uid) {
        owner if owner != 0 && owner != rustix::process::geteuid().as_raw() => {
            foreign(format!("it belongs to {}", user_words(owner)), remedy_of_owner(owner))
        }
        _ if !is_link && found.st_mode & 0o002 != 0 => {
            foreign("every user may write there".into(), "choose another directory with --out".into())
        }
        _ => Ok(()),
    }
}

/// A child that a killed run was about to start holds its lock until exec.
const LOCK_PATIENCE: Duration = Duration::from_millis(250);

/// Read permission suffices to lock a file.
const LOCK_MODE: u32 = 0o600;

/// Restricts a lock of this user that an earlier version created for everyone.
fn keep_from_others(lock: &File) -> Result<(), Errno> {
    let found = rustix::fs::fstat(lock)?;
    match owner_here(found.st_uid) == rustix::process::geteuid().as_raw() && found.st_mode & 0o777 != LOCK_MODE {
        true => rustix::fs::fchmod(lock, Mode::from_raw_mode(LOCK_MODE)),
        false => Ok(()),
    }
}
