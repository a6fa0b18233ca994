//! A file that is not there until it is complete.

use super::folder::Folder;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, Stat, XattrFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The attribute that holds an access list, and the longest value of any.
const ACCESS_LIST: &str = "system.posix_acl_access";
const MOST_LIST: usize = 64 << 10;

/// Random names that are tried until one is free.
const MOST_NAMES: usize = 64;

/// A new file without a name (open(2), O_TMPFILE), so that `kill -9` leaves nothing; where the file system knows no such
/// files, one with a random name, made anew and never through a link. It gets its name when it is complete, in the folder that was
/// opened in the beginning.
#[derive(Debug)]
pub struct NewFile {
    file: File,
    folder: Folder,
    name: OsString,
    hidden: Option<OsString>,
}

impl NewFile {
    /// A file that will be called `path`; it lies in the same folder.
    ///
    /// # Errors
    /// Those of open(2), and [`super::Planted`] for a link above it that root does not follow.
    pub fn beside(path: &Path) -> io::Result<Self> {
        let (folder, name) = Folder::of(path)?;
        Self::with_mode(folder, name, 0o666)
    }

    /// The same for what its owner alone may read and write, from the first moment on.
    ///
    /// # Errors
    /// As [`Self::beside`].
    pub fn private(path: &Path) -> io::Result<Self> {
        let (folder, name) = Folder::of(path)?;
        Self::with_mode(folder, name, 0o600)
    }

    /// A file in a folder that is open.
    ///
    /// # Errors
    /// Those of open(2).
    pub(crate) fn within(folder: &Folder, name: &OsStr, mode: u32) -> io::Result<Self> {
        Self::with_mode(folder.try_clone()?, name.into(), mode)
    }

