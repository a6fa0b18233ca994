//! The one way in which a file that a user named is written: what is there already is never destroyed unasked.
//!
//! `-` is standard output. A pipe, a terminal or a character device is written into. A regular file is replaced only if it
//! holds the format that is being written, or when the user allowed it; a link, a directory, a socket and a block device never.

mod descriptor;
mod directory;
mod format;
mod new_file;

pub use directory::{Obstacle, directory, obstacle};
pub use format::Format;
pub use new_file::NewFile;

use crate::failure::{Classify, ExitCode};
use crate::io_failure::IoFailure;
use crate::text::Visible;
use descriptor::descriptor;
use rustix::fs::{FileType, OFlags, Stat};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// How much of an existing file is looked at to tell its format.
const BEGINNING: usize = 1024;

const BLOCK_DEVICE: &str = "it is a block device, and its content would be lost";
const INSTEAD_OF_DEVICE: &str = "no option allows it; name a file, or write - and redirect it";

/// What may be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Replace {
    /// An empty file, or one of the same format as the output.
    #[default]
    SameFormat,
    /// Any regular file: the user said so (`--force`).
    Anything,
}

/// Why an output was not written.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// Something is there that an output must not touch.
    #[error("refused to write {path}: {found}; {remedy}")]
    Refused {
        /// The output.
        path: PathBuf,
        /// What is there.
        found: String,
        /// What to do instead.
        remedy: String,
    },
    /// An operation on a path failed.
    #[error(transparent)]
    Io(#[from] IoFailure),
    /// The name cannot be that of a file.
    #[error("{path} is a directory: name a file in it")]
    Directory {
        /// The directory.
        path: PathBuf,
    },
    /// A directory is wanted where something else is.
    #[error(transparent)]
    NoDirectory(Obstacle),
}

impl OutputError {
    /// Whether the reader of a pipe has gone, as in `senesce export ... | head`.
    pub fn reader_gone(&self) -> bool {
        matches!(self, Self::Io(failure) if failure.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl Classify for OutputError {
    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Refused { .. } => ExitCode::Refused,
            // Its folder is missing, or is none: the words are wrong, not the disk.
            Self::Io(failure) if matches!(failure.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                ExitCode::Usage
            }
            Self::Io(_) => ExitCode::RunFailed,
            Self::Directory { .. } | Self::NoDirectory(_) => ExitCode::Usage,
        }
    }
}

fn io_remedy(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::NotFound => "make its folder first",
        io::ErrorKind::NotADirectory => "what should be its folder is a file; choose another place",
        io::ErrorKind::StorageFull => "free some space there or choose another place",
        io::ErrorKind::PermissionDenied => "check the permissions or choose another place",
        _ => "",
    }
}

