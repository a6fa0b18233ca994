//! `senesce snapshot`.

use crate::Exit;
use crate::session::Session;
use crate::table::Verb;
use clap::Args;
use senesce_core::{ExitCode, Failure};
use senesce_volume::TargetSpec;
use senesce_volume::snapshot::{Method, Snapshots};
use serde_json::json;
use std::path::PathBuf;

/// Save the content of an image or a device under a name
#[derive(Args)]
pub struct Snapshot {
    /// Image or block device; it must not be mounted
    target: String,
    /// Name of the snapshot; without it the snapshots are listed
    name: Option<String>,
    /// Copy also where the host could share blocks (a loop device over shared blocks writes slower)
    #[arg(long)]
    copy: bool,
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

impl Verb for Snapshot {
    const NAME: &'static str = "snapshot";
    const ABOUT: &'static str = "Save the content of an image or a device, to go back to it with rollback";

    fn run(self, _session: &Session) -> Result<Exit, Failure> {
        let snapshots = Snapshots::of(&TargetSpec::existing(&self.target)?, self.store.as_deref())?;
        let Some(name) = &self.name else {
            let names = snapshots.names();
            match self.json {
                true => println!("{}", json!(names)),
                false => names.iter().for_each(|name| println!("{name}")),
            }
            return Ok(ExitCode::Done.into());
        };
        let method = if self.copy { Method::Copy } else { Method::Reflink };
        let manifest = snapshots.create(name, method)?;
        match self.json {
            true => println!("{}", json!({"name": name, "size_bytes": manifest.size, "method": manifest.method})),
            false => println!("{name}: {} bytes saved by {}", manifest.size, manifest.method),
        }
        Ok(ExitCode::Done.into())
    }
}
