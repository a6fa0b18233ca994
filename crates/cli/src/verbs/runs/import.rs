//! `senesce runs import KIND FILE`: results and traces of other programs as a run directory.

use crate::Exit;
use crate::registry::IMPORTERS;
use clap::Args;
use senesce_core::{ExitCode, Failure};
use senesce_runs::import::{Options, importer};
use std::path::PathBuf;

#[derive(Args)]
pub struct Import {
    /// Format: fio, hyperfine, ior, mdtest, blktrace, blkparse, zns-study, table, trace
    kind: String,
    /// File or directory
    file: PathBuf,
    /// Run directory to write
    #[arg(long, short, value_name = "RUNDIR")]
    out: PathBuf,
    /// table: columns, such as "name=1,value=3,unit='ms'"; repeat for more values of a row
    #[arg(long, value_name = "MAP")]
    map: Vec<String>,
    /// trace: msr, systor17, alibaba, tencent, fio-iolog, or columns such as time:us,device,op,offset,size
    #[arg(long, value_name = "PATTERN")]
    pattern: Option<String>,
}

impl Import {
    pub fn run(self) -> Result<Exit, Failure> {
        let importer = importer(&IMPORTERS.concat(), &self.kind)?;
        let configured = importer.with(&Options { map: self.map, pattern: self.pattern })?;
        configured.as_deref().unwrap_or(importer).import(&self.file, &self.out)?;
        println!("{}", self.out.display());
        Ok(ExitCode::Done.into())
    }
}
