//! The directory tree: regular files in the order of `find`.
//!
//! Order: depth first, entries as returned by the kernel, with the content of a directory at its position. Uses only getdents64;
//! opens no file.

use crate::error::LayoutError;
use rayon::prelude::*;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir};
use rustix::io::Errno;
use senesce_sys::mounted;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Maximum path length per open call; PATH_MAX is 4096 including the final zero.
const PATH_PIECE: usize = 4000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct File {
    pub inode: u64,
    pub directory: u32,
    name_start: u32,
    name_length: u16,
}

#[derive(Debug, Clone, Default)]
struct Directory {
    /// Path below the root, without leading or trailing slash.
    path: Vec<u8>,
    entries: Vec<TreeItem>,
    names: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
enum TreeItem {
    File(File),
    Directory(u32),
}

/// All regular files below a directory, in `find` order, each inode once.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tree {
    directories: Vec<Directory>,
    /// The first hard link in `find` order represents its file.
    pub files: Vec<File>,
    /// Links beyond the first of each file.
    pub extra_links: u64,
    pub other_file_systems: u64,
    pub vanished_directories: u64,
    pub denied_directories: u64,
}

struct Listing {
    directory: Directory,
    subdirectories: Vec<(usize, Vec<u8>)>,
    mounted_files: u64,
    outcome: Outcome,
}

/// Boundaries of the walk: other file systems and subvolumes, and mount points of the same one (bind mounts).
struct Bounds {
    device: u64,
    mount_id: Option<u64>,
    points: BTreeSet<PathBuf>,
}

impl Bounds {
    fn of(root: BorrowedFd<'_>) -> Result<Self, Errno> {
        let device = rustix::fs::fstat(root)?.st_dev;
        let path = Path::new("/proc/self/fd").join(root.as_raw_fd().to_string());
        Ok(Self { device, mount_id: mounted::mount_id(root), points: mounted::points_below(&path) })
    }

    fn hold(&self, directory: &OwnedFd) -> Result<bool, Errno> {
        Ok(rustix::fs::fstat(directory)?.st_dev == self.device && mounted::mount_id(directory) == self.mount_id)
    }

    fn is_mount_point(&self, directory: &[u8], name: &[u8]) -> bool {
        let path = || Path::new(OsStr::from_bytes(directory)).join(OsStr::from_bytes(name));
        !self.points.is_empty() && self.points.contains(&path())
    }
}

#[derive(PartialEq)]
enum Outcome {
    Read,
    OtherFileSystem,
    Vanished,
    Denied,
}

impl Tree {
    /// Reads the tree below `root` within its file system. `shown` names the root in errors. With `skip_denied`, unreadable
    /// directories are counted and skipped.
    pub(crate) fn read(root: BorrowedFd<'_>, shown: &Path, skip_denied: bool) -> Result<Self, LayoutError> {
        let bounds = Bounds::of(root).map_err(|errno| LayoutError::io("stat", shown, errno))?;
        let mut tree = Self { directories: vec![Directory::default()], ..Self::default() };
        let mut level = vec![(0u32, Vec::new())];
        while !level.is_empty() {
            let listings: Vec<_> = level
                .par_iter()
                .map(|(_, path)| list(root, shown, path, &bounds, skip_denied))
                .collect::<Result<_, _>>()?;
            let mut next = Vec::new();
            for ((index, _), listing) in level.into_iter().zip(listings) {
                tree.add(index, listing, &mut next);
            }
            level = next;
        }
        let files = tree.flatten();
        tree.keep_first_links(files);
        Ok(tree)
    }

    fn add(&mut self, index: u32, mut listing: Listing, next: &mut Vec<(u32, Vec<u8>)>) {
        self.other_file_systems += u64::from(listing.outcome == Outcome::OtherFileSystem) + listing.mounted_files;
        self.vanished_directories += u64::from(listing.outcome == Outcome::Vanished);
        self.denied_directories += u64::from(listing.outcome == Outcome::Denied);
        for entry in &mut listing.directory.entries {
            if let TreeItem::File(file) = entry {
                file.directory = index;
            }
        }
        for (position, path) in listing.subdirectories {
            let child = self.directories.len() as u32;
            listing.directory.entries[position] = TreeItem::Directory(child);
            self.directories.push(Directory::default());
            next.push((child, path));
        }
        self.directories[index as usize] = listing.directory;
    }

