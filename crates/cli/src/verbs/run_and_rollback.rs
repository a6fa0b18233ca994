//! `senesce run-and-rollback TARGET NAME -- COMMAND`.

use crate::Exit;
use crate::output::Output;
use crate::session::Session;
use crate::table::Verb;
use crate::verbs::rollback::{HowMuch, exit_of, text_of};
use clap::Args;
use senesce_core::interrupt::Hold;
use senesce_core::output::Format;
use senesce_core::{ExitCode, Failure};
use senesce_runs::trace::{CommandLine, Summary, run_command};
use senesce_volume::TargetSpec;
use senesce_volume::snapshot::Snapshots;
use serde_json::json;
use std::path::PathBuf;

/// Mount a target, run a command on it, undo what it wrote
#[derive(Args)]
pub struct RunAndRollback {
    /// Image or block device; it must not be mounted and must be as the snapshot left it
    target: String,
    /// Name of the snapshot
    name: String,
    /// How much is compared with the snapshot afterwards
    #[arg(long, value_enum, value_name = "HOW MUCH", num_args = 0..=1, default_value = "auto", default_missing_value = "full")]
    verify: HowMuch,
    /// Mount options
    #[arg(long, default_value = "", value_name = "OPTIONS")]
    mount_options: String,
    /// Where snapshots lie
    #[arg(
        long,
        value_name = "DIR",
        help = "Where snapshots lie [default: IMAGE.snapshots, for a device the cache directory]"
    )]
    store: Option<PathBuf>,
    /// Write the result to FILE
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
    /// The command; {} and $SENESCE_MNT are the mount point
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl Verb for RunAndRollback {
    const NAME: &'static str = "run-and-rollback";
    const ABOUT: &'static str = "Mount a target, run a command on it and restore the blocks that it wrote or discarded";

    fn run(self, session: &Session) -> Result<Exit, Failure> {
        self.output.check(self.json.as_deref(), Format::Json, b"")?;
        let interrupt = session.interrupt()?;
        let mut snapshots = Snapshots::of(&TargetSpec::existing(&self.target)?, self.store.as_deref())?;
        let command = CommandLine { words: self.command.clone(), output_to_stderr: false, spares: false };
        // A rollback that has begun is completed.
        let _hold = Hold::new();
        let traced =
            snapshots.run_and_rollback(&self.name, &self.mount_options, self.verify.into(), |mount_point| {
                Ok(run_command(&command, mount_point))
            })?;
        eprintln!("{}", text_of(&traced.rollback));
        traced.kernel_warnings.iter().for_each(|warning| eprintln!("kernel: {warning}"));
        let status = traced.result??;
        if let Some(path) = &self.json {
            let mut result = json!(traced.rollback);
            result["exit_status"] = status.into();
            result["trace"] = Summary::of(&traced.trace)?.to_json();
            result["kernel_warnings"] = json!(traced.kernel_warnings);
            self.output.write(path, Format::Json, format!("{result:#}\n").as_bytes())?;
        }
        match (traced.rollback.verified, interrupt.requested(), status) {
            (false, ..) => Ok(exit_of(&traced.rollback)),
            (_, true, _) => Ok(ExitCode::Interrupted.into()),
            (.., status) => Ok(Exit::Command(status)),
        }
    }
}
