//! What makes a file system cold: the proof that it has ended, and nothing left in the cache of its device.

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

/// How long a file system may live on after its unmount: others may look around in it, or hold it for a moment.
const LIMIT: Duration = Duration::from_secs(5);
/// Between two looks. No event tells the end of a file system.
const PAUSE: Duration = Duration::from_millis(10);

/// Waits until the unmounted file system has ended. Copies of our mounts in other mount namespaces are unmounted there; who
/// else holds it is named in a refusal.
///
/// The kernel's own account is the proof: a file system holds its device exclusively from mount to end, so an exclusive open
/// fails while it lives anywhere (open(2), `O_EXCL` on block devices; true for ext4, xfs, btrfs, f2fs and nilfs2).
pub(crate) fn wait_for_end(identity: &Identity) -> Result<(), TargetError> {
    let deadline = Instant::now() + LIMIT;
    while !has_ended(&identity.source)? {
        for holder in release_copies(identity) {
            tracing::warn!("{holder}: that copy of our mount was unmounted");
        }
        if has_ended(&identity.source)? {
            break;
        }
        if Instant::now() > deadline {
            let found = "its file system lives on after the unmount, with all that it caches";
            return Err(in_use(identity, found, &holders(identity)));
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// Whether no file system lives on the device, in any mount namespace.
pub(crate) fn has_ended(device: &Path) -> Result<bool, TargetError> {
    match File::options().read(true).custom_flags(libc::O_EXCL).open(device) {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => Ok(false),
        Err(error) => Err(TargetError::io("open for itself alone", device)(error)),
    }
}

/// Refuses a mounted device for `found`, naming who uses it.
pub(crate) fn in_use(identity: &Identity, found: &str, holders: &[Holder]) -> TargetError {
    let remedy = "then do the same again";
    let (who, remedy) = match holders.first() {
        Some(first) => {
            let all: Vec<String> = holders.iter().map(ToString::to_string).collect();
            (all.join("; "), format!("{}, {remedy}", first.remedy))
        }
        None => (
            "nobody who can be seen from here has it: a mount namespace without a process, or one of another container"
                .into(),
            format!("end what was started while it was mounted, {remedy}"),
        ),
    };
    TargetError::refused(identity.source.display(), format!("{found}: {who}"), remedy)
}

/// Empties the cache of a device on which no file system is mounted, and proves it where the kernel tells (cachestat(2), since
/// Linux 6.5).
pub(crate) fn drop_device_cache(device: &BlockDevice) -> Result<(), TargetError> {
    let deadline = Instant::now() + LIMIT;
    loop {
        device.flush_buffers()?;
        let file = File::open(device.path()).map_err(TargetError::io("open", device.path()))?;
        let pages = cached_pages(&file).map_err(TargetError::errno("ask for the cached pages of", device.path()))?;
        match pages {
            None | Some(0) => return Ok(()),
            // Whoever looks for signatures on every device that changes reads its first and last blocks.
            Some(_) if Instant::now() < deadline => std::thread::sleep(PAUSE),
            Some(pages) => {
                return Err(TargetError::refused(
                    device.path().display(),
                    format!("{pages} pages of it stay in memory after its cache was dropped"),
                    "a program reads or maps the device: end it, then do the same again",
                ));
            }
        }
    }
}

/// Bytes of the file below a loop device that are in memory.
pub(crate) fn cached_of_backing(device: &BlockDevice) -> Option<Bytes> {
    let file = loop_device::backing_file_of(device)?;
    let in_memory =
        rustix::fs::fstatfs(&file).is_ok_and(|found| MEMORY_MAGIC.contains(&(found.f_type as u64 & 0xffff_ffff)));
    let pages = cached_pages(&file).ok().flatten().filter(|_| !in_memory)?;
    Some(Bytes(pages * rustix::param::page_size() as u64))
}

/// tmpfs and ramfs (include/uapi/linux/magic.h).
const MEMORY_MAGIC: [u64; 2] = [0x0102_1994, 0x8584_58f6];
