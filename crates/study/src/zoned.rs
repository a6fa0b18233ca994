//! File systems on the guest's zoned drive, which cannot be a loop device. The content of it and of the conventional
//! drive is saved in an image file and written back before every run, zone by zone up to each write pointer.

use crate::spec::FileSystemSpec;
use senesce_core::failure::errno_message;
use senesce_core::{Bytes, ExitCode, Failure};
use senesce_guest::drives::{self, METADATA_DRIVE};
use senesce_volume::guest::{DriveChoice, Guest};
use senesce_volume::{ClaimedDevice, FileSystem, MountedTarget, OpenOptions, TargetSpec, open};
use senesce_zoned::hardware::{RingOptions, open_claimed_by, open_for_reading};
use senesce_zoned::sim::HostPath;
use senesce_zoned::{Command, Operation, ZonedDevice, ZonedError};
use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub(crate) struct ZonedDrives {
    guest: Guest,
    zoned: PathBuf,
    /// F2FS keeps its metadata on a conventional drive, which is the device to mount.
    metadata: Option<PathBuf>,
    kind: FileSystem,
}

pub(crate) fn emulated(size: Bytes) -> Vec<String> {
    drives::emulated(size).split_off(1)
}

/// The minimum drive of `senesce vm` on which the file system can be made and can store files. zoned btrfs reserves
/// zones for two superblock logs, relocation and the log tree (fs/btrfs/zoned.c); F2FS for six open logs and as many
/// sections (mkfs.f2fs).
pub(crate) const LEAST_SIZE: Bytes = Bytes::mib(512);

impl ZonedDrives {
    /// Returns the drives of this guest, if the file system needs zoned ones. Fails outside the guest, or if it has
    /// no such drive.
    pub(crate) fn of(fs: &FileSystemSpec) -> Result<Option<Self>, Failure> {
        if !fs.is_zoned() {
            return Ok(None);
        }
        let guest = Guest::here().ok_or_else(|| only_in_guest(fs))?;
        let kind = fs.kind().map_err(Failure::usage)?;
        let zoned = guest.drive(DriveChoice::Zoned)?;
        let metadata = (kind == FileSystem::F2fs).then(|| guest.drive(DriveChoice::Smallest)).transpose()?;
        Ok(Some(Self { guest, zoned, metadata, kind }))
    }

    pub(crate) fn file_system(&self) -> FileSystem {
        self.kind
    }

    pub(crate) fn open(&self, options: OpenOptions) -> Result<MountedTarget, Failure> {
        // mkfs and mount take the zoned drive of F2FS themselves.
        let zoned = self.guest.erase(&self.zoned)?;
        let erase = Some(self.metadata.as_deref().map_or(Ok(zoned), |path| self.guest.erase(path))?);
        let mounted = self.metadata.as_deref().unwrap_or(&self.zoned);
        Ok(open(&TargetSpec::Device(mounted.into()), &OpenOptions { erase, ..options })?)
    }

    /// Options of mkfs before those of the study (mkfs.btrfs(8), mkfs.f2fs(8)).
    pub(crate) fn mkfs_options(&self, more: &str) -> String {
        match self.kind {
            FileSystem::F2fs => format!("-m -c {} {more}", self.zoned.display()),
            _ => format!("-O zoned -m single -d single {more}"),
        }
    }

    /// Copies the content of the drives into a file: the conventional drive, the zoned one, then for each zone its
    /// written bytes as a little-endian number.
    pub(crate) fn save(&self, image: &Path) -> Result<(), Failure> {
        let file = File::create(image).map_err(failed("create", image))?;
        let mut at = 0;
        for (drive, extents) in self.contents()? {
            let from = direct(&drive, false)?;
            for &(start, length) in &extents.written {
                copy(&from, start, &file, at + start, length, true).map_err(failed("save", &drive))?;
            }
            at += extents.size;
        }
        let table: Vec<u8> = self.zones()?.iter().flat_map(|zone| zone.written.to_le_bytes()).collect();
        file.write_all_at(&table, at).map_err(failed("write", image))
    }

