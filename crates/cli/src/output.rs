//! Writes output files of the user.

use crate::global;
use clap::{ArgMatches, Args, Command, Error, FromArgMatches};
use senesce_core::output::{self, Format, OutputError, Replace};
use senesce_core::text::Visible;
use senesce_core::{ExitCode, Failure, RunDirectory};
use senesce_volume::{TargetSpec, guard};
use std::collections::BTreeSet;
use std::fmt::Arguments;
use std::io::{StdoutLock, Write};
use std::path::{Path, PathBuf};

/// Exit status if the reader of standard output is gone: the same as if SIGPIPE had ended the program. With success, a gate would pass
/// although its output is incomplete.
const READER_GONE: i32 = 128 + rustix::process::Signal::PIPE.as_raw();

/// Returns standard output for text: control characters of foreign names are escaped.
pub(crate) fn stdout() -> Visible<StdoutLock<'static>> {
    Visible::new(std::io::stdout().lock())
}

/// Prints a line, as the `println!` of this crate.
pub(crate) fn print(text: Arguments<'_>) {
    if let Err(error) = writeln!(stdout(), "{text}") {
        let failure = output_failed(error);
        eprintln!("senesce: {failure}");
        std::process::exit(failure.exit_code() as i32);
    }
}

/// Creates the target directory for `--create`, unless the record would be refused at `out`.
pub(crate) fn create_target(asked: bool, target: Option<&TargetSpec>, out: Option<&Path>) -> Result<(), Failure> {
    out.map_or(Ok(()), RunDirectory::check)?;
    match target.filter(|_| asked) {
        Some(TargetSpec::Directory(path)) => Ok(guard::create_directory(path)?),
        _ => Ok(()),
    }
}

/// An output file, if named; its format; and the start of its content, as far as known.
pub(crate) type Planned<'a> = (Option<&'a Path>, Format, &'a [u8]);

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Output {
    force: bool,
}

impl Output {
    /// Returns the mode that the user chose: `--force` replaces files of any content.
    fn from_options() -> Self {
        Self { force: global::is_forced() }
    }

    fn replace(self) -> Replace {
        if self.force { Replace::Anything } else { Replace::SameFormat }
    }

    pub(crate) fn replaces(self) -> bool {
        self.force
    }

    /// Refuses in advance what [`Self::write`] would refuse; `likely` is the start of the content.
    pub(crate) fn check(self, file: Option<&Path>, format: Format, likely: &[u8]) -> Result<(), Failure> {
        Ok(file.map_or(Ok(()), |file| output::check(file, format, likely, self.replace()))?)
    }

    /// Checks all outputs of a command, which must be different files. If one is refused, none is written.
    pub(crate) fn check_all(self, outputs: &[Planned<'_>]) -> Result<(), Failure> {
        check_distinct(outputs.iter().filter_map(|(file, ..)| *file))?;
        outputs.iter().try_for_each(|(file, format, likely)| self.check(*file, *format, likely))
    }

    /// Checks the files of a directory that may be missing; also refuses other entries with its name.
    pub(crate) fn check_below(self, directory: &Path, files: &[Planned<'_>]) -> Result<(), Failure> {
        if let Some(found) = output::obstacle(directory) {
            return Err(OutputError::NoDirectory(found).into());
        }
        if directory.is_dir() { self.check_all(files) } else { Ok(()) }
    }

    /// Checks only the existing file, for outputs whose start is not known yet.
    pub(crate) fn check_kind(self, file: Option<&Path>, format: Format) -> Result<(), Failure> {
        Self { force: true }.check(file, format, b"")
    }

    /// Writes a file; `-` is standard output. Ends the process if the reader of a pipe is gone.
    pub(crate) fn write(self, file: &Path, format: Format, bytes: &[u8]) -> Result<(), Failure> {
        match output::write(file, format, bytes, self.replace()) {
            Err(error) if OutputError::reader_gone(&error) => std::process::exit(READER_GONE),
            other => Ok(other?),
        }
    }
}

// Flattened into the verbs that write files.
impl Args for Output {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}

impl FromArgMatches for Output {
    fn from_arg_matches(_: &ArgMatches) -> Result<Self, Error> {
        Ok(Self::from_options())
    }

    fn update_from_arg_matches(&mut self, _: &ArgMatches) -> Result<(), Error> {
        Ok(())
    }
}

/// Refuses one file for two outputs, because the second would replace the first.
pub(crate) fn check_distinct<'a>(files: impl Iterator<Item = &'a Path>) -> Result<(), Failure> {
    let mut places = BTreeSet::new();
    for file in files {
        if resolved_path(file).is_some_and(|place| !places.insert(place)) {
            let words =
                format!("cannot write two outputs to {}\nhint: name another file for one of them", file.display());
            return Err(Failure::usage(words));
        }
    }
    Ok(())
}

/// Returns the resolved location of a file. Streams such as standard output accept several outputs and return `None`.
fn resolved_path(file: &Path) -> Option<PathBuf> {
    if file == Path::new("-") || file.symlink_metadata().is_ok_and(|found| !found.is_file()) {
        return None;
    }
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Some(folder.canonicalize().ok()?.join(file.file_name()?))
}

/// Reports a failed write to standard output; ends the process quietly if the reader of a pipe is gone.
pub(crate) fn output_failed(error: std::io::Error) -> Failure {
    if error.kind() == std::io::ErrorKind::BrokenPipe {
        std::process::exit(READER_GONE);
    }
    Failure::new(ExitCode::RunFailed, format!("cannot write to standard output: {error}"))
}
