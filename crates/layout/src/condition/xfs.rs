//! Checks the headers of XFS allocation groups against their checksums, free space trees and the superblock (Documentation: XFS
//! Algorithms & Data Structures, "Allocation Groups"; fs/xfs/libxfs/xfs_format.h). Numbers are big-endian, checksums
//! little-endian.

use super::bytes::{be16, be32, be64, crc32c, le32, read};
use super::listed;
use std::fs::File;
use std::io;

const AGF: u32 = u32::from_be_bytes(*b"XAGF");
const AGI: u32 = u32::from_be_bytes(*b"XAGI");

pub(super) struct Superblock {
    block_size: u64,
    sector_size: u64,
    groups: u64,
    group_blocks: u64,
    group_shift: u32,
    log_start: u64,
    log_blocks: u64,
    /// Version 5: metadata have checksums.
    checksums: bool,
    /// An unmount makes the following counters exact (lazy counters).
    inodes: u64,
    free_inodes: u64,
    free_blocks: u64,
}

impl Superblock {
    pub(super) fn read(device: &File) -> io::Result<Self> {
        let data = read(device, 0, 512)?;
        let found = Self {
            block_size: u64::from(be32(&data, 4)),
            log_start: be64(&data, 48),
            group_blocks: u64::from(be32(&data, 84)),
            groups: u64::from(be32(&data, 88)),
            log_blocks: u64::from(be32(&data, 96)),
            checksums: be16(&data, 100) & 0xF == 5,
            sector_size: u64::from(be16(&data, 102)),
            group_shift: u32::from(data[124]),
            inodes: be64(&data, 128),
            free_inodes: be64(&data, 136),
            free_blocks: be64(&data, 144),
        };
        let sound = (512..=65_536).contains(&found.block_size)
            && (512..=32_768).contains(&found.sector_size)
            && found.group_shift < 32
            && found.group_blocks > 0;
        sound.then_some(found).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the superblock is damaged"))
    }

    /// Returns the byte offset of the log; `None` if it is on another device.
    pub(super) fn log_start(&self) -> Option<u64> {
        let (group, block) = (self.log_start >> self.group_shift, self.log_start & ((1 << self.group_shift) - 1));
        (self.log_start != 0).then(|| self.at(group, block))
    }

    pub(super) fn log_bytes(&self) -> u64 {
        self.log_blocks * self.block_size
    }

    fn at(&self, group: u64, block: u64) -> u64 {
        (group * self.group_blocks + block) * self.block_size
    }
}

#[derive(Default)]
struct Sums {
    free_blocks: u64,
    inodes: u64,
    free_inodes: u64,
}

/// Returns the damage, one sentence each. The log must be clean, and the device not in use for writing.
pub(super) fn damage(device: &File) -> io::Result<Vec<String>> {
    let superblock = Superblock::read(device)?;
    let (mut found, mut sums) = (Vec::new(), Sums::default());
    for group in 0..superblock.groups {
        let place = Group { device, superblock: &superblock, group };
        found.extend(place.free_space(&mut sums)?);
        found.extend(place.inodes(&mut sums)?);
    }
    if found.is_empty() {
        let compared = [
            ("free blocks", superblock.free_blocks, sums.free_blocks),
            ("inodes", superblock.inodes, sums.inodes),
            ("free inodes", superblock.free_inodes, sums.free_inodes),
        ];
        let wrong = compared.into_iter().filter(|(_, said, sum)| said != sum);
        found.extend(wrong.map(|(what, said, sum)| {
            format!("the superblock counts {said} {what}, but the allocation groups count {sum}")
        }));
    }
    Ok(listed(found))
}

struct Group<'a> {
    device: &'a File,
    superblock: &'a Superblock,
    group: u64,
}

impl Group<'_> {
    /// Reads a group header; `None` unless it is valid by itself.
    fn header(&self, sector: u64, magic: u32, checksum_at: usize) -> io::Result<Option<Vec<u8>>> {
        let (start, bytes) = (self.superblock.at(self.group, 0), self.superblock.sector_size);
        let data = read(self.device, start + sector * bytes, bytes as usize)?;
        let sound = be32(&data, 0) == magic
            && u64::from(be32(&data, 8)) == self.group
            && (!self.superblock.checksums || has_checksum(&data, checksum_at));
        Ok(sound.then_some(data))
    }

    /// Checks the free space header (AGF) against its two trees.
    fn free_space(&self, sums: &mut Sums) -> io::Result<Option<String>> {
        let group = self.group;
        let Some(header) = self.header(1, AGF, 216)? else {
            return Ok(Some(format!("the free space header (AGF) of allocation group {group} is damaged")));
        };
        let free = u64::from(be32(&header, 52));
        sums.free_blocks += free + u64::from(be32(&header, 48)) + u64::from(be32(&header, 60));
        for (tree, name) in [(0, "by block"), (1, "by size")] {
            let (root, levels) = (be32(&header, 16 + 4 * tree), be32(&header, 28 + 4 * tree));
            match self.tree_blocks(u64::from(root), levels)? {
                None => return Ok(Some(format!("the free space tree {name} of allocation group {group} is damaged"))),
                Some(sum) if sum != free => {
                    return Ok(Some(format!(
                        "the free space header (AGF) of allocation group {group} counts {free} free blocks, but its tree {name} \
                     holds {sum}"
                    )));
                }
                Some(_) => {}
            }
        }
        Ok(None)
    }

    fn inodes(&self, sums: &mut Sums) -> io::Result<Option<String>> {
        let Some(header) = self.header(2, AGI, 312)? else {
            return Ok(Some(format!("the inode header (AGI) of allocation group {} is damaged", self.group)));
        };
        sums.inodes += u64::from(be32(&header, 16));
        sums.free_inodes += u64::from(be32(&header, 28));
        Ok(None)
    }

    /// Returns the blocks in the records of a free space tree; `None` if it is damaged.
    fn tree_blocks(&self, root: u64, levels: u32) -> io::Result<Option<u64>> {
        const NO_BLOCK: u64 = 0xFFFF_FFFF;
        /// Bytes of a record, and of a child's key.
        const RECORD: usize = 8;
        let header: usize = if self.superblock.checksums { 56 } else { 16 };
        let most = (self.superblock.block_size as usize - header) / (RECORD + 4);
        let (mut at, mut level, mut sum, mut steps) = (root, levels, 0, 0);
        loop {
            steps += 1;
            if at >= self.superblock.group_blocks || level == 0 || steps > self.superblock.group_blocks {
                return Ok(None);
            }
            let block = read(self.device, self.superblock.at(self.group, at), self.superblock.block_size as usize)?;
            let records = usize::from(be16(&block, 6));
            let sound = u32::from(be16(&block, 4)) == level - 1
                && records * RECORD <= block.len() - header
                && (!self.superblock.checksums || has_checksum(&block, 52));
            if !sound {
                return Ok(None);
            }
            if level > 1 {
                // The first child, from the pointers after the keys.
                (at, level) = (u64::from(be32(&block, header + most * RECORD)), level - 1);
                continue;
            }
            sum += (0..records).map(|record| u64::from(be32(&block, header + record * RECORD + 4))).sum::<u64>();
            match u64::from(be32(&block, 12)) {
                NO_BLOCK => return Ok(Some(sum)),
                right => at = right,
            }
        }
    }
}

fn has_checksum(data: &[u8], at: usize) -> bool {
    let crc = crc32c(crc32c(crc32c(!0, &data[..at]), &[0; 4]), &data[at + 4..]);
    le32(data, at) == !crc
}
