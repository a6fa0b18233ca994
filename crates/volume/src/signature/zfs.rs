//! The labels of a ZFS device: four copies, two at either end, each with a ring of uberblocks (ZFS On-Disk
//! Specification, 1.2 and 1.3; OpenZFS `include/sys/vdev_impl.h`).

pub(super) const LABEL: u64 = 256 << 10;

const RING: usize = 128 << 10;

/// The minimum slot size; larger slots start at multiples of it. Some slots are unwritten.
const SLOT: usize = 1 << 10;

/// In the byte order of the machine that wrote it.
const UBERBLOCK: u64 = 0x00ba_b10c;

/// Offsets of the labels on a device of `size` bytes, rounded down to whole labels.
pub(super) fn labels(size: u64) -> impl Iterator<Item = u64> {
    let whole = size / LABEL;
    let numbers = [Some(0), Some(1), whole.checked_sub(2), whole.checked_sub(1)];
    numbers.into_iter().flatten().filter(move |number| *number < whole).map(|number| number * LABEL)
}

pub(super) fn is_label(bytes: &[u8]) -> bool {
    let ring = bytes.get(RING..bytes.len().min(LABEL as usize)).unwrap_or_default();
    let magics = [UBERBLOCK.to_le_bytes(), UBERBLOCK.to_be_bytes()];
    ring.chunks(SLOT).any(|slot| magics.iter().any(|magic| slot.starts_with(magic)))
}
