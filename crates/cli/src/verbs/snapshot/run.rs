//! `senesce snapshot run TARGET NAME -- COMMAND`.

use super::Subject;
use super::restore::{VerifyShare, exit_of, text_of};
use crate::Exit;
use crate::output::Output;
use crate::session::Session;
use clap::Args;
use senesce_core::interrupt::InterruptGuard;
use senesce_core::output::Format;
use senesce_core::{ExitCode, Failure};
use senesce_runs::trace::{CommandLine, Summary, run_command};
use serde_json::json;
use std::path::PathBuf;

#[derive(Args)]
pub(crate) struct Run {
    #[command(flatten)]
    subject: Subject,
    /// Name of the snapshot; the target must be unchanged since
    name: String,
    /// Content to compare: auto or full
    #[arg(long, value_enum, value_name = "SHARE", hide_possible_values = true, help_heading = "Restore", num_args = 0..=1, default_value = "auto", default_missing_value = "full")]
    verify: VerifyShare,
    /// Mount options
    #[arg(long, default_value = "", hide_default_value = true, value_name = "OPTIONS")]
    mount_options: String,
    /// Write the result to FILE
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
    /// Command to run; {} and $SENESCE_MNT stand for the mount point
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl Run {
    pub(crate) fn run(self, session: &Session) -> Result<Exit, Failure> {
        self.output.check(self.json.as_deref(), Format::Json, b"")?;
        let interrupt = session.interrupt()?;
        let mut snapshots = self.subject.snapshots()?;
        let command = CommandLine { words: self.command.clone(), output_to_stderr: false, spares: false };
        // A rollback that has begun is completed.
        let _hold = InterruptGuard::new();
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
