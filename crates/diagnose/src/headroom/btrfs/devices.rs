//! Placement of chunks on devices (fs/btrfs/volumes.c, gather_device_info, decide_stripe_size_regular).

use senesce_layout::space::Profile;

/// Bytes of a stripe, the unit of chunks (BTRFS_STRIPE_LEN).
pub(super) const STRIPE: u64 = 65_536;
/// Stripes that are reduced to limit their chunk are rounded up to this.
const ROUNDED_TO: u64 = 16 << 20;
const SMALL: u64 = 1 << 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Devices(pub Vec<Vec<u64>>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stripes {
    pub bytes: u64,
    /// Bytes taken from each of `ranges`, which are on different devices.
    on_device: u64,
    ranges: Vec<(usize, usize)>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Reach {
    pub bytes: f64,
    pub on_devices: f64,
    profile: Profile,
}

impl Reach {
    pub(super) fn on_devices_per_byte(&self) -> f64 {
        if self.bytes > 0.0 { self.on_devices / self.bytes } else { self.profile.copies as f64 }
    }
}

#[derive(Debug, Clone, Copy)]
struct Candidate {
    device: usize,
    range: usize,
    most: u64,
    unallocated: u64,
}

impl Candidate {
    fn of(device: usize, ranges: &[u64], wanted: u64) -> Option<Self> {
        let whole = ranges.iter().position(|range| *range >= wanted);
        let largest = || (0..ranges.len()).max_by_key(|range| (ranges[*range], std::cmp::Reverse(*range)));
        let range = whole.or_else(largest)?;
        Some(Self { device, range, most: ranges[range].min(wanted), unallocated: ranges.iter().sum() })
    }
}

impl Devices {
    pub(super) fn unallocated(&self) -> u64 {
        self.0.iter().flatten().sum()
    }

    pub(super) fn place(&self, profile: Profile, chunk: u64, stripe: u64) -> Option<Stripes> {
        let on_device = profile.on_device;
        let candidates = self.0.iter().enumerate();
        let mut candidates: Vec<Candidate> = candidates
            .filter_map(|(device, ranges)| Candidate::of(device, ranges, stripe * on_device))
            .filter(|candidate| candidate.most >= STRIPE * on_device)
            .collect();
        candidates.sort_by_key(|candidate| std::cmp::Reverse((candidate.most, candidate.unallocated)));
        let usable = candidates.len() as u64 / profile.multiple * profile.multiple;
        if usable < profile.least_devices {
            return None;
        }
        let count = if profile.most_devices > 0 { usable.min(profile.most_devices) } else { usable };
        candidates.truncate(count as usize);
        let holding = ((count * on_device).saturating_sub(profile.parity) / profile.copies).max(1);
        let mut stripe = (candidates.last()?.most / on_device).min(stripe);
        if stripe * holding > chunk {
            stripe = stripe.min((chunk / holding).next_multiple_of(ROUNDED_TO));
        }
        let stripe = stripe / STRIPE * STRIPE;
        let ranges = candidates.iter().map(|candidate| (candidate.device, candidate.range)).collect();
        (stripe > 0).then_some(Stripes { bytes: stripe * holding, on_device: stripe * on_device, ranges })
    }

    pub(super) fn take(&mut self, stripes: &Stripes) {
        for (device, range) in &stripes.ranges {
            self.0[*device][*range] -= stripes.on_device;
        }
    }

    /// Computes the capacity of chunks of a profile. On one device that is the unallocated space; on several, devices
    /// must be combined.
    pub(super) fn reach(&self, profile: Profile) -> Reach {
        let unallocated = self.unallocated();
        let mut reach = Reach { bytes: 0.0, on_devices: 0.0, profile };
        if self.0.len() == 1 {
            let on_devices = unallocated as f64;
            return Reach { bytes: on_devices / profile.copies as f64, on_devices, ..reach };
        }
        let mut left = self.clone();
        // Large devices in larger steps.
        let stripe = SMALL.max(unallocated / 4096).next_multiple_of(STRIPE);
        while let Some(stripes) = left.place(profile, u64::MAX, stripe) {
            left.take(&stripes);
            reach.bytes += stripes.bytes as f64;
            reach.on_devices += (stripes.on_device * stripes.ranges.len() as u64) as f64;
        }
        reach
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const SINGLE: Profile =
        Profile { least_devices: 1, most_devices: 1, multiple: 1, on_device: 1, copies: 1, parity: 0 };
    const RAID1: Profile = Profile { least_devices: 2, most_devices: 2, multiple: 2, copies: 2, ..SINGLE };
    const RAID5: Profile = Profile { least_devices: 2, most_devices: 0, parity: 1, ..SINGLE };
    const RAID10: Profile = Profile { least_devices: 2, most_devices: 0, multiple: 2, copies: 2, ..SINGLE };

    fn devices(mib: &[u64]) -> Devices {
        Devices(mib.iter().map(|size| vec![size * MIB]).collect())
    }

    fn filled(mut devices: Devices, profile: Profile, chunk: u64) -> u64 {
        let mut bytes = 0;
        while let Some(stripes) = devices.place(profile, chunk, 1 << 30) {
            devices.take(&stripes);
            bytes += stripes.bytes;
        }
        bytes / MIB
    }

    /// Checks that two copies on devices of 1 and 4 GiB end with the smaller one, regardless of space on the larger
    /// one.
    #[test]
    fn copies_lie_on_different_devices() {
        assert_eq!(filled(devices(&[1024, 4096]), RAID1, 512 * MIB), 1024);
        assert_eq!(filled(devices(&[1024, 1024, 2048]), RAID1, 128 * MIB), 2048);
        assert_eq!(filled(devices(&[1024]), RAID1, 512 * MIB), 0);
    }

    #[test]
    fn striped_chunks_end_when_too_few_devices_are_left() {
        assert_eq!(filled(devices(&[200, 300, 400]), RAID5, 64 * MIB), 400 + 100);
        assert_eq!(filled(devices(&[200, 200, 300, 300]), RAID10, 64 * MIB), 400 + 100);
        assert_eq!(filled(devices(&[200, 300]), SINGLE, 64 * MIB), 500);
    }

    #[test]
    fn reach_combines_devices() {
        let reach = devices(&[1024, 4096]).reach(RAID1);
        assert_eq!((reach.bytes, reach.on_devices), ((1024 * MIB) as f64, (2048 * MIB) as f64));
        assert_eq!(devices(&[100]).reach(SINGLE).bytes, (100 * MIB) as f64);
    }
}
