//! Parameters of a disk drive with zones, cache segments and a write cache.

use crate::SeekCurve;
use crate::error::ModelError;
use crate::request::SECTOR;
use serde::{Deserialize, Serialize};

/// Tracks and declared size may differ by this share: spare tracks, rounding.
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
    /// Time by which the first sector of a track lies behind that of the track before, under the next head.
    pub track_skew_ms: f64,
    /// The same from the last track of a cylinder to the first of the next.
    pub cylinder_skew_ms: f64,
    /// Switching to another head of the cylinder.
    pub head_switch_ms: f64,
    /// Seek time against distance, for reads.
    pub seek: SeekCurve,
    /// How much longer the arm settles before a write.
    pub write_settle_ms: f64,
    /// Time of a command that the mechanics must serve.
    pub command_us: f64,
    /// Time of a command that the cache serves.
    pub hit_us: f64,
    /// Time of a write that the cache takes.
    pub write_us: f64,
    /// Rate of the interface, decimal megabytes per second.
    pub interface_mb_per_s: f64,
    /// The cache for reads.
    pub cache: Cache,
    /// Data of writes that are complete before they are on the platter; 0: writes go to the platter first.
    pub write_cache_bytes: u64,
    /// Commands among which the drive chooses the one that it reaches first; 1: it keeps their order.
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

/// Segments: each holds what was read on one place and read on behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    /// Segments.
    pub segments: u32,
    /// Bytes of a segment: history and what is read ahead.
    pub segment_bytes: u64,
    /// Bytes that the drive reads on behind a read.
    pub read_ahead_bytes: u64,
}

impl Disk {
    pub fn track_sectors(&self) -> u64 {
        let zone = |zone: &Zone| u64::from(zone.cylinders) * u64::from(zone.sectors_per_track);
        self.zones.iter().map(zone).fold(0u64, u64::saturating_add).saturating_mul(u64::from(self.heads))
    }

    /// Says what is wrong with the parameters, if anything; `name` names the file.
    pub fn check(&self, name: &str) -> Result<(), ModelError> {
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
