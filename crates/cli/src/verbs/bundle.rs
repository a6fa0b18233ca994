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
use senesce_runs::export::export;
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
        for run in &self.runs {
            self.pack(run)?;
        }
        Ok(ExitCode::Done.into())
    }
}

impl Bundle {
    fn pack(&self, run: &Path) -> Result<(), Failure> {
        let one = export(&REGISTRY, Record::open(run)?)?;
        let file = self.out.clone().unwrap_or_else(|| PathBuf::from(format!("{}.zip", one.name)));
        self.output.check(Some(&file), Format::Zip, b"")?;
        let mut archive = Cursor::new(Vec::new());
        bundle::write(&one.record, &one.analysis, &one.measurements, &mut archive)?;
        self.output.write(&file, Format::Zip, archive.get_ref())?;
        say_written(&file);
        Ok(())
    }
}
