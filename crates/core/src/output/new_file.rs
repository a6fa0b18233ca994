//! A file that becomes visible only when it is complete.

use super::folder::Folder;
use crate::machine::{owner_here, shows_owners_of_host};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, Stat, XattrFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Extended attribute of the access list, and the maximum size of any attribute.
const ACCESS_LIST: &str = "system.posix_acl_access";
const MOST_LIST: usize = 64 << 10;

/// Number of random names tried.
const MOST_NAMES: usize = 64;

/// A new file without a name (open(2), O_TMPFILE), so that `kill -9` leaves nothing. On file systems without support, a new file
/// with a random name, never through a link. It gets its name when it is complete, in the folder that was opened at the start.
#[derive(Debug)]
pub struct NewFile {
    file: File,
    folder: Folder,
    name: OsString,
    hidden: Option<OsString>,
}

impl NewFile {
    /// Creates a file that will be named `path`, in the same folder.
    ///
    /// # Errors
    /// As open(2); [`super::UntrustedLink`] for a link in its path that root does not follow.
    pub fn next_to(path: &Path) -> io::Result<Self> {
        let (folder, name) = Folder::of(path)?;
        Self::with_mode(folder, name, 0o666)
    }

    /// Creates a file like [`Self::next_to`], with mode 0600 from the start. A guest that shows the owners of the host
    /// may be unable to change modes, and has no other users. There it has the mode of the file that it replaces.
    ///
    /// # Errors
    /// As [`Self::next_to`].
    pub fn private(path: &Path) -> io::Result<Self> {
        let (folder, name) = Folder::of(path)?;
        Self::private_within(&folder, &name)
    }

    /// Creates the private file in an open folder.
    pub(super) fn private_within(folder: &Folder, name: &OsStr) -> io::Result<Self> {
        let old = folder.stat_of(name).ok().filter(|_| shows_owners_of_host());
        let of_file = |old: Stat| FileType::from_raw_mode(old.st_mode) == FileType::RegularFile;
        let mode = old.filter(|old| of_file(*old)).map_or(0, |old| old.st_mode & 0o777);
        Self::within(folder, name, 0o600 | mode)
    }

    pub(crate) fn within(folder: &Folder, name: &OsStr, mode: u32) -> io::Result<Self> {
        Self::with_mode(folder.try_clone()?, name.into(), mode)
    }

    fn with_mode(folder: Folder, name: OsString, mode: u32) -> io::Result<Self> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        match rustix::fs::openat(&folder, ".", flags, Mode::from_raw_mode(mode)) {
            Ok(file) => Ok(Self { file: file.into(), folder, name, hidden: None }),
            // Kernels without O_TMPFILE treat it as opening a directory.
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

    /// Returns the open file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Returns the stat(2) data of the file with its name, without following a link; `None` if missing or unknown.
    pub fn stat_by_name(&self) -> Option<Stat> {
        self.folder.stat_of(&self.name).ok()
    }

    /// Copies mode (without special bits) and access list (acl(5)) and, as root, the owner of the regular file that it replaces
    /// (`old`). If the list cannot be copied, group and others get no access. If the result must not belong to the old owner, the
    /// file stays root's and private.
    ///
    /// # Errors
    /// As fchown(2) and fchmod(2).
    pub fn take_after(&self, old: &Stat) -> io::Result<()> {
        if !may_keep_owner(&self.folder, old) {
            return self.set_mode(old.st_mode & 0o700);
        }
        let new = rustix::fs::fstat(&self.file)?;
        if rustix::process::geteuid().is_root() && (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid) {
            std::os::unix::fs::fchown(&self.file, Some(old.st_uid), Some(old.st_gid))?;
        }
        // With an access list, the group bits are its mask; without the list they would become the group's permissions.
        let mask = if self.take_access_list() { 0o777 } else { 0o700 };
        self.set_mode(old.st_mode & mask)
    }

    /// Sets the mode if the file has another one: a guest under Landlock may not change any.
    fn set_mode(&self, mode: u32) -> io::Result<()> {
        match rustix::fs::fstat(&self.file)?.st_mode & 0o7777 == mode {
            true => Ok(()),
            false => self.file.set_permissions(Permissions::from_mode(mode)),
        }
    }

    /// Copies the access list of the existing file, or removes an inherited one if that has none; returns whether that succeeded.
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
    /// [`io::ErrorKind::AlreadyExists`] if the name exists, which is kept.
    pub fn put(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        let Some(hidden) = &self.hidden else { return Ok(link(&self.file, &self.folder, &self.name)?) };
        match rustix::fs::renameat_with(&self.folder, hidden, &self.folder, &self.name, RenameFlags::NOREPLACE) {
            Ok(()) => self.hidden = None,
            // File systems without O_TMPFILE may not support this either; dropping this value removes the random name.
            Err(Errno::INVAL | Errno::NOSYS) => {
                rustix::fs::linkat(&self.folder, hidden, &self.folder, &self.name, AtFlags::empty())?;
            }
            Err(errno) => return Err(errno.into()),
        }
        Ok(())
    }

    /// Makes it durable and gives it another name in its folder.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn put_as(mut self, name: &OsStr) -> io::Result<()> {
        self.name = name.into();
        self.put()
    }

