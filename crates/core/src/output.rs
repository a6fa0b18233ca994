//! Writes files that a user named without destroying existing data.
//!
//! `-` is standard output. Pipes, terminals and character devices are written to. A regular file is replaced only if it holds the
//! same format, or if the user allowed it. Links, directories, sockets and block devices are never replaced.

mod descriptor;
mod directory;
mod folder;
mod format;
mod new_file;

pub use directory::{Obstacle, directory, obstacle};
pub(crate) use folder::Caller;
pub use folder::{Folder, UntrustedLink};
pub use format::Format;
pub use new_file::NewFile;

use crate::failure::{Classify, ExitCode};
use crate::io_failure::{IoFailure, remedy_of_denial};
use crate::text::Visible;
use descriptor::descriptor;
use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::borrow::Cow;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

const BEGINNING: usize = 1024;

const BLOCK_DEVICE: &str = "it is a block device, and its content would be lost";
const INSTEAD_OF_DEVICE: &str = "no option allows this; name a file, or use - and redirect standard output";

/// Existing files that may be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Replace {
    /// An empty file, or one of the same format as the output.
    #[default]
    SameFormat,
    /// Any regular file: the user passed `--force`.
    Anything,
}

/// Why an output was not written.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// An existing file that must not be overwritten.
    #[error("refused to write {path}: {found}\nhint: {remedy}")]
    Refused {
        /// File that the user named.
        path: PathBuf,
        /// Description of the existing file.
        found: String,
        /// Instruction for the user, shown after `hint: `.
        remedy: String,
    },
    /// I/O error.
    #[error(transparent)]
    Io(#[from] IoFailure),
    /// The name is that of a directory.
    #[error("{path} is a directory: name a file in it")]
    Directory {
        /// Directory that the user named as the output.
        path: PathBuf,
    },
    /// A directory is required, but another kind of file exists.
    #[error(transparent)]
    NoDirectory(Obstacle),
}

impl OutputError {
    /// Returns whether the reader of a pipe has exited, as in `senesce report ... --format csv | head`.
    pub fn reader_gone(&self) -> bool {
        matches!(self, Self::Io(failure) if failure.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl Classify for OutputError {
    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Refused { .. } => ExitCode::Refused,
            // A missing or invalid folder is a usage error, not an I/O error.
            Self::Io(failure) if matches!(failure.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                ExitCode::Usage
            }
            Self::Io(failure) => failure.exit_code(),
            Self::NoDirectory(found) => found.exit_code(),
            Self::Directory { .. } => ExitCode::Usage,
        }
    }
}

fn io_remedy(source: &io::Error, path: &Path) -> Cow<'static, str> {
    match source.kind() {
        io::ErrorKind::NotFound => "create its directory first".into(),
        io::ErrorKind::NotADirectory => "its parent is a file, not a directory; choose another path".into(),
        io::ErrorKind::StorageFull => "free some space there or choose another path".into(),
        io::ErrorKind::PermissionDenied => remedy_of_denial(path, "choose another path").into(),
        _ => "".into(),
    }
}

