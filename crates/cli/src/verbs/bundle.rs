//! `senesce bundle`: everything an artifact evaluator needs in one archive.

use crate::Exit;
use crate::output::Output;
use crate::registry::REGISTRY;
use crate::session::Session;
use crate::table::Verb;
use crate::verbs::report::say_written;
use clap::Args;
use senesce_core::output::Format;
use senesce_core::{ExitCode, Failure, Record};
use senesce_report::bundle;
use senesce_runs::export::export;
use std::io::Cursor;
use std::path::PathBuf;

/// Pack record, report, figures, tables and the command into one archive
#[derive(Args)]
pub struct Bundle {
    /// Run directory
    run: PathBuf,
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
        let one = export(&REGISTRY, Record::open(&self.run)?)?;
        let file = self.out.unwrap_or_else(|| PathBuf::from(format!("{}.zip", one.name)));
        self.output.check(Some(&file), Format::Zip, b"")?;
        let mut archive = Cursor::new(Vec::new());
        bundle::write(&one.record, &one.analysis, &one.measurements, &mut archive)?;
        self.output.write(&file, Format::Zip, archive.get_ref())?;
        say_written(&file);
        Ok(ExitCode::Done.into())
    }
}
