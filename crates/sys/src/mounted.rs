//! Operations on a mounted file system through a descriptor in it (include/uapi/linux/fs.h, fs/xfs/libxfs/xfs_fs.h).

use rustix::fs::{AtFlags, StatxFlags};
use rustix::io::Errno;
use rustix::ioctl::{IntegerSetter, Opcode, Setter, Updater, ioctl, opcode};
use std::collections::BTreeSet;
use std::ffi::{CStr, CString, OsStr, c_int};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const FIFREEZE: Opcode = opcode::read_write::<c_int>(b'X', 119);
const FITHAW: Opcode = opcode::read_write::<c_int>(b'X', 120);
const FITRIM: Opcode = opcode::read_write::<TrimRange>(b'X', 121);
const XFS_IOC_FREE_EOFBLOCKS: Opcode = opcode::read::<EofBlocks>(b'X', 58);

/// `struct fstrim_range`.
#[repr(C)]
struct TrimRange {
    start: u64,
    length: u64,
    least_length: u64,
}

/// `struct xfs_fs_eofblocks`.
#[repr(C)]
struct EofBlocks {
    version: u32,
    flags: u32,
    uid: u32,
    gid: u32,
    prid: u32,
    pad32: u32,
    min_file_size: u64,
    pad64: [u64; 12],
}

/// Returns the mount id of a descriptor (statx(2), since Linux 5.8). A bind mount has its own id, although its files
/// have the device of the mounted file system.
pub fn mount_id(file: impl AsFd) -> Option<u64> {
    let found = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).ok()?;
    (found.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(found.stx_mnt_id)
}

/// Returns the mount points below a directory, relative to it (proc_pid_mountinfo(5)). Empty without /proc.
pub fn points_below(directory: &Path) -> BTreeSet<PathBuf> {
    let Ok(directory) = directory.canonicalize() else { return BTreeSet::new() };
    points_in(&std::fs::read("/proc/self/mountinfo").unwrap_or_default(), &directory)
}

fn points_in(mountinfo: &[u8], directory: &Path) -> BTreeSet<PathBuf> {
    let lines = mountinfo.split(|byte| *byte == b'\n');
    let points = lines.filter_map(|line| line.split(|byte| *byte == b' ').nth(4)).map(unescaped);
    let below = |point: Vec<u8>| Some(Path::new(OsStr::from_bytes(&point)).strip_prefix(directory).ok()?.to_path_buf());
    points.filter_map(below).filter(|path| !path.as_os_str().is_empty()).collect()
}

/// Decodes mountinfo, which escapes white space and backslashes as a backslash and three octal digits.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()).filter(|_| *first == b'\\') {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    bytes
}

/// Suspends writing to the file system after flushing it to its device.
pub fn freeze(directory: impl AsFd) -> crate::Result<()> {
    // SAFETY: FIFREEZE ignores its argument.
    unsafe { ioctl(directory, IntegerSetter::<FIFREEZE>::new_usize(0)) }
}

