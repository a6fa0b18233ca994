//! Compares a directory with the live files of a plan, for verification and for restoring a recorded state.

mod content;
mod reconcile;

pub use reconcile::{FileComparison, PartialReconciliation, Reconciliation, clear, reconcile};

use crate::error::AgingError;
use crate::execute::{Data, Name, Parsed, Shard, explain};
use crate::namespace::Namespace;
use crate::parts::part_of_name;
use crate::planner::{File, Planner};
use content::{Buffers, ContentCheck};
use rayon::prelude::*;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, statat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Differences between a directory and the plan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifyReport {
    pub files: u64,
    /// Bytes read and compared. Holes read as zeros and are skipped.
    pub bytes: u64,
    /// Missing files, including those replaced by another kind of entry.
    pub missing: u64,
    #[serde(default)]
    pub missing_directories: u64,
    /// Files of a wrong size.
    pub wrong_size: u64,
    pub wrong_content: u64,
    /// Entries that are not in the plan.
    pub strangers: u64,
    /// The first few differences, in words.
    pub examples: Vec<String>,
}

const EXAMPLES: usize = 20;

/// The directory that mkfs makes in the root of a file system.
const OF_MKFS: &[u8] = b"lost+found";

/// Checks the directory of a plan divided into `parts` for entries other than the directories of the parts.
///
/// # Errors
/// [`AgingError::Io`] when `top` cannot be listed. Differences are in the report, not errors.
pub fn verify_top(top: &Path, parts: u32) -> Result<VerifyReport, AgingError> {
    let mut report = VerifyReport::default();
    let failed = |error: std::io::Error| AgingError::io("list", top, error);
    for entry in std::fs::read_dir(top).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let is_directory = entry.file_type().map_err(failed)?.is_dir();
        let part = part_of_name(name.as_encoded_bytes());
        let known = name.as_encoded_bytes() == senesce_volume::claim::MARKER.as_bytes();
        let ours = match is_directory {
            true => part.is_some_and(|part| part < parts) || name.as_encoded_bytes() == OF_MKFS,
            false => known,
        };
        if !ours {
            report.strangers += 1;
            report.example("", Path::new(&name), "not in this plan");
        }
    }
    Ok(report)
}

impl VerifyReport {
    pub fn is_good(&self) -> bool {
        self.missing + self.missing_directories + self.wrong_size + self.wrong_content + self.strangers == 0
    }

    fn example(&mut self, directory: &str, name: &Path, what: &str) {
        if self.examples.len() < EXAMPLES {
            self.examples.push(format!("{directory}{}: {what}", name.display()));
        }
    }

    pub fn merge(mut self, other: Self) -> Self {
        self.files += other.files;
        self.bytes += other.bytes;
        self.missing += other.missing;
        self.missing_directories += other.missing_directories;
        self.wrong_size += other.wrong_size;
        self.wrong_content += other.wrong_content;
        self.strangers += other.strangers;
        self.examples.extend(other.examples);
        self.examples.sort();
        self.examples.truncate(EXAMPLES);
        self
    }
}

/// Checks existence, size and content of every live file of `planner` below `top`, and that nothing else exists. Only
/// reads; uses all processors. The expected content follows from `data`: derived from seed and file, or zeros.
///
/// # Errors
/// [`AgingError::Io`] when a directory cannot be listed, or a file cannot be inspected or read. Differences are in the
/// report, not errors.
pub fn verify(planner: &Planner, top: &Path, data: Data, shard: Option<Shard>) -> Result<VerifyReport, AgingError> {
    let namespace = planner.namespace();
    let content = ContentCheck::new(data, planner.plan().spec().seed);
    let comparison = Comparison { planner, namespace: &namespace, top, content };
    let directories = (0..planner.plan().directories().count()).into_par_iter();
    let mine = directories.filter(|directory| shard.is_none_or(|shard| shard.owns(*directory)));
    let places = namespace.places(planner.plan().directories().count());
    mine.map(|directory| comparison.directory(directory, places[directory as usize].clone()))
        .try_reduce(VerifyReport::default, |one, other| Ok(one.merge(other)))
}

struct Comparison<'a> {
    planner: &'a Planner,
    namespace: &'a Namespace<'a>,
    top: &'a Path,
    content: ContentCheck,
}

