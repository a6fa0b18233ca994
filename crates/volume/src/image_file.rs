//! Image files: creation, guard, lock, copies in memory and write-back.

use crate::error::TargetError;
use crate::growth::GrowthSpace;
use crate::sparse::{self, CopyBy, NamedFile};
use crate::{guard, lock};
use rustix::fs::{FileType, MemfdFlags};
use senesce_core::Bytes;
use senesce_core::output::{Folder, NewFile};
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// An image ready to be attached to a loop device; locked against other runs while it lives.
#[derive(Debug)]
pub(crate) struct ImageFile {
    active: File,
    file: Option<(File, PathBuf)>,
    /// Folder and name, if this process created the file.
    created: Option<(Folder, OsString)>,
    size: Bytes,
    in_memory: bool,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct ImageOptions<'a> {
    pub size: Option<Bytes>,
    pub writes: Option<Bytes>,
    pub erase: Option<&'a str>,
    pub keep: bool,
    pub read_only: bool,
    pub in_memory: bool,
}

/// A file that this process created, to be removed after a failure.
pub(crate) struct CreatedFile {
    folder: Folder,
    name: OsString,
    file: File,
}

impl CreatedFile {
    pub(crate) fn remove(&self) {
        let _ = self.folder.remove_same(&self.name, &self.file);
    }
}

impl ImageFile {
    pub(crate) fn scratch(size: Bytes, writes: Option<Bytes>) -> Result<Self, TargetError> {
        Ok(Self { active: memory_file(size, writes)?, file: None, created: None, size, in_memory: true })
    }

    pub(crate) fn open(path: &Path, options: ImageOptions) -> Result<Self, TargetError> {
        let existed = path.exists();
        if !existed && path.symlink_metadata().is_ok() {
            return Err(TargetError::refused(
                path.display(),
                "it is a symbolic link to a missing file",
                "mount the file system with the link's target, name the file itself, or remove the link",
            ));
        }
        if !existed && options.keep {
            return Err(TargetError::named("open the image", path)(std::io::Error::from_raw_os_error(libc::ENOENT)));
        }
        if !existed && options.size.is_none() {
            return Err(TargetError::Usage(format!(
                "the image {path} does not exist: give its size, image:{path},size=1G",
                path = path.display()
            )));
        }
        if existed {
            let opened = File::options().read(true).write(!options.read_only).open(path);
            return Self::prepare(opened.map_err(TargetError::io("open the image", path))?, path, options, true);
        }
        let (folder, name) = Folder::of(path).map_err(TargetError::io("make the image", path))?;
        let file = folder.create_new(&name, 0o666).map_err(TargetError::io("make the image", path))?;
        match Self::prepare(file, path, options, false) {
            Ok(image) => Ok(Self { created: Some((folder, name)), ..image }),
            Err(error) => {
                let _ = folder.remove_file(&name);
                Err(error)
            }
        }
    }

    /// Prepares an opened file. `existed`: the file was not created by this process, so others may use it.
    fn prepare(file: File, path: &Path, options: ImageOptions, existed: bool) -> Result<Self, TargetError> {
        let found = Bytes(guard::check_regular(&file, path)?.size());
        lock::lock(&file, path)?;
        if !options.read_only {
            guard::check_not_planted(&file, path)?;
        }
        if existed {
            guard::check_image_unused(&file, path)?;
        }
        let size = if options.keep { found } else { options.size.unwrap_or(found) };
        if size.0 == 0 {
            return Err(match options.keep {
                true => TargetError::damaged(path, "it is empty, so it has no file system"),
                false => TargetError::Usage(format!("the image {} is empty: give its size, size=1G", path.display())),
            });
        }
        if !options.keep {
            guard::check_image_content(&file, path, options.erase)?;
            check_host_space(&file, path, most_bytes(size, options.writes), options.in_memory)?;
        }
        let active = if options.in_memory {
            memory_file(size, options.writes)?
        } else {
            reopen(&file, path, options.read_only)?
        };
        // The result of a run in memory replaces the file a link leads to, not the link.
        let real = path.canonicalize().map_err(TargetError::io("check the image", path))?;
        let image = Self { active, file: Some((file, real)), created: None, size, in_memory: options.in_memory };
        image.fill(options.keep, path)?;
        Ok(image)
    }