fn io_error(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> OutputError {
    let path = path.to_path_buf();
    move |source| {
        let remedy = io_remedy(&source);
        IoFailure::new(operation, path, source).with_remedy(remedy).into()
    }
}

/// Writes an output in one piece: a reader of a regular file sees the old content or the new, never a part.
///
/// # Errors
/// [`OutputError::Refused`] when something is there that is not of `format` (regular files, which `replace` may allow), or that
/// is never replaced (links, block devices, sockets); then nothing was altered.
pub fn write(path: &Path, format: Format, bytes: &[u8], replace: Replace) -> Result<(), OutputError> {
    match Destination::of(path)? {
        Destination::StandardOutput => write_to(&mut io::stdout().lock(), bytes, path),
        Destination::StandardError => write_to(&mut io::stderr().lock(), bytes, path),
        Destination::Stream(mut stream) => write_to(&mut stream, bytes, path),
        Destination::New => {
            let new = NewFile::beside(path).map_err(io_error("make", path))?;
            write_to(&mut new.file(), bytes, path)?;
            new.put().map_err(|error| match error.kind() {
                io::ErrorKind::AlreadyExists => changed(path),
                _ => io_error("make", path)(error),
            })
        }
        Destination::Existing(existing) => {
            existing.check(path, format, bytes, replace)?;
            existing.replace(path, bytes)
        }
    }
}

/// Looks whether [`write()`] would refuse, before work is done whose result it is to take. `likely` are the first bytes that
/// it will be given, as far as they are known: formats without a magic number are told by their first word.
///
/// # Errors
/// As [`write()`]; also where the directory it would lie in is none.
pub fn check(path: &Path, format: Format, likely: &[u8], replace: Replace) -> Result<(), OutputError> {
    if path == Path::new("-") {
        return Ok(());
    }
    if let Some(number) = descriptor(path) {
        return descriptor::open(number, path).map(drop);
    }
    match Destination::look(path)? {
        Some(Seen::Regular(existing)) => existing.check(path, format, likely, replace),
        Some(Seen::Stream(_)) => Ok(()),
        None => {
            let folder = new_file::folder(path);
            let found = folder.metadata().map_err(io_error("write into", folder))?;
            match found.is_dir() {
                true => Ok(()),
                false => Err(io_error("write into", folder)(io::Error::from_raw_os_error(20))),
            }
        }
    }
}

/// Opens a log, to write behind what it holds.
///
/// # Errors
/// As [`write()`]; a regular file that holds something else than text is refused.
pub fn append(path: &Path) -> Result<File, OutputError> {
    if let Some(number) = descriptor(path) {
        return descriptor::open(number, path);
    }
    let mut options = File::options();
    options.append(true).custom_flags((OFlags::NOFOLLOW | OFlags::NOCTTY).bits() as i32);
    match Destination::look(path)? {
        Some(Seen::Stream(seen)) => open_stream(path, &seen),
        Some(Seen::Regular(existing)) => {
            existing.check(path, Format::Log, b"", Replace::SameFormat)?;
            let file = options.open(path).map_err(io_error("open", path))?;
            let found = file.metadata().map_err(io_error("look at", path))?;
            if existing.is(found.dev(), found.ino()) { Ok(file) } else { Err(changed(path)) }
        }
        None => options.create_new(true).open(path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => changed(path),
            _ => io_error("open", path)(error),
        }),
    }
}

/// A terminal would obey control characters in the names of others; everything else gets the bytes as they are.
fn write_to(to: &mut (impl Write + AsFd), bytes: &[u8], path: &Path) -> Result<(), OutputError> {
    let written = match rustix::termios::isatty(&*to) {
        true => Visible::new(&mut *to).write_all(bytes),
        false => to.write_all(bytes),
    };
    written.and_then(|()| to.flush()).map_err(io_error("write", path))
}

/// Opens a pipe or device that was looked at.
fn open_stream(path: &Path, seen: &Stat) -> Result<File, OutputError> {
    let flags = OFlags::NOCTTY.bits() as i32;
    let stream = File::options().write(true).custom_flags(flags).open(path).map_err(io_error("open", path))?;
    let found = rustix::fs::fstat(&stream).map_err(|errno| io_error("look at", path)(errno.into()))?;
    let same = (found.st_dev, found.st_ino, found.st_mode) == (seen.st_dev, seen.st_ino, seen.st_mode);
    if same { Ok(stream) } else { Err(changed(path)) }
}

/// Whether it is a device that keeps nothing of what is written and tells nobody (null, zero, full), to which also a link may lead.
fn keeps_nothing(found: &Stat) -> bool {
    let number = (rustix::fs::major(found.st_rdev), rustix::fs::minor(found.st_rdev));
    FileType::from_raw_mode(found.st_mode) == FileType::CharacterDevice && matches!(number, (1, 3 | 5 | 7))
}

/// Where an output goes.
enum Destination {
    StandardOutput,
    StandardError,
    Stream(File),
    New,
    Existing(Existing),
}

/// What is at a path.
enum Seen {
    Regular(Existing),
    Stream(Stat),
}

impl Destination {
    fn of(path: &Path) -> Result<Self, OutputError> {
        if path == Path::new("-") {
            return Ok(Self::StandardOutput);
        }
        if let Some(number) = descriptor(path) {
            let stream = descriptor::open(number, path)?;
            return Ok(match number {
                1 => Self::StandardOutput,
                2 => Self::StandardError,
                _ => Self::Stream(stream),
            });
        }
        match Self::look(path)? {
            None => Ok(Self::New),
            Some(Seen::Regular(existing)) => Ok(Self::Existing(existing)),
            Some(Seen::Stream(seen)) => open_stream(path, &seen).map(Self::Stream),
        }
    }