    pub(crate) fn load(&self, image: &Path) -> Result<(), Failure> {
        let file = File::open(image).map_err(failed("open", image))?;
        let mut at = 0;
        if let Some(path) = &self.metadata {
            let claimed = ClaimedDevice::claim(path, Some(&self.guest.erase(path)?))?;
            at = claimed.size().0;
            copy(&file, 0, &direct(path, true)?, 0, at, false).map_err(failed("restore", path))?;
        }
        let zones = self.reset_all()?;
        let mut table = vec![0; zones.len() * 8];
        let size: u64 = zones.iter().map(|zone| zone.size).sum();
        file.read_exact_at(&mut table, at + size).map_err(failed("read", image))?;
        let to = direct(&self.zoned, true)?;
        for (zone, written) in zones.iter().zip(table.chunks_exact(8)) {
            let written = u64::from_le_bytes(written.try_into().unwrap_or_default()).min(zone.size);
            copy(&file, at + zone.start, &to, zone.start, written, false).map_err(failed("restore", &self.zoned))?;
        }
        Ok(())
    }

    fn contents(&self) -> Result<Vec<(PathBuf, Extents)>, Failure> {
        let mut found = Vec::new();
        if let Some(path) = &self.metadata {
            let size = senesce_volume::BlockDevice::open(path)?.size().0;
            found.push((path.clone(), Extents { size, written: vec![(0, size)] }));
        }
        let zones = self.zones()?;
        let written = zones.iter().map(|zone| (zone.start, zone.written)).collect();
        found.push((self.zoned.clone(), Extents { size: zones.iter().map(|zone| zone.size).sum(), written }));
        Ok(found)
    }

    fn zones(&self) -> Result<Vec<Zone>, Failure> {
        Ok(report(&mut *open_for_reading(&self.zoned, HostPath::None)?)?)
    }

    /// Resets every zone through the block layer, which keeps write pointers of its own.
    fn reset_all(&self) -> Result<Vec<Zone>, Failure> {
        let erase = self.guest.erase(&self.zoned)?;
        let mut device = open_claimed_by(&self.zoned, HostPath::None, RingOptions::default(), Some(&erase))?;
        let zones = report(&mut *device)?;
        let block = u64::from(device.geometry().block_bytes);
        for (zone, one) in (0u32..).zip(&zones).filter(|(_, one)| one.written > 0) {
            let command =
                Command { tag: 0, queue: 0, operation: Operation::Reset, zone, block: one.start / block, blocks: 0 };
            if let Err(fault) = device.execute(command)?.result {
                let message = format!("reset zone {zone} of {erase}: {fault}");
                return Err(Failure::new(ExitCode::RunFailed, message));
            }
        }
        Ok(zones)
    }
}

struct Extents {
    size: u64,
    written: Vec<(u64, u64)>,
}

struct Zone {
    start: u64,
    size: u64,
    written: u64,
}

fn report(device: &mut dyn ZonedDevice) -> Result<Vec<Zone>, ZonedError> {
    let geometry = device.geometry().clone();
    let block = u64::from(geometry.block_bytes);
    let zones = device.report(0, geometry.zones)?;
    let size = geometry.zone_blocks * block;
    Ok(zones.iter().map(|zone| Zone { start: zone.start * block, size, written: zone.written() * block }).collect())
}

/// Builds the error for a zoned drive outside the guest, because zoned drives are scratch only there.
fn only_in_guest(fs: &FileSystemSpec) -> Failure {
    let message = format!(
        "file_system '{}' is on a zoned drive of the guest: [[cell]] file_system = \"{0}\", vm = true",
        fs.name
    );
    Failure::new(ExitCode::Missing, message)
}

/// Opens a file for direct I/O, because the page cache misses writes below it.
fn direct(path: &Path, write: bool) -> Result<File, Failure> {
    File::options()
        .read(true)
        .write(write)
        .custom_flags(rustix::fs::OFlags::DIRECT.bits().cast_signed())
        .open(path)
        .map_err(failed("open", path))
}

