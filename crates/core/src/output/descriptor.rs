//! Inherited descriptors, by their names in `/dev` and `/proc`.

use super::{OutputError, io_error};
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::path::Path;

/// Returns the number for exactly these names. Any other name that leads to a descriptor is a link. Its creator may
/// have opened for reading only a file that this program could write.
pub(super) fn descriptor(path: &Path) -> Option<u32> {
    match path.to_str()? {
        "/dev/stdout" => Some(1),
        "/dev/stderr" => Some(2),
        name => {
            let folders = ["/dev/fd/", "/proc/self/fd/", "/proc/thread-self/fd/"];
            folders.iter().find_map(|folder| name.strip_prefix(folder))?.parse().ok()
        }
    }
}

/// Duplicates a descriptor. Its name is never opened again, so writes go to the file as it was opened.
pub(super) fn open(number: u32, path: &Path) -> Result<File, OutputError> {
    let refused = |found: &str, remedy: &str| OutputError::Refused {
        path: path.into(),
        found: found.into(),
        remedy: remedy.into(),
    };
    let copy = match senesce_sys::descriptor::inherited(number) {
        Err(Errno::BADF) => {
            let found = "no descriptor with this number was open when the program started";
            return Err(refused(found, "open it in the shell, as in 7>FILE"));
        }
        copy => copy.map_err(|errno| io_error("open", path)(errno.into()))?,
    };
    let found = rustix::fs::fstat(&copy).map_err(|errno| io_error("inspect", path)(errno.into()))?;
    let flags = rustix::fs::fcntl_getfl(&copy).map_err(|errno| io_error("inspect", path)(errno.into()))?;
    match unfit(FileType::from_raw_mode(found.st_mode), flags) {
        Some((found, remedy)) => Err(refused(found, remedy)),
        None => Ok(copy.into()),
    }
}

/// Returns the reason why a descriptor is not written to, and a remedy.
fn unfit(kind: FileType, flags: OFlags) -> Option<(&'static str, &'static str)> {
    if kind == FileType::BlockDevice {
        return Some((super::BLOCK_DEVICE, super::INSTEAD_OF_DEVICE));
    }
    match flags.intersects(OFlags::WRONLY | OFlags::RDWR) {
        true => None,
        false => Some(("its descriptor is not open for writing", "open it for writing in the shell, as in 7>FILE")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exact_names_select_own_descriptors() {
        let known = [
            ("/dev/stdout", 1),
            ("/dev/stderr", 2),
            ("/dev/fd/7", 7),
            ("/proc/self/fd/1", 1),
            ("/proc/thread-self/fd/9", 9),
        ];
        for (name, number) in known {
            assert_eq!(descriptor(Path::new(name)), Some(number), "{name}");
        }
        for name in
            ["/proc/1/fd/1", "/dev/fd", "/dev/fd/", "/dev/fd/x", "/dev/fd/../null", "/tmp/fd/1", "fd/1", "1", "-", ""]
        {
            assert_eq!(descriptor(Path::new(name)), None, "{name}");
        }
    }

    #[test]
    fn devices_and_read_only_descriptors_are_unfit() {
        for flags in [OFlags::RDONLY, OFlags::WRONLY, OFlags::RDWR] {
            assert_eq!(unfit(FileType::BlockDevice, flags).map(|(found, _)| found), Some(super::super::BLOCK_DEVICE));
        }
        for kind in [FileType::RegularFile, FileType::Fifo, FileType::CharacterDevice, FileType::Socket] {
            assert!(unfit(kind, OFlags::RDONLY | OFlags::APPEND).is_some() && unfit(kind, OFlags::PATH).is_some());
            assert!(unfit(kind, OFlags::WRONLY | OFlags::APPEND).is_none() && unfit(kind, OFlags::RDWR).is_none());
        }
    }
}
