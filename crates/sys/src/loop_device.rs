//! Loop devices (loop(4), include/uapi/linux/loop.h).

use rustix::ioctl::{Getter, IntegerSetter, Ioctl, IoctlOutput, NoArg, Opcode, Setter, ioctl};
use std::ffi::c_void;
use std::os::fd::{AsFd, AsRawFd};

/// Older than request codes with encoded sizes.
const LOOP_CLR_FD: Opcode = 0x4C01;
const LOOP_GET_STATUS64: Opcode = 0x4C05;
const LOOP_SET_DIRECT_IO: Opcode = 0x4C08;
const LOOP_CONFIGURE: Opcode = 0x4C0A;
const LOOP_CTL_GET_FREE: Opcode = 0x4C82;
const LO_FLAGS_READ_ONLY: u32 = 1;
const LO_FLAGS_AUTOCLEAR: u32 = 4;

/// `struct loop_info64`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Status {
    /// Device number of the file system with the backing file.
    pub device: u64,
    pub inode: u64,
    /// Device number of the backing device; for a file, kernels before 5.11 report `device`.
    pub attached_device: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

impl Status {
    /// Returns the offset of the device in its backing file, in bytes.
    pub fn offset(&self) -> u64 {
        self.offset
    }
}

const EMPTY: Status = Status {
    device: 0,
    inode: 0,
    attached_device: 0,
    offset: 0,
    size_limit: 0,
    number: 0,
    encrypt_type: 0,
    encrypt_key_size: 0,
    flags: 0,
    file_name: [0; 64],
    crypt_name: [0; 64],
    encrypt_key: [0; 32],
    init: [0; 2],
};

#[repr(C)]
struct Config {
    descriptor: u32,
    block_size: u32,
    info: Status,
    reserved: [u64; 8],
}

/// A request that returns a number.
struct FreeNumber;

// SAFETY: LOOP_CTL_GET_FREE takes no argument and returns a number.
unsafe impl Ioctl for FreeNumber {
    type Output = u32;
    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        LOOP_CTL_GET_FREE
    }

    fn as_ptr(&mut self) -> *mut c_void {
        std::ptr::null_mut()
    }

    unsafe fn output_from_ptr(number: IoctlOutput, _: *mut c_void) -> crate::Result<u32> {
        Ok(number as u32)
    }
}

/// Requests the number of a free device from /dev/loop-control, which creates one if necessary.
pub fn free_number(control: impl AsFd) -> crate::Result<u32> {
    // SAFETY: the request does not access memory.
    unsafe { ioctl(control, FreeNumber) }
}

/// Attaches a file to a device until its last user closes it. `losetup` shows the first 63 bytes of `name`.
pub fn configure(device: impl AsFd, file: impl AsFd, name: &str, read_only: bool) -> crate::Result<()> {
    let mut file_name = [0; 64];
    let length = name.len().min(63);
    file_name[..length].copy_from_slice(&name.as_bytes()[..length]);
    let flags = LO_FLAGS_AUTOCLEAR | if read_only { LO_FLAGS_READ_ONLY } else { 0 };
    let config = Config {
        descriptor: file.as_fd().as_raw_fd() as u32,
        block_size: 0,
        info: Status { flags, file_name, ..EMPTY },
        reserved: [0; 8],
    };
    // SAFETY: LOOP_CONFIGURE reads one struct loop_config; the descriptor in it is open until the call returns.
    unsafe { ioctl(device, Setter::<LOOP_CONFIGURE, Config>::new(config)) }
}

pub fn set_direct_io(device: impl AsFd, on: bool) -> crate::Result<()> {
    // SAFETY: LOOP_SET_DIRECT_IO takes a number.
    unsafe { ioctl(device, IntegerSetter::<LOOP_SET_DIRECT_IO>::new_usize(usize::from(on))) }
}

/// Detaches the backing file, now or on the last close.
pub fn detach(device: impl AsFd) -> crate::Result<()> {
    // SAFETY: LOOP_CLR_FD takes no argument.
    unsafe { ioctl(device, NoArg::<LOOP_CLR_FD>::new()) }
}

pub fn status(device: impl AsFd) -> crate::Result<Status> {
    // SAFETY: LOOP_GET_STATUS64 writes one struct loop_info64, any bytes of which are valid.
    unsafe { ioctl(device, Getter::<LOOP_GET_STATUS64, Status>::new()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn structure_sizes_match_the_kernel() {
        assert_eq!(size_of::<Status>(), 232);
        assert_eq!(size_of::<Config>(), 304);
    }

    #[test]
    fn file_is_not_a_loop_device() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(status(&file).err(), Some(Errno::NOTTY));
        assert_eq!(configure(&file, &file, "x", true), Err(Errno::NOTTY));
        assert_eq!(free_number(&file), Err(Errno::NOTTY));
    }
}