    /// Puts the files of all directories in `find` order. Uses an explicit stack, because trees may be deep.
    fn flatten(&mut self) -> Vec<File> {
        let mut files = Vec::with_capacity(self.directories.iter().map(|directory| directory.entries.len()).sum());
        let mut stack = vec![std::mem::take(&mut self.directories[0].entries).into_iter()];
        while let Some(entries) = stack.last_mut() {
            match entries.next() {
                None => drop(stack.pop()),
                Some(TreeItem::File(file)) => files.push(file),
                Some(TreeItem::Directory(child)) => {
                    stack.push(std::mem::take(&mut self.directories[child as usize].entries).into_iter());
                }
            }
        }
        files
    }

    fn keep_first_links(&mut self, mut files: Vec<File>) {
        let mut links: Vec<(u64, u32)> =
            files.iter().enumerate().map(|(place, file)| (file.inode, place as u32)).collect();
        links.par_sort_unstable();
        let mut extra: Vec<u32> =
            links.windows(2).filter(|pair| pair[0].0 == pair[1].0).map(|pair| pair[1].1).collect();
        self.extra_links = extra.len() as u64;
        if !extra.is_empty() {
            extra.sort_unstable();
            let mut extra = extra.into_iter().peekable();
            let mut place = 0u32;
            files.retain(|_| {
                place += 1;
                extra.next_if_eq(&(place - 1)).is_none()
            });
        }
        self.files = files;
    }

    /// Returns the files ascending by inode number.
    pub(crate) fn by_inode(&self) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.files.len() as u32).collect();
        order.par_sort_unstable_by_key(|index| self.files[*index as usize].inode);
        order
    }

    pub(crate) fn has_root_file(&self, name: &str) -> bool {
        self.files.iter().any(|file| file.directory == 0 && self.name(file) == name.as_bytes())
    }

    pub(crate) fn name(&self, file: &File) -> &[u8] {
        let start = file.name_start as usize;
        &self.directories[file.directory as usize].names[start..start + file.name_length as usize]
    }

    /// Returns the path of a directory below the root; empty for the root.
    pub(crate) fn directory_path(&self, directory: u32) -> &[u8] {
        &self.directories[directory as usize].path
    }

    /// Returns the number of directories, including the root.
    pub(crate) fn directories(&self) -> u64 {
        self.directories.len() as u64
    }

    pub(crate) fn path(&self, file: &File) -> PathBuf {
        Path::new(OsStr::from_bytes(self.directory_path(file.directory))).join(OsStr::from_bytes(self.name(file)))
    }
}

/// Opens a directory below `root`, in several steps if its path exceeds the kernel's limit.
pub(crate) fn open_directory(root: BorrowedFd<'_>, path: &[u8]) -> Result<OwnedFd, Errno> {
    let open = |from: BorrowedFd<'_>, piece: &[u8]| {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(from, if piece.is_empty() { b"." } else { piece }, flags, Mode::empty())
    };
    if path.len() <= PATH_PIECE {
        return open(root, path);
    }
    let mut rest = path;
    let mut current = open(root, b"")?;
    while !rest.is_empty() {
        let cut = match rest.len() {
            length if length <= PATH_PIECE => length,
            _ => rest[..PATH_PIECE].iter().rposition(|byte| *byte == b'/').ok_or(Errno::NAMETOOLONG)?,
        };
        current = open(current.as_fd(), &rest[..cut])?;
        rest = rest[cut..].strip_prefix(b"/").unwrap_or(&rest[cut..]);
    }
    Ok(current)
}

