//! Reads untrusted files: a name may lead to a device without an end, to a pipe without a writer, or to a file larger than
//! memory.

mod within;

pub use rustix::fs::FileType;
pub use within::InputFolder;

use crate::machine::memory_available;
use crate::units::Bytes;
use rustix::fs::OFlags;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Maximum size of a text file that a user names: thirty times the longest built-in table. Parsers of TOML take up to fifty
/// times as much memory.
pub(crate) const MOST_TEXT: Bytes = Bytes::mib(4);

/// Opens a regular file for reading; never waits.
///
/// # Errors
/// As open(2), and for files that are not regular.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a regular file")) }
}

/// Up to this size, free memory is not checked, because the check would take longer than the read.
const ALWAYS_FITS: Bytes = Bytes::mib(1);

/// Opens a regular file to be held in memory; returns its size as well.
///
/// # Errors
/// As [`open_regular`], and if it exceeds half of the available memory.
pub(crate) fn open_for_memory(path: &Path) -> io::Result<(File, u64)> {
    for_memory(open_regular(path)?)
}

/// Returns the file with its size, if it fits in memory.
fn for_memory(file: File) -> io::Result<(File, u64)> {
    let size = file.metadata()?.len();
    if size <= ALWAYS_FITS.0 {
        return Ok((file, size));
    }
    let most = memory_available().map_or(u64::MAX, |memory| memory.0 / 2);
    if size > most {
        let (size, most) = (Bytes(size), Bytes(most));
        return Err(io::Error::other(format!("its size is {size}, more than half of the available memory ({most})")));
    }
    Ok((file, size))
}

/// Reads a regular file that fits in memory.
///
/// # Errors
/// As [`open_for_memory`].
pub fn regular(path: &Path) -> io::Result<Vec<u8>> {
    whole(open_for_memory(path)?)
}

fn whole((file, size): (File, u64)) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(size as usize);
    file.take(size).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a regular text file.
///
/// # Errors
/// As [`regular`], and if it is not UTF-8.
pub fn regular_text(path: &Path) -> io::Result<String> {
    text_of(regular(path)?)
}

/// Reads a regular file in or below an untrusted folder without following links.
///
/// # Errors
/// Those of opening the folder; as [`InputFolder::read`].
pub fn within(folder: &Path, name: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    InputFolder::open(folder)?.read(name.as_ref())
}

/// Reads a text file as [`within()`] does.
///
/// # Errors
/// As [`within()`], and if it is not UTF-8.
pub(crate) fn text_within(folder: &Path, name: impl AsRef<Path>) -> io::Result<String> {
    text_of(within(folder, name)?)
}

fn text_of(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|_| io::Error::other("it is not text (UTF-8)"))
}

/// Reads a file or pipe that a user names, up to half of the available memory; a pipe up to a quarter. Waits for the writer of a
/// pipe.
///
/// # Errors
/// As open(2) and read(2); for other kinds of files, some of which are endless; and beyond the limit.
pub fn file_or_pipe(path: &Path) -> io::Result<Vec<u8>> {
    let kind = path.metadata()?.file_type();
    if !kind.is_fifo() {
        return if kind.is_file() { regular(path) } else { Err(io::Error::other("it is neither a file nor a pipe")) };
    }
    // A vector may allocate twice its length.
    let most = memory_available().map_or(u64::MAX, |memory| memory.0 / 4);
    let mut bytes = Vec::new();
    File::open(path)?.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > most {
        true => Err(io::Error::other(format!("it is longer than {}, a quarter of the available memory", Bytes(most)))),
        false => Ok(bytes),
    }
}

/// Maximum line length: TOML parsers take more than linear time for a key or value.
const MOST_LINE: Bytes = Bytes::kib(256);

/// Reads a text file or pipe that a user names, at most [`MOST_TEXT`].
///
/// # Errors
/// As open(2) and read(2); for longer input or invalid UTF-8.
pub fn text(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MOST_TEXT.0 + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST_TEXT.0 {
        return Err(io::Error::other(format!("it is longer than {MOST_TEXT}, the maximum of a text file")));
    }
    let mut lines = bytes.split(|byte| *byte == b'\n');
    if let Some(number) = lines.position(|line| line.len() as u64 > MOST_LINE.0) {
        return Err(io::Error::other(format!("line {} is longer than {MOST_LINE}, the maximum of a line", number + 1)));
    }
    text_of(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn endless_devices_are_not_read() {
        let directory = tempfile::tempdir().unwrap();
        let (zero, whole) = (directory.path().join("zero"), directory.path().join("whole"));
        symlink("/dev/zero", &zero).unwrap();
        fs::write(&whole, "text").unwrap();
        for path in [&zero, directory.path()] {
            assert!(regular(path).unwrap_err().to_string().contains("not a regular file"), "{}", path.display());
        }
        assert!(text(&zero).unwrap_err().to_string().contains("longer than"));
        fs::write(&whole, [&b"a = 1\n"[..], &[b'k'; 300 << 10]].concat()).unwrap();
        assert!(text(&whole).unwrap_err().to_string().starts_with("line 2 "));
        fs::write(&whole, "a = 1\n".repeat(1 << 20)).unwrap();
        assert!(text(&whole).is_err(), "larger than {MOST_TEXT}");
        fs::write(&whole, "text").unwrap();
        assert_eq!((regular_text(&whole).unwrap(), text(&whole).unwrap()), ("text".into(), "text".into()));
        fs::write(&whole, b"\xff").unwrap();
        assert!(regular_text(&whole).is_err() && text(&whole).is_err());
    }

    #[test]
    fn pipe_without_writer_does_not_block() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert!(regular(&pipe).unwrap_err().to_string().contains("not a regular file"));
    }

    #[test]
    fn named_pipe_is_read_to_its_end() {
        let directory = tempfile::tempdir().unwrap();
        let (pipe, zero, file) =
            (directory.path().join("pipe"), directory.path().join("zero"), directory.path().join("file"));
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        symlink("/dev/zero", &zero).unwrap();
        fs::write(&file, "file").unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| fs::write(&pipe, vec![7; 1 << 20]).unwrap());
            assert_eq!(file_or_pipe(&pipe).unwrap(), vec![7; 1 << 20]);
        });
        assert_eq!(file_or_pipe(&file).unwrap(), b"file");
        for path in [&zero, directory.path()] {
            assert!(file_or_pipe(path).unwrap_err().to_string().contains("neither a file nor a pipe"));
        }
    }

    #[test]
    fn a_file_larger_than_memory_is_refused_before_it_is_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 42).unwrap();
        let error = regular(file.path()).unwrap_err();
        assert!(error.to_string().contains("more than half of the available memory"), "{error}");
    }
}
