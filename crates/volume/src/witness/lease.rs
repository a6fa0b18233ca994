//! Checks with a write lease whether anything else has a file open. It needs neither /proc nor /sys, and covers
//! more: mappings whose descriptor is closed, descriptors in sockets, other PID namespaces, users inside the
//! kernel.

use super::UnavailableWitness;
use rustix::io::Errno;
use std::fs::File;
use std::time::{Duration, Instant};

/// How long a user that is just ending may take: the kernel releases the file of a loop device a moment after the
/// device.
const PATIENCE: Duration = Duration::from_secs(2);
const BETWEEN_TRIES: Duration = Duration::from_millis(20);

/// File systems whose files are reached only through this kernel's open files, by statfs(2) and
/// include/uapi/linux/magic.h. Files of others, such as overlays, FUSE and NFS, have other names or other clients,
/// which a lease does not cover.
const LOCAL: [u64; 13] = [
    0xEF53,      // ext2, ext3, ext4
    0x5846_5342, // xfs
    0x9123_683E, // btrfs
    0xF2F5_2010, // f2fs
    0x3434,      // nilfs2
    0xCA45_1A4E, // bcachefs
    0x2FC1_2FC1, // zfs
    0x3153_464A, // jfs
    0x0102_1994, // tmpfs
    0x8584_58F6, // ramfs
    0x2011_BAB0, // exfat
    0x4D44,      // vfat
    0x7366_746E, // ntfs3
];

pub(crate) fn other_user(file: &File) -> Result<Option<String>, UnavailableWitness> {
    let begin = Instant::now();
    loop {
        match senesce_sys::lease::is_open_elsewhere(file) {
            Ok(true) if begin.elapsed() < PATIENCE => std::thread::sleep(BETWEEN_TRIES),
            Ok(true) => {
                return Ok(Some(
                    "another process, a mapping or the kernel has it open (a write lease is refused)".into(),
                ));
            }
            Ok(false) => return is_local(file).map(|()| None),
            Err(Errno::ACCESS) => return Err(UnavailableWitness("lease: the file belongs to another user".into())),
            Err(errno) => return Err(UnavailableWitness(format!("lease: {errno}"))),
        }
    }
}

fn is_local(file: &File) -> Result<(), UnavailableWitness> {
    let found = rustix::fs::fstatfs(file).map_err(|errno| UnavailableWitness(format!("lease: statfs: {errno}")))?;
    #[allow(clippy::unnecessary_cast, reason = "its width depends on the processor")]
    let kind = found.f_type as u64;
    match LOCAL.contains(&kind) {
        true => Ok(()),
        false => {
            Err(UnavailableWitness(format!("lease: its file system (type {kind:#x}) may show the file elsewhere too")))
        }
    }
}
