//! The folder of an output, opened once: later changes to its path have no effect.

use crate::machine::owner_here;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

/// Maximum number of links followed, as in the kernel.
const MOST_LINKS: usize = 40;

/// A link that root does not follow: its creator could make root write where only root may.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{link} is a symbolic link of user {owner} to a file of user {behind}, and root does not follow such links\nhint: name the target itself"
)]
pub struct UntrustedLink {
    /// Path of the link itself, not of its target.
    pub link: PathBuf,
    /// User id of the link's owner.
    pub owner: u32,
    /// User id of its target's owner.
    pub behind: u32,
}

impl UntrustedLink {
    /// Refuses a `link` at a path by the stat(2) data of the link and of its target, both already opened.
    ///
    /// # Errors
    /// For root, unless the link belongs to root, to the caller, or to the owner of the target, who may write there anyway.
    pub fn refuse(path: &Path, link: &Stat, behind: &Stat) -> Result<(), Self> {
        let me = (rustix::process::geteuid().as_raw(), rustix::process::getuid().as_raw());
        match is_followed(me, owner_here(link.st_uid), owner_here(behind.st_uid)) {
            true => Ok(()),
            false => Err(Self { link: path.into(), owner: link.st_uid, behind: behind.st_uid }),
        }
    }

    /// Returns the refused link that caused an error, if any.
    pub(crate) fn in_error(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }
}

impl From<UntrustedLink> for io::Error {
    fn from(planted: UntrustedLink) -> Self {
        Self::other(planted)
    }
}

/// Returns whether a process with these rights, started by this caller, follows a link.
fn is_followed((rights, caller): (u32, u32), owner: u32, behind: u32) -> bool {
    rights != 0 || [0, caller, behind].contains(&owner)
}

/// A folder for writing.
#[derive(Debug)]
pub struct Folder(OwnedFd);

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Folder {
    /// Opens it.
    ///
    /// # Errors
    /// As open(2); [`UntrustedLink`] for a link in its path that root does not follow.
    pub fn open(path: &Path) -> io::Result<Self> {
        Walk { links: 0, makes: false, caller: None }.begin(path)
    }

    /// Opens it; creates missing folders of the path.
    ///
    /// # Errors
    /// As [`Self::open`] and mkdir(2).
    pub fn make(path: &Path) -> io::Result<Self> {
        Walk { links: 0, makes: true, caller: None }.begin(path)
    }

    /// Opens it and creates missing folders, like [`Self::make`]. A folder that root under sudo(8) creates in a folder
    /// of sudo's caller is given to the caller. Otherwise the caller could not write there.
    ///
    /// # Errors
    /// As [`Self::make`].
    pub(crate) fn make_for_caller(path: &Path) -> io::Result<Self> {
        Walk { links: 0, makes: true, caller: Caller::of_sudo() }.begin(path)
    }

    /// Opens the parent of a file; returns the file's name there as well.
    ///
    /// # Errors
    /// As [`Self::open`]; EISDIR for names that cannot be files.
    pub fn of(file: &Path) -> io::Result<(Self, OsString)> {
        let whole = file.as_os_str().as_bytes();
        match file.file_name() {
            _ if whole.is_empty() => Err(Errno::NOENT.into()),
            Some(name) if whole.ends_with(name.as_bytes()) => {
                Ok((Self::open(&whole_or_here(file.parent()))?, name.into()))
            }
            _ => Err(Errno::ISDIR.into()),
        }
    }

    /// Creates a new file, never through a link, and opens it for reading and writing.
    ///
    /// # Errors
    /// As open(2): EEXIST if the name exists.
    pub fn create_new(&self, name: &OsStr, mode: u32) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.0, name, flags, Mode::from_raw_mode(mode))?.into())
    }

    /// Removes a file or link.
    ///
    /// # Errors
    /// As unlink(2).
    pub fn remove_file(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.0, name, AtFlags::empty())?)
    }

    /// Removes a name if it still leads to this file.
    ///
    /// # Errors
    /// As stat(2) and unlink(2).
    pub fn remove_same(&self, name: &OsStr, file: impl AsFd) -> io::Result<()> {
        let (there, open) = (self.stat_of(name)?, rustix::fs::fstat(file)?);
        match (there.st_dev, there.st_ino) == (open.st_dev, open.st_ino) {
            true => self.remove_file(name),
            false => Ok(()),
        }
    }

    /// Opens an entry for inspection (O_PATH), without following a link; `None` if it does not exist.
    pub(super) fn open_for_inspection(&self, name: &OsStr) -> Result<Option<OwnedFd>, Errno> {
        match rustix::fs::openat(&self.0, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()) {
            Ok(there) => Ok(Some(there)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Opens a subfolder that is not a link.
    pub(crate) fn below(&self, name: &OsStr) -> io::Result<Self> {
        Ok(Self(rustix::fs::openat(&self.0, name, STEP | OFlags::NOFOLLOW, Mode::empty())?))
    }

    /// Returns the stat(2) data of an entry, without following a link.
    pub(crate) fn stat_of(&self, name: &OsStr) -> Result<Stat, Errno> {
        rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Duplicates the descriptor.
    ///
    /// # Errors
    /// As dup(2).
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(Self(self.0.try_clone()?))
    }
}

/// Returns the current folder for an empty path.
fn whole_or_here(path: Option<&Path>) -> PathBuf {
    match path {
        Some(path) if !path.as_os_str().is_empty() => path.into(),
        _ => ".".into(),
    }
}

/// Walk along a path, one name at a time.
struct Walk {
    links: usize,
    makes: bool,
    /// The owner of created folders.
    caller: Option<Caller>,
}

/// The user who called sudo(8).
#[derive(Clone, Copy)]
pub(crate) struct Caller {
    pub(crate) user: u32,
    pub(crate) group: u32,
}

impl Caller {
    pub(crate) fn of_sudo() -> Option<Self> {
        let number = |name| std::env::var(name).ok()?.parse().ok();
        let caller = Self { user: number("SUDO_UID")?, group: number("SUDO_GID")? };
        (rustix::process::geteuid().is_root() && caller.user != 0).then_some(caller)
    }

    /// Gives away a folder that was just created. The caller may have replaced it since: only an empty folder of root on the same
    /// file system is given, and never through a link.
    fn own(self, above: &OwnedFd, made: &OwnedFd) -> Result<(), Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = rustix::fs::openat(made, ".", flags, Mode::empty())?;
        let (there, here) = (rustix::fs::fstat(above)?, rustix::fs::fstat(&made)?);
        let is_new = here.st_uid == 0 && here.st_dev == there.st_dev && is_empty(&made)?;
        match is_new && there.st_uid == self.user {
            true => {
                let (user, group) = (rustix::fs::Uid::from_raw(self.user), rustix::fs::Gid::from_raw(self.group));
                rustix::fs::fchown(&made, Some(user), Some(group))
            }
            false => Ok(()),
        }
    }
}

fn is_empty(folder: &OwnedFd) -> Result<bool, Errno> {
    for entry in rustix::fs::Dir::read_from(folder)? {
        if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
            return Ok(false);
        }
    }
    Ok(true)
}

