//! Advice on directory schemes from the occupancy law.

use crate::error::{StoreError, io};
use crate::occupancy::{self, DirectoryFormat, FreeSpace, Limit, Prediction};
use crate::scheme::Scheme;
use rustix::fs::StatVfs;
use senesce_core::Bytes;
use senesce_volume::FileSystem;
use serde::Serialize;
use std::path::Path;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Volume {
    pub file_system: String,
    pub size: u64,
    #[serde(rename = "room")]
    pub free: FreeSpace,
    /// Source of the numbers.
    pub source: String,
}

/// Lists the file systems with a known default layout.
pub fn file_systems() -> impl Iterator<Item = &'static str> {
    FileSystem::ALL.into_iter().filter(|known| known.entry().offered.is_some()).map(FileSystem::name)
}

impl Volume {
    /// Returns the layout that `mkfs` creates by default on `size` bytes, or `None` if it is unknown for this file
    /// system.
    pub fn planned(file_system: &str, size: Bytes) -> Option<Self> {
        let known: FileSystem = file_system.parse().ok()?;
        let entry = known.entry();
        let offered = entry.offered?(size.0);
        let unused = if entry.directories == DirectoryFormat::Items { unused_by_chunks(size.0) } else { 0 };
        let free = FreeSpace {
            inodes: offered.inodes,
            bytes: offered.bytes.min(size.0.saturating_sub(unused)),
            block_bytes: offered.block_bytes,
            inode_bytes: entry.inode_bytes,
            directories: entry.directories,
        };
        Some(Self { file_system: file_system.into(), size: size.0, free, source: entry.offered_source.into() })
    }

    /// Returns the smallest volume of 2^n bytes that holds `count` objects under some scheme. `None`: unknown file
    /// system, or no volume is large enough.
    pub fn least(file_system: &str, count: u64, object_bytes: u64) -> Option<Self> {
        let mut volumes = (20..63).filter_map(|power| Self::planned(file_system, Bytes(1 << power)));
        let volume = volumes.find(|volume| recommend(volume.clone(), count, object_bytes).recommended.is_some())?;
        let source = format!("the smallest power of two that holds them; {}", volume.source);
        Some(Self { source, ..volume })
    }

    pub fn mounted(path: &Path) -> Result<Self, StoreError> {
        let found = rustix::fs::statvfs(path).map_err(io("determine the space of", path))?;
        let (file_system, free) = free_space_of(path, &found)?;
        let source = format!("statvfs of {}", path.display());
        Ok(Self { file_system: file_system.into(), size: found.f_blocks * found.f_frsize, free, source })
    }
}

/// Returns the bytes that the last metadata chunks of Btrfs leave unused, stored twice. On small volumes they are an
/// eighth (measured on 256 MiB and 2 GiB).
fn unused_by_chunks(size: u64) -> u64 {
    (size / 8).min((512 << 20) + size / 32) + (24 << 20)
}

