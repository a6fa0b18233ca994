//! Loose objects, staged in batches.
//!
//! One fsync per object would be slow. Instead, a batch is staged without names, `syncfs` makes all its data durable at once, and
//! then the objects get their names: after a power failure an object with a name is complete. A last `syncfs` before the snapshot
//! makes the names durable too.
//!
//! Staged objects are unnamed files (`O_TMPFILE`, named by `linkat`), which cost one directory operation instead of three and
//! disappear if the process is killed. If the file system does not support them, or the limit of open files is low, they are
//! files in `staging`, renamed into place.

use super::FOLDER_MODE;
use super::staging::PublishedFiles;
use crate::error::{StoreError, io};
use crate::object_id::ObjectId;
use crate::scheme::Scheme;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use senesce_core::interrupt::Interrupt;
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Objects and bytes after which a writer syncs and publishes.
const BATCH_OBJECTS: usize = 65_536;
const BATCH_BYTES: u64 = 256 << 20;
/// A lower limit of open files would require syncing too often.
const LEAST_UNNAMED_BATCH: usize = 2048;

/// An object without a name in the store.
#[derive(Debug)]
struct StagedObject {
    id: ObjectId,
    /// The unnamed file; `None` for one in `staging`.
    file: Option<OwnedFd>,
    replaces: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LooseObjectState {
    Whole,
    Damaged,
    Absent,
}

/// Writes loose objects; one per thread.
#[derive(Debug)]
pub(super) struct LooseWriter<'a> {
    staging: PathBuf,
    staging_fd: OwnedFd,
    objects: PathBuf,
    objects_fd: OwnedFd,
    scheme: Scheme,
    staged: Vec<StagedObject>,
    staged_bytes: u64,
    /// Maximum number of unnamed files; 0 to stage by name.
    unnamed_batch: usize,
    /// Whether objects from earlier commits may exist.
    look_for_old: bool,
    placed: &'a PublishedFiles,
}

impl<'a> LooseWriter<'a> {
    /// Creates the writer of thread `number` of `threads` of the store at `store`.
    pub(crate) fn new(
        store: &Path,
        number: usize,
        threads: usize,
        scheme: Scheme,
        look_for_old: bool,
        placed: &'a PublishedFiles,
    ) -> Result<Self, StoreError> {
        let staging = store.join("staging").join(number.to_string());
        fs::DirBuilder::new().mode(FOLDER_MODE).create(&staging).map_err(io("make directory", &staging))?;
        let objects = store.join("objects");
        let batch = (raise_open_files() / 2 / threads.max(1)).min(BATCH_OBJECTS);
        Ok(Self {
            staging_fd: open_directory(&staging)?,
            staging,
            objects_fd: open_directory(&objects)?,
            objects,
            scheme,
            staged: Vec::new(),
            staged_bytes: 0,
            unnamed_batch: if batch >= LEAST_UNNAMED_BATCH { batch } else { 0 },
            look_for_old,
            placed,
        })
    }

    pub(crate) fn holds(&self, id: &ObjectId, data: &[u8]) -> LooseObjectState {
        if !self.look_for_old {
            return LooseObjectState::Absent;
        }
        let path = self.scheme.path(&id.hex());
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        match rustix::fs::openat(&self.objects_fd, &*path, flags, Mode::empty()) {
            Ok(file) => {
                if is_content(File::from(file), data) {
                    LooseObjectState::Whole
                } else {
                    LooseObjectState::Damaged
                }
            }
            Err(Errno::NOENT | Errno::NOTDIR) => LooseObjectState::Absent,
            Err(_) => LooseObjectState::Damaged,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.staged.is_empty()
    }

    /// Stages an object; `replaces`: a damaged one of its name exists.
    pub(crate) fn put(&mut self, id: ObjectId, data: &[u8], replaces: bool) -> Result<(), StoreError> {
        let file = match self.unnamed()? {
            Some(file) => {
                self.write(&file, data)?;
                Some(file)
            }
            None => {
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
                let name = self.staged.len().to_string();
                let file = rustix::fs::openat(&self.staging_fd, name, flags, MODE)
                    .map_err(|errno| io("create an object in", &self.staging)(errno))?;
                self.write(&file, data)?;
                None
            }
        };
        self.staged.push(StagedObject { id, file, replaces });
        self.staged_bytes += data.len() as u64;
        let batch = if self.unnamed_batch > 0 { self.unnamed_batch } else { BATCH_OBJECTS };
        if self.staged.len() >= batch || self.staged_bytes >= BATCH_BYTES {
            self.sync()?;
            self.publish()?;
        }
        Ok(())
    }

    /// Creates a new unnamed file, or returns `None` if unsupported.
    fn unnamed(&mut self) -> Result<Option<OwnedFd>, StoreError> {
        if self.unnamed_batch == 0 {
            return Ok(None);
        }
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        match rustix::fs::openat(&self.objects_fd, ".", flags, MODE) {
            Ok(file) => Ok(Some(file)),
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::MFILE | Errno::NFILE) => {
                self.unnamed_batch = 0;
                Ok(None)
            }
            Err(errno) => Err(io("create an object in", &self.objects)(errno)),
        }
    }

