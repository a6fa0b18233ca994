//! Leases (fcntl(2), F_SETLEASE), as a question: whether another open file, mapping or part of the kernel has the file open.

use crate::Result;
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::AsRawFd;

/// Of include/uapi/asm-generic/fcntl.h; the libc crate has it not.
const F_SETSIG: libc::c_int = 10;

/// Sent to the owner of a lease when another process opens the file. Its default action is to do nothing, unlike that of SIGIO.
const HARMLESS: libc::c_int = libc::SIGURG;

/// Whether anything but this descriptor (and its duplicates) has the file open, for reading too: descriptors in any process,
/// mappings, sockets that carry one, loop devices, swap space, targets of the kernel. The kernel grants a write lease only if
/// nothing has. The lease is returned at once.
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
    // SAFETY: the commands take a number and touch no memory of ours; the descriptor is open.
    match unsafe { libc::fcntl(number, command, value) } {
        -1 => Err(crate::errno::last()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_writers_and_mappings_are_noticed_and_duplicates_are_not() {
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
    fn a_file_that_has_no_leases_gives_no_answer() {
        let null = File::open("/dev/null").unwrap();
        assert_eq!(is_open_elsewhere(&null), Err(Errno::INVAL));
    }
}
