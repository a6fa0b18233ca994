//! Where sectors are: cylinders, and the time at which they pass below a head.
//!
//! The stream coordinate of a sector is the time to stream to it from sector 0, skews included. As a stream never waits, the
//! platter's angle below a sector is its stream coordinate in rotations; every other access waits for its sector to come by.

use super::parameters::Disk;
use crate::request::SECTOR;

#[derive(Debug, Clone, Copy)]
struct Band {
    first_sector: u64,
    first_cylinder: u64,
    first_ns: f64,
    sectors_per_track: u64,
    sector_ns: f64,
    /// Sectors and stream time of a cylinder.
    cylinder_sectors: u64,
    cylinder_ns: f64,
}

/// The layout of a disk drive.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    bands: Vec<Band>,
    /// One rotation.
    pub rotation_ns: f64,
    /// Stream time of a track: a rotation and the skew behind it.
    track_ns: f64,
    cylinders: u64,
}

/// A sector's place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SectorPosition {
    pub cylinder: u64,
    pub head: u64,
    pub stream_ns: f64,
}

impl Layout {
    pub fn of(disk: &Disk) -> Self {
        let rotation_ns = 60e9 / disk.rpm;
        let track_ns = rotation_ns + disk.track_skew_ms * 1e6;
        let heads = u64::from(disk.heads);
        // Behind the last track of a cylinder the cylinder's skew takes the place of the track's.
        let cylinder_ns = heads as f64 * track_ns + (disk.cylinder_skew_ms - disk.track_skew_ms) * 1e6;
        let mut layout = Self { bands: Vec::new(), rotation_ns, track_ns, cylinders: 0 };
        let (mut first_sector, mut first_ns) = (0, 0.0);
        for zone in &disk.zones {
            let (cylinders, sectors_per_track) = (u64::from(zone.cylinders), u64::from(zone.sectors_per_track));
            layout.bands.push(Band {
                first_sector,
                first_cylinder: layout.cylinders,
                first_ns,
                sectors_per_track,
                sector_ns: rotation_ns / sectors_per_track as f64,
                cylinder_sectors: sectors_per_track * heads,
                cylinder_ns,
            });
            first_sector += cylinders * sectors_per_track * heads;
            first_ns += cylinders as f64 * cylinder_ns;
            layout.cylinders += cylinders;
        }
        layout
    }

    /// Where the sector at a byte address is.
    pub fn place(&self, address: u64) -> SectorPosition {
        let sector = address / SECTOR;
        let band = &self.bands[self.bands.partition_point(|band| band.first_sector <= sector).saturating_sub(1)];
        let within = sector - band.first_sector;
        let (cylinder, rest) = (within / band.cylinder_sectors, within % band.cylinder_sectors);
        let (head, sector) = (rest / band.sectors_per_track, rest % band.sectors_per_track);
        let stream_ns = band.first_ns
            + cylinder as f64 * band.cylinder_ns
            + head as f64 * self.track_ns
            + sector as f64 * band.sector_ns;
        SectorPosition { cylinder: band.first_cylinder + cylinder, head, stream_ns }
    }

    /// Time from the start of the sector at `address` to the end of the last one before `end`.
    pub fn transfer_ns(&self, address: u64, end: u64) -> f64 {
        if end <= address {
            return 0.0;
        }
        self.end_ns(end) - self.place(address).stream_ns
    }

    /// Stream coordinate at which the last sector before `end` has passed.
    pub fn end_ns(&self, end: u64) -> f64 {
        let last = self.place(end.saturating_sub(SECTOR));
        let sector = end.saturating_sub(SECTOR) / SECTOR;
        let band = &self.bands[self.bands.partition_point(|band| band.first_sector <= sector).saturating_sub(1)];
        last.stream_ns + band.sector_ns
    }

    /// The byte address that a stream has come to at a stream coordinate: the first that has not passed.
    pub fn address(&self, stream_ns: f64) -> u64 {
        // Rounding must not lose a sector that has just passed.
        let stream_ns = stream_ns + 1.0;
        let band = &self.bands[self.bands.partition_point(|band| band.first_ns <= stream_ns).saturating_sub(1)];
        let within = (stream_ns - band.first_ns).max(0.0);
        let cylinder = (within / band.cylinder_ns) as u64;
        let rest = within - cylinder as f64 * band.cylinder_ns;
        let head = ((rest / self.track_ns) as u64).min(band.cylinder_sectors / band.sectors_per_track - 1);
        let sector = ((rest - head as f64 * self.track_ns) / band.sector_ns) as u64;
        let sector = sector.min(band.sectors_per_track);
        (band.first_sector + cylinder * band.cylinder_sectors + head * band.sectors_per_track + sector) * SECTOR
    }

    /// Distance of two cylinders as a share of the stroke.
    pub fn stroke(&self, from: u64, to: u64) -> f64 {
        from.abs_diff(to) as f64 / (self.cylinders.max(2) - 1) as f64
    }
}
