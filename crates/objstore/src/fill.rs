//! Fills a file system with objects under a directory scheme, as `filesystem_limit_micro.py` of the DMV study.

use crate::error::{StoreError, io};
use crate::occupancy::{FreeSpace, Limit};
use crate::scheme::Scheme;
use rand::RngExt;
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use senesce_core::Seed;
use senesce_volume::ClaimedDirectory;
use serde::{Deserialize, Serialize};
use sha1::{Digest, Sha1};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Instant;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Write {
    /// Time of open, write and close of the file, without creating directories.
    pub write_ns: u64,
    /// Time of the whole object: directories and file.
    pub put_ns: u64,
    pub entries: u64,
    /// Directories so far, including the root of the objects.
    pub directories: u64,
    /// Bytes free afterwards for an unprivileged user (statvfs).
    pub bytes_free: u64,
    pub inodes_free: u64,
}

/// Result of a fill.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Full {
    /// Complete objects.
    pub files: u64,
    /// Directories created, including the root of the objects.
    pub directories: u64,
    /// Bytes not free at the end.
    pub bytes_used: u64,
    /// Bytes of the file system.
    pub bytes_total: u64,
    /// Inodes not free at the end; 0 if the file system does not count them.
    pub inodes_used: u64,
    /// Inodes of the file system.
    pub inodes_total: u64,
    /// Exhausted resource. `None`: the requested number of objects was reached.
    pub ended_by: Option<Limit>,
    /// The call that failed: `mkdir`, `open` or `write`.
    pub failed_call: String,
    /// Free space before the first object.
    #[serde(rename = "room")]
    pub free: FreeSpace,
    /// Wall-clock time.
    pub seconds: f64,
}

/// Writes objects of `object_bytes` below `root`/objects until the file system is full or `most` are written; calls `seen` for
/// each, which returns `false` to stop.
///
/// Names are the SHA-1 of 200 random bytes, the content is random; nothing is synced, as in the study.
pub fn fill(
    root: &ClaimedDirectory,
    scheme: Scheme,
    object_bytes: usize,
    most: u64,
    seed: Seed,
    mut seen: impl FnMut(Write) -> bool,
) -> Result<Full, StoreError> {
    let started = Instant::now();
    let free = space(root.path())?.free;
    let mut filler = Filler::new(root.path(), scheme)?;
    let mut random = seed.stream("objstore/fill");
    let mut data = vec![0u8; object_bytes];
    let (mut files, mut ending) = (0, None);
    while files < most && ending.is_none() {
        let mut basis = [0u8; 200];
        random.fill(&mut basis);
        random.fill(&mut data[..]);
        let name = hex(&Sha1::digest(basis));
        let begun = Instant::now();
        match filler.put(&name, &data)? {
            PutResult::Written { write_ns, entries } => {
                let put_ns = begun.elapsed().as_nanos() as u64;
                files += 1;
                let now = space(root.path())?;
                let (bytes_free, inodes_free) = (now.free.bytes, now.free.inodes.unwrap_or(0));
                let directories = filler.directories;
                let write = Write { write_ns, put_ns, entries, directories, bytes_free, inodes_free };
                if !seen(write) {
                    break;
                }
            }
            PutResult::Full(call) => ending = Some(call),
        }
    }
    let end = space(root.path())?;
    Ok(Full {
        files,
        directories: filler.directories,
        bytes_used: end.bytes_total - end.free.bytes,
        bytes_total: end.bytes_total,
        inodes_used: end.free.inodes.map_or(0, |free| end.inodes_total - free),
        inodes_total: end.inodes_total,
        ended_by: ending.map(|_| if end.free.inodes == Some(0) { Limit::Inodes } else { Limit::Bytes }),
        failed_call: ending.unwrap_or("").into(),
        free,
        seconds: started.elapsed().as_secs_f64(),
    })
}

struct Filler {
    objects: OwnedFd,
    path: std::path::PathBuf,
    scheme: Scheme,
    entries: HashMap<String, u64>,
    directories: u64,
}

enum PutResult {
    Written { write_ns: u64, entries: u64 },
    Full(&'static str),
}

impl Filler {
    fn new(root: &Path, scheme: Scheme) -> Result<Self, StoreError> {
        let path = root.join("objects");
        rustix::fs::mkdir(&path, Mode::RWXU).map_err(io("make directory", &path))?;
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let objects = rustix::fs::openat(CWD, &path, flags, Mode::empty()).map_err(io("open directory", &path))?;
        Ok(Self { objects, path, scheme, entries: HashMap::from([(String::new(), 0)]), directories: 1 })
    }

    fn put(&mut self, name: &str, data: &[u8]) -> Result<PutResult, StoreError> {
        let directory = self.scheme.directory(name);
        if !self.entries.contains_key(&directory) && !self.make_levels(name)? {
            return Ok(PutResult::Full("mkdir"));
        }
        let path = self.scheme.path(name);
        let begun = Instant::now();
        if let Err((call, errno)) = write_file(&self.objects, &path, data) {
            return full(call, errno).ok_or_else(|| io(call, &self.path.join(&path))(errno));
        }
        let write_ns = begun.elapsed().as_nanos() as u64;
        let entries = self.entries.entry(directory).or_default();
        *entries += 1;
        Ok(PutResult::Written { write_ns, entries: *entries })
    }

    /// Creates the missing directories of `name`, outermost first; `false` if the file system is full.
    fn make_levels(&mut self, name: &str) -> Result<bool, StoreError> {
        let mut path = String::new();
        for part in self.scheme.split(name).0 {
            let parent = path.clone();
            if !path.is_empty() {
                path.push('/');
            }
            path.push_str(part);
            if self.entries.contains_key(&path) {
                continue;
            }
            match rustix::fs::mkdirat(&self.objects, &path, Mode::RWXU) {
                Ok(()) => {}
                Err(Errno::NOSPC | Errno::DQUOT | Errno::MLINK) => return Ok(false),
                Err(errno) => return Err(io("make directory", &self.path.join(&path))(errno)),
            }
            *self.entries.entry(parent).or_default() += 1;
            self.entries.insert(path.clone(), 0);
            self.directories += 1;
        }
        Ok(true)
    }
}

fn full(call: &'static str, errno: Errno) -> Option<PutResult> {
    matches!(errno, Errno::NOSPC | Errno::DQUOT).then_some(PutResult::Full(call))
}

fn write_file(objects: &OwnedFd, path: &str, data: &[u8]) -> Result<(), (&'static str, Errno)> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(objects, path, flags, Mode::from_raw_mode(0o644)).map_err(|errno| ("open", errno))?;
    let mut rest = data;
    while !rest.is_empty() {
        let written = rustix::io::write(&file, rest).map_err(|errno| ("write", errno))?;
        rest = &rest[written..];
    }
    Ok(())
}

struct Space {
    free: FreeSpace,
    bytes_total: u64,
    inodes_total: u64,
}

fn space(path: &Path) -> Result<Space, StoreError> {
    let found = rustix::fs::statvfs(path).map_err(io("determine the space of", path))?;
    let (_, free) = crate::advise::free_space_of(path, &found)?;
    Ok(Space { free, bytes_total: found.f_blocks * found.f_frsize, inodes_total: found.f_files })
}

fn hex(bytes: &[u8]) -> String {
    crate::object_id::ObjectId::new(bytes).hex()
}
