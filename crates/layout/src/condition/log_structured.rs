//! btrfs, F2FS and NILFS2: changes after the last complete state that the next mount applies.

use super::bytes::{le16, le32, le64, read};
use std::fs::File;
use std::io;

/// Describes files that btrfs synchronised since the last transaction (fs/btrfs/tree-log.c). `log_root` of the
/// superblock shows them.
pub(super) fn btrfs(device: &File) -> io::Result<Option<String>> {
    const SUPERBLOCK: u64 = 64 << 10;
    const LOG_ROOT: usize = 0x60;
    let superblock = read(device, SUPERBLOCK, 4096)?;
    Ok((le64(&superblock, LOG_ROOT) != 0)
        .then(|| "the log tree of btrfs was not replayed: files synchronised after the last commit are missing".into()))
}

/// Checks the newer of F2FS's two checkpoints (include/linux/f2fs_fs.h), which shows whether it was unmounted.
pub(super) fn f2fs(device: &File) -> io::Result<Option<String>> {
    const SUPERBLOCK: u64 = 1024;
    const BLOCK: u64 = 4096;
    const FLAGS: usize = 132;
    const UNMOUNTED: u32 = 1;
    let superblock = read(device, SUPERBLOCK, 128)?;
    let first = u64::from(le32(&superblock, 76));
    let segment = 1u64.checked_shl(le32(&superblock, 20)).unwrap_or(512);
    let checkpoints = [first, first + segment].map(|block| read(device, block * BLOCK, 512));
    let [one, other] = checkpoints;
    let (one, other) = (one?, other?);
    let newest = if le64(&one, 0) >= le64(&other, 0) { one } else { other };
    Ok((le32(&newest, FLAGS) & UNMOUNTED == 0).then(|| {
        "F2FS was not unmounted: files synchronised after its last checkpoint were not rolled forward and may be missing".into()
    }))
}

/// Checks `s_state` of NILFS2 (include/uapi/linux/nilfs2_ondisk.h), which shows whether it was unmounted.
pub(super) fn nilfs2(device: &File) -> io::Result<Option<String>> {
    const SUPERBLOCK: u64 = 1024;
    const STATE: usize = 116;
    const VALID: u16 = 1;
    let superblock = read(device, SUPERBLOCK, 256)?;
    Ok((le16(&superblock, STATE) & VALID == 0).then(|| {
        "NILFS2 was not unmounted: logs after its last checkpoint were not rolled forward and may be missing".into()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    fn device(writes: &[(u64, &[u8])]) -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(8 << 20).unwrap();
        writes.iter().for_each(|(at, bytes)| file.write_all_at(bytes, *at).unwrap());
        file
    }

    #[test]
    fn newer_checkpoint_of_f2fs_shows_the_unmount() {
        const FIRST: u64 = 512 * 4096;
        let of = |versions: [u64; 2], flags: [u32; 2]| {
            let second = FIRST + 512 * 4096;
            let [one, other] = versions.map(u64::to_le_bytes);
            let [of_one, of_other] = flags.map(u32::to_le_bytes);
            let superblock = [(1024 + 20, 9u32.to_le_bytes()), (1024 + 76, 512u32.to_le_bytes())];
            let file = device(&[(FIRST, &one), (second, &other), (FIRST + 132, &of_one), (second + 132, &of_other)]);
            superblock.iter().for_each(|(at, bytes)| file.write_all_at(bytes, *at).unwrap());
            f2fs(&file).unwrap().is_some()
        };
        assert!(!of([7, 6], [5, 0]));
        assert!(of([7, 8], [5, 4]));
    }

    #[test]
    fn btrfs_and_nilfs2_show_pending_changes() {
        assert!(btrfs(&device(&[])).unwrap().is_none());
        assert!(btrfs(&device(&[((64 << 10) + 0x60, &[1])])).unwrap().is_some());
        assert!(nilfs2(&device(&[])).unwrap().is_some());
        assert!(nilfs2(&device(&[(1024 + 116, &[1])])).unwrap().is_none());
    }
}