    /// What is at `path`; `None`: nothing. What an output must never touch is an error.
    fn look(path: &Path) -> Result<Option<Seen>, OutputError> {
        let own = match rustix::fs::lstat(path) {
            Err(rustix::io::Errno::NOENT) if !path.as_os_str().is_empty() => return Ok(None),
            found => found.map_err(|errno| io_error("look at", path)(errno.into()))?,
        };
        let refused =
            |found: String, remedy: &str| Err(OutputError::Refused { path: path.into(), found, remedy: remedy.into() });
        match FileType::from_raw_mode(own.st_mode) {
            FileType::RegularFile => Ok(Some(Seen::Regular(Existing { seen: own }))),
            FileType::Fifo if new_file::is_pipe_of_another(path, &own) => refused(
                format!("it is a pipe of user {}, and not root alone may make files beside it", own.st_uid),
                "remove it, or choose another place; to write into it, write - and redirect it",
            ),
            FileType::Fifo | FileType::CharacterDevice => Ok(Some(Seen::Stream(own))),
            FileType::Directory => Err(OutputError::Directory { path: path.into() }),
            FileType::BlockDevice => refused(BLOCK_DEVICE.into(), INSTEAD_OF_DEVICE),
            FileType::Symlink => match rustix::fs::stat(path) {
                Ok(behind) if keeps_nothing(&behind) => Ok(Some(Seen::Stream(behind))),
                _ => {
                    let to = std::fs::read_link(path).unwrap_or_default();
                    refused(
                        format!("it is a symbolic link to {}", to.display()),
                        "links are not followed and not replaced; name the file itself, or remove the link",
                    )
                }
            },
            _ => refused("it is a socket or of an unknown kind".into(), "name a file"),
        }
    }
}

fn changed(path: &Path) -> OutputError {
    OutputError::Refused {
        path: path.into(),
        found: "it was made or exchanged by somebody else meanwhile".into(),
        remedy: "look at it and run again".into(),
    }
}

/// A regular file that would be replaced.
struct Existing {
    seen: Stat,
}

impl Existing {
    fn check(&self, path: &Path, format: Format, bytes: &[u8], replace: Replace) -> Result<(), OutputError> {
        if replace == Replace::Anything {
            return Ok(());
        }
        if !new_file::may_keep_owner(path, &self.seen) {
            return Err(OutputError::Refused {
                path: path.into(),
                found: format!(
                    "it belongs to user {}, others may make files beside it, and the result would be theirs",
                    self.seen.st_uid
                ),
                remedy: match format {
                    Format::Log => "remove it, or choose another place".into(),
                    _ => {
                        "remove it, choose another place, or have a new file of yours in its place with --force".into()
                    }
                },
            });
        }
        if self.seen.st_size == 0 {
            return Ok(());
        }
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
        let file = File::options().read(true).custom_flags(flags).open(path).map_err(io_error("read", path))?;
        let found = file.metadata().map_err(io_error("look at", path))?;
        if !self.is(found.dev(), found.ino()) {
            return Err(changed(path));
        }
        let mut beginning = Vec::new();
        file.take(BEGINNING as u64).read_to_end(&mut beginning).map_err(io_error("read", path))?;
        if format.is_same(&beginning, bytes) {
            return Ok(());
        }
        Err(OutputError::Refused {
            path: path.into(),
            found: format!("it exists and is no {}: {}", format.name(), format::describe(&beginning)),
            remedy: format.remedy().into(),
        })
    }

    fn is(&self, device: u64, inode: u64) -> bool {
        (self.seen.st_dev, self.seen.st_ino) == (device, inode)
    }

    /// The new file keeps mode and owner of the old one, but none that was planted for it. It takes its name only if the old one
    /// still has it.
    fn replace(&self, path: &Path, bytes: &[u8]) -> Result<(), OutputError> {
        let new = NewFile::private(path).map_err(io_error("make a file beside", path))?;
        new.take_after(&self.seen).map_err(io_error("give its mode and owner to", path))?;
        write_to(&mut new.file(), bytes, path)?;
        match rustix::fs::lstat(path) {
            Ok(now) if self.is(now.st_dev, now.st_ino) => {}
            _ => return Err(changed(path)),
        }
        new.replace().map_err(io_error("replace", path))
    }
}

#[cfg(test)]
mod tests;
