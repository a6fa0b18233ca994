//! NVMe passthrough commands (include/uapi/linux/nvme_ioctl.h).

use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, ioctl, opcode};
use std::ffi::c_void;
use std::os::fd::{AsFd, BorrowedFd};
use zerocopy::IntoBytes;

const NVME_IOCTL_ID: Opcode = opcode::none(b'N', 0x40);
const NVME_IOCTL_ADMIN64_CMD: Opcode = opcode::read_write::<Passthrough>(b'N', 0x47);
const NVME_IOCTL_IO64_CMD: Opcode = opcode::read_write::<Passthrough>(b'N', 0x48);
/// `NVME_URING_CMD_IO`, with the 72 bytes of struct nvme_uring_cmd.
pub const NVME_URING_CMD_IO: u32 = opcode::read_write::<[u64; 9]>(b'N', 0x80) as u32;

/// `struct nvme_passthru_cmd64`; without its last field it is `struct nvme_uring_cmd`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, IntoBytes)]
pub struct Passthrough {
    pub opcode: u8,
    pub flags: u8,
    pub reserved1: u16,
    pub namespace: u32,
    pub dword2: u32,
    pub dword3: u32,
    /// Address of metadata; 0: none.
    pub metadata: u64,
    pub address: u64,
    pub metadata_len: u32,
    pub data_len: u32,
    pub dwords: [u32; 6],
    /// 0: the kernel's default.
    pub timeout_ms: u32,
    pub reserved2: u32,
    /// Dwords 0 and 1 of the completion.
    pub result: u64,
}

impl Passthrough {
    /// Returns the 80 bytes after the head of a large submission queue entry.
    pub fn to_uring(self) -> [u8; 80] {
        // The kernel reads the first 72 (`struct nvme_uring_cmd`).
        zerocopy::transmute!(self)
    }
}

/// Status of a command: 0 for success, otherwise an NVMe status (Base Specification 2.0, section 3.3.3.2.1).
pub type Status = u16;

/// A request that returns a number.
struct Call<'a, const OPCODE: Opcode>(&'a mut Passthrough);

// SAFETY: both requests take a struct nvme_passthru_cmd64, which their codes declare as read and written.
unsafe impl<const OPCODE: Opcode> Ioctl for Call<'_, OPCODE> {
    type Output = Status;
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        OPCODE
    }

    fn as_ptr(&mut self) -> *mut c_void {
        std::ptr::from_mut(self.0).cast()
    }

    unsafe fn output_from_ptr(status: IoctlOutput, _: *mut c_void) -> crate::Result<Status> {
        Ok(status as Status)
    }
}

/// Runs an I/O command on the namespace.
///
/// # Safety
/// Its address is null, or `data_len` bytes there are memory that the drive may read and, depending on the operation, write.
pub unsafe fn run_io(device: impl AsFd, command: &mut Passthrough) -> crate::Result<Status> {
    // SAFETY: the caller guarantees the data.
    unsafe { ioctl(device, Call::<NVME_IOCTL_IO64_CMD>(command)) }
}

/// Runs an I/O command with `data` as its buffer and without metadata.
pub fn run_io_on(device: impl AsFd, mut command: Passthrough, data: &mut [u8]) -> crate::Result<Status> {
    point_to(&mut command, data)?;
    // SAFETY: the data are a slice that lives until the call returns.
    unsafe { run_io(device, &mut command) }
}

/// Runs an admin command with `data` (possibly empty) as its buffer and without metadata.
pub fn run_admin_on(device: impl AsFd, mut command: Passthrough, data: &mut [u8]) -> crate::Result<Status> {
    point_to(&mut command, data)?;
    // SAFETY: the data are a slice that lives until the call returns.
    unsafe { ioctl(device, Call::<NVME_IOCTL_ADMIN64_CMD>(&mut command)) }
}

fn point_to(command: &mut Passthrough, data: &mut [u8]) -> crate::Result<()> {
    command.data_len = u32::try_from(data.len()).map_err(|_| Errno::INVAL)?;
    command.address = if data.is_empty() { 0 } else { data.as_mut_ptr() as u64 };
    // The caller's metadata address may be invalid.
    (command.metadata, command.metadata_len) = (0, 0);
    Ok(())
}

pub fn namespace(device: BorrowedFd<'_>) -> crate::Result<u32> {
    /// A request that returns a number.
    struct Id;
    // SAFETY: NVME_IOCTL_ID takes no argument and returns a number.
    unsafe impl Ioctl for Id {
        type Output = u32;
        const IS_MUTATING: bool = false;

        fn opcode(&self) -> Opcode {
            NVME_IOCTL_ID
        }

        fn as_ptr(&mut self) -> *mut c_void {
            std::ptr::null_mut()
        }

        unsafe fn output_from_ptr(number: IoctlOutput, _: *mut c_void) -> crate::Result<u32> {
            if number > 0 { Ok(number as u32) } else { Err(Errno::NOTTY) }
        }
    }
    // SAFETY: the request does not access memory.
    unsafe { ioctl(device, Id) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_codes_match_the_headers() {
        assert_eq!((NVME_IOCTL_ID, NVME_IOCTL_ADMIN64_CMD, NVME_IOCTL_IO64_CMD), (0x4E40, 0xC050_4E47, 0xC050_4E48));
        assert_eq!(NVME_URING_CMD_IO, 0xC048_4E80);
        assert_eq!(size_of::<Passthrough>(), 80);
    }

    #[test]
    fn command_on_a_slice_only_points_to_the_slice() {
        let mut data = [0u8; 8];
        let mut command = Passthrough { metadata: 4096, metadata_len: 64, address: 1, ..Passthrough::default() };
        point_to(&mut command, &mut data).unwrap();
        assert_eq!((command.address, command.data_len), (data.as_ptr() as u64, 8));
        assert_eq!((command.metadata, command.metadata_len), (0, 0));
        point_to(&mut command, &mut []).unwrap();
        assert_eq!((command.address, command.data_len), (0, 0));
    }

    #[test]
    fn file_is_not_a_namespace() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(namespace(file.as_fd()), Err(Errno::NOTTY));
        assert_eq!(run_admin_on(&file, Passthrough::default(), &mut []), Err(Errno::NOTTY));
    }
}
