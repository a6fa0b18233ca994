//! Cold file systems: proof that a file system has ended and that the cache of its device is empty.

use crate::block_device::BlockDevice;
use crate::error::TargetError;
use crate::holders::{Holder, Identity, holders, release_copies};
use crate::loop_device;
use senesce_core::Bytes;
use senesce_sys::cache::cached_pages;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a file system may stay alive after its unmount, for example while another process scans it.
const LIMIT: Duration = Duration::from_secs(5);
/// Polling interval: the kernel reports no event when a file system ends.
const PAUSE: Duration = Duration::from_millis(10);

/// Waits until the unmounted file system has ended. Copies of our mounts in other mount namespaces are unmounted; other
/// holders are named in the refusal.
///
/// The proof is an exclusive open, which fails while a file system holds its device anywhere (open(2), `O_EXCL` on
/// block devices; true for ext4, xfs, btrfs, f2fs and nilfs2).
pub(crate) fn wait_for_end(identity: &Identity) -> Result<(), TargetError> {
    let deadline = Instant::now() + LIMIT;
    while !has_ended(&identity.source)? {
        for holder in release_copies(identity) {
            tracing::warn!("{holder}: senesce unmounted that copy of its mount");
        }
        if has_ended(&identity.source)? {
            break;
        }
        if Instant::now() > deadline {
            let found = "its file system stays alive after the unmount, with all its caches";
            return Err(in_use(identity, found, &holders(identity)));
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

pub(crate) fn has_ended(device: &Path) -> Result<bool, TargetError> {
    match File::options().read(true).custom_flags(libc::O_EXCL).open(device) {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => Ok(false),
        Err(error) => Err(TargetError::io("open exclusively", device)(error)),
    }
}

pub(crate) fn in_use(identity: &Identity, found: &str, holders: &[Holder]) -> TargetError {
    let remedy = "then repeat the command";
    let (who, remedy) = match holders.first() {
        Some(first) => {
            let all: Vec<String> = holders.iter().map(ToString::to_string).collect();
            (all.join("; "), format!("{}, {remedy}", first.remedy))
        }
        None => (
            "no visible process has it: a mount namespace without a process or of another container has it".into(),
            format!("end the programs that were started while it was mounted, {remedy}"),
        ),
    };
    TargetError::refused(identity.source.display(), format!("{found}: {who}"), remedy)
}

/// Drops the cache of an unmounted device. Where cachestat(2) exists (Linux 6.5), verifies that no page is left.
pub(crate) fn drop_device_cache(device: &BlockDevice) -> Result<(), TargetError> {
    let deadline = Instant::now() + LIMIT;
    loop {
        device.flush_buffers()?;
        let file = File::open(device.path()).map_err(TargetError::io("open", device.path()))?;
        let pages = cached_pages(&file).map_err(TargetError::errno("ask for the cached pages of", device.path()))?;
        match pages {
            None | Some(0) => return Ok(()),
            // udev reads the first and last blocks of every device that changes.
            Some(_) if Instant::now() < deadline => std::thread::sleep(PAUSE),
            Some(pages) => {
                return Err(TargetError::refused(
                    device.path().display(),
                    format!("{pages} pages of it stay in memory after its cache was dropped"),
                    "a program reads or maps the device: end it, then repeat the command",
                ));
            }
        }
    }
}

pub(crate) fn cached_of_backing(device: &BlockDevice) -> Option<Bytes> {
    let file = loop_device::backing_file_of(device)?;
    let in_memory =
        rustix::fs::fstatfs(&file).is_ok_and(|found| MEMORY_MAGIC.contains(&(found.f_type as u64 & 0xffff_ffff)));
    let pages = cached_pages(&file).ok().flatten().filter(|_| !in_memory)?;
    Some(Bytes(pages * rustix::param::page_size() as u64))
}

/// tmpfs and ramfs (include/uapi/linux/magic.h).
const MEMORY_MAGIC: [u64; 2] = [0x0102_1994, 0x8584_58f6];
