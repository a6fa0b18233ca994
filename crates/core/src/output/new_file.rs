//! A file that is not there until it is complete.

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat, XattrFlags};
use rustix::io::Errno;
use std::fs::{File, Permissions};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tempfile::{Builder, TempPath};

/// The attribute that holds an access list, and the longest value of any.
const ACCESS_LIST: &str = "system.posix_acl_access";
const MOST_LIST: usize = 64 << 10;

/// A new file without a name (open(2), O_TMPFILE), so that `kill -9` leaves nothing; where the file system knows no such
/// files, one with a random name, made anew and never through a link. It gets its name when it is complete.
#[derive(Debug)]
pub struct NewFile {
    file: File,
    path: PathBuf,
    named: Option<TempPath>,
}

impl NewFile {
    /// A file that will be called `path`; it lies in the same folder.
    ///
    /// # Errors
    /// Those of open(2).
    pub fn beside(path: &Path) -> io::Result<Self> {
        Self::with_mode(path, 0o666)
    }

    /// The same for what its owner alone may read and write, from the first moment on.
    ///
    /// # Errors
    /// As [`Self::beside`].
    pub fn private(path: &Path) -> io::Result<Self> {
        Self::with_mode(path, 0o600)
    }

    fn with_mode(path: &Path, mode: u32) -> io::Result<Self> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        match rustix::fs::openat(CWD, folder(path), flags, Mode::from_raw_mode(mode)) {
            Ok(file) => Ok(Self { file: file.into(), path: path.into(), named: None }),
            // Kernels without O_TMPFILE take it for the opening of a directory.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => Self::with_name(path, mode),
            Err(errno) => Err(errno.into()),
        }
    }

    fn with_name(path: &Path, mode: u32) -> io::Result<Self> {
        let flags = OFlags::NOFOLLOW.bits() as i32;
        let make = |name: &Path| {
            File::options().read(true).write(true).create_new(true).mode(mode).custom_flags(flags).open(name)
        };
        let (file, named) = builder(&hidden(path)).make_in(folder(path), make)?.into_parts();
        Ok(Self { file, path: path.into(), named: Some(named) })
    }

    /// The file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Gives it mode (without special bits) and access list (acl(5)) and, as root, the owner of the regular file in whose place it
    /// goes, which stat(2) told as `old`. Where the list cannot be given, group and others get nothing. An owner to whom the
    /// result must not be left stays without it: then the file is root's own, and root's alone.
    ///
    /// # Errors
    /// Those of fchown(2) and fchmod(2).
    pub fn take_after(&self, old: &Stat) -> io::Result<()> {
        if !may_keep_owner(&self.path, old) {
            return self.file.set_permissions(Permissions::from_mode(old.st_mode & 0o700));
        }
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::fchown(&self.file, Some(old.st_uid), Some(old.st_gid))?;
        }
        // With a list the bits of the group are its mask, which without it would be the group's own.
        let mask = if self.take_access_list() { 0o777 } else { 0o700 };
        self.file.set_permissions(Permissions::from_mode(old.st_mode & mask))
    }

    /// Whether it has the access list of what has its name, or none as that; a folder may have given it one.
    fn take_access_list(&self) -> bool {
        let mut list = vec![0; MOST_LIST];
        match rustix::fs::lgetxattr(&self.path, ACCESS_LIST, list.as_mut_slice()) {
            Ok(length) => rustix::fs::fsetxattr(&self.file, ACCESS_LIST, &list[..length], XattrFlags::empty()).is_ok(),
            Err(Errno::NODATA | Errno::OPNOTSUPP) => matches!(
                rustix::fs::fremovexattr(&self.file, ACCESS_LIST),
                Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP)
            ),
            Err(_) => false,
        }
    }

    /// Makes it durable and gives it its name.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] when something has that name; it stays.
    pub fn put(self) -> io::Result<()> {
        self.file.sync_all()?;
        match self.named {
            Some(named) => named.persist_noclobber(&self.path).map_err(|failed| failed.error),
            None => link(&self.file, &self.path),
        }
    }

    /// The same under another name in its folder.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn put_as(self, path: &Path) -> io::Result<()> {
        Self { path: path.into(), ..self }.put()
    }

    /// The same, in the place of what has that name: the file or link itself, never what a link leads to.
    ///
    /// # Errors
    /// Those of rename(2); then what was there stays.
    pub fn replace(self) -> io::Result<()> {
        self.file.sync_all()?;
        let named = match self.named {
            Some(named) => named,
            None => {
                // For the moment between the two calls it has a random name.
                let make = |name: &Path| link(&self.file, name);
                builder(&hidden(&self.path)).make_in(folder(&self.path), make)?.into_temp_path()
            }
        };
        named.persist(&self.path).map_err(|failed| failed.error)
    }
}

