//! `senesce import`: other people's data as a run directory.

use crate::Exit;
use crate::registry::IMPORTERS;
use crate::session::Session;
use crate::table::Verb;
use clap::Args;
use senesce_core::{ExitCode, Failure};
use senesce_runs::import::{Options, importer};
use std::path::PathBuf;

/// Turn foreign results into a run directory
#[derive(Args)]
pub struct Import {
    /// Kind: fio, hyperfine, ior, mdtest, blktrace, blkparse, zns-study, table, trace
    kind: String,
    /// The file or folder
    file: PathBuf,
    /// Run directory to write
    #[arg(long, short, value_name = "RUNDIR")]
    out: PathBuf,
    /// table: columns, for example "name=1,value=3,unit='ms'"; repeat for further values of a row
    #[arg(long, value_name = "MAP")]
    map: Vec<String>,
    /// trace: msr, systor17, alibaba, tencent, fio-iolog, or columns: time:us,device,op,offset,size
    #[arg(long, value_name = "PATTERN")]
    pattern: Option<String>,
}

impl Verb for Import {
    const NAME: &'static str = "import";
    const ABOUT: &'static str =
        "Turn other people's results and traces into a run directory (fio, IOR, mdtest, blktrace, any table ...)";

    fn run(self, _session: &Session) -> Result<Exit, Failure> {
        let importer = importer(&IMPORTERS.concat(), &self.kind)?;
        let configured = importer.with(&Options { map: self.map, pattern: self.pattern })?;
        configured.as_deref().unwrap_or(importer).import(&self.file, &self.out)?;
        println!("{}", self.out.display());
        Ok(ExitCode::Done.into())
    }
}
