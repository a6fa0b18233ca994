//! Where sectors are: cylinders, and the time at which they pass below a head.
//!
//! The stream coordinate of a sector is the time to stream to it from sector 0, skews included. As a stream never waits, the
//! platter's angle below a sector is its stream coordinate in rotations; every other access waits for its sector to come by.

use super::parameters::Disk;
use crate::request::SECTOR;
use crate::seek::SeekCurve;

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
    /// One over the sectors of a cylinder, and of a track.
    per_cylinder: f64,
    per_track: f64,
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
    heads: u64,
    seek: Seek,
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
        let mut layout = Self { bands: Vec::new(), rotation_ns, track_ns, cylinders: 0, heads, seek: Seek::default() };
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
                per_cylinder: 1.0 / (sectors_per_track * heads) as f64,
                per_track: 1.0 / sectors_per_track as f64,
            });
            first_sector += cylinders * sectors_per_track * heads;
            first_ns += cylinders as f64 * cylinder_ns;
            layout.cylinders += cylinders;
        }
        layout.seek = Seek::of(&disk.seek, layout.cylinders);
        layout
    }

    /// The zone of a sector.
    fn band(&self, sector: u64) -> &Band {
        &self.bands[self.bands.partition_point(|band| band.first_sector <= sector).saturating_sub(1)]
    }

    fn place_in(&self, band: &Band, sector: u64) -> SectorPosition {
        let (cylinder, rest) = divided(sector - band.first_sector, band.cylinder_sectors, band.per_cylinder);
        let (head, sector) = divided(rest, band.sectors_per_track, band.per_track);
        let stream_ns = band.first_ns
            + cylinder as f64 * band.cylinder_ns
            + head as f64 * self.track_ns
            + sector as f64 * band.sector_ns;
        SectorPosition { cylinder: band.first_cylinder + cylinder, head, stream_ns }
    }

    /// Where the sector at a byte address is.
    pub fn place(&self, address: u64) -> SectorPosition {
        let sector = address / SECTOR;
        self.place_in(self.band(sector), sector)
    }

    /// Stream coordinate at which the last sector before `end` has passed.
    pub fn end_ns(&self, end: u64) -> f64 {
        let sector = end.saturating_sub(SECTOR) / SECTOR;
        let band = self.band(sector);
        self.place_in(band, sector).stream_ns + band.sector_ns
    }

    /// The byte address that a stream has come to at a stream coordinate: the first that has not passed.
    pub fn address(&self, stream_ns: f64) -> u64 {
        self.reached(stream_ns).0
    }

    /// The same with the cylinder and head of the coordinate.
    pub fn reached(&self, stream_ns: f64) -> (u64, u64, u64) {
        // Rounding must not lose a sector that has just passed.
        let stream_ns = stream_ns + 1.0;
        let band = &self.bands[self.bands.partition_point(|band| band.first_ns <= stream_ns).saturating_sub(1)];
        let within = (stream_ns - band.first_ns).max(0.0);
        let cylinder = (within / band.cylinder_ns) as u64;
        let rest = within - cylinder as f64 * band.cylinder_ns;
        let head = ((rest / self.track_ns) as u64).min(self.heads - 1);
        let sector = ((rest - head as f64 * self.track_ns) / band.sector_ns) as u64;
        let sector = sector.min(band.sectors_per_track);
        let number = band.first_sector + cylinder * band.cylinder_sectors + head * band.sectors_per_track + sector;
        let (cylinder, head) = match (sector == band.sectors_per_track, head + 1 == self.heads) {
            // The head is over the skew before the next track.
            (true, true) => (cylinder + 1, 0),
            (true, false) => (cylinder, head + 1),
            (false, _) => (cylinder, head),
        };
        (number * SECTOR, band.first_cylinder + cylinder, head)
    }

    /// Time to move the arm between two cylinders that are not the same.
    pub fn seek_ns(&self, from: u64, to: u64) -> f64 {
        self.seek.ns(from.abs_diff(to))
    }

    /// A time that is not above it, and known sooner.
    pub fn least_seek_ns(&self, from: u64, to: u64) -> f64 {
        self.seek.least_ns(from.abs_diff(to))
    }
}

/// Quotient and rest by the divisor's inverse: a division of integers takes several times as long. Exact below 2^50.
fn divided(value: u64, divisor: u64, inverse: f64) -> (u64, u64) {
    let quotient = (value as f64 * inverse) as u64;
    let product = quotient * divisor;
    // The product of rounded numbers may be one off.
    if product > value {
        (quotient - 1, value + divisor - product)
    } else if value - product >= divisor {
        (quotient + 1, value - product - divisor)
    } else {
        (quotient, value - product)
    }
}

/// Seek times by distance in cylinders: exact for short distances, which most seeks in reordered queues have, and by the curve's own
/// formula for all others.
#[derive(Debug, Clone, Default)]
struct Seek {
    short_ns: Vec<f64>,
    /// What no distance of a [`STEP`] or behind it falls below.
    least_ns: Vec<f64>,
    curve: Option<SeekCurve>,
    stroke: f64,
}

/// Distances whose times are kept: 32 KiB of them stay in the processor's cache.
const SHORT: u64 = 4096;

/// Cylinders of a step of the lower bounds.
const STEP: u64 = 512;

impl Seek {
    fn of(curve: &SeekCurve, cylinders: u64) -> Self {
        let stroke = (cylinders.max(2) - 1) as f64;
        let short_ns = (0..SHORT.min(cylinders)).map(|distance| curve.ms(distance as f64 / stroke) * 1e6).collect();
        let steps = 0..cylinders.div_ceil(STEP);
        let least_ns = steps.map(|step| curve.least_ms((step * STEP) as f64 / stroke) * 1e6).collect();
        Self { short_ns, least_ns, curve: Some(curve.clone()), stroke }
    }

    fn least_ns(&self, distance: u64) -> f64 {
        self.least_ns.get((distance / STEP) as usize).copied().unwrap_or(0.0)
    }

    fn ns(&self, distance: u64) -> f64 {
        match (self.short_ns.get(distance as usize), &self.curve) {
            (Some(ns), _) => *ns,
            (None, Some(curve)) => curve.ms(distance as f64 / self.stroke) * 1e6,
            (None, None) => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn dividing_by_the_inverse_is_dividing(value in 0u64..1 << 42, divisor in 1u64..1 << 16) {
            prop_assert_eq!(divided(value, divisor, 1.0 / divisor as f64), (value / divisor, value % divisor));
            let multiple = value / divisor * divisor;
            prop_assert_eq!(divided(multiple, divisor, 1.0 / divisor as f64), (value / divisor, 0));
        }

        #[test]
        fn a_lower_bound_of_a_seek_is_not_above_it(from in 0.0..1.0f64, to in 0.0..1.0f64) {
            for name in ["st500dm002", "atlas-10k", "cheetah-9lp"] {
                let model = crate::DeviceModel::load(&format!("hdd:{name}")).unwrap();
                let crate::Parameters::Disk(disk) = model.parameters else { panic!("a disk drive") };
                let layout = Layout::of(&disk);
                let cylinder = |share: f64| (share * layout.cylinders as f64) as u64;
                let (from, to) = (cylinder(from), cylinder(to));
                prop_assert!(layout.least_seek_ns(from, to) <= layout.seek_ns(from, to));
                prop_assert!(from.abs_diff(to) < SHORT || layout.least_seek_ns(from, to) > 0.0);
            }
        }
    }
}
