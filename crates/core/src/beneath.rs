//! Creates files below one directory with names from an untrusted source: no name and no link leads outside.

use rustix::fs::{AtFlags, Gid, Mode, OFlags, ResolveFlags, Timespec, Timestamps, Uid};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path};

/// A directory that cannot be left (openat2(2), RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS; Linux 5.6).
#[derive(Debug)]
pub struct ConfinedDirectory {
    root: OwnedFd,
}

/// Owner, permission bits and modification time of a created file.
#[derive(Debug, Clone, Copy)]
pub struct Attributes {
    /// Owner and group; `None`: unchanged.
    pub owner: Option<(u32, u32)>,
    /// Permission bits, including setuid, setgid and sticky bits.
    pub mode: u32,
    /// Seconds since 1970 and nanoseconds.
    pub modified: (i64, u32),
}

impl ConfinedDirectory {
    /// Opens the directory itself, which the user named.
    ///
    /// # Errors
    /// As open(2).
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        Ok(Self { root: rustix::fs::open(path, flags, Mode::empty())? })
    }

    /// Creates a new file with mode 0600.
    ///
    /// # Errors
    /// ELOOP or EXDEV if the name leads through a link or out of the directory; as for all functions here.
    pub fn create_new(&self, path: &Path) -> io::Result<File> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY;
        Ok(self.resolve(path, flags, Mode::RUSR | Mode::WUSR)?.into())
    }

    /// Creates a directory and its parents with mode 0700; keeps existing ones.
    ///
    /// # Errors
    /// As [`Self::create_new`]; ENOTDIR if another kind of file has the name.
    pub fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        let mut below = path.to_path_buf();
        let mut missing = Vec::new();
        loop {
            match self.resolve(&below, OFlags::DIRECTORY | OFlags::PATH, Mode::empty()) {
                Ok(_) => break,
                Err(Errno::NOENT) => missing.push(below.clone()),
                Err(errno) => return Err(errno.into()),
            }
            if !below.pop() || below.as_os_str().is_empty() {
                break;
            }
        }
        for directory in missing.iter().rev() {
            let (parent, name) = self.parent(directory)?;
            match rustix::fs::mkdirat(&parent, name, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// Creates a symbolic link. Its target is unrestricted, because nothing is written through it.
    ///
    /// # Errors
    /// As [`Self::create_new`].
    pub fn symlink(&self, to: &Path, path: &Path) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        Ok(rustix::fs::symlinkat(to, parent, name)?)
    }

    /// Removes a file or link.
    ///
    /// # Errors
    /// As [`Self::create_new`].
    pub fn remove_file(&self, path: &Path) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        Ok(rustix::fs::unlinkat(parent, name, AtFlags::empty())?)
    }

    /// Sets the attributes of a directory.
    ///
    /// # Errors
    /// As [`Self::create_new`].
    pub fn set_directory(&self, path: &Path, attributes: &Attributes) -> io::Result<()> {
        set(self.resolve(path, OFlags::DIRECTORY, Mode::empty())?, attributes)
    }

    /// Sets owner and time of a link.
    ///
    /// # Errors
    /// As [`Self::create_new`].
    pub fn set_link(&self, path: &Path, attributes: &Attributes) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        if let Some((user, group)) = attributes.owner {
            let (user, group) = (Some(Uid::from_raw(user)), Some(Gid::from_raw(group)));
            rustix::fs::chownat(&parent, name, user, group, AtFlags::SYMLINK_NOFOLLOW)?;
        }
        Ok(rustix::fs::utimensat(&parent, name, &times(attributes), AtFlags::SYMLINK_NOFOLLOW)?)
    }

    fn parent<'a>(&self, path: &'a Path) -> Result<(OwnedFd, &'a OsStr), Errno> {
        let Some(Component::Normal(name)) = path.components().next_back() else { return Err(Errno::INVAL) };
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        Ok((self.resolve(parent, OFlags::DIRECTORY | OFlags::PATH, Mode::empty())?, name))
    }

    fn resolve(&self, path: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        loop {
            match rustix::fs::openat2(&self.root, path, flags | OFlags::CLOEXEC, mode, within) {
                // A concurrent rename elsewhere prevents a safe lookup (openat2(2)).
                Err(Errno::AGAIN) => {}
                opened => return opened,
            }
        }
    }
}

