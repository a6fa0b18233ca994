//! `senesce snapshot restore`.

use super::Subject;
use crate::Exit;
use clap::{Args, ValueEnum};
use senesce_core::{Bytes, ExitCode, Failure, number_of};
use senesce_volume::TargetSpec;
use senesce_volume::snapshot::{RollbackReport, Scope, Snapshots, Verify};
use serde_json::json;

#[derive(Args)]
pub(crate) struct Restore {
    #[command(flatten)]
    subject: Subject,
    /// Name of the snapshot
    name: String,
    /// Write every block, even the unchanged ones
    #[arg(long, help_heading = "Restore")]
    full: bool,
    /// Content to compare: auto or full
    #[arg(long, value_enum, value_name = "SHARE", hide_possible_values = true, help_heading = "Restore", num_args = 0..=1, default_value = "auto", default_missing_value = "full")]
    verify: VerifyShare,
    /// Confirm a moved target: repeat its path
    #[arg(long, value_name = "TARGET")]
    erase: Option<String>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Restore {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let target = TargetSpec::existing(&self.subject.target)?;
        let mut snapshots = Snapshots::allowing(&target, self.subject.store.as_deref(), self.erase.as_deref())?;
        let report = snapshots.rollback(&self.name, self.full)?;
        match self.json {
            true => println!("{:#}", json!(report)),
            false => println!("{}", text_of(&report)),
        }
        Ok(exit_of(&report))
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum VerifyShare {
    /// All up to 16 GiB; above that, the written blocks and 1 % of the rest
    Auto,
    /// All allocated blocks
    Full,
}

impl From<VerifyShare> for Verify {
    fn from(share: VerifyShare) -> Self {
        match share {
            VerifyShare::Auto => Self::Auto,
            VerifyShare::Full => Self::Full,
        }
    }
}

pub(crate) fn text_of(report: &RollbackReport) -> String {
    let verification = &report.verification;
    let scope = match verification.scope {
        Scope::All => "all allocated blocks",
        Scope::WrittenAndSample => "the written blocks and 1 % of the rest",
    };
    let found = match (report.verified, verification.differing_bytes) {
        (false, _) => ": the content DIFFERS, the snapshot is damaged".to_string(),
        (true, 0) => ", equal".to_string(),
        (true, differed) => format!(", {differed} bytes that differed were restored"),
    };
    let note = report.note.as_ref().map(|note| format!(" ({note})")).unwrap_or_default();
    let restored = match report.method.as_str() {
        "unchanged" => "no differences, nothing was restored".to_string(),
        method => {
            let ranges = number_of(report.extents, "range");
            format!("{} bytes in {ranges} restored by {method}", report.restored_bytes)
        }
    };
    format!(
        "{restored} in {:.3} s; {} compared with the snapshot's digests in {:.3} s ({scope}){found}{note}",
        report.elapsed_seconds,
        Bytes(verification.compared_bytes),
        verification.seconds
    )
}

pub(crate) fn exit_of(report: &RollbackReport) -> Exit {
    match report.verified {
        false => ExitCode::Negative.into(),
        true => ExitCode::Done.into(),
    }
}
