//! Loose objects, staged in batches.
//!
//! Durable one by one, every object would cost an fsync. Instead a batch is written to `staging`, `syncfs` makes all its
//! data durable at once, and only then are the objects renamed into place: after a power failure an object that has its
//! name has its bytes. A last `syncfs` before the snapshot is written makes the names durable too.

use crate::error::{StoreError, io};
use crate::object_id::ObjectId;
use crate::scheme::Scheme;
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Objects and bytes after which a writer syncs and publishes.
const BATCH_OBJECTS: usize = 65_536;
const BATCH_BYTES: u64 = 256 << 20;

/// Writes loose objects; one per thread.
#[derive(Debug)]
pub(super) struct LooseWriter {
    staging: PathBuf,
    staging_fd: OwnedFd,
    objects: PathBuf,
    objects_fd: OwnedFd,
    scheme: Scheme,
    staged: Vec<ObjectId>,
    staged_bytes: u64,
    /// Whether there may be objects from before this commit.
    look_for_old: bool,
}

impl LooseWriter {
    /// The writer of thread `number` of the store at `store`.
    pub fn new(store: &Path, number: usize, scheme: Scheme, look_for_old: bool) -> Result<Self, StoreError> {
        let staging = store.join("staging").join(number.to_string());
        fs::create_dir(&staging).map_err(io("make directory", &staging))?;
        let objects = store.join("objects");
        Ok(Self {
            staging_fd: open_directory(&staging)?,
            staging,
            objects_fd: open_directory(&objects)?,
            objects,
            scheme,
            staged: Vec::new(),
            staged_bytes: 0,
            look_for_old,
        })
    }

    /// Whether the object is in place already, from an earlier commit. One of another size is damaged and counts as
    /// absent, so that it is written anew.
    pub fn has(&self, id: &ObjectId, length: usize) -> bool {
        if !self.look_for_old {
            return false;
        }
        let path = self.scheme.path(&id.hex());
        rustix::fs::statat(&self.objects_fd, &*path, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| stat.st_size as u64 == length as u64)
    }

    /// Stages an object.
    pub fn put(&mut self, id: ObjectId, data: &[u8]) -> Result<(), StoreError> {
        let name = self.staged.len().to_string();
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.staging_fd, &*name, flags, Mode::from_raw_mode(0o444))
            .map_err(|errno| io("create an object in", &self.staging)(errno))?;
        let mut rest = data;
        while !rest.is_empty() {
            let written =
                rustix::io::write(&file, rest).map_err(|errno| io("write an object in", &self.staging)(errno))?;
            rest = &rest[written..];
        }
        self.staged.push(id);
        self.staged_bytes += data.len() as u64;
        if self.staged.len() >= BATCH_OBJECTS || self.staged_bytes >= BATCH_BYTES {
            self.sync()?;
            self.publish()?;
        }
        Ok(())
    }

    /// Makes everything durable that the file system holds so far.
    pub fn sync(&self) -> Result<(), StoreError> {
        rustix::fs::syncfs(&self.objects_fd).map_err(io("sync the file system of", &self.objects))
    }

    /// Renames the staged objects into place; they must be durable.
    pub fn publish(&mut self) -> Result<(), StoreError> {
        for (number, id) in std::mem::take(&mut self.staged).iter().enumerate() {
            let path = self.scheme.path(&id.hex());
            let name = number.to_string();
            let rename = || rustix::fs::renameat(&self.staging_fd, &*name, &self.objects_fd, &*path);
            let outcome = match rename() {
                Err(rustix::io::Errno::NOENT) => {
                    let folder = self.objects.join(self.scheme.directory(&id.hex()));
                    fs::create_dir_all(&folder).map_err(io("make directory", &folder))?;
                    rename()
                }
                other => other,
            };
            outcome.map_err(io("rename into place", &self.objects.join(&path)))?;
        }
        self.staged_bytes = 0;
        Ok(())
    }
}

fn open_directory(path: &Path) -> Result<OwnedFd, StoreError> {
    rustix::fs::openat(CWD, path, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .map_err(io("open directory", path))
}

/// A file below `objects`: an object by its path, or something else.
pub(super) enum Found {
    /// An object and its path.
    Object(ObjectId, PathBuf),
    /// A file that is no object of this scheme.
    Other(PathBuf),
}

/// All files below `objects`.
pub(super) fn list(objects: &Path, scheme: Scheme) -> Result<Vec<Found>, StoreError> {
    let mut found = Vec::new();
    let mut folders = vec![objects.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(io("list", &folder))? {
            let entry = entry.map_err(io("list", &folder))?;
            let path = entry.path();
            if entry.file_type().map_err(io("read the type of", &path))?.is_dir() {
                folders.push(path);
                continue;
            }
            let relative = path.strip_prefix(objects).unwrap_or(&path);
            let id = relative.to_string_lossy().replace('/', "").replace('_', "").parse::<ObjectId>();
            found.push(match id {
                Ok(id) if Path::new(&scheme.path(&id.hex())) == relative => Found::Object(id, path),
                _ => Found::Other(path),
            });
        }
    }
    Ok(found)
}

/// Whether there is any file or directory below `objects`.
pub(super) fn any(objects: &Path) -> Result<bool, StoreError> {
    Ok(fs::read_dir(objects).map_err(io("list", objects))?.next().is_some())
}
