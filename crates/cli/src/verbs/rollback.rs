//! `senesce rollback`.

use crate::Exit;
use crate::session::Session;
use crate::table::Verb;
use clap::Args;
use senesce_core::{ExitCode, Failure};
use senesce_target::TargetSpec;
use senesce_target::snapshot::{RollbackReport, Snapshots};
use serde_json::json;
use std::path::PathBuf;

/// Bring an image or a device back to a snapshot
#[derive(Args)]
pub struct Rollback {
    /// Image or block device; it must not be mounted
    target: String,
    /// Name of the snapshot
    name: String,
    /// Compare every byte afterwards
    #[arg(long)]
    verify: bool,
    /// Where snapshots lie
    #[arg(
        long,
        value_name = "DIR",
        help = "Where snapshots lie [default: IMAGE.snapshots, for a device the cache directory]"
    )]
    store: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Verb for Rollback {
    const NAME: &'static str = "rollback";
    const ABOUT: &'static str = "Bring an image or a device back to a snapshot; all later changes are lost";

    fn run(self, _session: &Session) -> Result<Exit, Failure> {
        let mut snapshots = Snapshots::of(&TargetSpec::existing(&self.target)?, self.store.as_deref())?;
        let report = snapshots.rollback(&self.name, self.verify)?;
        match self.json {
            true => println!("{:#}", json!(report)),
            false => println!("{}", in_words(&report)),
        }
        Ok(exit_of(&report))
    }
}

/// One line for people.
pub fn in_words(report: &RollbackReport) -> String {
    let verified = match report.verified {
        Some(true) => ", every byte verified",
        Some(false) => ", but the content DIFFERS from the snapshot",
        None => "",
    };
    let note = report.note.as_ref().map(|note| format!(" ({note})")).unwrap_or_default();
    format!(
        "{} bytes in {} ranges restored by {} in {:.3} s{verified}{note}",
        report.restored_bytes, report.extents, report.method, report.elapsed_seconds
    )
}

/// A comparison that failed is a negative verdict.
pub fn exit_of(report: &RollbackReport) -> Exit {
    match report.verified {
        Some(false) => ExitCode::Negative.into(),
        _ => ExitCode::Done.into(),
    }
}
