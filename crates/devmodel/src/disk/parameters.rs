//! Parameters of a disk drive with zones, cache segments and a write cache.

use crate::SeekCurve;
use crate::error::ModelError;
use crate::request::SECTOR;
use serde::{Deserialize, Serialize};

/// Allowed relative difference between tracks and declared size: spare tracks, rounding.
const ROUNDING: f64 = 0.02;
const LONGEST_MS: f64 = 1e4;

/// A disk drive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    /// Capacity.
    pub capacity_bytes: u64,
    /// Rotations per minute.
    pub rpm: f64,
    /// Surfaces with a head each.
    pub heads: u32,
    /// Zones from the outer to the inner edge.
    pub zones: Vec<Zone>,
    /// Offset of the first sector of a track from that of the previous track, under the next head.
    pub track_skew_ms: f64,
    /// The same from the last track of a cylinder to the first of the next.
    pub cylinder_skew_ms: f64,
    /// Switching to another head of the cylinder.
    pub head_switch_ms: f64,
    /// Seek time by distance, for reads.
    pub seek: SeekCurve,
    /// Additional settling time of the arm before a write.
    pub write_settle_ms: f64,
    /// Time of a command that needs the mechanics.
    pub command_us: f64,
    /// Time of a read served by the cache.
    pub hit_us: f64,
    /// Time of a write accepted by the cache.
    pub write_us: f64,
    /// Rate of the interface, decimal megabytes per second.
    pub interface_mb_per_s: f64,
    /// The cache for reads.
    pub cache: Cache,
    /// Size of the write cache; 0: writes complete on the platter.
    pub write_cache_bytes: u64,
    /// Number of commands among which the drive chooses the one it reaches first; 1: keeps their order.
    pub queue_depth: u32,
}

/// Tracks of one length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Zone {
    /// Cylinders.
    pub cylinders: u32,
    /// Sectors of 512 bytes on a track.
    pub sectors_per_track: u32,
}

/// Cache segments: each holds data read at one position and its read-ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    /// Segments.
    pub segments: u32,
    /// Bytes of a segment: history and read-ahead.
    pub segment_bytes: u64,
    /// Read-ahead after a read, bytes.
    pub read_ahead_bytes: u64,
}

impl Disk {
    pub(crate) fn track_sectors(&self) -> u64 {
        let zone = |zone: &Zone| u64::from(zone.cylinders) * u64::from(zone.sectors_per_track);
        self.zones.iter().map(zone).fold(0u64, u64::saturating_add).saturating_mul(u64::from(self.heads))
    }

    pub(crate) fn check(&self, name: &str) -> Result<(), ModelError> {
        let wrong =
            |parameter, value, expected| ModelError::Parameter { name: name.into(), parameter, value, expected };
        let malformed = |problem: &str| ModelError::Malformed { name: name.into(), problem: problem.into() };
        let ranges = [
            ("rpm", self.rpm, 1.0..=1e6, "1 to 1,000,000"),
            ("heads", f64::from(self.heads), 1.0..=1024.0, "1 to 1024"),
            ("interface_mb_per_s", self.interface_mb_per_s, 0.001..=1e6, "0.001 to 1,000,000"),
            ("cache.segments", f64::from(self.cache.segments), 1.0..=4096.0, "1 to 4096"),
            ("queue_depth", f64::from(self.queue_depth), 1.0..=65_536.0, "1 to 65,536"),
            ("track_skew_ms", self.track_skew_ms, 0.0..=LONGEST_MS, "0 to 10,000 ms"),
            ("cylinder_skew_ms", self.cylinder_skew_ms, 0.0..=LONGEST_MS, "0 to 10,000 ms"),
            ("head_switch_ms", self.head_switch_ms, 0.0..=LONGEST_MS, "0 to 10,000 ms"),
            ("write_settle_ms", self.write_settle_ms, 0.0..=LONGEST_MS, "0 to 10,000 ms"),
            ("command_us / 1000", self.command_us / 1e3, 0.0..=LONGEST_MS, "0 to 10,000 ms"),
            ("hit_us / 1000", self.hit_us / 1e3, 0.0..=LONGEST_MS, "0 to 10,000 ms"),
            ("write_us / 1000", self.write_us / 1e3, 0.0..=LONGEST_MS, "0 to 10,000 ms"),
        ];
        for (parameter, value, range, expected) in ranges {
            if !range.contains(&value) {
                return Err(wrong(parameter, value, expected));
            }
        }
        if self.zones.is_empty() || self.zones.iter().any(|zone| zone.cylinders == 0 || zone.sectors_per_track == 0) {
            return Err(malformed("a disk needs at least one zone, each with cylinders and sectors"));
        }
        if self.cache.read_ahead_bytes > self.cache.segment_bytes {
            return Err(malformed("cache.read_ahead_bytes must fit into cache.segment_bytes"));
        }
        if let Some(problem) = self.seek.problem() {
            return Err(malformed(problem));
        }
        let (tracks, wanted) = (self.track_sectors() as f64 * SECTOR as f64, self.capacity_bytes as f64);
        if tracks < wanted || tracks > wanted * (1.0 + ROUNDING) {
            return Err(ModelError::Tracks { name: name.into(), tracks, capacity_bytes: self.capacity_bytes });
        }
        Ok(())
    }
}
