//! ext2, ext3 and ext4: checks the journal and its superblock, and the bitmaps against their checksums and group descriptors. The free block count
//! of the superblock is not checked, because the kernel recounts it at every mount (kernel documentation, filesystems/ext4/:
//! "Super Block", "Block Group Descriptors", "Checksums").

mod journal;

use super::bytes::{crc32c, le16, le32, read};
use super::{Damage, listed};
use crate::ext4_format::{Geometry, SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET};
use std::fs::File;
use std::io;
use std::time::Duration;

const COMPAT_HAS_JOURNAL: u32 = 0x4;
const INCOMPAT_RECOVER: u32 = 0x4;
const INCOMPAT_CSUM_SEED: u32 = 0x2000;
const RO_COMPAT_GDT_CSUM: u32 = 0x10;
const RO_COMPAT_BIGALLOC: u32 = 0x200;
const RO_COMPAT_METADATA_CSUM: u32 = 0x400;
const RO_COMPAT_ORPHAN_PRESENT: u32 = 0x1_0000;
const STATE_UNMOUNTED: u16 = 0x1;
const STATE_ERRORS: u16 = 0x2;
/// Name of the bitmap that counts free space.
const BLOCK: &str = "block";
const INODES_UNUSED: u16 = 0x1;
const BLOCKS_UNUSED: u16 = 0x2;
/// Number of readings of a mounted file system that must find the same error, because the kernel does not change bitmap and
/// descriptor atomically.
const READINGS: usize = 4;
const PAUSE: Duration = Duration::from_millis(20);

fn superblock(device: &File) -> io::Result<Vec<u8>> {
    read(device, SUPERBLOCK_OFFSET, SUPERBLOCK_BYTES)
}

pub(super) fn pending(device: &File) -> io::Result<Option<String>> {
    let data = superblock(device)?;
    let is_dirty = le32(&data, 0x5C) & COMPAT_HAS_JOURNAL != 0
        && le32(&data, 0x60) & INCOMPAT_RECOVER != 0
        && !journal::is_empty(device, &data);
    let name = if le32(&data, 0xE0) == 0 { "the external journal" } else { "the journal" };
    if is_dirty {
        return Ok(Some(format!(
            "{name} of ext4 was not replayed: changes that exist only there are missing, and free blocks are not exact"
        )));
    }
    // A frozen file system has an empty journal but may have files deleted while open.
    let orphans = le32(&data, 0xE8) != 0 || le32(&data, 0x64) & RO_COMPAT_ORPHAN_PRESENT != 0;
    Ok(orphans.then(|| "files deleted while open still occupy space, which the next mount frees".into()))
}

/// Returns whether data are journalled by default: the mount option in the superblock (`tune2fs -o` and
/// `-E mount_opts`).
pub(super) fn journals_data(device: &File) -> bool {
    const MODE: u32 = 0x60;
    const JOURNAL: u32 = 0x20;
    const OPTIONS: std::ops::Range<usize> = 0x200..0x240;
    let Ok(data) = superblock(device) else { return false };
    let text = String::from_utf8_lossy(&data[OPTIONS]).into_owned();
    let option = text.trim_end_matches('\0').split(',').rev().find_map(|word| word.strip_prefix("data="));
    option.map_or(le32(&data, 0x100) & MODE == JOURNAL, |mode| mode == "journal")
}

/// Returns the damage of the journal, which is visible whether or not it was replayed.
pub(super) fn journal_damage(device: &File, live: bool) -> io::Result<Option<String>> {
    let data = superblock(device)?;
    if le32(&data, 0x5C) & COMPAT_HAS_JOURNAL == 0 {
        return Ok(None);
    }
    let mut problem = journal::problem(device, &data);
    for _ in 1..if live { READINGS } else { 1 } {
        if problem.is_none() {
            break;
        }
        std::thread::sleep(PAUSE);
        problem = journal::problem(device, &data);
    }
    Ok(problem.map(|problem| format!("the journal is damaged: {problem}; check it with e2fsck")))
}

