//! Extents by FIEMAP (linux/fiemap.h), file by file: works on every file system with extents, without root.

use crate::collect::{Collected, Collector, KeptDetails};
use crate::error::LayoutError;
use crate::extent::{Extent, ExtentKind};
use crate::tree::{self, Tree};
use rayon::prelude::*;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use senesce_sys::descriptor;
use senesce_sys::extents::{Extent as Mapped, ExtentMap};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Files that one task opens through one directory handle.
const BATCH: usize = 512;
/// `FIEMAP_EXTENT_MERGED` (linux/fiemap.h): the file is mapped block by block.
const MERGED: u32 = 0x1000;

#[derive(Default)]
pub struct Fiemap(ExtentMap);

impl Fiemap {
    /// Appends the mappings of an open file to `extents`, in file order.
    pub fn read(&mut self, file: impl AsFd, extents: &mut Vec<Extent>) -> io::Result<()> {
        let mut start = 0;
        loop {
            let mapped = self.0.read(file.as_fd(), start)?;
            let Some(last) = mapped.last() else { return Ok(()) };
            start = last.logical.saturating_add(last.length);
            let is_last = last.flags & Mapped::LAST != 0;
            extents.extend(mapped.iter().map(extent));
            if is_last {
                return Ok(());
            }
        }
    }
}

fn extent(mapped: &Mapped) -> Extent {
    let marks = [
        (Mapped::UNWRITTEN, ExtentKind::UNWRITTEN),
        (Mapped::SHARED, ExtentKind::SHARED),
        (Mapped::DATA_INLINE, ExtentKind::INLINE),
        (Mapped::ENCODED | Mapped::DATA_ENCRYPTED, ExtentKind::ENCODED),
        (Mapped::DELALLOC | Mapped::UNKNOWN, ExtentKind::DELAYED),
        (MERGED, ExtentKind::BY_BLOCKS),
    ];
    let marked = marks.iter().filter(|(flag, _)| mapped.flags & flag != 0);
    let plain = Extent::plain(mapped.logical, mapped.physical, mapped.length);
    marked.fold(plain, |extent, (_, kind)| extent.marked(*kind))
}

/// Reads every file of the tree. Processes directories by their lowest inode number, and the files of each by inode number, which
/// is device order for file systems with inode tables (ext4, xfs).
pub(crate) fn walk(
    root: BorrowedFd<'_>,
    shown: &Path,
    tree: &Tree,
    keep: KeptDetails,
) -> Result<Collected, LayoutError> {
    let parts = read_files(root, shown, tree, (0..tree.files.len() as u32).collect(), keep)?;
    Ok(Collector::merge(parts, tree.files.len()))
}

pub(crate) fn read_files(
    root: BorrowedFd<'_>,
    shown: &Path,
    tree: &Tree,
    mut files: Vec<u32>,
    keep: KeptDetails,
) -> Result<Vec<Collector>, LayoutError> {
    sort_for_reading(tree, &mut files);
    let batches = batches(tree, &files);
    let next = AtomicUsize::new(0);
    let work = || {
        let _descriptors = OwnDescriptors::keeping(root);
        let (mut collector, mut fiemap, mut extents) = (Collector::new(keep), Fiemap::default(), Vec::new());
        while let Some(batch) = batches.get(next.fetch_add(1, Ordering::Relaxed)) {
            read_batch(root, shown, tree, (batch, keep.skip_denied), &mut collector, &mut fiemap, &mut extents)?;
        }
        Ok(collector)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..rayon::current_num_threads()).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    })
}

/// A descriptor table for this thread only: threads that open and close files in a shared table contend for its lock.
struct OwnDescriptors {
    owned: bool,
}

impl OwnDescriptors {
    /// Creates a table with the standard streams and `kept`. Other descriptors are not copied, because that would keep
    /// their files open.
    fn keeping(kept: BorrowedFd<'_>) -> Self {
        let kept = kept.as_raw_fd().max(2) as u32;
        // SAFETY: the table is unshared before anything in it is closed, and this thread uses no other descriptor.
        let close =
            |from, to| from > to || unsafe { descriptor::close_range(from, to, libc::CLOSE_RANGE_UNSHARE) } == 0;
        Self { owned: close(kept + 1, u32::MAX) && close(3, kept - 1) }
    }
}

impl Drop for OwnDescriptors {
    /// Closes the copy now. The kernel would close it only after the end of the thread is visible, and a mount point would still
    /// be busy.
    fn drop(&mut self) {
        if self.owned {
            // SAFETY: the table is this thread's own and the thread ends here.
            unsafe { descriptor::close_range(0, u32::MAX, 0) };
        }
    }
}

fn sort_for_reading(tree: &Tree, files: &mut [u32]) {
    let mut lowest = std::collections::HashMap::<u32, u64>::new();
    for index in files.iter() {
        let file = &tree.files[*index as usize];
        let entry = lowest.entry(file.directory).or_insert(file.inode);
        *entry = file.inode.min(*entry);
    }
    files.par_sort_unstable_by_key(|index| {
        let file = &tree.files[*index as usize];
        (lowest[&file.directory], file.directory, file.inode)
    });
}

fn batches<'a>(tree: &Tree, order: &'a [u32]) -> Vec<&'a [u32]> {
    let directory = |index: &u32| tree.files[*index as usize].directory;
    order.chunk_by(|one, next| directory(one) == directory(next)).flat_map(|files| files.chunks(BATCH)).collect()
}

fn read_batch(
    root: BorrowedFd<'_>,
    shown: &Path,
    tree: &Tree,
    (batch, skip_denied): (&[u32], bool),
    collector: &mut Collector,
    fiemap: &mut Fiemap,
    extents: &mut Vec<Extent>,
) -> Result<(), LayoutError> {
    let path = tree.directory_path(tree.files[batch[0] as usize].directory);
    let directory = match tree::open_directory(root, path) {
        Ok(directory) => directory,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::STALE) => {
            batch.iter().for_each(|index| collector.vanished(*index));
            return Ok(());
        }
        Err(Errno::ACCESS) if skip_denied => {
            batch.iter().for_each(|index| collector.denied(*index));
            return Ok(());
        }
        Err(errno) => {
            let shown = shown.join(tree.path(&tree.files[batch[0] as usize]));
            return Err(LayoutError::io("open directory of", shown, errno));
        }
    };
    for &index in batch {
        let file = &tree.files[index as usize];
        let error = |operation, source: io::Error| LayoutError::io(operation, shown.join(tree.path(file)), source);
        let handle = match open_file(&directory, tree.name(file)) {
            Ok(Some(handle)) => handle,
            Ok(None) => {
                collector.vanished(index);
                continue;
            }
            Err(Errno::ACCESS) if skip_denied => {
                collector.denied(index);
                continue;
            }
            Err(errno) => return Err(error("open", errno.into())),
        };
        extents.clear();
        fiemap.read(&handle, extents).map_err(|source| error("read the extents of", source))?;
        collector.file(index, extents);
    }
    Ok(())
}

/// Opens a regular file; `None` if it was deleted or replaced by another type.
fn open_file(directory: &OwnedFd, name: &[u8]) -> Result<Option<OwnedFd>, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    match rustix::fs::openat(directory, name, flags, Mode::empty()) {
        Ok(handle) => Ok(Some(handle)),
        Err(Errno::NOENT | Errno::LOOP | Errno::NXIO | Errno::STALE) => Ok(None),
        Err(errno) => Err(errno),
    }
}