    fn fill(&self, keep: bool, path: &Path) -> Result<(), TargetError> {
        match (keep, self.in_memory, &self.file) {
            (true, true, Some((file, _))) => {
                let to = NamedFile { file: &self.active, path: Path::new("the image in memory") };
                sparse::copy(NamedFile { file, path }, to, self.size.0, CopyBy::Kernel).map(|_| ())
            }
            (false, false, _) => {
                self.active.set_len(0).map_err(TargetError::io("empty", path))?;
                self.active.set_len(self.size.0).map_err(TargetError::io("set the size of", path))
            }
            _ => Ok(()),
        }
    }

    /// Takes the file, if this process created it.
    pub(crate) fn take_created(&mut self) -> Option<CreatedFile> {
        let (folder, name) = self.created.take()?;
        let file = self.file.as_ref()?.0.try_clone().ok()?;
        Some(CreatedFile { folder, name, file })
    }

    pub(crate) fn active(&self) -> &File {
        &self.active
    }

    #[cfg(test)]
    pub(crate) fn size(&self) -> Bytes {
        self.size
    }

    /// Returns the space into which the image can grow, if at most `writes` are written to it (`None`: all of it). An
    /// image that has reached this limit may grow to its size: the limit was too low.
    pub(crate) fn growth_space(&self, writes: Option<Bytes>) -> Option<GrowthSpace> {
        let up_to = |most| GrowthSpace::of(&self.active, most, self.in_memory).ok();
        let space = up_to(most_bytes(self.size, writes))?;
        if space.growth.0 > 0 { Some(space) } else { up_to(self.size) }
    }

    pub(crate) fn is_in_memory(&self) -> bool {
        self.in_memory
    }

    pub(crate) fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(|(_, path)| path.as_path())
    }

    pub(crate) fn lock_handle(&self) -> Option<File> {
        self.file.as_ref().and_then(|(file, _)| file.try_clone().ok())
    }

    /// Writes an image held in memory into its file: the used ranges go into a new file, which is renamed over the old
    /// one.
    pub(crate) fn keep_result(&self) -> Result<(), TargetError> {
        let Some((file, path)) = self.file.as_ref().filter(|_| self.in_memory) else { return Ok(()) };
        let from = NamedFile { file: &self.active, path: Path::new("the image in memory") };
        put_in_place_of(file, path, |to| sparse::copy(from, to, self.size.0, CopyBy::Kernel).map(|_| ()))
    }
}

/// Replaces `file`, which was guarded under the name `path`, by a file that `fill` writes. If another file has that
/// name by then, that file stays and the result gets another name.
fn put_in_place_of(
    file: &File,
    path: &Path,
    fill: impl FnOnce(NamedFile) -> Result<(), TargetError>,
) -> Result<(), TargetError> {
    let new = NewFile::private(path).map_err(TargetError::io("make", path))?;
    let old = rustix::fs::fstat(file).map_err(TargetError::errno("inspect", path))?;
    new.take_after(&old).map_err(TargetError::io("give its mode and owner to", path))?;
    fill(NamedFile { file: new.file(), path })?;
    new.file().sync_all().map_err(TargetError::io("sync", path))?;
    if is_still_it(file, &new) {
        return new.replace().map_err(TargetError::io("rename into place", path));
    }
    let result = path.with_added_extension("result");
    new.put_as(result.file_name().unwrap_or_default()).map_err(|error| put_failed(error, &result))?;
    Err(TargetError::refused(
        path.display(),
        "another file took its name while its image was in memory",
        format!("the result is in {}; move it where it belongs", result.display()),
    ))
}

fn is_still_it(file: &File, new: &NewFile) -> bool {
    let (Ok(ours), Some(named)) = (rustix::fs::fstat(file), new.stat_by_name()) else { return false };
    (ours.st_dev, ours.st_ino) == (named.st_dev, named.st_ino)
}

pub(crate) fn write_to(from: NamedFile, path: &Path, size: u64, by: CopyBy) -> Result<u64, TargetError> {
    replace(path, |to| sparse::copy(from, to, size, by))
}

/// Writes a file by `fill` and gives it its name when it is complete and synced. A replaced regular file passes on its
/// mode and owner. A new file is readable by its owner only, because its content may be private.
pub(crate) fn replace<T>(
    path: &Path,
    fill: impl FnOnce(NamedFile) -> Result<T, TargetError>,
) -> Result<T, TargetError> {
    refuse_other_kinds(path)?;
    let new = NewFile::private(path).map_err(TargetError::io("make", path))?;
    if let Some(old) = new.stat_by_name()
        && FileType::from_raw_mode(old.st_mode) == FileType::RegularFile
    {
        new.take_after(&old).map_err(TargetError::io("give its mode and owner to", path))?;
    }
    let result = fill(NamedFile { file: new.file(), path })?;
    new.replace().map_err(TargetError::io("rename into place", path))?;
    Ok(result)
}

