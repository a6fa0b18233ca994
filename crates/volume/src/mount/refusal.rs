//! Why the kernel does not mount a device, and the remedy.

use crate::error::TargetError;
use crate::file_system::FileSystem;
use crate::loop_device::needs_root;
use rustix::io::Errno;
use senesce_core::machine::guest_accelerator;
use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// Explains a failed mount. `log`: warnings of the kernel during the mount. They name a feature that it does not
/// support.
pub(super) fn of(
    errno: Errno,
    file_system: FileSystem,
    device: &Path,
    command: String,
    log: Vec<String>,
) -> TargetError {
    let shown = device.display();
    match (errno, file_system) {
        (Errno::PERM, _) => return needs_root(),
        (Errno::NODEV, _) if !file_system.is_in_kernel() => {
            return TargetError::missing(
                format!("the file system {file_system} in this kernel"),
                match guest_accelerator() {
                    None => {
                        format!("load its module (modprobe {file_system}), use another file system or run in the guest")
                    }
                    Some(_) => "use another file system, or another kernel: senesce vm list, senesce vm build".into(),
                },
            );
        }
        (Errno::EXIST, FileSystem::Btrfs) => {
            return TargetError::missing(
                format!("the other devices of the btrfs on {shown}"),
                "it is a copy of one device of a btrfs that is in use, and the kernel confuses the two; unmount the \
                 original, or examine the original's mount point instead",
            );
        }
        (Errno::NOENT | Errno::IO | Errno::INVAL | Errno::UCLEAN, FileSystem::Btrfs) => {
            // An unknown option is INVAL too.
            let is_split = |found: &BtrfsMember| {
                found.devices > 1 && (errno != Errno::INVAL || (found.attached().len() as u64) < found.devices)
            };
            if let Some(found) = BtrfsMember::read(device).filter(is_split) {
                return found.without_others(device);
            }
        }
        (_, FileSystem::Xfs) => {
            if let Some(error) = xfs(errno, device) {
                return error;
            }
        }
        _ => {}
    }
    let log = log[log.len().saturating_sub(3)..].join(" / ");
    match (errno, log.is_empty()) {
        (Errno::INVAL, true) => TargetError::Program {
            command,
            status: "Invalid argument (EINVAL)".into(),
            output: "an option is unknown or the file system is damaged; see the kernel log (dmesg)".into(),
        },
        (_, true) => TargetError::errno("mount", device)(errno),
        (_, false) => TargetError::Program {
            command,
            status: std::io::Error::from(errno).to_string(),
            output: format!("the kernel reports: {log}"),
        },
    }
}

fn read(device: &Path, offset: u64, length: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; length];
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(device).ok()?;
    file.read_exact_at(&mut bytes, offset).ok().map(|()| bytes)
}

/// Explains a realtime section or an external log (fs/xfs/libxfs/xfs_format.h, struct xfs_dsb; the numbers are
/// big-endian).
fn xfs(errno: Errno, device: &Path) -> Option<TargetError> {
    const REALTIME_BLOCKS: std::ops::Range<usize> = 16..24;
    const LOG_START: std::ops::Range<usize> = 48..56;
    let superblock = read(device, 0, 512)?;
    let is_zero = |range: std::ops::Range<usize>| superblock[range].iter().all(|byte| *byte == 0);
    let shown = device.display();
    match (errno, !is_zero(REALTIME_BLOCKS), is_zero(LOG_START)) {
        (Errno::NOSYS, true, _) => Some(TargetError::missing(
            format!("support for the realtime section of the xfs on {shown} in this kernel"),
            "boot a kernel with CONFIG_XFS_RT, mount the file system with rtdev=DEVICE and examine the mount point",
        )),
        (Errno::NODEV | Errno::INVAL, is_realtime, is_log) if is_realtime || is_log => {
            let parts = [(is_log, "log", "logdev=DEVICE"), (is_realtime, "realtime section", "rtdev=DEVICE")];
            let parts = || parts.iter().filter(|(has_part, ..)| *has_part);
            let names: Vec<&str> = parts().map(|(_, name, _)| *name).collect();
            let options: Vec<&str> = parts().map(|(.., option)| *option).collect();
            Some(TargetError::missing(
                format!("the device with the {} of the xfs on {shown}", names.join(" and the ")),
                format!(
                    "name it (--mount-options {0}), or mount the file system with -o {0} and examine the mount point",
                    options.join(",")
                ),
            ))
        }
        _ => None,
    }
}

/// The superblock of one device (fs/btrfs: struct btrfs_super_block; the numbers are little-endian).
struct BtrfsMember {
    file_system: Vec<u8>,
    devices: u64,
    id: u64,
}

impl BtrfsMember {
    fn read(device: &Path) -> Option<Self> {
        const SUPERBLOCK: u64 = 64 << 10;
        let data = read(device, SUPERBLOCK, 4096)?;
        let number = |at: usize| data[at..at + 8].try_into().ok().map(u64::from_le_bytes);
        let is_btrfs = &data[0x40..0x48] == FileSystem::Btrfs.entry().signature.magic;
        is_btrfs.then_some(())?;
        Some(Self { file_system: data[0x20..0x30].into(), devices: number(0x88)?, id: number(0xC9)? })
    }

    /// Ids of the devices of this file system that this machine has.
    fn attached(&self) -> BTreeSet<u64> {
        let all = std::fs::read_dir("/sys/class/block").into_iter().flatten().flatten();
        let paths = all.map(|entry| Path::new("/dev").join(entry.file_name().to_string_lossy().replace('!', "/")));
        let members = paths.filter_map(|path| Self::read(&path));
        let ids = members.filter(|one| one.file_system == self.file_system).map(|one| one.id);
        ids.chain([self.id]).collect()
    }

    fn without_others(&self, device: &Path) -> TargetError {
        let attached = self.attached();
        // After the removal of a device, ids are not consecutive.
        let has_gaps = attached.last().is_some_and(|last| *last > self.devices);
        let absent = (1..=self.devices).filter(|id| !attached.contains(id)).map(|id| format!("devid {id}"));
        let absent = if has_gaps { String::new() } else { absent.collect::<Vec<_>>().join(", ") };
        let absent = if absent.is_empty() { absent } else { format!(", without {absent}") };
        let (count, all) = (attached.len(), self.devices);
        TargetError::missing(
            format!("a part of the btrfs on {} ({count} of {all} devices attached{absent})", device.display()),
            "attach all devices (for images: losetup -f IMAGE), register them (btrfs device scan), mount the file system and \
             examine the mount point",
        )
    }
}
