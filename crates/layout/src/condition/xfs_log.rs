//! Detects unapplied changes in the log of XFS. Finds the head as the kernel does (fs/xfs/xfs_log_recover.c, xlog_find_head and
//! xlog_check_unmount_rec); a clean log ends there with an unmount record.

use super::bytes::{be32, be64, read};
use super::xfs::Superblock;
use std::fs::File;
use std::io;

/// Bytes of a basic block.
const BASIC: u64 = 512;
/// `XLOG_HEADER_MAGIC_NUM`.
const RECORD: u32 = 0xFEED_BABE;
/// Maximum basic blocks of a record: 256 KiB, its headers, and a stripe unit.
const LONGEST: u64 = 2048;
/// `XLOG_UNMOUNT_TRANS`.
const UNMOUNT: u8 = 0x20;

/// Describes the changes in the log; `None` if it is clean.
pub(super) fn pending(device: &File) -> io::Result<Option<String>> {
    let superblock = Superblock::read(device)?;
    let Some(start) = superblock.log_start() else {
        return Err(io::Error::other("the log is on another device"));
    };
    let log = Log { device, start, blocks: superblock.log_bytes() / BASIC };
    Ok((!log.is_clean()?).then(|| {
        "the log of XFS was not replayed: changes that exist only there are missing, and free blocks are not exact"
            .into()
    }))
}

struct Log<'a> {
    device: &'a File,
    start: u64,
    blocks: u64,
}

impl Log<'_> {
    fn block(&self, block: u64) -> io::Result<Vec<u8>> {
        read(self.device, self.start + block % self.blocks * BASIC, BASIC as usize)
    }

    /// Returns the cycle in which a block was written; 0: never.
    fn cycle(&self, block: u64) -> io::Result<u32> {
        let block = self.block(block)?;
        Ok(match be32(&block, 0) {
            RECORD => be32(&block, 4),
            cycle => cycle,
        })
    }

    fn head(&self) -> io::Result<u64> {
        let (first, last) = (self.cycle(0)?, self.cycle(self.blocks - 1)?);
        if first == last {
            return Ok(0);
        }
        let (mut low, mut high) = (0, self.blocks - 1);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            *(if self.cycle(middle)? == last { &mut high } else { &mut low }) = middle;
        }
        Ok(high)
    }

    fn is_clean(&self) -> io::Result<bool> {
        if self.blocks == 0 || self.cycle(0)? == 0 {
            return Ok(true);
        }
        let head = self.head()?;
        for distance in 1..=LONGEST.min(self.blocks) {
            let at = (head + self.blocks - distance) % self.blocks;
            let header = self.block(at)?;
            if be32(&header, 0) == RECORD {
                return self.ends_with_unmount(at, &header, distance);
            }
        }
        Ok(false)
    }

    /// Returns whether the record at `at`, at this distance before the head, is the last one and an unmount record.
    fn ends_with_unmount(&self, at: u64, header: &[u8], distance: u64) -> io::Result<bool> {
        const VERSION: usize = 8;
        const LENGTH: usize = 12;
        const OPERATIONS: usize = 40;
        const SIZE: usize = 320;
        /// Bytes whose cycles one header holds (`XLOG_HEADER_CYCLE_SIZE`).
        const OF_A_HEADER: u64 = 32 << 10;
        let headers = match be32(header, VERSION) {
            1 => 1,
            _ => u64::from(be32(header, SIZE)).div_ceil(OF_A_HEADER).max(1),
        };
        let length = u64::from(be32(header, LENGTH)).div_ceil(BASIC);
        if be32(header, OPERATIONS) != 1 || headers + length != distance {
            return Ok(false);
        }
        // struct xlog_op_header: transaction, length, client, flags.
        let operation = self.block(at + headers)?;
        Ok(operation[9] & UNMOUNT != 0 && be64(header, 16) != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    const BLOCKS: u64 = 64;

    /// Writes a record of one block after its header, in cycle `cycle`.
    fn record(file: &File, at: u64, cycle: u32, version: u32, operations: u32, flags: u8) {
        let mut header = [0; 512];
        let words = [(0, RECORD), (4, cycle), (8, version), (12, 512), (16, cycle), (40, operations), (320, 32 << 10)];
        words.iter().for_each(|(at, word)| header[*at..at + 4].copy_from_slice(&word.to_be_bytes()));
        let mut content = [0; 512];
        content[..4].copy_from_slice(&cycle.to_be_bytes());
        content[9] = flags;
        file.write_all_at(&header, at * BASIC).unwrap();
        file.write_all_at(&content, (at + 1) * BASIC).unwrap();
    }

    fn is_clean(records: &[(u64, u32, u32, u32, u8)]) -> bool {
        let file = tempfile::tempfile().unwrap();
        file.set_len(BLOCKS * BASIC).unwrap();
        records.iter().for_each(|one| record(&file, one.0, one.1, one.2, one.3, one.4));
        Log { device: &file, start: 0, blocks: BLOCKS }.is_clean().unwrap()
    }

    #[test]
    fn log_is_clean_if_an_unmount_record_ends_at_its_head() {
        for version in [1, 2] {
            assert!(is_clean(&[]), "never written");
            assert!(is_clean(&[(0, 1, version, 1, UNMOUNT)]));
            assert!(!is_clean(&[(0, 1, version, 1, UNMOUNT), (2, 1, version, 5, 0)]));
            assert!(is_clean(&[(0, 1, version, 5, 0), (2, 1, version, 1, UNMOUNT)]));
            let full = |last: u8| -> Vec<_> {
                let cycle = |at: u64| if at < 10 { 3 } else { 2 };
                let flags = |at: u64| if at == 8 { last } else { 0 };
                (0..BLOCKS / 2).map(|pair| (pair * 2, cycle(pair * 2), version, 1, flags(pair * 2))).collect()
            };
            assert!(is_clean(&full(UNMOUNT)), "the head is at block 10");
            assert!(!is_clean(&full(0)));
        }
    }

    #[test]
    fn an_older_unmount_record_does_not_make_a_log_clean() {
        let mut records: Vec<_> = (0..BLOCKS / 2).map(|pair| (pair * 2, 4, 2, 1, 0)).collect();
        records[BLOCKS as usize / 2 - 1].4 = UNMOUNT;
        assert!(is_clean(&records), "the head is where the log begins again");
        records[0].1 = 5;
        assert!(!is_clean(&records));
    }
}
