//! Descriptors known only by number.

use crate::Result;
use rustix::io::Errno;
use std::os::fd::{FromRawFd, OwnedFd};

/// Duplicates an inherited descriptor by number (fcntl(2), F_DUPFD_CLOEXEC); position, flags and access mode are shared.
/// Descriptors opened by this program have FD_CLOEXEC and are not accepted.
pub fn inherited(number: u32) -> Result<OwnedFd> {
    const BEHIND_STANDARD_ERROR: libc::c_int = 3;
    let number = libc::c_int::try_from(number).map_err(|_| Errno::BADF)?;
    // SAFETY: the call takes numbers and alters nothing.
    match unsafe { libc::fcntl(number, libc::F_GETFD) } {
        -1 => return Err(crate::errno::last()),
        flags if flags & libc::FD_CLOEXEC != 0 => return Err(Errno::BADF),
        _ => {}
    }
    // SAFETY: the call takes numbers and alters no descriptor that is open.
    match unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, BEHIND_STANDARD_ERROR) } {
        -1 => Err(crate::errno::last()),
        // SAFETY: the descriptor is new and has no other owner.
        copy => Ok(unsafe { OwnedFd::from_raw_fd(copy) }),
    }
}

/// Sets FD_CLOEXEC on all descriptors except the three standard ones (close_range(2), CLOSE_RANGE_CLOEXEC, Linux 5.11).
pub fn keep_from_programs() -> Result<()> {
    const BEHIND_STANDARD_ERROR: libc::c_uint = 3;
    // SAFETY: the call takes numbers; no descriptor is closed in this process.
    match unsafe { close_range(BEHIND_STANDARD_ERROR, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) } {
        0 => Ok(()),
        _ => Err(crate::errno::last()),
    }
}

/// Calls close_range(2) as a system call, because the C library or its declarations may lack the function (musl).
///
/// # Safety
/// With flags that close descriptors, their owners must not use them afterwards.
pub unsafe fn close_range(from: u32, to: u32, flags: libc::c_uint) -> libc::c_long {
    // SAFETY: as the caller promises; the call only takes numbers.
    unsafe { libc::syscall(libc::SYS_close_range, from, to, flags) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;

    #[test]
    fn copied_descriptor_keeps_its_access_mode() {
        let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
        let open = |writes: bool| {
            let file = File::options().create(writes).truncate(false).read(!writes).write(writes).open(&path).unwrap();
            rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).unwrap();
            file
        };
        let (writer, reader) = (open(true), open(false));
        let copy = |file: &File| File::from(inherited(file.as_raw_fd() as u32).unwrap());
        copy(&writer).write_all(b"one").unwrap();
        assert!(copy(&reader).write_all(b"two").is_err());
        let mut read = String::new();
        copy(&reader).read_to_string(&mut read).unwrap();
        assert_eq!(read, "one");
        assert_eq!([1_000_000_000, u32::MAX].map(|number| inherited(number).unwrap_err()), [Errno::BADF; 2]);
    }

    #[test]
    fn own_descriptors_are_not_found() {
        let own = tempfile::tempfile().unwrap();
        assert_eq!(inherited(own.as_raw_fd() as u32).unwrap_err(), Errno::BADF);
    }
}
