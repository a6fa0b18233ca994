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
    #[arg(long, value_name = "DIGEST", value_parser = digest, help_heading = "Target")]
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
            print(&found, self.layout.as_deref());
        }
        Ok(if found.good { ExitCode::Done } else { ExitCode::Negative }.into())
    }
}

/// Accepts one or two hashes of 16 hexadecimal digits, as in `layout_digest`.
fn digest(text: &str) -> Result<String, String> {
    let is_hash = |word: &str| word.len() == 16 && word.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let (files, free) = text.split_once('-').map_or((text, None), |(files, free)| (files, Some(free)));
    match is_hash(files) && free.is_none_or(is_hash) {
        true => Ok(text.into()),
        false => Err("expected one or two hashes of 16 digits, such as the layout_digest of age --json".into()),
    }
}

/// Prints the result. `expected`: digest of the layout.
fn print(found: &senesce_exp_aging::age::Verification, expected: Option<&str>) {
    if let Some(difference) = &found.wrong_target {
        println!("target: {difference}");
    }
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
        let digest = layout.digest.as_deref().unwrap_or("unknown");
        match expected.filter(|_| !layout.is_expected) {
            Some(expected) => println!("layout: {digest}, but {expected} was expected"),
            None => println!("layout: as expected ({digest})"),
        }
    }
    if found.layout.is_none() && found.layout_matches == Some(false) {
        println!("note: the layout is not the recorded one; use of the file system may move files");
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

#[cfg(test)]
mod tests {
    use super::digest;

    #[test]
    fn only_digests_of_layouts_are_accepted() {
        for good in ["0123456789abcdef", "0123456789abcdef-fedcba9876543210"] {
            assert_eq!(digest(good).as_deref(), Ok(good));
        }
        for bad in ["", "abc", "-", "0123456789abcdef-", "0123456789ABCDEF", "0123456789abcdef-fedcba9876543210-0"] {
            assert!(digest(bad).is_err(), "{bad}");
        }
    }
}
