//! `senesce bundle`: everything an artifact evaluator needs in one archive.

use crate::Exit;
use crate::arguments;
use crate::output::Output;
use crate::registry::REGISTRY;
use crate::session::Session;
use crate::table::Verb;
use crate::verbs::report::say_written;
use clap::Args;
use clap_complete::ArgValueCompleter;
use senesce_core::output::Format;
use senesce_core::{ExitCode, Failure, Record};
use senesce_report::bundle;
use senesce_runs::export::{export, name_of};
use std::collections::BTreeSet;
use std::io::Cursor;
use std::path::{Path, PathBuf};

/// Pack record, report, figures, tables and the command into one archive
#[derive(Args)]
pub struct Bundle {
    /// Run directories; each gets its own archive
    #[arg(required = true, value_name = "RUN", value_parser = arguments::run(),
          add = ArgValueCompleter::new(arguments::complete_run))]
    runs: Vec<PathBuf>,
    /// Archive to write
    #[arg(long, short, value_name = "FILE", help = "Archive to write [default: RUN.zip]")]
    out: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

impl Verb for Bundle {
    const NAME: &'static str = "bundle";
    const ABOUT: &'static str =
        "Pack the record of a run with its report, figures, tables and command into one archive";

    fn run(self, _session: &Session) -> Result<Exit, Failure> {
        arguments::one_output(&self.out, &self.runs)?;
        let runs: BTreeSet<&PathBuf> = self.runs.iter().collect();
        let files: Vec<PathBuf> = runs.into_iter().map(|run| self.file_of(run)).collect();
        let planned: Vec<_> = files.iter().map(|file| (Some(file.as_path()), Format::Zip, &b""[..])).collect();
        self.output.check_all(&planned)?;
        for run in &self.runs {
            self.pack(run)?;
        }
        Ok(ExitCode::Done.into())
    }
}

impl Bundle {
    fn file_of(&self, run: &Path) -> PathBuf {
        self.out.clone().unwrap_or_else(|| PathBuf::from(format!("{}.zip", name_of(run))))
    }

    fn pack(&self, run: &Path) -> Result<(), Failure> {
        let one = export(&REGISTRY, Record::open(run)?)?;
        let file = self.file_of(run);
        let mut archive = Cursor::new(Vec::new());
        bundle::write(&one.record, &one.analysis, &one.measurements, &mut archive)?;
        self.output.write(&file, Format::Zip, archive.get_ref())?;
        say_written(&file);
        Ok(())
    }
}
