//! Drives found by what they are, here and in the lab guest, where names change between boots.

use senesce_core::{Bytes, ExitCode, Failure};
use std::fs;
use std::path::{Path, PathBuf};

/// In the lab F2FS keeps the metadata of a zoned drive on a conventional one of this size; a larger one would be filled
/// with data first.
pub const METADATA_DRIVE: Bytes = Bytes::mib(128);

/// What is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// The only zoned drive.
    Zoned,
    /// The smallest conventional drive.
    Smallest,
    /// The largest conventional drive.
    Largest,
}

/// A device by path; `auto` is the only zoned NVMe namespace, or the smallest or largest conventional one.
pub fn find(text: &str, wanted: Wanted) -> Result<PathBuf, Failure> {
    if text != "auto" {
        return Ok(PathBuf::from(text));
    }
    let mut found: Vec<(u64, PathBuf)> = Vec::new();
    for entry in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let read = |file: &str| fs::read_to_string(entry.path().join(file)).unwrap_or_default().trim().to_string();
        let zoned = read("queue/zoned") == "host-managed";
        if name.starts_with("nvme") && zoned == (wanted == Wanted::Zoned) {
            found.push((read("size").parse().unwrap_or(0), Path::new("/dev").join(&name)));
        }
    }
    found.sort();
    if wanted == Wanted::Zoned && found.len() > 1 {
        return Err(Failure::usage("auto stands for the only zoned drive, but there are several: name one"));
    }
    let chosen = if wanted == Wanted::Largest { found.pop() } else { found.into_iter().next() };
    chosen
        .map(|(_, path)| path)
        .ok_or_else(|| Failure::new(ExitCode::Missing, "auto: there is no such NVMe namespace; name a device, or lab"))
}

/// Three drives for the guest, as `senesce lab run --drive` takes them: conventional, small conventional, zoned.
pub fn emulated(size: Bytes) -> Vec<String> {
    let zone = zone_size(size.0);
    // Twice what drives of 14 offer: zoned btrfs with small zones runs out of active ones and then loses writes (EAGAIN).
    vec![
        format!("nvme,size={}", size.0),
        format!("nvme,size={}", METADATA_DRIVE.0),
        format!("zns,size={},zone={zone},cap={zone},open=28,active=28", size.0),
    ]
}

/// mkfs.f2fs asks for some 30 zones; 64 leave room for its reserve on small drives.
fn zone_size(drive_size: u64) -> u64 {
    (drive_size / 64).next_power_of_two().min(64 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emulated_drives_are_valid() {
        for size in [Bytes::mib(512), Bytes::gib(1), Bytes::gib(64)] {
            for drive in emulated(size) {
                senesce_lab::Drive::parse(&drive).unwrap();
            }
        }
    }

    #[test]
    fn a_path_stands_for_itself() {
        assert_eq!(find("/dev/nvme7n1", Wanted::Zoned).unwrap(), Path::new("/dev/nvme7n1"));
    }
}