    fn write(&self, file: &OwnedFd, data: &[u8]) -> Result<(), StoreError> {
        let mut rest = data;
        while !rest.is_empty() {
            let written = rustix::io::write(file, rest).map_err(io("write an object in", &self.objects))?;
            rest = &rest[written..];
        }
        Ok(())
    }

    /// Makes all data of the file system durable (syncfs).
    pub(crate) fn sync(&self) -> Result<(), StoreError> {
        rustix::fs::syncfs(&self.objects_fd).map_err(io("sync the file system of", &self.objects))
    }

    /// Names the staged objects, which must be durable.
    pub(crate) fn publish(&mut self) -> Result<(), StoreError> {
        for (number, staged) in std::mem::take(&mut self.staged).iter().enumerate() {
            let hex = staged.id.hex();
            let path = self.scheme.path(&hex);
            let (folder, name) = path.rsplit_once('/').unwrap_or((".", &path));
            let folder = match self.folder(folder) {
                Err(Errno::NOENT) => self.make_folder(folder),
                other => other,
            };
            let outcome = folder.and_then(|folder| self.name(staged, number, &folder, name));
            outcome.map_err(|errno| io("put in place", &self.objects.join(&path))(errno))?;
            // An object that replaces another belongs to an earlier snapshot.
            PublishedFiles::add(&self.placed.objects, (!staged.replaces).then_some(staged.id));
        }
        self.staged_bytes = 0;
        Ok(())
    }

    /// Opens a folder below `objects`, without following links, because the store may be untrusted.
    fn folder(&self, path: &str) -> rustix::io::Result<OwnedFd> {
        let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let flags = OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC;
        rustix::fs::openat2(&self.objects_fd, path, flags, Mode::empty(), within)
    }

    fn make_folder(&self, path: &str) -> rustix::io::Result<OwnedFd> {
        let mut folder = self.folder(".")?;
        let ends = path.match_indices('/').map(|(end, _)| end).chain([path.len()]);
        for end in ends {
            let name = path[..end].rsplit('/').next().unwrap_or_default();
            match rustix::fs::mkdirat(&folder, name, Mode::from_raw_mode(FOLDER_MODE)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
            folder = self.folder(&path[..end])?;
        }
        Ok(folder)
    }

    fn name(&self, staged: &StagedObject, number: usize, folder: &OwnedFd, name: &str) -> rustix::io::Result<()> {
        let Some(file) = &staged.file else {
            return rustix::fs::renameat(&self.staging_fd, number.to_string(), folder, name);
        };
        let link = || link(file, folder, name);
        match link() {
            // A damaged object of that name: see `holds`.
            Err(Errno::EXIST) => {
                rustix::fs::unlinkat(folder, name, AtFlags::empty())?;
                link()
            }
            other => other,
        }
    }
}

/// Returns whether a regular file holds exactly these bytes.
fn is_content(mut file: File, data: &[u8]) -> bool {
    let mut found = Vec::with_capacity(data.len() + 1);
    file.metadata().is_ok_and(|facts| facts.is_file() && facts.len() == data.len() as u64)
        && file.by_ref().take(data.len() as u64 + 1).read_to_end(&mut found).is_ok()
        && found == data
}

/// Links by descriptor, or through /proc if that fails. Linking by descriptor needs CAP_DAC_READ_SEARCH before Linux
/// 6.10 (open(2), O_TMPFILE), which root lacks in many containers.
fn link(file: &OwnedFd, folder: &OwnedFd, name: &str) -> rustix::io::Result<()> {
    use std::os::fd::AsRawFd;
    let by_path = || {
        let from = format!("/proc/self/fd/{}", file.as_raw_fd());
        rustix::fs::linkat(CWD, from, folder, name, AtFlags::SYMLINK_FOLLOW)
    };
    by_descriptor_or(rustix::fs::linkat(file, "", folder, name, AtFlags::EMPTY_PATH), by_path)
}

fn by_descriptor_or(
    by_descriptor: rustix::io::Result<()>,
    by_path: impl FnOnce() -> rustix::io::Result<()>,
) -> rustix::io::Result<()> {
    match by_descriptor {
        Err(Errno::NOENT | Errno::PERM) => by_path(),
        other => other,
    }
}

/// Objects are immutable and private.
const MODE: Mode = Mode::from_raw_mode(0o400);

/// Raises this process's limit of open files to the maximum, and returns it.
fn raise_open_files() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let wanted = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let reached = if setrlimit(Resource::Nofile, wanted).is_ok() { limit.maximum } else { limit.current };
    reached.unwrap_or(1 << 20) as usize
}