fn list(
    root: BorrowedFd<'_>,
    shown: &Path,
    path: &[u8],
    bounds: &Bounds,
    skip_denied: bool,
) -> Result<Listing, LayoutError> {
    let mut listing = Listing {
        directory: Directory { path: path.to_vec(), ..Directory::default() },
        subdirectories: Vec::new(),
        mounted_files: 0,
        outcome: Outcome::Read,
    };
    let error = |operation, errno| LayoutError::io(operation, shown.join(OsStr::from_bytes(path)), errno);
    let handle = match open_directory(root, path) {
        Ok(handle) => handle,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::STALE) if !path.is_empty() => {
            listing.outcome = Outcome::Vanished;
            return Ok(listing);
        }
        Err(Errno::ACCESS) if skip_denied && !path.is_empty() => {
            listing.outcome = Outcome::Denied;
            return Ok(listing);
        }
        Err(errno) => return Err(error("open directory", errno)),
    };
    if !bounds.hold(&handle).map_err(|errno| error("stat", errno))? {
        listing.outcome = Outcome::OtherFileSystem;
        return Ok(listing);
    }
    let mut buffer = [MaybeUninit::uninit(); 32 << 10];
    let mut entries = RawDir::new(&handle, &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = entry.map_err(|errno| error("list directory", errno))?;
        let name = entry.file_name();
        let kind = match entry.file_type() {
            FileType::Unknown => match rustix::fs::statat(&handle, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                Err(_) => continue,
            },
            known => known,
        };
        if kind == FileType::RegularFile && bounds.is_mount_point(path, name.to_bytes()) {
            listing.mounted_files += 1;
            continue;
        }
        listing.add(name.to_bytes(), entry.ino(), kind);
    }
    Ok(listing)
}

impl Listing {
    fn add(&mut self, name: &[u8], inode: u64, kind: FileType) {
        let Directory { path, entries, names } = &mut self.directory;
        match kind {
            FileType::RegularFile => {
                let file = File { inode, directory: 0, name_start: names.len() as u32, name_length: name.len() as u16 };
                entries.push(TreeItem::File(file));
                names.extend_from_slice(name);
            }
            FileType::Directory if name != b"." && name != b".." => {
                let separator: &[u8] = if path.is_empty() { b"" } else { b"/" };
                self.subdirectories.push((entries.len(), [path, separator, name].concat()));
                entries.push(TreeItem::Directory(0));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn read(path: &Path) -> Tree {
        let root = fs::File::open(path).unwrap();
        Tree::read(root.as_fd(), path, false).unwrap()
    }

    #[test]
    fn order_matches_find() {
        let temporary = tempfile::tempdir().unwrap();
        for directory in ["b/deep/deeper", "a", "c"] {
            fs::create_dir_all(temporary.path().join(directory)).unwrap();
        }
        for file in ["b/2", "b/deep/1", "b/deep/deeper/x", "a/z", "top", "c/0"] {
            fs::write(temporary.path().join(file), file).unwrap();
        }
        let found = std::process::Command::new("find").arg(".").args(["-type", "f"]).current_dir(&temporary).output();
        let found = String::from_utf8(found.unwrap().stdout).unwrap();
        let tree = read(temporary.path());
        let ours: String = tree.files.iter().map(|file| format!("./{}\n", tree.path(file).display())).collect();
        assert_eq!(ours, found);
        assert!(tree.has_root_file("top") && !tree.has_root_file("z"));
    }

    #[test]
    fn hard_links_count_once_and_symbolic_links_never() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("one"), "data").unwrap();
        fs::hard_link(directory.path().join("one"), directory.path().join("two")).unwrap();
        std::os::unix::fs::symlink("one", directory.path().join("three")).unwrap();
        let tree = read(directory.path());
        assert_eq!((tree.files.len(), tree.extra_links), (1, 1));
    }

    #[test]
    fn paths_longer_than_the_kernel_takes_are_walked() {
        let directory = tempfile::tempdir().unwrap();
        let root = fs::File::open(directory.path()).unwrap();
        let name = "d".repeat(200);
        let mut handle = open_directory(root.as_fd(), b"").unwrap();
        for _ in 0..30 {
            rustix::fs::mkdirat(&handle, name.as_str(), Mode::RWXU).unwrap();
            handle = open_directory(handle.as_fd(), name.as_bytes()).unwrap();
        }
        rustix::fs::openat(&handle, "file", OFlags::CREATE | OFlags::WRONLY, Mode::RUSR).unwrap();
        let tree = read(directory.path());
        assert_eq!(tree.files.len(), 1);
        assert_eq!(tree.path(&tree.files[0]).as_os_str().len(), 30 * 201 + 4);
    }
}