pub(super) fn damage(device: &File, live: bool) -> io::Result<Damage> {
    let data = superblock(device)?;
    let mut found = Vec::new();
    if le16(&data, 0x3A) & STATE_ERRORS != 0 {
        found.push("the kernel or e2fsck has recorded errors in this file system; check it with e2fsck".to_string());
    }
    if !live && le32(&data, 0x5C) & COMPAT_HAS_JOURNAL == 0 && le16(&data, 0x3A) & STATE_UNMOUNTED == 0 {
        found.push("it was not unmounted and has no journal; check it with e2fsck".to_string());
    }
    let Some(groups) = Groups::of(&data) else { return Ok(Damage { found, of_free_space: false }) };
    let mut wrong = groups.wrong(device, 0..groups.count)?;
    for _ in 1..if live { READINGS } else { 1 } {
        if wrong.is_empty() {
            break;
        }
        std::thread::sleep(PAUSE);
        let again = groups.wrong(device, wrong.iter().map(|one| one.group))?;
        wrong.retain(|one| again.iter().any(|other| other.group == one.group));
    }
    let of_free_space = wrong.iter().any(|one| one.of_free_space);
    found.extend(listed(wrong.into_iter().map(|one| one.text).collect()));
    Ok(Damage { found, of_free_space })
}

struct Groups {
    geometry: Geometry,
    count: u64,
    first_block: u64,
    group_blocks: u64,
    /// Blocks per cluster, as a power of two.
    cluster_shift: u32,
    /// Start value of CRC-32C; `None` without metadata checksums.
    seed: Option<u32>,
    /// The older checksum of descriptors: CRC-16 over this and the descriptor.
    descriptor_seed: Option<[u8; 16]>,
}

/// The first error of a group.
struct GroupError {
    group: u64,
    /// It affects the block bitmap.
    of_free_space: bool,
    text: String,
}

struct Bitmap {
    name: &'static str,
    unit: &'static str,
    block: u64,
    bits: u64,
    summed_bits: u64,
    free: u64,
    checksum: u32,
    checksum_mask: u32,
}

impl Groups {
    /// Parses the superblock; `None` if the location of the descriptors is not supported.
    fn of(superblock: &[u8]) -> Option<Self> {
        let geometry = Geometry::parse(superblock)?;
        let (incompat, ro_compat) = (le32(superblock, 0x60), le32(superblock, 0x64));
        let uuid: [u8; 16] = superblock[0x68..0x78].try_into().ok()?;
        let seed = match incompat & INCOMPAT_CSUM_SEED {
            0 => crc32c(!0, &uuid),
            _ => le32(superblock, 0x270),
        };
        let has_checksums = ro_compat & RO_COMPAT_METADATA_CSUM != 0;
        let shift = le32(superblock, 0x1C).checked_sub(le32(superblock, 0x18)).filter(|shift| *shift < 32)?;
        let (first_block, group_blocks) = (u64::from(le32(superblock, 0x14)), u64::from(le32(superblock, 0x20)));
        (group_blocks > 0).then(|| Self {
            count: geometry.blocks.saturating_sub(first_block).div_ceil(group_blocks),
            geometry,
            first_block,
            group_blocks,
            cluster_shift: if ro_compat & RO_COMPAT_BIGALLOC != 0 { shift } else { 0 },
            seed: has_checksums.then_some(seed),
            descriptor_seed: (!has_checksums && ro_compat & RO_COMPAT_GDT_CSUM != 0).then_some(uuid),
        })
    }

    fn descriptor(&self, device: &File, group: u64) -> io::Result<Vec<u8>> {
        let bytes = self.geometry.descriptor_size;
        read(device, self.geometry.descriptors_offset + group * bytes, bytes as usize)
    }

    /// Reads a number in a descriptor: low half, and high half in long descriptors.
    fn number(&self, descriptor: &[u8], low: usize, high: usize, bytes: usize) -> u64 {
        let part = |at| if bytes == 4 { u64::from(le32(descriptor, at)) } else { u64::from(le16(descriptor, at)) };
        part(low) | if self.geometry.descriptor_size >= 64 { part(high) << (8 * bytes) } else { 0 }
    }

    fn wrong(&self, device: &File, groups: impl Iterator<Item = u64>) -> io::Result<Vec<GroupError>> {
        let mut found = Vec::new();
        for group in groups {
            let descriptor = self.descriptor(device, group)?;
            if !self.is_sound(group, &descriptor) {
                let text = format!("the descriptor of group {group} is damaged: its checksum is wrong");
                found.push(GroupError { group, of_free_space: true, text });
                continue;
            }
            for bitmap in self.bitmaps(group, &descriptor) {
                if let Some(problem) = self.problem(device, &bitmap)? {
                    let text = format!("the {} bitmap of group {group} is damaged: {problem}", bitmap.name);
                    found.push(GroupError { group, of_free_space: bitmap.name == BLOCK, text });
                    break;
                }
            }
        }
        Ok(found)
    }

