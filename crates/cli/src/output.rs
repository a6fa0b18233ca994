//! Options of verbs that write a file of the user's.

use crate::verbs::report::output_failed;
use clap::Args;
use senesce_core::Failure;
use senesce_core::output::{self, Format, OutputError, Replace};
use senesce_core::text::Visible;
use senesce_volume::{TargetSpec, guard};
use std::fmt::Arguments;
use std::io::{StdoutLock, Write};
use std::path::Path;

/// Standard output for text: control characters of foreign names are written out.
pub fn stdout() -> Visible<StdoutLock<'static>> {
    Visible::new(std::io::stdout().lock())
}

/// What `println!` does here: a line on standard output.
pub fn print(text: Arguments<'_>) {
    if let Err(error) = writeln!(stdout(), "{text}") {
        let failure = output_failed(error);
        eprintln!("senesce: {failure}");
        std::process::exit(failure.exit_code() as i32);
    }
}

/// `--create`: makes the directory that is to be the target.
pub fn create_target(asked: bool, target: &Option<String>) -> Result<(), Failure> {
    match target.as_deref().filter(|_| asked).map(str::parse::<TargetSpec>).transpose()? {
        Some(TargetSpec::Directory(path)) => Ok(guard::create_directory(&path)?),
        _ => Ok(()),
    }
}

/// Flattened into every verb with such an option.
#[derive(Args, Debug, Clone, Copy, Default)]
pub struct Output {
    /// Replace an output file whatever it holds
    #[arg(long)]
    force: bool,
}

impl Output {
    fn replace(self) -> Replace {
        if self.force { Replace::Anything } else { Replace::SameFormat }
    }

    /// Whether the user allowed the loss of whatever an output file holds.
    pub fn replaces(self) -> bool {
        self.force
    }

    /// Refuses what [`Self::write`] would refuse, before the work is done; `likely` is the beginning of what will be written.
    pub fn check(self, file: Option<&Path>, format: Format, likely: &[u8]) -> Result<(), Failure> {
        Ok(file.map_or(Ok(()), |file| output::check(file, format, likely, self.replace()))?)
    }

    /// Writes a file; `-` is standard output. Ends the process where the reader of a pipe has gone.
    pub fn write(self, file: &Path, format: Format, bytes: &[u8]) -> Result<(), Failure> {
        match output::write(file, format, bytes, self.replace()) {
            Err(error) if OutputError::reader_gone(&error) => std::process::exit(0),
            other => Ok(other?),
        }
    }
}