fn io_error(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> OutputError {
    let path = path.to_path_buf();
    move |source| {
        let remedy = io_remedy(&source, &path);
        IoFailure::new(operation, path, source).with_remedy(remedy).into()
    }
}

fn errno(operation: &'static str, path: &Path) -> impl FnOnce(Errno) -> OutputError {
    let wrap = io_error(operation, path);
    move |errno| wrap(errno.into())
}

/// Writes an output atomically: readers of a regular file see the old or the new content.
///
/// # Errors
/// [`OutputError::Refused`] for an existing file that is not of `format` (regular files, which `replace` may allow), or that is
/// never replaced (links, block devices, sockets); nothing was altered then.
pub fn write(path: &Path, format: Format, bytes: &[u8], replace: Replace) -> Result<(), OutputError> {
    if path == Path::new("-") {
        return write_to(&mut io::stdout().lock(), bytes, path);
    }
    if let Some(number) = descriptor(path) {
        let mut stream = descriptor::open(number, path)?;
        return match number {
            1 => write_to(&mut io::stdout().lock(), bytes, path),
            2 => write_to(&mut io::stderr().lock(), bytes, path),
            _ => write_to(&mut stream, bytes, path),
        };
    }
    let place = OutputPath::of(path)?;
    match place.existing()? {
        Some(ExistingOutput::Stream(seen)) => write_to(&mut open_stream(&seen, OFlags::WRONLY, path)?, bytes, path),
        Some(ExistingOutput::Regular(existing)) => {
            existing.check(&place, format, bytes, replace)?;
            existing.replace(&place, bytes)
        }
        None => {
            let new = place.new_file().map_err(io_error("make", path))?;
            write_to(&mut new.file(), bytes, path)?;
            new.put().map_err(|error| match error.kind() {
                io::ErrorKind::AlreadyExists => changed(path),
                _ => io_error("make", path)(error),
            })
        }
    }
}

/// Checks early whether [`write()`] would refuse. `likely` are the first bytes of the output, as far as known: formats without a
/// magic number are recognised by their first word.
///
/// # Errors
/// As [`write()`]; also if the parent is not a directory.
pub fn check(path: &Path, format: Format, likely: &[u8], replace: Replace) -> Result<(), OutputError> {
    if path == Path::new("-") {
        return Ok(());
    }
    if let Some(number) = descriptor(path) {
        return descriptor::open(number, path).map(drop);
    }
    let place = OutputPath::of(path)?;
    match place.existing()? {
        Some(ExistingOutput::Regular(existing)) => existing.check(&place, format, likely, replace),
        Some(ExistingOutput::Stream(_)) | None => Ok(()),
    }
}

/// Opens a log for appending.
///
/// # Errors
/// As [`write()`]; refuses a regular file that is not text.
pub fn append(path: &Path) -> Result<File, OutputError> {
    if let Some(number) = descriptor(path) {
        return descriptor::open(number, path);
    }
    let place = OutputPath::of(path)?;
    let flags = OFlags::WRONLY | OFlags::APPEND;
    match place.existing()? {
        Some(ExistingOutput::Stream(seen)) => open_stream(&seen, flags, path),
        Some(ExistingOutput::Regular(existing)) => {
            existing.check(&place, Format::Log, b"", Replace::SameFormat)?;
            existing.open(&place, "open", flags)
        }
        None => match place.open(flags | OFlags::CREATE | OFlags::EXCL) {
            Err(Errno::EXIST) => Err(changed(path)),
            made => Ok(made.map_err(errno("open", path))?.into()),
        },
    }
}

/// Escapes control characters on a terminal; other files get the bytes unchanged.
fn write_to(to: &mut (impl Write + AsFd), bytes: &[u8], path: &Path) -> Result<(), OutputError> {
    let written = match rustix::termios::isatty(&*to) {
        true => Visible::new(&mut *to).write_all(bytes),
        false => to.write_all(bytes),
    };
    written.and_then(|()| to.flush()).map_err(io_error("write", path))
}

/// Opens a pipe or device that was inspected, even if its name was reused.
fn open_stream(seen: &OwnedFd, flags: OFlags, path: &Path) -> Result<File, OutputError> {
    let name = new_file::by_descriptor(seen);
    let opened = rustix::fs::open(name, flags | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty());
    Ok(opened.map_err(errno("open", path))?.into())
}

/// Returns whether it is a device that discards writes (null, zero, full), to which a link may lead.
fn keeps_nothing(found: &Stat) -> bool {
    let number = (rustix::fs::major(found.st_rdev), rustix::fs::minor(found.st_rdev));
    FileType::from_raw_mode(found.st_mode) == FileType::CharacterDevice && matches!(number, (1, 3 | 5 | 7))
}

/// Location of an output: its folder, opened once, and its name there.
struct OutputPath<'a> {
    folder: Folder,
    name: OsString,
    path: &'a Path,
}

enum ExistingOutput {
    Regular(ExistingFile),
    Stream(OwnedFd),
}

impl<'a> OutputPath<'a> {
    fn of(path: &'a Path) -> Result<Self, OutputError> {
        let (folder, name) = Folder::of(path).map_err(|error| match error.kind() {
            io::ErrorKind::IsADirectory => OutputError::Directory { path: path.into() },
            _ => io_error("write", path)(error),
        })?;
        Ok(Self { folder, name, path })
    }

    fn open(&self, flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC;
        rustix::fs::openat(&self.folder, &self.name, flags, Mode::from_raw_mode(0o666))
    }

    fn new_file(&self) -> io::Result<NewFile> {
        NewFile::within(&self.folder, &self.name, 0o666)
    }