    fn is_sound(&self, group: u64, descriptor: &[u8]) -> bool {
        const AT: usize = 0x1E;
        let number = (group as u32).to_le_bytes();
        let (head, tail) = (&descriptor[..AT], &descriptor[AT + 2..]);
        let checksum = match (self.seed, self.descriptor_seed) {
            (Some(seed), _) => crc32c(crc32c(crc32c(crc32c(seed, &number), head), &[0, 0]), tail) as u16,
            (None, Some(uuid)) => {
                let tail = if self.geometry.descriptor_size > 32 { tail } else { &[] };
                [&uuid[..], &number, head, tail].iter().fold(!0, |crc, part| crc16(crc, part))
            }
            (None, None) => return true,
        };
        checksum == le16(descriptor, AT)
    }

    fn bitmaps(&self, group: u64, descriptor: &[u8]) -> Vec<Bitmap> {
        let has_flags = self.seed.is_some() || self.descriptor_seed.is_some();
        let flags = if has_flags { le16(descriptor, 0x12) } else { 0 };
        let begin = self.first_block + group * self.group_blocks;
        let blocks = self.geometry.blocks.saturating_sub(begin).min(self.group_blocks);
        let number = |low, high, bytes| self.number(descriptor, low, high, bytes);
        let checksum_mask = if self.geometry.descriptor_size >= 64 { u32::MAX } else { 0xFFFF };
        let of_blocks = Bitmap {
            name: BLOCK,
            unit: if self.cluster_shift > 0 { "clusters" } else { "blocks" },
            block: number(0x0, 0x20, 4),
            bits: blocks.div_ceil(1 << self.cluster_shift),
            summed_bits: self.group_blocks >> self.cluster_shift,
            free: number(0xC, 0x2C, 2),
            checksum: number(0x18, 0x38, 2) as u32,
            checksum_mask,
        };
        let of_inodes = Bitmap {
            name: "inode",
            unit: "inodes",
            block: number(0x4, 0x24, 4),
            bits: self.geometry.inodes_per_group,
            summed_bits: self.geometry.inodes_per_group,
            free: number(0xE, 0x2E, 2),
            checksum: number(0x1A, 0x3A, 2) as u32,
            checksum_mask,
        };
        let unused = [(of_blocks, BLOCKS_UNUSED), (of_inodes, INODES_UNUSED)];
        unused.into_iter().filter(|(_, flag)| flags & flag == 0).map(|(bitmap, _)| bitmap).collect()
    }

    fn problem(&self, device: &File, bitmap: &Bitmap) -> io::Result<Option<String>> {
        if bitmap.block == 0 || bitmap.block >= self.geometry.blocks {
            return Ok(Some("it is outside the file system".into()));
        }
        let block_size = self.geometry.block_size;
        let data = read(device, bitmap.block * block_size, block_size as usize)?;
        let (Some(summed), Some(counted)) =
            (data.get(..bitmap.summed_bits as usize / 8), data.get(..bitmap.bits.div_ceil(8) as usize))
        else {
            return Ok(Some("it is larger than a block".into()));
        };
        if self.seed.is_some_and(|seed| (crc32c(seed, summed) ^ bitmap.checksum) & bitmap.checksum_mask != 0) {
            return Ok(Some("its checksum is wrong".into()));
        }
        let in_last = bitmap.bits % 8;
        let masked = |(at, byte): (usize, &u8)| match at + 1 == counted.len() && in_last > 0 {
            true => byte & ((1 << in_last) - 1),
            false => *byte,
        };
        let used: u64 = counted.iter().enumerate().map(|byte| u64::from(masked(byte).count_ones())).sum();
        let free = bitmap.bits - used;
        Ok((free != bitmap.free)
            .then(|| format!("it has {free} free {}, but the group descriptor counts {}", bitmap.unit, bitmap.free)))
    }
}

/// Computes the kernel's CRC-16 (lib/crc16.c): polynomial 0x8005, reflected.
fn crc16(seed: u16, data: &[u8]) -> u16 {
    data.iter().fold(seed, |crc, byte| {
        (0..8).fold(crc ^ u16::from(*byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xA001 } else { crc >> 1 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc16_matches_arc() {
        assert_eq!(crc16(0, b"123456789"), 0xBB3D);
    }
}