/// Writes a file as [`replace`] does, under a name that must be free.
pub(crate) fn make_new<T>(
    path: &Path,
    fill: impl FnOnce(NamedFile) -> Result<T, TargetError>,
) -> Result<T, TargetError> {
    refuse_existing(path)?;
    let new = NewFile::private(path).map_err(TargetError::io("make", path))?;
    let result = fill(NamedFile { file: new.file(), path })?;
    new.put().map_err(|error| put_failed(error, path))?;
    Ok(result)
}

fn put_failed(error: std::io::Error, path: &Path) -> TargetError {
    match error.kind() {
        std::io::ErrorKind::AlreadyExists => exists(path),
        _ => TargetError::io("make", path)(error),
    }
}

/// Counts any file of that name, also a dangling link.
pub(crate) fn refuse_existing(path: &Path) -> Result<(), TargetError> {
    if path.symlink_metadata().is_ok() { Err(exists(path)) } else { Ok(()) }
}

fn exists(path: &Path) -> TargetError {
    TargetError::refused(path.display(), "the file exists", "choose another name or remove it")
}

/// Links, devices and pipes must not be replaced by a file.
pub(crate) fn refuse_other_kinds(path: &Path) -> Result<(), TargetError> {
    let kind = match path.symlink_metadata() {
        Ok(found) if found.is_symlink() => "a symbolic link",
        Ok(found) if !found.is_file() => "not a regular file",
        _ => return Ok(()),
    };
    Err(TargetError::refused(
        path.display(),
        format!("it is {kind}"),
        "name a regular file, or one that does not exist",
    ))
}

/// Refuses a host without enough space. There a sparse image would fail during the run, as I/O errors of its file
/// system.
///
/// `in_memory`: a second file replaces the image at the end.
fn check_host_space(file: &File, path: &Path, most: Bytes, in_memory: bool) -> Result<(), TargetError> {
    let space = if in_memory { GrowthSpace::of_second(file, most) } else { GrowthSpace::of(file, most, false) };
    let space = space.map_err(TargetError::io("check the free space around", path))?;
    match space.missing().filter(|_| space.growth.0 > 0) {
        None => Ok(()),
        Some(missing) => Err(TargetError::missing(
            format!(
                "space for the image {}: it may grow to {most} and needs {} more with a margin, but the host's file \
                 system has {} free, {missing} too little; it",
                path.display(),
                space.needed(),
                space.free
            ),
            "make the image smaller, free some space or choose another path",
        )),
    }
}

/// Returns the bytes that an image of `size` takes at most.
fn most_bytes(size: Bytes, writes: Option<Bytes>) -> Bytes {
    writes.map_or(size, |writes| writes.min(size))
}

/// Opens the same file again. The loop device keeps its descriptor, and a duplicate would keep the lock.
pub(crate) fn reopen(file: &File, path: &Path, read_only: bool) -> Result<File, TargetError> {
    let descriptor = format!("/proc/self/fd/{}", file.as_raw_fd());
    File::options().read(true).write(!read_only).open(descriptor).map_err(TargetError::io("open again", path))
}

/// Creates a file in memory (memfd_create(2)), after a check that the machine and its control group have that much
/// left.
fn memory_file(size: Bytes, writes: Option<Bytes>) -> Result<File, TargetError> {
    let space = GrowthSpace::of_new_in_memory(most_bytes(size, writes));
    if let Some(missing) = space.missing() {
        let (needed, available) = (space.needed(), space.free);
        return Err(TargetError::missing(
            format!(
                "memory for an image of {size}: {needed} needed with its bookkeeping, {available} available, {missing} \
                 too little; it"
            ),
            "make the image smaller, give its guest more memory, or leave out --in-memory",
        ));
    }
    let name = Path::new("the image in memory");
    // mkfs.btrfs takes two loop devices with equal file names for the same device, and refuses if the other is mounted.
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let own = format!("senesce-image-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
    let descriptor = rustix::fs::memfd_create(&*own, MemfdFlags::CLOEXEC).map_err(TargetError::errno("make", name))?;
    let file = File::from(descriptor);
    file.set_len(size.0).map_err(TargetError::io("set the size of", name))?;
    Ok(file)
}

#[cfg(test)]
mod tests;
