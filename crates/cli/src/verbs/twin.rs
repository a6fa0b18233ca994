//! `senesce twin TARGET IMAGE`: the metadata of a file system without its data.

use crate::Exit;
use crate::session::Session;
use crate::table::Verb;
use crate::verbs::prognosis::path_of;
use clap::Args;
use senesce_core::{Bytes, ExitCode, Failure};
use senesce_prognosis::twin;
use serde_json::json;
use std::path::PathBuf;

/// Copy the metadata of a file system into a sparse image
#[derive(Args)]
pub struct Twin {
    /// Mounted directory, image or block device; it is only read
    target: String,
    /// Image to make; it must not exist. It holds names of files and is readable for its owner alone
    image: PathBuf,
    /// Stop all writing to a mounted target for the time of the copy
    #[arg(long)]
    freeze: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Verb for Twin {
    const NAME: &'static str = "twin";
    const ABOUT: &'static str =
        "Copy the metadata of a file system, without its data, into a sparse image to try things on";

    fn run(self, session: &Session) -> Result<Exit, Failure> {
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
        println!("it holds names and sizes of files and is readable for its owner alone (mode 0600)");
        Ok(ExitCode::Done.into())
    }
}
