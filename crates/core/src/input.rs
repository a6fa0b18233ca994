//! Reading files of others: a name may lead to a device without an end, to a pipe that nobody writes into, or to more than
//! there is memory.

mod within;

pub use rustix::fs::FileType;
pub use within::Within;

use crate::machine::memory_available;
use crate::units::Bytes;
use rustix::fs::OFlags;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// A text that a user names is at most so long: sixty times the longest profile that ships.
pub const MOST_TEXT: Bytes = Bytes::mib(64);

/// Opens a regular file for reading; never waits.
///
/// # Errors
/// Those of open(2); in words for what is no regular file.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is no regular file")) }
}

/// Up to this size the kernel is not asked for its free memory, which takes longer than reading so much.
const ALWAYS_FITS: Bytes = Bytes::mib(1);

/// Opens a regular file that is to be held in memory; with its size.
///
/// # Errors
/// As [`open_regular`], and where its size passes half of the memory that is available.
pub fn open_for_memory(path: &Path) -> io::Result<(File, u64)> {
    for_memory(open_regular(path)?)
}

/// The file with its size, if memory can hold it.
fn for_memory(file: File) -> io::Result<(File, u64)> {
    let size = file.metadata()?.len();
    if size <= ALWAYS_FITS.0 {
        return Ok((file, size));
    }
    let most = memory_available().map_or(u64::MAX, |memory| memory.0 / 2);
    if size > most {
        let (size, most) = (Bytes(size), Bytes(most));
        return Err(io::Error::other(format!("it has {size}, more than half of the available memory ({most})")));
    }
    Ok((file, size))
}

/// All of a regular file, as far as memory goes.
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

/// All of a regular file that is text.
///
/// # Errors
/// As [`regular`], and where it is not UTF-8.
pub fn regular_text(path: &Path) -> io::Result<String> {
    text_of(regular(path)?)
}

/// All of a regular file in a folder of somebody else, or below it, where no link is followed.
///
/// # Errors
/// Those of opening the folder; as [`Within::read`].
pub fn within(folder: &Path, name: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    Within::open(folder)?.read(name.as_ref())
}

/// The same of a file that is text.
///
/// # Errors
/// As [`within()`], and where it is not UTF-8.
pub fn text_within(folder: &Path, name: impl AsRef<Path>) -> io::Result<String> {
    text_of(within(folder, name)?)
}

fn text_of(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|_| io::Error::other("it is not text (UTF-8)"))
}

/// All of a file or pipe that a user names, as far as memory goes: half of what is available, of a pipe a quarter. Waits for the
/// writer of a pipe.
///
/// # Errors
/// Those of open(2) and read(2); in words for other kinds, of which some have no end, and for what is longer.
pub fn file_or_pipe(path: &Path) -> io::Result<Vec<u8>> {
    let kind = path.metadata()?.file_type();
    if !kind.is_fifo() {
        return if kind.is_file() { regular(path) } else { Err(io::Error::other("it is neither a file nor a pipe")) };
    }
    // A vector may be twice as large as what it holds.
    let most = memory_available().map_or(u64::MAX, |memory| memory.0 / 4);
    let mut bytes = Vec::new();
    File::open(path)?.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > most {
        true => Err(io::Error::other(format!("it is longer than {}, a quarter of the available memory", Bytes(most)))),
        false => Ok(bytes),
    }
}

/// The longest line of a text: parsers of TOML take more than linear time for a key or value.
const MOST_LINE: Bytes = Bytes::kib(256);

/// The text of a file or pipe that a user names, at most [`MOST_TEXT`].
///
/// # Errors
/// Those of open(2) and read(2); in words for what is longer or is no text.
pub fn text(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MOST_TEXT.0 + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST_TEXT.0 {
        return Err(io::Error::other(format!("it is longer than {MOST_TEXT}, the limit of a text")));
    }
    let mut lines = bytes.split(|byte| *byte == b'\n');
    if let Some(number) = lines.position(|line| line.len() as u64 > MOST_LINE.0) {
        return Err(io::Error::other(format!("line {} is longer than {MOST_LINE}, the limit of a line", number + 1)));
    }
    text_of(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn what_has_no_end_is_not_read() {
        let directory = tempfile::tempdir().unwrap();
        let (zero, whole) = (directory.path().join("zero"), directory.path().join("whole"));
        symlink("/dev/zero", &zero).unwrap();
        fs::write(&whole, "text").unwrap();
        for path in [&zero, directory.path()] {
            assert!(regular(path).unwrap_err().to_string().contains("no regular file"), "{}", path.display());
        }
        assert!(text(&zero).unwrap_err().to_string().contains("longer than"));
        fs::write(&whole, [&b"a = 1\n"[..], &[b'k'; 300 << 10]].concat()).unwrap();
        assert!(text(&whole).unwrap_err().to_string().starts_with("line 2 "));
        fs::write(&whole, "text").unwrap();
        assert_eq!((regular_text(&whole).unwrap(), text(&whole).unwrap()), ("text".into(), "text".into()));
        fs::write(&whole, b"\xff").unwrap();
        assert!(regular_text(&whole).is_err() && text(&whole).is_err());
    }

    #[test]
    fn a_pipe_that_nobody_writes_into_does_not_hold_it_up() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert!(regular(&pipe).unwrap_err().to_string().contains("no regular file"));
    }

    #[test]
    fn a_pipe_that_a_user_names_is_read_to_its_end() {
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
