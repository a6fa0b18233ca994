//! `senesce snapshot create|list|restore|run`.

mod restore;
mod run;

use crate::Exit;
use crate::session::Session;
use crate::verb_table::Verb;
use clap::{Args, Subcommand};
use restore::Restore;
use run::Run;
use senesce_core::{Bytes, ExitCode, Failure};
use senesce_volume::TargetSpec;
use senesce_volume::snapshot::{Method, Snapshots};
use serde_json::json;
use std::path::PathBuf;

/// Snapshots of an image or a device
#[derive(Args)]
pub(crate) struct Snapshot {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Save the content under a name
    Create(Create),
    /// List the snapshots
    List {
        #[command(flatten)]
        subject: Subject,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Restore a snapshot; all later changes are lost
    Restore(Restore),
    /// Mount, run a command, and restore the blocks that it changed
    Run(Run),
}

/// The image or device, and the directory of its snapshots.
#[derive(Args)]
struct Subject {
    /// Image or block device; it must not be mounted
    target: String,
    /// Snapshots [default: IMAGE.snapshots or cache]
    #[arg(long, value_name = "DIR", help_heading = "Target")]
    store: Option<PathBuf>,
}

impl Subject {
    fn snapshots(&self) -> Result<Snapshots, Failure> {
        Ok(Snapshots::of(&TargetSpec::existing(&self.target)?, self.store.as_deref())?)
    }
}

#[derive(Args)]
struct Create {
    #[command(flatten)]
    subject: Subject,
    /// Name of the snapshot
    name: String,
    /// Copy blocks even if the host can share them
    #[arg(long, help_heading = "Target")]
    copy: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Verb for Snapshot {
    const NAME: &'static str = "snapshot";
    const ABOUT: &'static str = "Save and restore the content of an image or a device";
    const EXAMPLES: &'static [&'static str] = &[
        "sudo senesce snapshot create old.img clean",
        "sudo senesce snapshot run old.img clean -- fio --directory={} job.fio",
        "sudo senesce snapshot restore old.img clean",
    ];

    fn run(self, session: &Session) -> Result<Exit, Failure> {
        match self.action {
            Action::Create(create) => create.run(),
            Action::List { subject, json } => list(&subject, json),
            Action::Restore(restore) => restore.run(),
            Action::Run(run) => run.run(session),
        }
    }
}

fn list(subject: &Subject, json: bool) -> Result<Exit, Failure> {
    let names = subject.snapshots()?.names();
    match json {
        true => println!("{}", json!(names)),
        false => names.iter().for_each(|name| println!("{name}")),
    }
    Ok(ExitCode::Done.into())
}

impl Create {
    fn run(self) -> Result<Exit, Failure> {
        let method = if self.copy { Method::Copy } else { Method::Reflink };
        let manifest = self.subject.snapshots()?.create(&self.name, method)?;
        match self.json {
            true => println!("{}", json!({"name": self.name, "size_bytes": manifest.size, "method": manifest.method})),
            false => println!("{}: {} stored by {}", self.name, Bytes(manifest.size), manifest.method),
        }
        Ok(ExitCode::Done.into())
    }
}
