//! Finds stripe and die granularity of a solid-state drive by reading, as Jun et al. (FAST 2024, figure 8): random reads of 4 KiB
//! at multiples of an alignment. If the alignment is a multiple of the stripe, all reads meet one die.

use crate::error::ModelError;
use crate::measure::Probe;
use crate::replay::busy_ns;
use crate::request::Request;
use crate::ssd::{Drive, Flash, Hint};
use rand_pcg::rand_core::Rng;
use senesce_core::Seed;
use serde::{Deserialize, Serialize};
use std::io;

/// Maximum alignment, in steps of 4 KiB (the study's script).
pub const GREATEST_BYTES: u64 = 1 << 20;
const STEP: u64 = 4096;
/// Concurrent reads: eight jobs of depth four in the study.
pub const DEPTH: u32 = 32;
/// Part of the device that is read; the study writes and reads 1 GiB and more.
const SPAN: u64 = 1 << 30;
/// A dip is significant below this share of the rates around it.
const DIP: f64 = 0.8;

/// Measured values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Alignment {
    /// Rate of random reads by alignment: bytes, decimal megabytes per second.
    pub mb_per_s: Vec<(u64, f64)>,
    /// Bytes after which the same die follows; none: no alignment stands out.
    pub stripe_bytes: Option<u64>,
    /// Adjacent bytes on one die; none: no alignment stands out.
    pub die_bytes: Option<u64>,
}

/// A modelled drive on which the range to read was written in order.
pub struct WrittenInOrder {
    drive: Drive,
    capacity_bytes: u64,
}

impl WrittenInOrder {
    pub fn new(flash: &Flash) -> Self {
        let mut drive = Drive::new(flash);
        drive.prepare(0..SPAN.min(flash.capacity_bytes) / STEP, Hint::None);
        Self { drive, capacity_bytes: flash.capacity_bytes }
    }
}

impl Probe for WrittenInOrder {
    fn size(&self) -> u64 {
        self.capacity_bytes
    }

    fn read(&mut self, offset: u64, bytes: u64) -> io::Result<u64> {
        self.read_many(&[offset], bytes, 1)
    }

    fn read_many(&mut self, offsets: &[u64], bytes: u64, depth: u32) -> io::Result<u64> {
        self.drive.rest();
        let one = |offset: &u64| Request { queue_depth: depth, ..Request::read_bytes(*offset, bytes) };
        Ok(busy_ns(&mut self.drive, &offsets.iter().map(one).collect::<Vec<_>>()))
    }
}

/// Measures a device that was written in order (the order of writing decides where data are). `reads`: per alignment; 2,000 are
/// enough. `seed` selects the positions. Only reads.
pub fn measure_alignment(probe: &mut impl Probe, reads: usize, seed: Seed) -> Result<Alignment, ModelError> {
    let span = probe.size().min(SPAN);
    if span < 64 * GREATEST_BYTES {
        return Err(ModelError::TooSmall { bytes: probe.size(), least: 64 * GREATEST_BYTES });
    }
    let mut random = seed.stream("devmodel/alignment");
    let mut mb_per_s = Vec::new();
    for alignment in (STEP..=GREATEST_BYTES).step_by(STEP as usize) {
        let places = span / alignment;
        let offsets: Vec<u64> = (0..reads.max(1)).map(|_| random.next_u64() % places * alignment).collect();
        let spent = probe.read_many(&offsets, STEP, DEPTH);
        let spent = spent.map_err(|source| ModelError::Read { offset: offsets[0], bytes: STEP, source })?;
        mb_per_s.push((alignment, offsets.len() as f64 * STEP as f64 / spent.max(1) as f64 * 1e3));
    }
    let (stripe_bytes, die_bytes) = granularity(&mb_per_s);
    Ok(Alignment { mb_per_s, stripe_bytes, die_bytes })
}

/// Returns the sizes of stripe and die. Stripe: the smallest alignment with the lowest rate. Die: with an even number
/// of dies, the smallest alignment with a dip is two dies' worth. Reads at every second die's start meet half of the
/// dies.
fn granularity(rates: &[(u64, f64)]) -> (Option<u64>, Option<u64>) {
    let mut sorted: Vec<f64> = rates.iter().map(|point| point.1).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let (Some(lowest), Some(usual)) = (sorted.first().copied(), sorted.get(sorted.len() / 2).copied()) else {
        return (None, None);
    };
    if lowest > usual * DIP {
        return (None, None);
    }
    let stripe = rates.iter().find(|(_, rate)| *rate < lowest * 1.15).map(|point| point.0);
    let first_dip = rates.iter().find(|(_, rate)| *rate < usual * DIP).map(|point| point.0);
    (stripe, first_dip.map(|bytes| bytes / 2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ssd::fast24;

    fn found(change: impl FnOnce(&mut Flash)) -> (Option<u64>, Option<u64>) {
        let mut flash = fast24::drive_of_the_study().unwrap();
        change(&mut flash);
        let seen = measure_alignment(&mut WrittenInOrder::new(&flash), 600, Seed(1)).unwrap();
        (seen.stripe_bytes, seen.die_bytes)
    }

    #[test]
    fn stripe_and_die_of_modelled_drives_are_found() {
        assert_eq!(found(|_| ()), (Some(256 << 10), Some(32 << 10)));
        assert_eq!(found(|flash| flash.geometry.dies_per_channel = 1), (Some(128 << 10), Some(32 << 10)));
        assert_eq!(found(|flash| flash.geometry.page_bytes = 16 << 10), (Some(128 << 10), Some(16 << 10)));
    }

    #[test]
    fn device_without_stripes_has_no_granularity() {
        let flat: Vec<(u64, f64)> = (1..=256).map(|step| (step * STEP, 100.0 + (step % 3) as f64)).collect();
        assert_eq!(granularity(&flat), (None, None));
    }
}
