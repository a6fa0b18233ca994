//! `senesce import`: other people's data as a run directory.

use crate::Exit;
use crate::registry::IMPORTERS;
use crate::session::Session;
use crate::table::Verb;
use clap::Args;
use senesce_core::{ExitCode, Failure};
use senesce_runs::import::importer;
use std::path::PathBuf;

/// Turn foreign results into a run directory
#[derive(Args)]
pub struct Import {
    /// What it is: fio, hyperfine, ior, mdtest, blktrace, blkparse, zns-study
    kind: String,
    /// The file or folder
    file: PathBuf,
    /// Run directory to write
    #[arg(long, short, value_name = "RUNDIR")]
    out: PathBuf,
}

impl Verb for Import {
    const NAME: &'static str = "import";
    const ABOUT: &'static str =
        "Turn other people's results into a run directory (fio, hyperfine, IOR, mdtest, blktrace, zns-study)";

    fn run(self, _session: &Session) -> Result<Exit, Failure> {
        importer(&IMPORTERS.concat(), &self.kind)?.import(&self.file, &self.out)?;
        println!("{}", self.out.display());
        Ok(ExitCode::Done.into())
    }
}
