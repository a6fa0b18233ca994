//! Reads an untrusted folder: the folder is the one that the user named, and no link or name in it leads outside.

use super::{for_memory, whole};
use crate::units::Bytes;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

/// A folder for reading. Files are opened step by step from its descriptor (openat(2), O_NOFOLLOW), so that names which are
/// replaced concurrently cannot lead outside.
#[derive(Debug)]
pub struct InputFolder {
    folder: OwnedFd,
}

impl InputFolder {
    /// Opens the folder, also through a link, because the user named it.
    ///
    /// # Errors
    /// As open(2).
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        Ok(Self { folder: rustix::fs::openat(CWD, path, flags, Mode::empty())? })
    }

    /// Opens a folder that is also written.
    pub(crate) fn of(folder: &crate::output::Folder) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        Ok(Self { folder: rustix::fs::openat(folder, ".", flags, Mode::empty())? })
    }

    /// Opens a subfolder.
    ///
    /// # Errors
    /// As open(2); for a link, and for a file that is not a folder.
    pub fn folder(&self, name: &OsStr) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(&self.folder, name, flags, Mode::empty()) {
            Err(Errno::NOTDIR | Errno::LOOP) => {
                Err(io::Error::other("its parent is a symbolic link or not a directory"))
            }
            opened => Ok(Self { folder: opened? }),
        }
    }

    /// Opens a regular file in or below it for reading; never waits.
    ///
    /// # Errors
    /// As open(2); for a link, for a file that is not regular, and for a name that leads outside.
    pub fn file(&self, path: &Path) -> io::Result<File> {
        let mut names = path.components().map(|part| match part {
            Component::Normal(name) => Ok(name),
            _ => Err(io::Error::other("its name leads out of the directory")),
        });
        let last = names.next_back().unwrap_or_else(|| Err(Errno::INVAL.into()))?;
        let mut inner: Option<Self> = None;
        for name in names {
            inner = Some(inner.as_ref().unwrap_or(self).folder(name?)?);
        }
        inner.as_ref().unwrap_or(self).own_file(last)
    }

    fn own_file(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file: File = match rustix::fs::openat(&self.folder, name, flags, Mode::empty()) {
            Err(Errno::LOOP) => {
                return Err(io::Error::other(
                    "it is a symbolic link, and links in an untrusted directory are not followed",
                ));
            }
            opened => opened?.into(),
        };
        if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a regular file")) }
    }

    /// Opens a file to be held in memory; returns its size as well.
    ///
    /// # Errors
    /// As [`Self::file`] and [`super::open_for_memory`].
    pub(crate) fn file_for_memory(&self, path: &Path) -> io::Result<(File, u64)> {
        for_memory(self.file(path)?)
    }

    /// Reads a regular file in or below it that fits in memory.
    ///
    /// # Errors
    /// As [`Self::file_for_memory`].
    pub fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        whole(self.file_for_memory(path)?)
    }

    /// Reads all of a regular file in it or below; none if it is larger than `most`.
    ///
    /// # Errors
    /// As [`Self::file`]; those of read(2).
    pub(crate) fn read_at_most(&self, path: &Path, most: Bytes) -> io::Result<Option<Vec<u8>>> {
        let file = self.file(path)?;
        if file.metadata()?.len() > most.0 {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        file.take(most.0 + 1).read_to_end(&mut bytes)?;
        Ok((bytes.len() as u64 <= most.0).then_some(bytes))
    }

    /// Lists names and types of its entries; links are not resolved.
    ///
    /// # Errors
    /// As getdents(2) and stat(2).
    pub fn entries(&self) -> io::Result<Vec<(OsString, FileType)>> {
        let mut found = Vec::new();
        for entry in Dir::read_from(&self.folder)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name != "." && name != ".." {
                found.push((name.into(), self.kind(name, entry.file_type())?));
            }
        }
        Ok(found)
    }

    /// Returns the type of an entry, which some file systems do not list.
    fn kind(&self, name: &OsStr, stated: FileType) -> io::Result<FileType> {
        if stated != FileType::Unknown {
            return Ok(stated);
        }
        let found = rustix::fs::statat(self.folder.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(FileType::from_raw_mode(found.st_mode))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_and_outside_files_are_not_read() {
        let room = tempfile::tempdir().unwrap();
        let (inside, outside) = (room.path().join("inside"), room.path().join("outside"));
        fs::create_dir_all(inside.join("d")).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(inside.join("d/file"), "inside").unwrap();
        fs::write(outside.join("secret"), "secret").unwrap();
        symlink(outside.join("secret"), inside.join("link")).unwrap();
        symlink("d/file", inside.join("near")).unwrap();
        symlink(&outside, inside.join("out")).unwrap();
        symlink("/dev/zero", inside.join("zero")).unwrap();
        symlink(&inside, room.path().join("named")).unwrap();
        for named in ["inside", "named"] {
            let within = InputFolder::open(&room.path().join(named)).unwrap();
            assert_eq!(within.read(Path::new("d/file")).unwrap(), b"inside");
            for (name, said) in [
                ("link", "symbolic link"),
                ("near", "symbolic link"),
                ("zero", "symbolic link"),
                ("out/secret", "symbolic link"),
                ("d/file/x", "not a directory"),
                ("d", "not a regular file"),
                ("../outside/secret", "leads out"),
                ("d/../../outside/secret", "leads out"),
                ("..", "leads out"),
                (outside.join("secret").to_str().unwrap(), "leads out"),
            ] {
                let error = within.read(Path::new(name)).unwrap_err().to_string();
                assert!(error.contains(said), "{name}: {error}");
            }
            assert_eq!(within.read(Path::new("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
            assert!(within.read(Path::new("")).is_err());
        }
    }

    #[test]
    fn entries_distinguish_links_from_files() {
        let room = tempfile::tempdir().unwrap();
        fs::write(room.path().join("file"), "").unwrap();
        fs::create_dir(room.path().join("folder")).unwrap();
        symlink("file", room.path().join("link")).unwrap();
        let mut found = InputFolder::open(room.path()).unwrap().entries().unwrap();
        found.sort_by(|a, b| a.0.cmp(&b.0));
        let kinds = [("file", FileType::RegularFile), ("folder", FileType::Directory), ("link", FileType::Symlink)];
        assert_eq!(found, kinds.map(|(name, kind)| (OsString::from(name), kind)));
    }
}