struct ResolvedFolder {
    folder: OwnedFd,
    path: PathBuf,
}

const STEP: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

impl ResolvedFolder {
    fn open(path: &str) -> Result<Self, Errno> {
        let folder = rustix::fs::openat(CWD, path, STEP, Mode::empty())?;
        Ok(Self { folder, path: if path == "." { PathBuf::new() } else { path.into() } })
    }
}

impl Walk {
    fn begin(mut self, path: &Path) -> io::Result<Folder> {
        if path.as_os_str().is_empty() {
            return Err(Errno::NOENT.into());
        }
        Ok(Folder(self.walk(ResolvedFolder::open(".")?, path)?.folder))
    }

    fn walk(&mut self, mut at: ResolvedFolder, path: &Path) -> io::Result<ResolvedFolder> {
        for part in path.components() {
            at = match part {
                Component::RootDir => ResolvedFolder::open("/")?,
                Component::Normal(name) => self.step(at, name)?,
                Component::ParentDir => self.step(at, OsStr::new(".."))?,
                Component::CurDir | Component::Prefix(_) => at,
            };
        }
        Ok(at)
    }

    fn step(&mut self, at: ResolvedFolder, name: &OsStr) -> io::Result<ResolvedFolder> {
        let open = || rustix::fs::openat(&at.folder, name, STEP | OFlags::NOFOLLOW, Mode::empty());
        let opened = match open() {
            Err(Errno::NOENT) if self.makes => {
                match (rustix::fs::mkdirat(&at.folder, name, Mode::from_raw_mode(0o777)), self.caller) {
                    (Ok(()), Some(caller)) => {
                        let made = open()?;
                        // Some file systems have no owners; the folder is usable by root then.
                        let _ = caller.own(&at.folder, &made);
                        Ok(made)
                    }
                    (Ok(()) | Err(Errno::EXIST), _) => open(),
                    (Err(errno), _) => Err(errno),
                }
            }
            opened => opened,
        };
        match opened {
            Err(Errno::NOTDIR | Errno::LOOP) => self.follow(at, name),
            opened => Ok(ResolvedFolder { folder: opened?, path: at.path.join(name) }),
        }
    }

    fn follow(&mut self, at: ResolvedFolder, name: &OsStr) -> io::Result<ResolvedFolder> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let link = rustix::fs::openat(&at.folder, name, flags, Mode::empty())?;
        let found = rustix::fs::fstat(&link)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::Symlink {
            return Err(Errno::NOTDIR.into());
        }
        self.links += 1;
        if self.links > MOST_LINKS {
            return Err(Errno::LOOP.into());
        }
        let path = at.path.join(name);
        let behind = match is_of_processes(&link)? {
            // The text of such a link is a description.
            true => ResolvedFolder {
                folder: rustix::fs::openat(&at.folder, name, STEP, Mode::empty())?,
                path: path.clone(),
            },
            false => {
                let to = rustix::fs::readlinkat(&link, "", Vec::new())?.into_bytes();
                // mkdir(2) creates nothing behind a dangling link.
                let makes = std::mem::replace(&mut self.makes, false);
                let behind = self.walk(at, Path::new(&OsString::from_vec(to)))?;
                self.makes = makes;
                behind
            }
        };
        UntrustedLink::refuse(&path, &found, &rustix::fs::fstat(&behind.folder)?)?;
        Ok(behind)
    }
}

/// Returns whether it is in /proc.
fn is_of_processes(link: &OwnedFd) -> Result<bool, Errno> {
    Ok(rustix::fs::fstatfs(link)?.f_type == rustix::fs::PROC_SUPER_MAGIC)
}

#[cfg(test)]
mod tests;
