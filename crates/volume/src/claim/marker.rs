//! The marker of a directory that senesce may write, and the aging that it identifies.

use super::MARKER;
use crate::error::TargetError;
use rustix::fs::{AtFlags, FallocateFlags, FileType, Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use senesce_core::machine::owner_here;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

const MARKER_TEXT: &str = "this directory belongs to senesce; its content may be deleted by it\n";

/// Precedes the identity of an aging.
const OF_AGING: &str = "senesce may delete the content; aging ";

#[derive(Debug, PartialEq)]
pub(super) enum Marker {
    Missing,
    Ours,
    /// Not a trustworthy marker: we would follow a link, or another user made it and could grant permission for this
    /// directory.
    Foreign(String),
}

impl Marker {
    /// Accepts a regular file of this user or of root.
    pub(super) fn of(directory: &File, path: &Path) -> Result<Self, TargetError> {
        let found = match rustix::fs::statat(directory, MARKER, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(Self::Missing),
            found => found.map_err(TargetError::errno("check the marker in ", path))?,
        };
        let own = [rustix::process::geteuid().as_raw(), 0];
        Ok(match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile if own.contains(&owner_here(found.st_uid)) => Self::Ours,
            FileType::RegularFile => Self::Foreign(format!("belongs to user {}", found.st_uid)),
            FileType::Symlink => Self::Foreign("is a symbolic link".into()),
            _ => Self::Foreign("is not a regular file".into()),
        })
    }
}

/// Returns the text of a marker. Its length is constant, so that it always has the same blocks.
fn marker_text(identity: Option<&str>) -> String {
    match identity {
        Some(identity) => format!("{:<1$}\n", format!("{OF_AGING}{identity}"), MARKER_TEXT.len() - 1),
        None => MARKER_TEXT.into(),
    }
}

/// Writes the marker into preallocated blocks. Otherwise ext4 preallocates 2 MiB for small files
/// on the CPU of the writeback thread (fs/ext4/mballoc.c, "locality group preallocation"). The layout of a run would
/// depend on that CPU.
pub(super) fn write_marker(directory: &File, identity: Option<&str>) -> std::io::Result<()> {
    let text = marker_text(identity);
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::WRONLY | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::openat(directory, MARKER, flags, Mode::from_raw_mode(0o644))?);
    // A file system without fallocate does not preallocate either.
    let _ = rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, text.len() as u64);
    file.write_all(text.as_bytes())
}

/// The owner that the marker of a directory names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MarkedAs {
    /// An aging, by its identity.
    Aging(String),
    /// No aging: another run made it, or a copy of the metadata has no content.
    Unnamed,
    /// The content was lost in a power failure before it was written.
    Unwritten,
    Missing,
}

/// Reads the marker of a directory. A marker that is not ours counts as missing.
pub fn marked_as(directory: &Path) -> Result<MarkedAs, TargetError> {
    let handle = File::open(directory).map_err(TargetError::io("open directory", directory))?;
    if Marker::of(&handle, directory)? != Marker::Ours {
        return Ok(MarkedAs::Missing);
    }
    let path = directory.join(MARKER);
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(&handle, MARKER, flags, Mode::empty());
    let file = File::from(opened.map_err(TargetError::errno("open", &path))?);
    let mut content = Vec::new();
    let most = MARKER_TEXT.len() as u64;
    (&file).take(most).read_to_end(&mut content).map_err(TargetError::io("read", &path))?;
    if content.is_empty() {
        // Without fallocate, the file has no length before its content.
        return Ok(MarkedAs::Unwritten);
    }
    if content.iter().all(|byte| *byte == 0) {
        // Preallocated blocks are a hole; zeros that were written are not.
        let is_hole = rustix::fs::seek(&file, SeekFrom::Data(0)) == Err(Errno::NXIO);
        return Ok(if is_hole { MarkedAs::Unwritten } else { MarkedAs::Unnamed });
    }
    let text = String::from_utf8_lossy(&content);
    let identity = text.strip_prefix(OF_AGING).map(|identity| identity.trim_end().to_string());
    Ok(identity.map_or(MarkedAs::Unnamed, MarkedAs::Aging))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::ClaimedDirectory;
    use std::fs;

    const IDENTITY: &str = "0123456789abcdef";

    #[test]
    fn marker_has_the_same_length_with_an_identity() {
        assert_eq!(marker_text(Some(IDENTITY)).len(), marker_text(None).len());
        let directory = tempfile::tempdir().unwrap();
        ClaimedDirectory::claim_for(directory.path(), None, Some(IDENTITY)).unwrap();
        let length = fs::metadata(directory.path().join(MARKER)).unwrap().len();
        assert_eq!(length, MARKER_TEXT.len() as u64);
    }

    #[test]
    fn marker_identifies_the_last_aging() {
        let directory = tempfile::tempdir().unwrap();
        let found = || marked_as(directory.path()).unwrap();
        assert_eq!(found(), MarkedAs::Missing);
        let claimed = ClaimedDirectory::claim(directory.path(), None).unwrap();
        assert_eq!(found(), MarkedAs::Unnamed);
        for identity in [IDENTITY, "fedcba9876543210"] {
            claimed.mark(identity).unwrap();
            assert_eq!(found(), MarkedAs::Aging(identity.into()));
        }
        ClaimedDirectory::claim_for(directory.path(), None, Some(IDENTITY)).unwrap();
        assert_eq!(found(), MarkedAs::Aging("fedcba9876543210".into()), "an existing marker is kept");
    }

    #[test]
    fn other_names_of_a_marker_are_never_written() {
        let directory = tempfile::tempdir().unwrap();
        let (target, precious) = (directory.path().join("target"), directory.path().join("precious"));
        fs::create_dir(&target).unwrap();
        fs::write(&precious, "precious").unwrap();
        fs::hard_link(&precious, target.join(MARKER)).unwrap();
        ClaimedDirectory::claim(&target, None).unwrap().mark(IDENTITY).unwrap();
        assert_eq!(fs::read(&precious).unwrap(), b"precious");
        assert_eq!(marked_as(&target).unwrap(), MarkedAs::Aging(IDENTITY.into()));
    }

    #[test]
    fn lost_content_differs_from_a_copy_without_content() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(MARKER);
        fs::write(&path, [0u8; 68]).unwrap();
        assert_eq!(marked_as(directory.path()).unwrap(), MarkedAs::Unnamed);
        for length in [68, 0] {
            fs::File::create(&path).unwrap().set_len(length).unwrap();
            assert_eq!(marked_as(directory.path()).unwrap(), MarkedAs::Unwritten, "{length}");
        }
    }
}
