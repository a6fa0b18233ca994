//! Positions of sectors: cylinders, and the time at which they pass below a head.
//!
//! The stream coordinate of a sector is the time to stream to it from sector 0, including skews. A stream never waits, so the
//! platter's angle below a sector is its stream coordinate in rotations. Every other access waits for its sector.

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
    cylinder_sectors: u64,
    cylinder_ns: f64,
    /// See [`divided`]; by the sectors of a cylinder, and of a track.
    per_cylinder: u64,
    per_track: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct Layout {
    bands: Vec<Band>,
    pub rotation_ns: f64,
    /// Stream time of a track: a rotation and the following skew.
    track_ns: f64,
    pub cylinders: u64,
    heads: u64,
    seek: Seek,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SectorPosition {
    pub cylinder: u64,
    pub stream_ns: f64,
    pub head: u32,
    zone: u32,
    sector: u32,
}

impl Layout {
    pub(crate) fn of(disk: &Disk) -> Self {
        let rotation_ns = 60e9 / disk.rpm;
        let track_ns = rotation_ns + disk.track_skew_ms * 1e6;
        let heads = u64::from(disk.heads);
        // After the last track of a cylinder, the cylinder skew replaces the track skew.
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
                per_cylinder: u64::MAX / (sectors_per_track * heads),
                per_track: u64::MAX / sectors_per_track,
            });
            first_sector += cylinders * sectors_per_track * heads;
            first_ns += cylinders as f64 * cylinder_ns;
            layout.cylinders += cylinders;
        }
        layout.seek = Seek::of(&disk.seek, layout.cylinders);
        layout
    }

    pub(crate) fn place(&self, address: u64) -> SectorPosition {
        let sector = address / SECTOR;
        let zone = self.bands.partition_point(|band| band.first_sector <= sector).saturating_sub(1);
        let band = &self.bands[zone];
        let (cylinder, rest) = divided(sector - band.first_sector, band.cylinder_sectors, band.per_cylinder);
        let (head, sector) = divided(rest, band.sectors_per_track, band.per_track);
        let track_ns = band.first_ns + cylinder as i64 as f64 * band.cylinder_ns + head as i64 as f64 * self.track_ns;
        SectorPosition {
            cylinder: band.first_cylinder + cylinder,
            stream_ns: track_ns + sector as i64 as f64 * band.sector_ns,
            head: head as u32,
            zone: zone as u32,
            sector: sector as u32,
        }
    }

    /// Returns the last sector before the byte address `end`, and the stream coordinate at which it has passed.
    pub(crate) fn end(&self, end: u64) -> (SectorPosition, f64) {
        let last = self.place(end.saturating_sub(SECTOR));
        (last, last.stream_ns + self.bands[last.zone as usize].sector_ns)
    }

    /// Works like `end`, but for a range from `start` with known position, which usually ends on that track.
    pub(crate) fn end_from(&self, place: &SectorPosition, start: u64, end: u64) -> (SectorPosition, f64) {
        let band = &self.bands[place.zone as usize];
        let sector = u64::from(place.sector) + ((end - start) / SECTOR).saturating_sub(1);
        if end - start < SECTOR || sector >= band.sectors_per_track {
            return self.end(end);
        }
        let cylinder = (place.cylinder - band.first_cylinder) as i64 as f64;
        let track_ns = band.first_ns + cylinder * band.cylinder_ns + f64::from(place.head) * self.track_ns;
        let stream_ns = track_ns + sector as i64 as f64 * band.sector_ns;
        (SectorPosition { stream_ns, sector: sector as u32, ..*place }, stream_ns + band.sector_ns)
    }

    /// Returns the first byte address that has not passed at a stream coordinate, with cylinder and head. `near` is a
    /// position that is probably on that track.
    pub(crate) fn reached(&self, stream_ns: f64, near: &SectorPosition) -> (u64, u64, u32) {
        self.reached_on_track(stream_ns, near).unwrap_or_else(|| self.reached_anywhere(stream_ns))
    }

    /// Works like `reached` without division by tracks and cylinders, if the coordinate is on the track of `near` and
    /// not at its edges.
    fn reached_on_track(&self, stream_ns: f64, near: &SectorPosition) -> Option<(u64, u64, u32)> {
        let band = &self.bands[near.zone as usize];
        let within = stream_ns + 1.0 - band.first_ns;
        let cylinder = near.cylinder - band.first_cylinder;
        let rest = within - cylinder as i64 as f64 * band.cylinder_ns - f64::from(near.head) * self.track_ns;
        if !(rest > 1.0 && rest < self.rotation_ns - 1.0) {
            return None;
        }
        let sector = (rest / band.sector_ns) as i64 as u64;
        let number = band.first_sector
            + cylinder * band.cylinder_sectors
            + u64::from(near.head) * band.sectors_per_track
            + sector;
        (sector < band.sectors_per_track).then_some((number * SECTOR, near.cylinder, near.head))
    }

    fn reached_anywhere(&self, stream_ns: f64) -> (u64, u64, u32) {
        // Tolerance for rounding: a sector that has just passed must count.
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
        (number * SECTOR, band.first_cylinder + cylinder, head as u32)
    }

    /// Returns the time to move the arm between two different cylinders.
    pub(crate) fn seek_ns(&self, from: u64, to: u64) -> f64 {
        self.seek.ns(from.abs_diff(to))
    }

    /// Returns a lower bound of seek times over this distance or longer.
    pub(crate) fn minimum_seek_ns(&self, distance: u64) -> f64 {
        self.seek.curve.as_ref().map_or(0.0, |curve| curve.minimum_ms(distance as f64 / self.seek.stroke) * 1e6)
    }
}

