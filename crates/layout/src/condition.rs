//! Detects unreplayed journals and damaged metadata.

mod bytes;
mod ext;
mod log_structured;
mod xfs;
mod xfs_log;

use crate::error::LayoutError;
use crate::shown_directory::ShownDirectory;
use rustix::fs::{Mode, OFlags};
use senesce_sys::btrfs as btrfs_calls;
use senesce_volume::FileSystem;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

const LISTED: usize = 5;

/// Whether a layout includes the changes that are only in the journal (ext3, ext4, XFS, NILFS2), in the log tree (btrfs) or after
/// the last checkpoint (F2FS).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journal {
    /// True: no changes are missing, or the journal has none. False: changes are missing. Null: unknown.
    pub replayed: Option<bool>,
    /// Reason, unless all changes are included.
    pub note: String,
}

/// Condition of a file system, which limits the validity of its numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// Its journal.
    pub journal: Journal,
    /// Damaged metadata, one sentence each.
    pub damage: Vec<String>,
    /// Whether the damage affects the free space, whose numbers are then unknown.
    #[serde(skip)]
    pub free_space_damaged: bool,
}

#[derive(Default)]
struct Damage {
    found: Vec<String>,
    of_free_space: bool,
}

struct Access {
    device: Option<File>,
    /// The kernel may write to it during the examination.
    live: bool,
    skips_replay: bool,
}

impl Access {
    fn of(place: &ShownDirectory) -> Self {
        let device = place.device().as_deref().and_then(open);
        if let ShownDirectory::Visited(_) = place {
            return Self { device, live: false, skips_replay: true };
        }
        let options = place.mount_line().map_or_else(String::new, |line| line.options);
        // The options of the mount come first, those of the file system last.
        let mode = options.split(',').rfind(|word| ["ro", "rw"].contains(word));
        Self { device, live: mode != Some("ro"), skips_replay: options.split(',').any(skips_replay) }
    }
}

/// Returns whether a mount option in /proc/self/mountinfo disables journal replay.
fn skips_replay(word: &str) -> bool {
    let words = ["noload", "norecovery", "nologreplay", "disable_roll_forward"];
    let rescue = word.strip_prefix("rescue=").is_some_and(|words| words.contains("nologreplay"));
    words.contains(&word) || rescue
}

/// Returns whether ext4 journals data, by its mount option or the default in its superblock.
pub fn journals_data(place: &ShownDirectory) -> bool {
    let options = place.mount_line().map_or_else(String::new, |line| line.options);
    match options.split(',').find_map(|word| word.strip_prefix("data=")) {
        Some(mode) => mode == "journal",
        None => place.device().as_deref().and_then(open).is_some_and(|device| ext::journals_data(&device)),
    }
}

impl Condition {
    pub fn of_directory(directory: &Path) -> Result<Self, LayoutError> {
        let failed = |errno| LayoutError::io("open directory", directory, errno);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(directory, flags, Mode::empty()).map_err(failed)?;
        let magic = rustix::fs::fstatfs(&root).map_err(failed)?.f_type as u64 & 0xFFFF_FFFF;
        let place = ShownDirectory::Directory(directory.into());
        Ok(Self::of(&place, root.as_fd(), FileSystem::by_statfs_magic(magic)))
    }

    /// Reasons why numbers may not match the file system.
    pub fn reservations(&self) -> Vec<String> {
        let journal = (self.journal.replayed != Some(true)).then(|| self.journal.note.clone());
        journal.into_iter().chain(self.damage.iter().map(|finding| format!("damaged: {finding}"))).collect()
    }