pub(crate) fn free_space_of(path: &Path, found: &StatVfs) -> Result<(&'static str, FreeSpace), StoreError> {
    let kind = rustix::fs::statfs(path).map_err(io("determine the file system of", path))?.f_type as u64;
    let known = FileSystem::by_statfs_magic(kind);
    let free = FreeSpace {
        inodes: (found.f_files > 0).then_some(found.f_favail),
        bytes: found.f_bavail * found.f_frsize,
        block_bytes: found.f_frsize,
        inode_bytes: known.map_or(0, |known| known.entry().inode_bytes),
        directories: known.map_or(DirectoryFormat::Blocks, |known| known.entry().directories),
    };
    const TMPFS_MAGIC: u64 = 0x0102_1994;
    Ok((known.map_or(if kind == TMPFS_MAGIC { "tmpfs" } else { "unknown" }, FileSystem::name), free))
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Advice {
    pub scheme: Scheme,
    /// Whether the requested number of objects fits.
    pub fits: bool,
    pub directories: u64,
    /// For the requested objects.
    pub inodes_needed: u64,
    /// For the requested objects.
    pub bytes_needed: u64,
    /// Objects per lowest-level directory.
    pub entries_per_directory: f64,
    /// Maximum number of objects, and the limit.
    pub most: Prediction,
    /// The smallest and the largest number that may fit, if the number is uncertain (Btrfs).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most_range: Option<[u64; 2]>,
    /// Why it should not be chosen although it fits.
    pub concern: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Recommendation {
    pub volume: Volume,
    pub count: u64,
    pub object_bytes: u64,
    /// Fewest directories first.
    pub schemes: Vec<Advice>,
    /// `None` if no loose scheme fits.
    pub recommended: Option<Scheme>,
    /// Bytes of the same objects in pack files, which need few inodes.
    pub packed_bytes: u64,
    /// Whether they fit in pack files.
    pub packed_fits: bool,
}

/// With more entries, listing a directory is slow, and on some file systems changing it.
const COMFORTABLE_ENTRIES: f64 = 10_000.0;

/// Overhead of a packed object: record header and index entry.
const PACK_OVERHEAD: u64 = 84;

/// Shares of the predicted number that fit on Btrfs at least and at most. Its chunks go to whichever of data and metadata asks first.
/// Fills of 256 MiB to 2 GiB took 0.95 to 1.43 times the number.
const BTRFS_SHARES: [f64; 2] = [0.85, 1.6];

/// Btrfs keeps files up to this size in its leaves (`max_inline`), without a block of their own.
const MAX_INLINE: u64 = 2048;

/// Returns the smallest and the largest number of objects that may fit, if the number is uncertain.
fn range(free: &FreeSpace, object_bytes: u64, files: u64) -> Option<[u64; 2]> {
    if free.directories != DirectoryFormat::Items {
        return None;
    }
    let inline = match object_bytes <= MAX_INLINE {
        true => (free.block_bytes + free.inode_bytes) as f64 / (object_bytes + free.inode_bytes).max(1) as f64,
        false => 1.0,
    };
    let [least, most] = BTRFS_SHARES;
    Some([least, most * inline].map(|share| (files as f64 * share).round() as u64))
}

/// Evaluates all relevant schemes. Chooses the one with the fewest directories of those that fit with directories of moderate
/// size, otherwise of those that fit.
pub fn recommend(volume: Volume, count: u64, object_bytes: u64) -> Recommendation {
    let pairs = [(0, 0), (1, 1), (2, 1), (3, 1), (4, 1), (1, 2), (2, 2), (3, 2), (1, 3), (2, 3), (1, 4)];
    let schemes = pairs.iter().filter_map(|(digits, depth)| Scheme::new(*digits, *depth).ok());
    let mut schemes: Vec<Advice> = schemes.map(|scheme| advise(&volume, scheme, count, object_bytes)).collect();
    schemes.sort_by_key(|advice| (advice.directories, advice.scheme));
    let fitting = |advice: &&Advice| advice.fits;
    let chosen = schemes.iter().filter(fitting).find(|advice| advice.concern.is_none());
    let recommended = chosen.or_else(|| schemes.iter().find(fitting)).map(|advice| advice.scheme);
    let packed_bytes = count.saturating_mul(object_bytes + PACK_OVERHEAD);
    let packed_fits = packed_bytes <= volume.free.bytes;
    Recommendation { volume, count, object_bytes, schemes, recommended, packed_bytes, packed_fits }
}

fn advise(volume: &Volume, scheme: Scheme, count: u64, object_bytes: u64) -> Advice {
    let (free, files) = (&volume.free, count as f64);
    let lowest = if scheme.depth() == 0 { 1.0 } else { occupancy::directories_at(scheme, scheme.depth(), files) };
    let entries = files / lowest.max(1.0);
    let name_bytes = u64::from(40u32.saturating_sub(scheme.digits() * scheme.depth()));
    let most = occupancy::predict(scheme, free, object_bytes);
    let limit = occupancy::ext4_directory_limit(free.block_bytes, name_bytes) as f64;
    let concern = if volume.file_system == "ext4" && entries > limit {
        Some(format!("an ext4 directory without large_dir is full at about {limit:.0} entries"))
    } else if entries > COMFORTABLE_ENTRIES {
        Some(format!("{entries:.0} entries in one directory"))
    } else {
        None
    };
    let most_range = range(free, object_bytes, most.files);
    let certain = most_range.map_or(most.files, |[low, _]| low);
    let too_full = volume.file_system == "ext4" && entries > limit;
    Advice {
        scheme,
        fits: certain >= count && !too_full,
        directories: (1.0 + occupancy::directories(scheme, files)).round() as u64,
        inodes_needed: occupancy::inodes_needed(scheme, files).ceil() as u64,
        bytes_needed: occupancy::bytes_needed(scheme, free, object_bytes, files).ceil() as u64,
        entries_per_directory: entries,
        most,
        most_range,
        concern,
    }
}

impl Advice {
    /// Returns whether the objects fit, and otherwise the resource that runs out first.
    pub fn text(&self) -> String {
        if let (false, Some([low, high])) = (self.fits, self.most_range) {
            return format!("uncertain: between {low} and {high} objects fit");
        }
        match (self.fits, &self.concern, self.most.ended_by) {
            (true, None, _) => "fits".into(),
            (true, Some(concern), _) => format!("fits, but {concern}"),
            (false, Some(concern), _) if concern.contains("large_dir") => concern.clone(),
            (false, _, Limit::Inodes) => format!("out of inodes at {} objects", self.most.files),
            (false, _, Limit::Bytes) => format!("out of bytes at {} objects", self.most.files),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_partition_gets_gits_scheme() {
        let volume = Volume::planned("ext4", Bytes::mib(100)).unwrap();
        let inodes = volume.free.inodes.unwrap();
        assert!((25_500..25_700).contains(&inodes), "{inodes}");
        let found = recommend(volume, 18_000, 4096);
        let fits = |text: &str| found.schemes.iter().find(|advice| advice.scheme.to_string() == text).unwrap().fits;
        assert!(fits("2x1") && !fits("2x2"));
        assert_eq!(found.recommended.unwrap().to_string(), "1x1");
    }

    #[test]
    fn many_objects_get_more_directories_and_too_many_no_scheme() {
        let volume = || Volume::planned("xfs", Bytes::gib(100)).unwrap();
        assert_eq!(recommend(volume(), 1_000_000, 4096).recommended.unwrap().to_string(), "2x1");
        assert_eq!(recommend(volume(), 9_000_000, 4096).recommended.unwrap().to_string(), "3x1");
        let full = recommend(volume(), 1 << 40, 4096);
        assert_eq!((full.recommended, full.packed_fits), (None, false));
    }

    #[test]
    fn smallest_volume_fits_the_objects_and_half_does_not() {
        for file_system in file_systems() {
            let least = Volume::least(file_system, 1_000_000, 4096).unwrap();
            assert!(recommend(least.clone(), 1_000_000, 4096).recommended.is_some());
            let half = Volume::planned(file_system, Bytes(least.size / 2)).unwrap();
            assert_eq!(recommend(half, 1_000_000, 4096).recommended, None, "{file_system}");
        }
        assert_eq!(Volume::least("ext4", u64::MAX, 4096), None);
    }

    #[test]
    fn planned_xfs_matches_mkfs() {
        // mkfs.xfs 6.1 on 600 MiB: 128,514 blocks are free.
        let planned = Volume::planned("xfs", Bytes::mib(600)).unwrap().free.bytes as f64 / (128_514.0 * 4096.0);
        assert!((planned - 1.0).abs() < 0.01, "{planned}");
    }

    #[test]
    fn small_volumes_match_measured_fills() {
        // mkfs.ext4 of 100 MiB, filled by a user with objects of 4 KiB.
        for (scheme, files) in [("0x0", 20_439.0), ("1x1", 20_431.0), ("2x1", 20_323.0)] {
            let volume = Volume::planned("ext4", Bytes::mib(100)).unwrap();
            let most = occupancy::predict(scheme.parse().unwrap(), &volume.free, 4096).files as f64;
            assert!((most / files - 1.0).abs() < 0.01, "{scheme}: {most}");
        }
    }

    /// Uses measured fills of new file systems: the numbers vary with the chunks that are made at the same time.
    #[test]
    fn range_of_btrfs_holds_measured_fills() {
        let fills = [("0x0", 4096, 41_727), ("0x0", 1024, 70_229), ("0x0", 32 << 10, 5599), ("1x4", 32 << 10, 5599)];
        for (scheme, bytes, files) in fills {
            let found = recommend(Volume::planned("btrfs", Bytes::mib(256)).unwrap(), files, bytes);
            let advice = found.schemes.iter().find(|advice| advice.scheme.to_string() == scheme).unwrap();
            let [low, high] = advice.most_range.unwrap();
            assert!((low..=high).contains(&files) && !advice.fits, "{scheme} {bytes}: {low} to {high}");
            assert!(recommend(found.volume.clone(), low, bytes).schemes.iter().any(|advice| advice.fits));
        }
        assert_eq!(recommend(Volume::planned("ext4", Bytes::gib(1)).unwrap(), 1, 4096).schemes[0].most_range, None);
    }

    #[test]
    fn volume_smaller_than_one_object_holds_none() {
        let found = recommend(Volume::planned("ext4", Bytes(1024)).unwrap(), 1, 4096);
        assert_eq!(found.recommended, None);
        assert_eq!(found.schemes[0].most.files, 0);
        assert!(Volume::planned("zfs", Bytes::gib(1)).is_none());
    }
}