/// Thaws a frozen file system; `false`: it was not frozen.
pub fn thaw(directory: impl AsFd) -> crate::Result<bool> {
    // SAFETY: FITHAW ignores its argument.
    match unsafe { ioctl(directory, IntegerSetter::<FITHAW>::new_usize(0)) } {
        Ok(()) => Ok(true),
        Err(Errno::INVAL) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Discards all free space on the device. Returns the number of bytes.
pub fn trim(directory: impl AsFd) -> crate::Result<u64> {
    let mut range = TrimRange { start: 0, length: u64::MAX, least_length: 0 };
    // SAFETY: FITRIM reads and writes one struct fstrim_range.
    unsafe { ioctl(directory, Updater::<FITRIM, TrimRange>::new(&mut range)) }?;
    Ok(range.length)
}

/// Waits until an XFS has freed the blocks and inodes of all deleted files. `false`: requires root, or not XFS.
///
/// Requests trimming of blocks past the end of files, which waits for deletes (`xfs_blockgc_free_space`). The size filter
/// excludes all files, so that nothing is trimmed.
pub fn finish_deletes_of_xfs(directory: impl AsFd) -> crate::Result<bool> {
    const VERSION: u32 = 1;
    const FLAG_LEAST_FILE_SIZE: u32 = 1 << 4;
    let which = EofBlocks {
        version: VERSION,
        flags: FLAG_LEAST_FILE_SIZE,
        uid: 0,
        gid: 0,
        prid: 0,
        pad32: 0,
        min_file_size: u64::MAX,
        pad64: [0; 12],
    };
    // SAFETY: the kernel reads one struct xfs_fs_eofblocks.
    match unsafe { ioctl(directory, Setter::<XFS_IOC_FREE_EOFBLOCKS, EofBlocks>::new(which)) } {
        Ok(()) => Ok(true),
        Err(Errno::PERM | Errno::NOTTY) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Restricts a mount and those below it: no set-user-ID programs, and on request no writes and no devices. mount_setattr(2), Linux
/// 5.12.
///
/// # Errors
/// Those of the call; ENOSYS on older kernels.
pub fn restrict(path: &Path, read_only: bool, no_devices: bool) -> crate::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes()).map_err(|_| Errno::INVAL)?;
    let mut attributes = libc::MOUNT_ATTR_NOSUID;
    attributes |= if read_only { libc::MOUNT_ATTR_RDONLY } else { 0 };
    attributes |= if no_devices { libc::MOUNT_ATTR_NODEV } else { 0 };
    set_attributes(libc::AT_FDCWD, &path, libc::AT_RECURSIVE, attributes, 0)
}

/// Maps the owners of files in a detached mount and those below it as a user namespace maps its users (mount_setattr(2)).
///
/// # Errors
/// Those of the call; EINVAL if a file system cannot do it.
pub fn map_owners(mount: impl AsFd, users: impl AsFd) -> crate::Result<()> {
    let users = u64::try_from(users.as_fd().as_raw_fd()).map_err(|_| Errno::BADF)?;
    let flags = libc::AT_EMPTY_PATH | libc::AT_RECURSIVE;
    set_attributes(mount.as_fd().as_raw_fd(), c"", flags, libc::MOUNT_ATTR_IDMAP, users)
}

fn set_attributes(directory: c_int, path: &CStr, flags: c_int, attributes: u64, users: u64) -> crate::Result<()> {
    let attr = libc::mount_attr { attr_set: attributes, attr_clr: 0, propagation: 0, userns_fd: users };
    // SAFETY: the kernel reads a C string and a structure of the given size.
    let status = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            directory,
            path.as_ptr(),
            flags,
            &raw const attr,
            size_of::<libc::mount_attr>(),
        )
    };
    if status == 0 {
        Ok(())
    } else {
        Err(Errno::from_raw_os_error(std::io::Error::last_os_error().raw_os_error().unwrap_or(0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_are_relative_to_the_directory() {
        let mountinfo = b"1 0 8:1 / / rw - ext4 /dev/a rw\n2 1 8:1 /x /mnt/a\\040b/in rw - ext4 /dev/a rw\n3 1 8:1 / /mnt/a\\040b rw\n";
        let found = |directory: &str| points_in(mountinfo, Path::new(directory));
        assert_eq!(found("/mnt/a b"), BTreeSet::from([PathBuf::from("in")]));
        assert_eq!(found("/mnt/a"), BTreeSet::new());
        assert_eq!(found("/").len(), 2);
        let here = std::fs::File::open("/").unwrap();
        assert_eq!(mount_id(&here), mount_id(here.try_clone().unwrap()));
    }

    #[test]
    fn request_codes_match_the_headers() {
        assert_eq!((FIFREEZE, FITHAW, FITRIM), (0xC004_5877, 0xC004_5878, 0xC018_5879));
        assert_eq!(XFS_IOC_FREE_EOFBLOCKS, 0x8080_583A);
    }

    #[test]
    fn other_file_systems_are_distinguished() {
        let pipe = rustix::pipe::pipe().unwrap().0;
        assert_eq!(finish_deletes_of_xfs(&pipe), Ok(false));
        assert!(trim(&pipe).is_err());
    }
}
