//! The drives that experiments request from the guest.

use senesce_core::{Bytes, Span};

/// In the guest F2FS keeps the metadata of a zoned drive on a conventional one of this size. On a larger one it would write
/// data first.
pub const METADATA_DRIVE: Bytes = Bytes::mib(128);

/// Selects the guest's drive with the required properties.
pub const AUTO: &str = "auto";

/// Returns three drives for the guest, as in `senesce vm run --drive`: conventional, small conventional, zoned.
pub fn emulated(size: Bytes) -> Vec<String> {
    emulated_with(size, ZONES)
}

/// Returns the drives of [`emulated`] with at most `zones` zones. They have at least half as many if a zone is smaller
/// than 64 MiB.
pub fn emulated_with(size: Bytes, zones: u64) -> Vec<String> {
    let zone = (size.0 / zones).next_power_of_two().min(LARGEST_ZONE);
    // Twice the usual 14: zoned btrfs with small zones runs out of active ones and then loses writes (EAGAIN).
    vec![
        format!("nvme,size={}", size.0),
        format!("nvme,size={}", METADATA_DRIVE.0),
        format!("zns,size={},zone={zone},cap={zone},open=28,active=28", size.0),
    ]
}

/// Gives each drive a minimum time per request. An emulated processor issues one after the other what a fast one has in
/// flight together, unless its drives are slow in proportion.
pub fn slowed(drives: Vec<String>, latency: Span) -> Vec<String> {
    drives.into_iter().map(|drive| format!("{drive},latency={latency}")).collect()
}

const ZONES: u64 = 64;
const LARGEST_ZONE: u64 = 64 << 20;

/// Returns the bytes of a zone of an emulated drive, a power of two. A drive has 33 to 64 zones, above 4 GiB more zones
/// of 64 MiB. mkfs.f2fs needs about 30.
pub fn zone_size(drive_size: u64) -> u64 {
    (drive_size / ZONES).next_power_of_two().min(LARGEST_ZONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emulated_drives_are_valid() {
        for size in [Bytes::mib(512), Bytes::gib(1), Bytes::gib(64)] {
            for drive in slowed(emulated(size), Span::from_millis(2)) {
                crate::Drive::parse(&drive).unwrap();
            }
        }
    }
}