const PIECE: usize = 1 << 20;
const ALIGNMENT: usize = 4096;

fn copy(from: &File, from_at: u64, to: &File, to_at: u64, length: u64, skip_zeros: bool) -> std::io::Result<()> {
    let mut buffer = vec![0u8; PIECE + ALIGNMENT];
    let first = buffer.as_ptr().align_offset(ALIGNMENT);
    let mut done = 0;
    while done < length {
        let piece = &mut buffer[first..first + PIECE.min((length - done) as usize)];
        read_or_zero(from, piece, from_at + done)?;
        if !skip_zeros || piece.iter().any(|byte| *byte != 0) {
            to.write_all_at(piece, to_at + done)?;
        }
        done += piece.len() as u64;
    }
    Ok(())
}

/// Reads a piece, with zeros beyond the end: a saved image ends with its last written byte.
fn read_or_zero(from: &File, piece: &mut [u8], at: u64) -> std::io::Result<()> {
    let mut filled = 0;
    while filled < piece.len() {
        match from.read_at(&mut piece[filled..], at + filled as u64)? {
            0 => break,
            read => filled += read,
        }
    }
    piece[filled..].fill(0);
    Ok(())
}

fn failed<'a>(operation: &'a str, path: &'a Path) -> impl FnOnce(std::io::Error) -> Failure + 'a {
    move |error| Failure::new(ExitCode::RunFailed, format!("{operation} {}: {}", path.display(), errno_message(&error)))
}

/// Returns the space for files on a drive of this size, without the file system's own, as measured on emulated drives.
pub(crate) fn space_for_files(kind: FileSystem, size: Bytes) -> u64 {
    match kind {
        // Two zones hold superblock logs, one the system tree, three metadata, one relocation and one the log tree.
        FileSystem::Btrfs => {
            let zone = drives::zone_size(size.0);
            (size.0 / zone).saturating_sub(8) * zone
        }
        _ => (size.0 + METADATA_DRIVE.0) / 2,
    }
}

/// Returns a warning for an aged state that may fill its drive. btrfs reclaims a zone when three quarters of it are
/// dead (fs/btrfs/zoned.c, the default of bg_reclaim_threshold), which is late for random replacement. On emulated
/// drives a fullness of a quarter worked, more did not. If all created bytes fit, nothing must be reclaimed.
pub(crate) fn may_run_full(kind: FileSystem, size: Bytes, live: Bytes, created: Bytes) -> Option<String> {
    let may = kind == FileSystem::Btrfs && created.0 > space_for_files(kind, size) && live.0.saturating_mul(4) > size.0;
    may.then(|| {
        format!(
            "may run out of space: btrfs reclaims a zone only when three quarters of its data are dead, and the aging \
             creates {created} on {size} with {live} in live files; choose a fullness of 0.25 or below"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drive_that_may_fill_gives_a_warning() {
        let (size, btrfs) = (Bytes::gib(2), FileSystem::Btrfs);
        let warned = |kind, live: f64, created: f64| {
            let bytes = |share: f64| Bytes((share * size.0 as f64) as u64);
            may_run_full(kind, size, bytes(live), bytes(created)).is_some()
        };
        assert!(warned(btrfs, 0.8, 31.0));
        assert!(!warned(btrfs, 0.25, 2.0));
        assert!(!warned(btrfs, 0.6, 0.8), "nothing needs to be emptied");
        assert!(!warned(FileSystem::F2fs, 0.8, 31.0));
    }

    #[test]
    fn btrfs_keeps_eight_zones_whatever_their_size() {
        let zones = |size: Bytes| space_for_files(FileSystem::Btrfs, size) / drives::zone_size(size.0);
        assert_eq!(zones(Bytes::mib(512)), 64 - 8);
        assert_eq!(zones(Bytes::mib(576)), 36 - 8, "zones of 16 MiB");
        assert_eq!(zones(Bytes::gib(4)), 64 - 8);
        assert_eq!(zones(Bytes::gib(8)), 128 - 8);
    }
}