/// Sets the owner first, because a change of owner clears setuid and setgid.
///
/// # Errors
/// As fchown(2), fchmod(2) and futimens(3).
pub fn set(file: impl AsFd, attributes: &Attributes) -> io::Result<()> {
    if let Some((user, group)) = attributes.owner {
        rustix::fs::fchown(&file, Some(Uid::from_raw(user)), Some(Gid::from_raw(group)))?;
    }
    rustix::fs::fchmod(&file, Mode::from_raw_mode(attributes.mode))?;
    Ok(rustix::fs::futimens(&file, &times(attributes))?)
}

fn times(attributes: &Attributes) -> Timestamps {
    let time = Timespec { tv_sec: attributes.modified.0, tv_nsec: attributes.modified.1.into() };
    Timestamps { last_access: time, last_modification: time }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{MetadataExt, symlink};

    const PLAIN: Attributes = Attributes { owner: None, mode: 0o640, modified: (1000, 5) };

    #[test]
    fn files_directories_and_links_are_made_below() {
        let directory = tempfile::tempdir().unwrap();
        let beneath = ConfinedDirectory::open(directory.path()).unwrap();
        beneath.create_dir_all(Path::new("a/b/c")).unwrap();
        beneath.create_dir_all(Path::new("a/b")).unwrap();
        set(beneath.create_new(Path::new("a/b/file")).unwrap(), &PLAIN).unwrap();
        beneath.symlink(Path::new("/etc"), Path::new("a/link")).unwrap();
        beneath.set_link(Path::new("a/link"), &PLAIN).unwrap();
        beneath.set_directory(Path::new("a/b/c"), &Attributes { mode: 0o750, ..PLAIN }).unwrap();
        let found = fs::metadata(directory.path().join("a/b/file")).unwrap();
        assert_eq!((found.mode() & 0o7777, found.mtime(), found.mtime_nsec()), (0o640, 1000, 5));
        assert_eq!(fs::metadata(directory.path().join("a/b/c")).unwrap().mode() & 0o7777, 0o750);
        assert_eq!(fs::read_link(directory.path().join("a/link")).unwrap(), Path::new("/etc"));
        assert!(beneath.create_new(Path::new("a/b/file")).is_err(), "it exists");
        beneath.remove_file(Path::new("a/b/file")).unwrap();
        assert!(!directory.path().join("a/b/file").exists());
    }

    #[test]
    fn paths_outside_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let (inside, outside) = (directory.path().join("inside"), directory.path().join("outside"));
        fs::create_dir_all(inside.join("d")).unwrap();
        fs::create_dir(&outside).unwrap();
        symlink(&outside, inside.join("out")).unwrap();
        symlink("d", inside.join("in")).unwrap();
        let beneath = ConfinedDirectory::open(&inside).unwrap();
        for path in ["../outside/x", "out/x", "in/x", "/tmp/x", "d/../../outside/x", "..", ".", "", "out/sub/x"] {
            let path = Path::new(path);
            assert!(beneath.create_new(path).is_err(), "{path:?}");
            assert!(beneath.symlink(Path::new("t"), path).is_err(), "{path:?}");
            assert!(beneath.remove_file(path).is_err(), "{path:?}");
            assert!(beneath.set_link(path, &PLAIN).is_err(), "{path:?}");
            assert!(path.as_os_str() == "." || beneath.set_directory(path, &PLAIN).is_err(), "{path:?}");
            let made = beneath.create_dir_all(path);
            assert!(made.is_err() || matches!(path.to_str(), Some("" | ".")), "{path:?}");
        }
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    }
}