fn open_directory(path: &Path) -> Result<OwnedFd, StoreError> {
    rustix::fs::openat(CWD, path, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .map_err(io("open directory", path))
}

pub(super) enum LooseFile {
    Object(ObjectId, PathBuf),
    /// Not an object of this scheme.
    Other(PathBuf),
}

pub(super) fn list(objects: &Path, scheme: Scheme, interrupt: &Interrupt) -> Result<Vec<LooseFile>, StoreError> {
    let mut found = Vec::new();
    let mut folders = vec![objects.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(io("list", &folder))? {
            if interrupt.requested() {
                return Err(StoreError::Interrupted);
            }
            let entry = entry.map_err(io("list", &folder))?;
            let path = entry.path();
            if entry.file_type().map_err(io("read the type of", &path))?.is_dir() {
                folders.push(path);
                continue;
            }
            let relative = path.strip_prefix(objects).unwrap_or(&path);
            let id = relative.to_string_lossy().replace(['/', '_'], "").parse::<ObjectId>();
            found.push(match id {
                Ok(id) if Path::new(&scheme.path(&id.hex())) == relative => LooseFile::Object(id, path),
                _ => LooseFile::Other(path),
            });
        }
    }
    Ok(found)
}

/// Returns whether there is any file or directory below `objects`.
pub(super) fn any(objects: &Path) -> Result<bool, StoreError> {
    Ok(fs::read_dir(objects).map_err(io("list", objects))?.next().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linking_falls_back_to_the_path_and_reports_its_error() {
        for refused in [Errno::NOENT, Errno::PERM] {
            assert_eq!(by_descriptor_or(Err(refused), || Ok(())), Ok(()), "root without a capability too");
            assert_eq!(by_descriptor_or(Err(refused), || Err(Errno::EXIST)), Err(Errno::EXIST));
        }
        assert_eq!(by_descriptor_or(Err(Errno::EXIST), || Ok(())), Err(Errno::EXIST));
        assert_eq!(by_descriptor_or(Ok(()), || Err(Errno::IO)), Ok(()));
    }

    #[test]
    fn damaged_object_with_the_same_name_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        for folder in ["staging", "objects"] {
            fs::create_dir(directory.path().join(folder)).unwrap();
        }
        let id = crate::HashAlgorithm::Sha1.name(b"whole");
        let placed = PublishedFiles::default();
        let mut writer = LooseWriter::new(directory.path(), 0, 1, Scheme::GIT, true, &placed).unwrap();
        assert_eq!(writer.holds(&id, b"whole"), LooseObjectState::Absent);
        writer.put(id, b"whole", false).unwrap();
        writer.publish().unwrap();
        assert_eq!(writer.holds(&id, b"whole"), LooseObjectState::Whole);
        let path = directory.path().join("objects").join(Scheme::GIT.path(&id.hex()));
        fs::remove_file(&path).unwrap();
        for damaged in ["torn", "wHole", "whole and more"] {
            fs::write(&path, damaged).unwrap();
            assert_eq!(writer.holds(&id, b"whole"), LooseObjectState::Damaged, "{damaged}");
        }
        // A thread without the capability to link by descriptor, like every non-root thread (kernels before 6.10 return ENOENT
        // then).
        let unprivileged = |writer: &mut LooseWriter<'_>| {
            let none = rustix::thread::CapabilitySet::empty();
            let none = rustix::thread::CapabilitySets { effective: none, permitted: none, inheritable: none };
            rustix::thread::set_capabilities(None, none).unwrap();
            writer.put(id, b"whole", true).unwrap();
            writer.publish()
        };
        std::thread::scope(|scope| scope.spawn(|| unprivileged(&mut writer)).join().unwrap()).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"whole");
        assert_eq!(*placed.objects.lock().unwrap(), [id], "once: the second one replaced another");
    }
}
