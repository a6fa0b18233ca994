//! Uses leases (fcntl(2), F_SETLEASE) to check whether a file is open elsewhere.

use crate::Result;
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::AsRawFd;

/// From include/uapi/asm-generic/fcntl.h; missing in the libc crate.
const F_SETSIG: libc::c_int = 10;

/// Sent to the owner of a lease when another process opens the file. Ignored by default, unlike SIGIO.
const HARMLESS: libc::c_int = libc::SIGURG;

/// Returns whether the file is open other than by this descriptor and its duplicates, even for reading. That includes
/// descriptors in any process, mappings, sockets that pass one, loop devices, swap space and kernel targets. The kernel
/// grants a write lease only if the file is not open elsewhere. The lease is released at once.
pub fn is_open_elsewhere(file: &File) -> Result<bool> {
    let number = file.as_raw_fd();
    set(number, F_SETSIG, HARMLESS)?;
    let granted = set(number, libc::F_SETLEASE, libc::F_WRLCK);
    if granted.is_ok() {
        set(number, libc::F_SETLEASE, libc::F_UNLCK)?;
    }
    set(number, F_SETSIG, 0)?;
    match granted {
        Ok(()) => Ok(false),
        Err(Errno::AGAIN | Errno::BUSY) => Ok(true),
        Err(errno) => Err(errno),
    }
}

fn set(number: libc::c_int, command: libc::c_int, value: libc::c_int) -> Result<()> {
    // SAFETY: the commands take a number and access no memory; the descriptor is open.
    match unsafe { libc::fcntl(number, command, value) } {
        -1 => Err(crate::errno::last()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_writers_and_mappings_are_detected_but_not_duplicates() {
        let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
        let open = |write: bool| File::options().read(true).write(write).open(&path).unwrap();
        std::fs::write(&path, [0; 4096]).unwrap();
        for write in [true, false] {
            let own = open(write);
            let copy = own.try_clone().unwrap();
            assert_eq!(is_open_elsewhere(&own), Ok(false));
            drop(copy);
            for other in [true, false] {
                let other = open(other);
                assert_eq!(is_open_elsewhere(&own), Ok(true));
                drop(other);
                assert_eq!(is_open_elsewhere(&own), Ok(false));
            }
        }
    }

    #[test]
    fn file_without_lease_support_is_an_error() {
        let null = File::open("/dev/null").unwrap();
        assert_eq!(is_open_elsewhere(&null), Err(Errno::INVAL));
    }
}