    /// Finds the existing file, or `None`. Fails for files that must never be overwritten.
    fn existing(&self) -> Result<Option<ExistingOutput>, OutputError> {
        let path = self.path;
        let Some(there) = self.folder.open_for_inspection(&self.name).map_err(errno("inspect", path))? else {
            return Ok(None);
        };
        let own = rustix::fs::fstat(&there).map_err(errno("inspect", path))?;
        let refused =
            |found: String, remedy: &str| Err(OutputError::Refused { path: path.into(), found, remedy: remedy.into() });
        match FileType::from_raw_mode(own.st_mode) {
            FileType::RegularFile => Ok(Some(ExistingOutput::Regular(ExistingFile { seen: own }))),
            FileType::Fifo if new_file::is_pipe_of_another(&self.folder, &own) => refused(
                format!("it is a pipe of user {}, and users other than root may create files next to it", own.st_uid),
                "remove it, or choose another path; to write to it, use - and redirect standard output",
            ),
            FileType::Fifo | FileType::CharacterDevice => Ok(Some(ExistingOutput::Stream(there))),
            FileType::Directory => Err(OutputError::Directory { path: path.into() }),
            FileType::BlockDevice => refused(BLOCK_DEVICE.into(), INSTEAD_OF_DEVICE),
            FileType::Symlink => match self.behind_link() {
                Some(device) => Ok(Some(ExistingOutput::Stream(device))),
                None => {
                    let to = rustix::fs::readlinkat(&there, "", Vec::new()).unwrap_or_default();
                    refused(
                        format!("it is a symbolic link to {}", to.to_string_lossy()),
                        "links are neither followed nor replaced; name the file itself, or remove the link",
                    )
                }
            },
            _ => refused("it is a socket or a file of an unknown type".into(), "name a file"),
        }
    }

    /// Opens the device, if the link leads to one that discards writes.
    fn behind_link(&self) -> Option<OwnedFd> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let behind = rustix::fs::openat(&self.folder, &self.name, flags, Mode::empty()).ok()?;
        keeps_nothing(&rustix::fs::fstat(&behind).ok()?).then_some(behind)
    }
}

fn changed(path: &Path) -> OutputError {
    OutputError::Refused {
        path: path.into(),
        found: "another process created or replaced it in the meantime".into(),
        remedy: "inspect it and run again".into(),
    }
}

/// A regular file that would be replaced.
struct ExistingFile {
    seen: Stat,
}

impl ExistingFile {
    fn check(&self, place: &OutputPath<'_>, format: Format, bytes: &[u8], replace: Replace) -> Result<(), OutputError> {
        if replace == Replace::Anything {
            return Ok(());
        }
        let path = place.path;
        if !new_file::may_keep_owner(&place.folder, &self.seen) {
            return Err(OutputError::Refused {
                path: path.into(),
                found: format!(
                    "it belongs to user {}, others may create files next to it, and the result would belong to that user",
                    self.seen.st_uid
                ),
                remedy: match format {
                    Format::Log => "remove it, or choose another path".into(),
                    _ => "remove it, choose another path, or use --force to replace it with a file of your own".into(),
                },
            });
        }
        if self.seen.st_size == 0 {
            return Ok(());
        }
        let file = self.open(place, "read", OFlags::RDONLY | OFlags::NONBLOCK)?;
        let mut beginning = Vec::new();
        file.take(BEGINNING as u64).read_to_end(&mut beginning).map_err(io_error("read", path))?;
        if format.is_same(&beginning, bytes) {
            return Ok(());
        }
        Err(OutputError::Refused {
            path: path.into(),
            found: format!("it exists and is not a {}: {}", format.name(), format::describe(&beginning)),
            remedy: format.remedy().into(),
        })
    }

    fn is(&self, found: &Stat) -> bool {
        (self.seen.st_dev, self.seen.st_ino) == (found.st_dev, found.st_ino)
    }

    fn open(&self, place: &OutputPath<'_>, operation: &'static str, flags: OFlags) -> Result<File, OutputError> {
        let file = place.open(flags).map_err(errno(operation, place.path))?;
        let found = rustix::fs::fstat(&file).map_err(errno("inspect", place.path))?;
        if self.is(&found) { Ok(file.into()) } else { Err(changed(place.path)) }
    }

    /// Replaces the old file with a new one that keeps its mode and owner, unless the old file was planted. The new
    /// file takes the name only if the old file still has it.
    fn replace(&self, place: &OutputPath<'_>, bytes: &[u8]) -> Result<(), OutputError> {
        let path = place.path;
        let new =
            NewFile::private_within(&place.folder, &place.name).map_err(io_error("create a file next to", path))?;
        new.take_after(&self.seen).map_err(io_error("set mode and owner of", path))?;
        write_to(&mut new.file(), bytes, path)?;
        match new.stat_by_name() {
            Some(now) if self.is(&now) => {}
            _ => return Err(changed(path)),
        }
        new.replace().map_err(io_error("replace", path))
    }
}

#[cfg(test)]
mod tests;