    fn with_mode(folder: Folder, name: OsString, mode: u32) -> io::Result<Self> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        match rustix::fs::openat(&folder, ".", flags, Mode::from_raw_mode(mode)) {
            Ok(file) => Ok(Self { file: file.into(), folder, name, hidden: None }),
            // Kernels without O_TMPFILE take it for the opening of a directory.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => Self::with_name(folder, name, mode),
            Err(errno) => Err(errno.into()),
        }
    }

    fn with_name(folder: Folder, name: OsString, mode: u32) -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let make = |hidden: &OsStr| rustix::fs::openat(&folder, hidden, flags, Mode::from_raw_mode(mode));
        let (file, hidden) = under_random_name(&name, make)?;
        Ok(Self { file: file.into(), folder, name, hidden: Some(hidden) })
    }

    /// The file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// What stat(2) tells of what has its name, of a link itself; `None`: nothing has, or it cannot be told.
    pub fn in_its_place(&self) -> Option<Stat> {
        self.folder.stat_of(&self.name).ok()
    }

    /// Gives it mode (without special bits) and access list (acl(5)) and, as root, the owner of the regular file in whose place it
    /// goes, which stat(2) told as `old`. Where the list cannot be given, group and others get nothing. An owner to whom the
    /// result must not be left stays without it: then the file is root's own, and root's alone.
    ///
    /// # Errors
    /// Those of fchown(2) and fchmod(2).
    pub fn take_after(&self, old: &Stat) -> io::Result<()> {
        if !may_keep_owner(&self.folder, old) {
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
        let old = by_descriptor(&self.folder).join(&self.name);
        match rustix::fs::lgetxattr(old, ACCESS_LIST, list.as_mut_slice()) {
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
    pub fn put(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        let Some(hidden) = &self.hidden else { return Ok(link(&self.file, &self.folder, &self.name)?) };
        match rustix::fs::renameat_with(&self.folder, hidden, &self.folder, &self.name, RenameFlags::NOREPLACE) {
            Ok(()) => self.hidden = None,
            // What has no O_TMPFILE may not know this either; the random name goes with this value.
            Err(Errno::INVAL | Errno::NOSYS) => {
                rustix::fs::linkat(&self.folder, hidden, &self.folder, &self.name, AtFlags::empty())?;
            }
            Err(errno) => return Err(errno.into()),
        }
        Ok(())
    }

    /// The same under another name in its folder.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn put_as(mut self, name: &OsStr) -> io::Result<()> {
        self.name = name.into();
        self.put()
    }

    /// The same, in the place of what has that name: the file or link itself, never what a link leads to.
    ///
    /// # Errors
    /// Those of rename(2); then what was there stays.
    pub fn replace(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        if self.hidden.is_none() {
            // For the moment between the two calls it has a random name.
            let make = |hidden: &OsStr| link(&self.file, &self.folder, hidden);
            self.hidden = Some(under_random_name(&self.name, make)?.1);
        }
        let Some(hidden) = &self.hidden else { return Ok(()) };
        rustix::fs::renameat(&self.folder, hidden, &self.folder, &self.name)?;
        self.hidden = None;
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(hidden) = &self.hidden {
            let _ = rustix::fs::unlinkat(&self.folder, hidden, AtFlags::empty());
        }
    }
}

/// Makes something under names that nobody can guess, until one of them is free.
fn under_random_name<T>(name: &OsStr, make: impl Fn(&OsStr) -> Result<T, Errno>) -> io::Result<(T, OsString)> {
    let begin: String = name.to_string_lossy().chars().take(100).collect();
    for _ in 0..MOST_NAMES {
        let hidden = OsString::from(format!(".{begin}.{:016x}.part", random()?));
        match make(&hidden) {
            Err(Errno::EXIST) => {}
            made => return Ok((made?, hidden)),
        }
    }
    Err(Errno::EXIST.into())
}

fn random() -> Result<u64, Errno> {
    let mut bytes = [0; 8];
    let length = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    if length == bytes.len() { Ok(u64::from_ne_bytes(bytes)) } else { Err(Errno::IO) }
}

/// The name by which this process finds what it has open.
pub(super) fn by_descriptor(open: impl AsFd) -> PathBuf {
    format!("/proc/self/fd/{}", open.as_fd().as_raw_fd()).into()
}

/// Whether the result may be left to the owner of the `old` file in a folder that it replaces. It may not when root writes it and others
/// may make files there: one of them may have made this one, to own what root puts into it.
pub(super) fn may_keep_owner(folder: &Folder, old: &Stat) -> bool {
    !rustix::process::geteuid().is_root() || !may_be_planted(folder, old)
}

/// Whether somebody else may have made what is in a folder: it is neither root's nor ours, and others may make files there.
fn may_be_planted(folder: &Folder, old: &Stat) -> bool {
    if old.st_uid == 0 || old.st_uid == rustix::process::geteuid().as_raw() {
        return false;
    }
    !rustix::fs::fstat(folder).is_ok_and(|folder| belongs_there(old.st_uid, folder.st_uid, folder.st_mode))
}

/// Whether a pipe is neither root's nor ours and was not put there by root: whoever made it would read the output, or let us wait for
/// a reader for ever.
pub(super) fn is_pipe_of_another(folder: &Folder, pipe: &Stat) -> bool {
    let of_root_alone = |folder: &Stat| folder.st_uid == 0 && folder.st_mode & 0o022 == 0;
    pipe.st_uid != 0
        && pipe.st_uid != rustix::process::geteuid().as_raw()
        && !rustix::fs::fstat(folder).is_ok_and(|folder| of_root_alone(&folder))
}

/// Whether a file of this owner lies where nobody else but root can have put it. In a folder of their own a group that may write
/// there makes files of other owners alone.
fn belongs_there(owner: u32, folder_owner: u32, folder_mode: u32) -> bool {
    match folder_owner {
        0 => folder_mode & 0o022 == 0,
        other => other == owner && folder_mode & 0o002 == 0,
    }
}

/// linkat(2): by the descriptor with the right to read everything, through /proc without it.
fn link(file: &File, folder: &Folder, name: &OsStr) -> Result<(), Errno> {
    match rustix::fs::linkat(file.as_fd(), "", folder, name, AtFlags::EMPTY_PATH) {
        Err(Errno::NOENT | Errno::PERM) => {
            rustix::fs::linkat(CWD, by_descriptor(file), folder, name, AtFlags::SYMLINK_FOLLOW)
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::symlink;

    /// Without a name and, as on file systems without O_TMPFILE, with one.
    const WAYS: [fn(&Path) -> io::Result<NewFile>; 2] = [NewFile::beside, |path| named(path, 0o666)];

    fn named(path: &Path, mode: u32) -> io::Result<NewFile> {
        let (folder, name) = Folder::of(path)?;
        NewFile::with_name(folder, name, mode)
    }

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
            symlink(&precious, &path).unwrap();
            new.replace().unwrap();
            assert!(path.symlink_metadata().unwrap().is_file());
            fs::remove_file(&path).unwrap();
        }
        assert_eq!(fs::read(&precious).unwrap(), b"precious");
        assert_eq!(names(folder.path()), ["precious"]);
    }

    #[test]
    fn it_gets_its_name_in_the_folder_that_was_opened() {
        type Put = fn(NewFile) -> io::Result<()>;
        for make in WAYS {
            for put in [NewFile::put as Put, NewFile::replace, |new| new.put_as(OsStr::new("out"))] {
                let room = tempfile::tempdir().unwrap();
                let at = |name: &str| room.path().join(name);
                [at("folder"), at("elsewhere")].iter().for_each(|path| fs::create_dir(path).unwrap());
                let new = make(&at("folder/out")).unwrap();
                fs::rename(at("folder"), at("moved")).unwrap();
                symlink(at("elsewhere"), at("folder")).unwrap();
                put(new).unwrap();
                assert_eq!((names(&at("moved")), names(&at("elsewhere"))), (vec!["out".to_string()], vec![]));
            }
        }
    }

    #[test]
    fn what_is_private_never_was_for_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        for new in [NewFile::private(&path), named(&path, 0o600)] {
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