    /// Makes it durable and replaces the existing file or link itself, never a link's target.
    ///
    /// # Errors
    /// As rename(2); the existing file is kept then.
    pub fn replace(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        if self.hidden.is_none() {
            // It has a random name between the two calls.
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

/// Creates a file under unguessable names until one is free.
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

/// Returns the path of an open descriptor of this process.
pub(super) fn by_descriptor(open: impl AsFd) -> PathBuf {
    format!("/proc/self/fd/{}", open.as_fd().as_raw_fd()).into()
}

/// Returns whether the result may belong to the owner of the replaced `old` file. It may not if root writes it and
/// others may create files there: one of them may have planted it to own root's output.
pub(super) fn may_keep_owner(folder: &Folder, old: &Stat) -> bool {
    !rustix::process::geteuid().is_root() || !may_be_planted(folder, old)
}

/// Returns whether another user may have planted a file. Such a file belongs neither to root nor to this user, and
/// others may create files there.
fn may_be_planted(folder: &Folder, old: &Stat) -> bool {
    let owner = owner_here(old.st_uid);
    if owner == 0 || owner == rustix::process::geteuid().as_raw() {
        return false;
    }
    !rustix::fs::fstat(folder).is_ok_and(|folder| belongs_there(owner, owner_here(folder.st_uid), folder.st_mode))
}

/// Returns whether a pipe belongs to another user and was not created by root. Its creator could read the output, or
/// block this process forever.
pub(super) fn is_pipe_of_another(folder: &Folder, pipe: &Stat) -> bool {
    let of_root_alone = |folder: &Stat| owner_here(folder.st_uid) == 0 && folder.st_mode & 0o022 == 0;
    let owner = owner_here(pipe.st_uid);
    owner != 0
        && owner != rustix::process::geteuid().as_raw()
        && !rustix::fs::fstat(folder).is_ok_and(|folder| of_root_alone(&folder))
}

/// Returns whether a file of this owner is where only root or that owner could have put it. In a user's own folder,
/// only a group with write permission creates files of other owners.
fn belongs_there(owner: u32, folder_owner: u32, folder_mode: u32) -> bool {
    match folder_owner {
        0 => folder_mode & 0o022 == 0,
        other => other == owner && folder_mode & 0o002 == 0,
    }
}

/// Links the file with linkat(2): by descriptor with CAP_DAC_READ_SEARCH, otherwise through /proc.
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
    const WAYS: [fn(&Path) -> io::Result<NewFile>; 2] = [NewFile::next_to, |path| named(path, 0o666)];

    fn named(path: &Path, mode: u32) -> io::Result<NewFile> {
        let (folder, name) = Folder::of(path)?;
        NewFile::with_name(folder, name, mode)
    }

    fn names(folder: &Path) -> Vec<String> {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn file_has_no_name_until_put_and_does_not_replace() {
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
    fn replaces_a_link_and_not_its_target() {
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
    fn file_gets_its_name_in_the_opened_folder() {
        type PutMethod = fn(NewFile) -> io::Result<()>;
        for make in WAYS {
            for put in [NewFile::put as PutMethod, NewFile::replace, |new| new.put_as(OsStr::new("out"))] {
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
    fn private_files_are_private_from_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        for new in [NewFile::private(&path), named(&path, 0o600)] {
            assert_eq!(new.unwrap().file().metadata().unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn owners_are_kept_in_trusted_folders() {
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
    fn dropped_file_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        WAYS.iter().for_each(|make| drop(make(&folder.path().join("out")).unwrap()));
        assert_eq!(names(folder.path()), Vec::<String>::new());
    }
}
