//! `senesce runs import KIND FILE`: results and traces of other programs as a run directory.

use crate::Exit;
use crate::registry::IMPORTERS;
use clap::Args;
use senesce_core::{ExitCode, Failure};
use senesce_runs::import::{Options, importer};
use std::path::PathBuf;

#[derive(Args)]
pub(crate) struct Import {
    /// fio, hyperfine, ior, mdtest, blktrace, blkparse, zns-study, table or trace
    kind: String,
    /// File or directory
    file: PathBuf,
    /// Columns of a table, such as name=1,value=3
    #[arg(long, value_name = "MAP", help_heading = "Format")]
    map: Vec<String>,
    /// Columns of a trace, or msr, alibaba, tencent
    #[arg(long, value_name = "PATTERN", help_heading = "Format")]
    pattern: Option<String>,
    /// Run directory to write
    #[arg(long, short, value_name = "RUNDIR")]
    out: PathBuf,
}

impl Import {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let importer = importer(&IMPORTERS.concat(), &self.kind)?;
        let configured = importer.with(&Options { map: self.map, pattern: self.pattern })?;
        configured.as_deref().unwrap_or(importer).import(&self.file, &self.out)?;
        println!("{}", self.out.display());
        Ok(ExitCode::Done.into())
    }
}