    /// Determines the condition of the file system shown at `place`. Call it after the walk, because btrfs counts
    /// errors found there.
    pub(crate) fn of(place: &ShownDirectory, root: BorrowedFd<'_>, known: Option<FileSystem>) -> Self {
        let Access { device, live, skips_replay } = Access::of(place);
        let pending = match (known, &device) {
            _ if !skips_replay => Ok(None),
            (Some(known), Some(device)) => pending(device, known),
            _ => Err("the device cannot be read".to_string()),
        };
        let journal = match pending {
            Ok(None) => Journal { replayed: Some(true), note: String::new() },
            Ok(Some(note)) => Journal { replayed: Some(false), note },
            Err(reason) => Journal {
                replayed: None,
                note: format!("it is unknown whether its journal contains changes: {reason}"),
            },
        };
        // An unreplayed journal makes metadata inconsistent, which is not damage.
        let Damage { found: mut damage, of_free_space } = match (&device, known) {
            (Some(device), Some(known)) if journal.replayed == Some(true) => damage(device, known, live),
            _ => Damage::default(),
        };
        if let (Some(device), Some(FileSystem::Ext4)) = (&device, known) {
            damage.extend(ext::journal_damage(device, live).unwrap_or_else(|error| Some(unchecked(&error))));
        }
        if known == Some(FileSystem::Btrfs) {
            damage.extend(counted_by_btrfs(root));
        }
        let mut found = Self { journal, damage, free_space_damaged: of_free_space };
        found.add_complaints(place);
        found
    }

    /// Records names without a valid inode. If nothing can delete files, they are damaged.
    pub(crate) fn add_names_without_inode(&mut self, place: &ShownDirectory, count: u64) {
        if count > 0 && self.journal.replayed == Some(true) && !Access::of(place).live {
            self.damage.push(format!("{count} files or directories have no valid inode"));
        }
    }

    pub fn add_complaints(&mut self, place: &ShownDirectory) {
        if self.journal.replayed == Some(true) {
            self.damage.extend(listed(place.complaints()));
        }
    }
}

fn open(path: &Path) -> Option<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    rustix::fs::open(path, flags, Mode::empty()).ok().map(File::from)
}

/// Changes on a device that a mount would still apply, or `None`.
fn pending(device: &File, known: FileSystem) -> Result<Option<String>, String> {
    let found = match known {
        FileSystem::Ext4 => ext::pending(device),
        FileSystem::Xfs => xfs_log::pending(device),
        FileSystem::Btrfs => log_structured::btrfs(device),
        FileSystem::F2fs => log_structured::f2fs(device),
        FileSystem::Nilfs2 => log_structured::nilfs2(device),
    };
    found.map_err(|error| error.to_string())
}

fn damage(device: &File, known: FileSystem, live: bool) -> Damage {
    let other = |found| Damage { found, of_free_space: false };
    let found = match known {
        FileSystem::Ext4 => ext::damage(device, live),
        // The kernel's state in memory is newer than the device.
        FileSystem::Xfs if !live => xfs::damage(device).map(other),
        _ => Ok(Damage::default()),
    };
    found.unwrap_or_else(|error| other(vec![unchecked(&error)]))
}

fn unchecked(error: &std::io::Error) -> String {
    format!("its metadata cannot be checked: {error}")
}

/// Errors that the kernel has counted on the devices of btrfs since the last reset.
fn counted_by_btrfs(root: BorrowedFd<'_>) -> Vec<String> {
    let Ok(all) = btrfs_calls::file_system(root) else { return Vec::new() };
    let one = |number: u64| {
        let errors = btrfs_calls::device_errors(root, number).ok()?;
        let named = [
            (errors.corruption, "blocks with a wrong checksum"),
            (errors.generation, "blocks of another generation"),
            (errors.read, "reads that failed"),
        ];
        let counts: Vec<String> =
            named.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
        (!counts.is_empty()).then(|| format!("btrfs counted {} on its device {number}", counts.join(" and ")))
    };
    (1..=all.max_device.min(1024)).filter_map(one).collect()
}

/// Returns the first findings, and the number of others.
fn listed(mut all: Vec<String>) -> Vec<String> {
    let more = all.len().saturating_sub(LISTED);
    all.truncate(LISTED);
    all.extend((more > 0).then(|| format!("{more} more problems of this kind")));
    all
}
