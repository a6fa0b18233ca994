//! `senesce image twin TARGET IMAGE`: the metadata of a file system without its data.

use crate::Exit;
use crate::session::Session;
use crate::verbs::diagnose::path_of;
use clap::Args;
use senesce_core::{Bytes, ExitCode, Failure};
use senesce_diagnose::twin;
use serde_json::json;
use std::path::PathBuf;

#[derive(Args)]
pub(crate) struct Twin {
    /// Mounted directory, image or block device; never written
    target: String,
    /// New image; it holds file names, and only its owner can read it
    image: PathBuf,
    /// Freeze a mounted target during the copy
    #[arg(long, help_heading = "Target")]
    freeze: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Twin {
    pub(crate) fn run(self, session: &Session) -> Result<Exit, Failure> {
        session.progress().phase("make a twin", 0, "");
        let made = twin::make(&path_of(&self.target), &self.image, self.freeze)?;
        session.clear();
        if self.json {
            println!("{:#}", json!(made));
            return Ok(ExitCode::Done.into());
        }
        println!(
            "{}: {} of {} in {} ({:.1} s, by {})",
            made.image,
            made.file_system,
            Bytes(made.size),
            Bytes(made.bytes),
            made.seconds,
            made.copied_by
        );
        if let Some(frozen) = made.frozen_seconds {
            println!("{} was frozen for {frozen:.2} s", self.target);
        }
        println!("it contains names and sizes of files; only its owner can read it (mode 0600)");
        Ok(ExitCode::Done.into())
    }
}