impl Comparison<'_> {
    fn directory(&self, directory: u32, places: Range<usize>) -> Result<VerifyReport, AgingError> {
        let relative = self.planner.plan().directories().path(directory);
        // A trailing slash would follow a link at the end of the path; only the top may be a link.
        let path = if directory == 0 { self.top.to_path_buf() } else { self.top.join(relative.trim_end_matches('/')) };
        let mut report = VerifyReport { files: places.len() as u64, ..VerifyReport::default() };
        let follows = if directory == 0 { OFlags::empty() } else { OFlags::NOFOLLOW };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | follows;
        let opened = match rustix::fs::open(&path, flags, Mode::empty()) {
            Ok(opened) => opened,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {
                report.missing = report.files;
                report.missing_directories = 1;
                report.example(&relative, Path::new(""), "the directory is missing");
                return Ok(report);
            }
            Err(errno) => return Err(AgingError::io("open directory", path, errno)),
        };
        let listing = list(opened.as_fd(), &path, |name| find(self.namespace, &places, name))?;
        let tree = self.planner.plan().directories();
        let is_known = |name: &Path| {
            let name = name.as_os_str().as_encoded_bytes();
            tree.has_below(directory, name) || directory == 0 && name == OF_MKFS
        };
        let directories = listing.directories.iter().filter(|name| !is_known(name));
        for name in listing.strangers.iter().chain(directories) {
            report.strangers += 1;
            report.example(&relative, name, "not in this plan");
        }
        let mut buffers = Buffers::default();
        for place in places.clone() {
            let file = self.namespace.file(place);
            let name = Name::of(&file);
            if !listing.seen[place - places.start] {
                report.missing += 1;
                report.example(&relative, name.as_ref(), "missing");
                continue;
            }
            self.file(opened.as_fd(), &file, &name, &relative, &mut report, &mut buffers)?;
        }
        Ok(report)
    }

    fn file(
        &self,
        directory: BorrowedFd<'_>,
        file: &File,
        name: &Name,
        relative: &str,
        report: &mut VerifyReport,
        buffers: &mut Buffers,
    ) -> Result<(), AgingError> {
        let failed = |operation| {
            let path = self.top.join(relative).join(name);
            move |errno: Errno| explain(operation, path, errno)
        };
        let opened = open_file(directory, name).map_err(failed("open"))?;
        let size = rustix::fs::fstat(&opened).map_err(failed("inspect"))?.st_size as u64;
        if size != file.size {
            report.wrong_size += 1;
            report.example(relative, name.as_ref(), &format!("has {size} bytes instead of {}", file.size));
            return Ok(());
        }
        let compared = self.content.compare(&opened, file, buffers).map_err(failed("read"))?;
        report.bytes += compared.bytes_read;
        if let Some(at) = compared.wrong_from {
            report.wrong_content += 1;
            report.example(relative, name.as_ref(), &format!("wrong content from byte {at} on"));
        }
        Ok(())
    }
}

/// Opens a file to read it. Opening an entry that has become a pipe would block.
fn open_file(directory: BorrowedFd<'_>, name: &Name) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    openat(directory, name.as_c_str(), flags, Mode::empty())
}

struct Listing {
    seen: Vec<bool>,
    strangers: Vec<PathBuf>,
    directories: Vec<PathBuf>,
}

/// Lists a directory. `find` returns the number of expected files and the index of the one with a name.
fn list(
    directory: BorrowedFd<'_>,
    path: &Path,
    find: impl Fn(Option<Parsed>) -> (usize, Option<usize>),
) -> Result<Listing, AgingError> {
    let failed = |errno: Errno| AgingError::io("list", path, errno);
    let mut listing = Listing { seen: vec![false; find(None).0], strangers: Vec::new(), directories: Vec::new() };
    let path_of = |name: &[u8]| PathBuf::from(OsStr::from_bytes(name));
    for entry in Dir::read_from(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_bytes();
        let kind = match entry.file_type() {
            FileType::Unknown => {
                let found = statat(directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
                FileType::from_raw_mode(found.st_mode)
            }
            known => known,
        };
        if kind == FileType::Directory {
            listing.directories.extend((name != b"." && name != b"..").then(|| path_of(name)));
            continue;
        }
        if name == senesce_volume::claim::MARKER.as_bytes() {
            continue;
        }
        match find(Name::parse(name)).1 {
            Some(place) if kind == FileType::RegularFile => listing.seen[place] = true,
            _ => listing.strangers.push(path_of(name)),
        }
    }
    Ok(listing)
}

fn find(namespace: &Namespace<'_>, places: &Range<usize>, name: Option<Parsed>) -> (usize, Option<usize>) {
    let Some(name) = name else { return (places.len(), None) };
    // Within a directory, paths are in the order of births.
    let (mut low, mut high) = (places.start, places.end);
    while low < high {
        let middle = low + (high - low) / 2;
        if namespace.file(middle).birth < name.birth {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    let found = (low < places.end).then(|| namespace.file(low));
    let hit = found.is_some_and(|file| {
        let File { birth, renamed, padding, .. } = file;
        name == Parsed { birth, renamed, padding }
    });
    (places.len(), hit.then(|| low - places.start))
}