/// Returns quotient and remainder. `inverse` = `u64::MAX / divisor` makes this several times faster than an integer
/// division.
fn divided(value: u64, divisor: u64, inverse: u64) -> (u64, u64) {
    let quotient = ((u128::from(value) * u128::from(inverse)) >> 64) as u64;
    let rest = value - quotient * divisor;
    // The inverse is too small by at most one, and so is the quotient.
    if rest >= divisor { (quotient + 1, rest - divisor) } else { (quotient, rest) }
}

/// Seek times by distance in cylinders: a table for short distances, which dominate in reordered queues, the formula for others.
#[derive(Debug, Clone, Default)]
struct Seek {
    short_ns: Vec<f64>,
    curve: Option<SeekCurve>,
    stroke: f64,
}

/// Distances in the table: 16 KiB of them stay in the processor's cache.
const SHORT: u64 = 2048;

impl Seek {
    fn of(curve: &SeekCurve, cylinders: u64) -> Self {
        let stroke = (cylinders.max(2) - 1) as f64;
        let short_ns = (0..SHORT.min(cylinders)).map(|distance| curve.ms(distance as f64 / stroke) * 1e6).collect();
        Self { short_ns, curve: Some(curve.clone()), stroke }
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

    fn layouts() -> Vec<(String, Layout)> {
        let layout = |name: &str| {
            let model = crate::DeviceModel::load(&format!("hdd:{name}")).unwrap();
            let crate::Parameters::Disk(disk) = model.parameters else { panic!("a disk drive") };
            (name.to_owned(), Layout::of(&disk))
        };
        ["st500dm002", "atlas-10k", "cheetah-9lp"].map(layout).to_vec()
    }

    proptest! {
        #[test]
        fn division_by_inverse_is_exact(value in 0u64.., divisor in 1u64.., bits in 0u32..64) {
            let divisor = (divisor >> bits).max(1);
            let expected = (value / divisor, value % divisor);
            prop_assert_eq!(divided(value, divisor, u64::MAX / divisor), expected);
            prop_assert_eq!(divided(value - expected.1, divisor, u64::MAX / divisor), (expected.0, 0));
        }

        #[test]
        fn track_hints_do_not_change_results(address in 0.0..1.0f64, sectors in 1u64..9000, ns in 0.0..2e7f64) {
            for (name, layout) in layouts() {
                let capacity = layout.bands.last().map_or(0, |band| band.first_sector) * SECTOR;
                let start = (address * capacity as f64) as u64 / SECTOR * SECTOR;
                let (place, end) = (layout.place(start), start + sectors * SECTOR);
                let (last, end_ns) = layout.end_from(&place, start, end);
                prop_assert_eq!((last, end_ns), layout.end(end), "{}", name);
                for stream_ns in [end_ns, end_ns + ns, end_ns + ns / 1e3, end_ns + ns.trunc() / 1e3] {
                    prop_assert_eq!(layout.reached(stream_ns, &last), layout.reached_anywhere(stream_ns), "{}", name);
                }
            }
        }
    }
}
