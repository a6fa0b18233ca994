//! `senesce trace TARGET -- COMMAND`.

use crate::Exit;
use crate::session::Session;
use crate::table::Verb;
use clap::Args;
use senesce_core::record::write_atomically;
use senesce_core::{Environment, ExitCode, Failure};
use senesce_experiments::verbs::trace::{self, CommandLine, TraceRequest, Traced};
use senesce_target::TargetSpec;
use senesce_target::trace::blkparse;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Trace the requests of a device while a command runs
#[derive(Args)]
pub struct Trace {
    /// Image (image:FILE), block device or directory of a mounted file system
    target: String,
    /// Write the result to FILE
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Keep trace and result as a run directory
    #[arg(long, value_name = "RUNDIR")]
    out: Option<PathBuf>,
    /// Write the trace to FILE (16 bytes per request)
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Write the trace as the text of blkparse
    #[arg(
        long,
        value_name = "FILE",
        help = "Write the trace as the text of blkparse; - is standard output, and the command's goes to standard error"
    )]
    text: Option<PathBuf>,
    /// Mount options for an image or a device
    #[arg(long, default_value = "", value_name = "OPTIONS")]
    mount_options: String,
    /// Mount without writing, not even the journal
    #[arg(long)]
    read_only: bool,
    /// Keep the caches instead of dropping them before the command
    #[arg(long)]
    warm: bool,
    /// The command; {} and $SENESCE_MNT are the mount point
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl Verb for Trace {
    const NAME: &'static str = "trace";
    const ABOUT: &'static str =
        "Record the block requests of a command: dynamic layout score, load, modelled device time";

    fn run(self, session: &Session) -> Result<Exit, Failure> {
        let target = TargetSpec::existing(&self.target)?;
        let output_to_stderr = self.text.as_deref() == Some(Path::new("-"));
        let interrupt = session.interrupt()?;
        let request = TraceRequest {
            target,
            mount_options: self.mount_options.clone(),
            read_only: self.read_only,
            warm: self.warm,
            command: CommandLine { words: self.command.clone(), output_to_stderr },
        };
        let traced = trace::trace_command(&request)?;
        self.write(&traced)?;
        if traced.summary.measures.lost_events > 0 {
            return Err(Failure::new(
                ExitCode::RunFailed,
                format!(
                    "{} events of the trace were lost: the result is not valid; run it again on a quieter machine",
                    traced.summary.measures.lost_events
                ),
            ));
        }
        if interrupt.requested() {
            return Ok(ExitCode::Interrupted.into());
        }
        Ok(Exit::Command(traced.exit_status))
    }
}

impl Trace {
    fn write(&self, traced: &Traced) -> Result<(), Failure> {
        let mut result = traced.summary.to_json();
        result["exit_status"] = traced.exit_status.into();
        if let Some(path) = &self.json {
            write_atomically(path, format!("{result:#}\n").as_bytes())?;
        } else {
            eprintln!("{result:#}");
        }
        if let Some(path) = &self.save {
            traced.trace.save(path)?;
        }
        if let Some(path) = &self.text {
            write_text(traced, path)?;
        }
        if let Some(out) = &self.out {
            let mut facts = Environment::capture();
            facts.0.extend(traced.environment.0.clone());
            trace::record(&traced.trace, &traced.summary, self.settings(), &facts, out)?;
            eprintln!("{}", out.display());
        }
        Ok(())
    }

    fn settings(&self) -> BTreeMap<String, String> {
        let text = |flag: bool| flag.to_string();
        BTreeMap::from([
            ("target".to_string(), self.target.clone()),
            ("command".to_string(), self.command.join(" ")),
            ("mount-options".to_string(), self.mount_options.clone()),
            ("read-only".to_string(), text(self.read_only)),
            ("warm".to_string(), text(self.warm)),
        ])
    }
}

fn write_text(traced: &Traced, path: &Path) -> Result<(), Failure> {
    let mut text = Vec::new();
    let failed = |error| Failure::new(ExitCode::RunFailed, format!("write {}: {error}", path.display()));
    blkparse::export(&traced.trace, traced.device_number, &mut text).map_err(failed)?;
    match path == Path::new("-") {
        true => std::io::stdout().lock().write_all(&text).map_err(failed),
        false => Ok(write_atomically(path, &text)?),
    }
}
