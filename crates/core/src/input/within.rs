//! Reading a folder of somebody else: the folder is the one that the user named, and no link and no name in it leads out.

use super::{for_memory, whole};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

/// A folder that is read. Its files are opened step by step from its descriptor (openat(2), O_NOFOLLOW): names may be exchanged
/// meanwhile, and nothing is read but what lies in it.
#[derive(Debug)]
pub struct Within {
    folder: OwnedFd,
}

impl Within {
    /// Opens the folder, also through a link: the user named it.
    ///
    /// # Errors
    /// Those of open(2).
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        Ok(Self { folder: rustix::fs::openat(CWD, path, flags, Mode::empty())? })
    }

    /// The same of one that is written into.
    ///
    /// # Errors
    /// Those of open(2).
    pub(crate) fn of(folder: &crate::output::Folder) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        Ok(Self { folder: rustix::fs::openat(folder, ".", flags, Mode::empty())? })
    }

    /// Opens a folder in it.
    ///
    /// # Errors
    /// Those of open(2); in words for a link and for what is no folder.
    pub fn folder(&self, name: &OsStr) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(&self.folder, name, flags, Mode::empty()) {
            Err(Errno::NOTDIR | Errno::LOOP) => Err(io::Error::other("its folder is a symbolic link or no folder")),
            opened => Ok(Self { folder: opened? }),
        }
    }

    /// Opens a regular file in it or below, for reading; never waits.
    ///
    /// # Errors
    /// Those of open(2); in words for a link, for what is no regular file, and for a name that leads out.
    pub fn file(&self, path: &Path) -> io::Result<File> {
        let mut names = path.components().map(|part| match part {
            Component::Normal(name) => Ok(name),
            _ => Err(io::Error::other("its name leads out of the folder")),
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
                    "it is a symbolic link, and links in a folder of others are not followed",
                ));
            }
            opened => opened?.into(),
        };
        if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is no regular file")) }
    }

    /// The same for what is to be held in memory; with its size.
    ///
    /// # Errors
    /// As [`Self::file`] and [`super::open_for_memory`].
    pub fn file_for_memory(&self, path: &Path) -> io::Result<(File, u64)> {
        for_memory(self.file(path)?)
    }

    /// All of a regular file in it or below, as far as memory goes.
    ///
    /// # Errors
    /// As [`Self::file_for_memory`].
    pub fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        whole(self.file_for_memory(path)?)
    }

    /// Names and kinds of what lies in it; a link is a link.
    ///
    /// # Errors
    /// Those of getdents(2) and stat(2).
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

    /// Some file systems do not tell it in their lists.
    fn kind(&self, name: &OsStr, told: FileType) -> io::Result<FileType> {
        if told != FileType::Unknown {
            return Ok(told);
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
    fn nothing_is_read_through_a_link_or_from_outside() {
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
            let within = Within::open(&room.path().join(named)).unwrap();
            assert_eq!(within.read(Path::new("d/file")).unwrap(), b"inside");
            for (name, said) in [
                ("link", "symbolic link"),
                ("near", "symbolic link"),
                ("zero", "symbolic link"),
                ("out/secret", "symbolic link"),
                ("d/file/x", "no folder"),
                ("d", "no regular file"),
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
    fn a_list_tells_links_from_files() {
        let room = tempfile::tempdir().unwrap();
        fs::write(room.path().join("file"), "").unwrap();
        fs::create_dir(room.path().join("folder")).unwrap();
        symlink("file", room.path().join("link")).unwrap();
        let mut found = Within::open(room.path()).unwrap().entries().unwrap();
        found.sort_by(|a, b| a.0.cmp(&b.0));
        let kinds = [("file", FileType::RegularFile), ("folder", FileType::Directory), ("link", FileType::Symlink)];
        assert_eq!(found, kinds.map(|(name, kind)| (OsString::from(name), kind)));
    }
}
