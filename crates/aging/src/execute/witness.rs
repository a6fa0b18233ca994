//! Reads the file system's own count of commits, as a cross-check of the clock.

use std::fs;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitWitness {
    file: PathBuf,
    counts_fsync: bool,
}

impl CommitWitness {
    /// Returns the count of the file system of an open directory. `None` if it has none (xfs, f2fs, network file
    /// systems) or is not on one block device.
    pub fn of(directory: BorrowedFd<'_>) -> Option<Self> {
        let device = rustix::fs::fstat(directory).ok()?.st_dev;
        let link = format!("/sys/dev/block/{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
        let known = fs::read_link(link).ok().and_then(|link| Some(link.file_name()?.to_string_lossy().into_owned()));
        match known {
            Some(name) => journal_of(Path::new("/proc/fs/jbd2"), &name).map(|file| Self { file, counts_fsync: true }),
            // btrfs has a device number per subvolume.
            None => btrfs_of(Path::new("/sys/fs/btrfs"), directory).map(|file| Self { file, counts_fsync: false }),
        }
    }

    /// Returns whether an fsync of a new file counts: ext4 commits its journal, btrfs writes a separate log.
    pub fn counts_fsync(&self) -> bool {
        self.counts_fsync
    }

    pub fn count(&self) -> Option<u64> {
        count(&fs::read_to_string(&self.file).ok()?)
    }
}

/// Finds the journal of ext4 on the device `name`: `/proc/fs/jbd2/loop0-8/info`, where 8 is the inode of the journal.
fn journal_of(journals: &Path, name: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(journals).ok()?.flatten();
    let of_device = |entry: &fs::DirEntry| {
        let entry = entry.file_name().to_string_lossy().into_owned();
        entry.rsplit_once('-').is_some_and(|(device, _)| device == name)
    };
    entries.into_iter().find(of_device).map(|entry| entry.path().join("info"))
}

/// Finds `/sys/fs/btrfs/UUID/commit_stats` (Linux 6.1) of the file system mounted at this directory.
fn btrfs_of(file_systems: &Path, directory: BorrowedFd<'_>) -> Option<PathBuf> {
    let source = source_of(directory)?;
    let name = Path::new(&source).file_name()?.to_owned();
    let mut entries = fs::read_dir(file_systems).ok()?.flatten();
    let entry = entries.find(|entry| entry.path().join("devices").join(&name).exists())?;
    Some(entry.path().join("commit_stats")).filter(|file| file.exists())
}

fn source_of(directory: BorrowedFd<'_>) -> Option<String> {
    use std::os::fd::AsRawFd;
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", directory.as_raw_fd())).ok()?;
    let mount = info.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim().to_string();
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let line = mounts.lines().find(|line| line.split(' ').next() == Some(&*mount))?;
    line.split_once(" - ")?.1.split(' ').nth(1).map(str::to_string)
}

/// Parses `123 transactions (45 requested), ...` of jbd2, or `commits 123` of btrfs.
fn count(text: &str) -> Option<u64> {
    let words: Vec<&str> = text.split_whitespace().take(2).collect();
    match words[..] {
        ["commits", number] | [number, "transactions"] => number.parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_formats_of_counts_are_read() {
        assert_eq!(count("17 transactions (16 requested), each up to 1024 blocks\naverage:\n"), Some(17));
        assert_eq!(count("commits 4\nlast_commit_ms 1\n"), Some(4));
        assert_eq!(count(""), None);
        assert_eq!(count("transactions 4"), None);
    }

    #[test]
    fn journal_belongs_to_its_device() {
        let room = tempfile::tempdir().unwrap();
        for name in ["loop1-8", "loop11-8", "dm-0-8"] {
            fs::create_dir(room.path().join(name)).unwrap();
        }
        let found = |name| journal_of(room.path(), name).map(|path| path.strip_prefix(room.path()).unwrap().to_owned());
        assert_eq!(found("loop1"), Some("loop1-8/info".into()));
        assert_eq!(found("dm-0"), Some("dm-0-8/info".into()));
        assert_eq!(found("loop"), None);
    }
}
