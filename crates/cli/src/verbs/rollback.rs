//! `senesce rollback`.

use crate::Exit;
use crate::session::Session;
use crate::table::Verb;
use clap::{Args, ValueEnum};
use senesce_core::{Bytes, ExitCode, Failure};
use senesce_volume::TargetSpec;
use senesce_volume::snapshot::{RollbackReport, Scope, Snapshots, Verify};
use serde_json::json;
use std::path::PathBuf;

/// Bring an image or a device back to a snapshot
#[derive(Args)]
pub struct Rollback {
    /// Image or block device; it must not be mounted
    target: String,
    /// Name of the snapshot
    name: String,
    /// Restore everything, whatever seems to be unchanged
    #[arg(long)]
    full: bool,
    /// How much is compared with the snapshot: here everything in any case
    #[arg(long, value_enum, value_name = "HOW MUCH", num_args = 0..=1, default_value = "auto", default_missing_value = "full")]
    verify: HowMuch,
    /// Where snapshots lie
    #[arg(
        long,
        value_name = "DIR",
        help = "Where snapshots lie [default: IMAGE.snapshots, for a device the cache directory]"
    )]
    store: Option<PathBuf>,
    /// Repeats the target's path: it is the one of the snapshot, although the image was moved, or the device has no serial number
    /// and the machine was booted or the device attached anew since
    #[arg(long, value_name = "TARGET")]
    erase: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Verb for Rollback {
    const NAME: &'static str = "rollback";
    const ABOUT: &'static str = "Bring an image or a device back to a snapshot; all later changes are lost";

    fn run(self, _session: &Session) -> Result<Exit, Failure> {
        let target = TargetSpec::existing(&self.target)?;
        let mut snapshots = Snapshots::allowing(&target, self.store.as_deref(), self.erase.as_deref())?;
        let report = snapshots.rollback(&self.name, self.full)?;
        match self.json {
            true => println!("{:#}", json!(report)),
            false => println!("{}", text_of(&report)),
        }
        Ok(exit_of(&report))
    }
}

/// How much is compared with a snapshot.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum HowMuch {
    /// Everything up to 16 GiB; beyond that what was written and one percent of the rest
    Auto,
    /// Everything
    Full,
}

impl From<HowMuch> for Verify {
    fn from(how_much: HowMuch) -> Self {
        match how_much {
            HowMuch::Auto => Self::Auto,
            HowMuch::Full => Self::Full,
        }
    }
}

/// One line for people.
pub fn text_of(report: &RollbackReport) -> String {
    let verification = &report.verification;
    let scope = match verification.scope {
        Scope::All => "all that is allocated",
        Scope::WrittenAndSample => "what was written and a sample of one percent",
    };
    let found = match (report.verified, verification.differing_bytes) {
        (false, _) => ": the content DIFFERS, the snapshot is damaged".to_string(),
        (true, 0) => ", equal".to_string(),
        (true, differed) => format!(", {differed} bytes that differed were restored"),
    };
    let note = report.note.as_ref().map(|note| format!(" ({note})")).unwrap_or_default();
    let restored = match report.method.as_str() {
        "unchanged" => "nothing differed, nothing was restored".to_string(),
        method => {
            format!("{} bytes in {} ranges restored by {method}", report.restored_bytes, report.extents)
        }
    };
    format!(
        "{restored} in {:.3} s; {} compared with the snapshot's digests in {:.3} s ({scope}){found}{note}",
        report.elapsed_seconds,
        Bytes(verification.compared_bytes),
        verification.seconds
    )
}

/// A comparison that failed is a negative verdict.
pub fn exit_of(report: &RollbackReport) -> Exit {
    match report.verified {
        false => ExitCode::Negative.into(),
        true => ExitCode::Done.into(),
    }
}
