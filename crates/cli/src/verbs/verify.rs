//! `senesce verify RUN`.

use crate::Exit;
use crate::arguments::{self, Eligible};
use crate::output::output_failed;
use crate::session::Session;
use crate::verb_table::Verb;
use clap::Args;
use clap_complete::ArgValueCompleter;
use senesce_core::{ExitCode, Failure};
use senesce_exp_aging::age::verify;
use senesce_volume::MARKER;
use std::path::PathBuf;

/// Check an aged target against its record
#[derive(Args)]
pub(crate) struct Verify {
    /// Run directory of an aging
    #[arg(value_parser = arguments::run_among(Eligible::AGINGS), add = ArgValueCompleter::new(arguments::complete_run))]
    run: PathBuf,
    /// Expected digest of the layout (layout_digest of age --json)
    #[arg(long, value_name = "DIGEST", help_heading = "Target")]
    layout: Option<String>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Verb for Verify {
    const NAME: &'static str = "verify";
    const ABOUT: &'static str = "Check an aged file system against its record";
    const EXAMPLES: &'static [&'static str] = &["sudo senesce verify latest"];

    fn run(self, session: &Session) -> Result<Exit, Failure> {
        let found = verify(&self.run, self.layout.as_deref(), session.progress())?;
        session.clear();
        if self.json {
            println!("{}", serde_json::to_string_pretty(&found).map_err(|error| output_failed(error.into()))?);
        } else {
            print(&found);
        }
        Ok(if found.good { ExitCode::Done } else { ExitCode::Negative }.into())
    }
}

fn print(found: &senesce_exp_aging::age::Verification) {
    let files = &found.files;
    println!(
        "files: {} expected (without the marker {MARKER}), {} bytes compared; {} missing, {} with another size, {} with other content, {} \
         unknown",
        files.files, files.bytes, files.missing, files.wrong_size, files.wrong_content, files.strangers
    );
    if files.missing_directories > 0 {
        println!("directories: {} missing", files.missing_directories);
    }
    for example in &files.examples {
        println!("  {example}");
    }
    if let Some(layout) = &found.layout {
        let word = if layout.is_expected { "as expected" } else { "NOT as expected" };
        println!("layout: {word} ({})", layout.digest.as_deref().unwrap_or("unknown"));
    }
    match &found.file_system {
        Some(report) => {
            println!("file system: {} ({})", if report.clean { "clean" } else { "NOT clean" }, report.command);
            if !report.clean {
                println!("{}", report.output);
            }
        }
        None => println!("file system: not checked, {}", found.not_checked),
    }
    println!("{}", if found.good { "the target matches the record" } else { "the target differs from the record" });
}
