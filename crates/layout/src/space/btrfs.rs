//! Chunks of btrfs, and device ranges without chunk.

use super::{Btrfs, Chunks, Profile};
use crate::btrfs_search::{kind, node_size, search, tree};
use senesce_sys::btrfs as btrfs_calls;
use senesce_sys::btrfs::Space;
use std::io;
use std::os::fd::BorrowedFd;

impl Profile {
    const SINGLE: Self = Self { least_devices: 1, most_devices: 1, multiple: 1, on_device: 1, copies: 1, parity: 0 };

    fn of(flags: u64) -> Self {
        let has = |profile: u64| flags & profile != 0;
        let all = |least_devices: u64, parity: u64| Self { least_devices, most_devices: 0, parity, ..Self::SINGLE };
        let mirrored = |copies: u64| Self {
            least_devices: copies,
            most_devices: copies,
            multiple: copies,
            copies,
            ..Self::SINGLE
        };
        match flags {
            _ if has(Space::RAID0) => all(1, 0),
            _ if has(Space::RAID1) => mirrored(2),
            _ if has(Space::DUP) => Self { on_device: 2, copies: 2, ..Self::SINGLE },
            _ if has(Space::RAID10) => Self { multiple: 2, copies: 2, ..all(2, 0) },
            _ if has(Space::RAID5) => all(2, 1),
            _ if has(Space::RAID6) => all(3, 2),
            _ if has(Space::RAID1C3) => mirrored(3),
            _ if has(Space::RAID1C4) => mirrored(4),
            _ => Self::SINGLE,
        }
    }
}

impl Default for Profile {
    fn default() -> Self {
        Self::SINGLE
    }
}

impl Chunks {
    /// Adds space of another profile. New chunks use the profile with the most copies (fs/btrfs/block-group.c,
    /// btrfs_reduce_alloc_profile).
    fn with(self, space: &Space) -> Self {
        let Self { total, used, profile } = self;
        let other = Profile::of(space.flags);
        let kept =
            |profile: &Profile| (profile.copies + profile.parity, profile.least_devices, profile.most_devices == 0);
        let profile = if kept(&other) > kept(&profile) { other } else { profile };
        Self { total: total + space.total, used: used + space.used, profile }
    }
}

pub(super) fn read(root: BorrowedFd<'_>) -> io::Result<Btrfs> {
    let mut found = Btrfs {
        data: Chunks::default(),
        metadata: Chunks::default(),
        mixed: false,
        global_reserve: 0,
        unallocated: 0,
        holes: Vec::new(),
        device: 0,
        devices: 0,
        node_size: node_size(root)?,
        checksum_bytes: btrfs_calls::file_system(root)?.checksum_bytes(),
    };
    for space in btrfs_calls::spaces(root)? {
        let flags = space.flags;
        if flags & Space::GLOBAL_RESERVE != 0 {
            found.global_reserve = space.total;
            continue;
        }
        found.mixed |= flags & Space::DATA != 0 && flags & Space::METADATA != 0;
        if flags & Space::DATA != 0 {
            found.data = found.data.with(&space);
        } else if flags & Space::METADATA != 0 {
            found.metadata = found.metadata.with(&space);
        }
    }
    devices(root, &mut found)?;
    Ok(found)
}

/// Chunks never use the first MiB of a device (BTRFS_DEVICE_RANGE_RESERVED).
const NEVER_GIVEN: u64 = 1 << 20;

/// Sizes of the devices, and their bytes in chunks.
fn devices(root: BorrowedFd<'_>, found: &mut Btrfs) -> io::Result<()> {
    let all = btrfs_calls::file_system(root)?;
    for number in 1..=all.max_device.min(1024) {
        // Numbers of removed devices are not reused.
        let Ok(device) = btrfs_calls::device(root, number) else { continue };
        found.device += device.total;
        let unallocated = device.total.saturating_sub(device.used).saturating_sub(NEVER_GIVEN);
        found.unallocated += unallocated;
        found.holes.push(holes(root, number, device.total).unwrap_or_else(|_| vec![unallocated]));
    }
    found.devices = all.devices;
    Ok(())
}

/// Ranges of a device without chunk.
fn holes(root: BorrowedFd<'_>, number: u64, bytes: u64) -> io::Result<Vec<u64>> {
    /// Offset in struct btrfs_dev_extent (linux/btrfs_tree.h).
    const LENGTH: usize = 24;
    let mut taken = Vec::new();
    search(root, tree::DEVICE, number..=number, |item| {
        if item.kind == kind::DEV_EXTENT {
            taken.push((item.offset, item.u64_at(LENGTH)));
        }
    })?;
    Ok(between(&taken, bytes))
}

/// Gaps between ascending ranges, and after them.
fn between(taken: &[(u64, u64)], bytes: u64) -> Vec<u64> {
    let mut end = NEVER_GIVEN;
    let mut found = Vec::new();
    for (start, length) in taken.iter().copied().chain([(bytes, 0)]) {
        found.push(start.saturating_sub(end));
        end = end.max(start.saturating_add(length));
    }
    found.retain(|length| *length > 0);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Covers the state after mkfs.btrfs, which frees its first chunks, and whose last ones end before the device does.
    #[test]
    fn holes_are_between_and_after_chunks() {
        const MIB: u64 = 1 << 20;
        let taken = [(13 * MIB, 8 * MIB), (21 * MIB, 8 * MIB), (40 * MIB, 60 * MIB)];
        assert_eq!(between(&taken, 128 * MIB), [12 * MIB, 11 * MIB, 28 * MIB]);
        assert_eq!(between(&taken, 100 * MIB), [12 * MIB, 11 * MIB]);
        assert_eq!(between(&[], 10 * MIB), [9 * MIB]);
    }

    /// Covers a cancelled balance, which leaves chunks of two profiles.
    #[test]
    fn mixed_profiles_grow_with_the_most_copies() {
        let space = |flags, total| Space { flags, total, used: 1 };
        let (single, dup) = (space(Space::DATA, 8), space(Space::DATA | 1 << 5, 16));
        let none = Chunks::default();
        assert_eq!(none.with(&single), Chunks { total: 8, used: 1, profile: Profile::SINGLE });
        for [one, other] in [[&single, &dup], [&dup, &single]] {
            let both = none.with(one).with(other);
            assert_eq!((both.total, both.used, both.profile), (24, 2, Profile::of(Space::DUP)));
        }
    }

    #[test]
    fn btrfs_profiles_have_their_number_of_copies() {
        let profiles =
            [("single", 0, 1), ("RAID0", 1 << 3, 1), ("RAID1", 1 << 4, 2), ("DUP", 1 << 5, 2), ("RAID10", 1 << 6, 2)];
        for (name, profile, kept) in profiles.into_iter().chain([("RAID1C3", 1 << 9, 3), ("RAID1C4", 1 << 10, 4)]) {
            assert_eq!(Profile::of(Space::DATA | profile).copies, kept, "{name}");
        }
    }
}