/// The folder of a file.
pub(super) fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Whether the result may be left to the owner of the `old` file at `path` that it replaces. It may not when root writes it and others
/// may make files there: one of them may have made this one, to own what root puts into it.
pub(super) fn may_keep_owner(path: &Path, old: &Stat) -> bool {
    !rustix::process::geteuid().is_root() || !may_be_planted(path, old)
}

/// Whether somebody else may have made what is at `path`: it is neither root's nor ours, and others may make files there.
pub(super) fn may_be_planted(path: &Path, old: &Stat) -> bool {
    if old.st_uid == 0 || old.st_uid == rustix::process::geteuid().as_raw() {
        return false;
    }
    !rustix::fs::stat(folder(path)).is_ok_and(|folder| belongs_there(old.st_uid, folder.st_uid, folder.st_mode))
}

/// Whether a pipe is neither root's nor ours and was not put there by root: whoever made it would read the output, or let us wait for
/// a reader for ever.
pub(super) fn is_pipe_of_another(path: &Path, pipe: &Stat) -> bool {
    let of_root_alone = |folder: &Stat| folder.st_uid == 0 && folder.st_mode & 0o022 == 0;
    pipe.st_uid != 0
        && pipe.st_uid != rustix::process::geteuid().as_raw()
        && !rustix::fs::stat(folder(path)).is_ok_and(|folder| of_root_alone(&folder))
}

/// Whether a file of this owner lies where nobody else but root can have put it. In a folder of their own a group that may write
/// there makes files of other owners alone.
fn belongs_there(owner: u32, folder_owner: u32, folder_mode: u32) -> bool {
    match folder_owner {
        0 => folder_mode & 0o022 == 0,
        other => other == owner && folder_mode & 0o002 == 0,
    }
}

fn hidden(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    format!(".{}.", name.chars().take(100).collect::<String>())
}

fn builder(prefix: &str) -> Builder<'_, '_> {
    let mut builder = Builder::new();
    builder.prefix(prefix).suffix(".part").rand_bytes(12);
    builder
}

/// linkat(2): by the descriptor with the right to read everything, through /proc without it.
fn link(file: &File, path: &Path) -> io::Result<()> {
    match rustix::fs::linkat(file.as_fd(), "", CWD, path, AtFlags::EMPTY_PATH) {
        Err(Errno::NOENT | Errno::PERM) => {
            let own = format!("/proc/self/fd/{}", file.as_raw_fd());
            rustix::fs::linkat(CWD, own, CWD, path, AtFlags::SYMLINK_FOLLOW).map_err(Into::into)
        }
        other => other.map_err(Into::into),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write;

    /// Without a name and, as on file systems without O_TMPFILE, with one.
    const WAYS: [fn(&Path) -> io::Result<NewFile>; 2] = [NewFile::beside, |path| NewFile::with_name(path, 0o666)];

    fn names(folder: &Path) -> Vec<String> {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn it_has_no_name_until_it_is_put_and_does_not_replace() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        for make in WAYS {
            let new = make(&path).unwrap();
            new.file().write_all(b"new").unwrap();
            assert!(!path.exists());
            new.put().unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"new");
            for make in WAYS {
                assert_eq!(make(&path).unwrap().put().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
            }
            assert_eq!(names(folder.path()), ["out"]);
            fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn it_takes_the_place_of_a_link_and_not_of_what_it_leads_to() {
        let folder = tempfile::tempdir().unwrap();
        let (path, precious) = (folder.path().join("out"), folder.path().join("precious"));
        fs::write(&precious, "precious").unwrap();
        for make in WAYS {
            let new = make(&path).unwrap();
            std::os::unix::fs::symlink(&precious, &path).unwrap();
            new.replace().unwrap();
            assert!(path.symlink_metadata().unwrap().is_file());
            fs::remove_file(&path).unwrap();
        }
        assert_eq!(fs::read(&precious).unwrap(), b"precious");
        assert_eq!(names(folder.path()), ["precious"]);
    }

    #[test]
    fn what_is_private_never_was_for_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        for new in [NewFile::private(&path), NewFile::with_name(&path, 0o600)] {
            assert_eq!(new.unwrap().file().metadata().unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn owners_are_kept_where_nobody_else_makes_files() {
        let kept = [(1000, 1000, 0o755), (1000, 1000, 0o775), (1000, 0, 0o755), (1000, 1000, 0o700)];
        let planted =
            [(1000, 0, 0o1777), (1000, 0, 0o777), (1000, 0, 0o775), (1000, 2000, 0o755), (1000, 1000, 0o1777)];
        for (places, expected) in [(kept.as_slice(), true), (planted.as_slice(), false)] {
            for (owner, folder_owner, mode) in places {
                assert_eq!(belongs_there(*owner, *folder_owner, *mode), expected, "{owner} {folder_owner} {mode:o}");
            }
        }
    }

    #[test]
    fn what_is_dropped_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        WAYS.iter().for_each(|make| drop(make(&folder.path().join("out")).unwrap()));
        assert_eq!(names(folder.path()), Vec::<String>::new());
    }
}
