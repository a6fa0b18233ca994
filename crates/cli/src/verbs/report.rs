//! `senesce report RUN`: the HTML report of a run, from its record alone.

use crate::Exit;
use crate::display::print_analysis;
use crate::output::Output;
use crate::registry::REGISTRY;
use crate::session::Session;
use crate::table::Verb;
use clap::Args;
use senesce_core::output::Format;
use senesce_core::{ExitCode, Failure, Record};
use std::path::{Path, PathBuf};

/// Write the report of a run; needs neither root nor the device
#[derive(Args)]
pub struct Report {
    /// Run directory
    run: PathBuf,
    /// File to write
    #[arg(long, short, value_name = "FILE", help = "File to write [default: RUN/report.html]")]
    out: Option<PathBuf>,
    /// Print the result as JSON instead of writing a report
    #[arg(long, conflicts_with_all = ["out", "text"])]
    json: bool,
    /// Print tables and findings as text instead of writing a report
    #[arg(long, conflicts_with = "out")]
    text: bool,
    #[command(flatten)]
    output: Output,
}

impl Verb for Report {
    const NAME: &'static str = "report";
    const ABOUT: &'static str = "Write the report of a run as one HTML file, from its record alone";

    fn run(self, _session: &Session) -> Result<Exit, Failure> {
        let record = Record::open(&self.run)?;
        let analysis = REGISTRY.analyse(&record)?;
        if self.json || self.text {
            if self.text && record.is_partial() {
                println!("The run did not complete: this is its partial record.\n");
            }
            print_analysis(&analysis, self.json).map_err(output_failed)?;
            return Ok(ExitCode::Done.into());
        }
        let file = self.out.unwrap_or_else(|| self.run.join("report.html"));
        let html = senesce_report::render_html(&analysis, &record);
        self.output.write(&file, Format::Html, html.as_bytes())?;
        say_written(&file);
        Ok(ExitCode::Done.into())
    }
}

/// Names the file, unless standard output or a device took its content.
pub fn say_written(file: &Path) {
    if file.symlink_metadata().is_ok_and(|found| found.is_file()) {
        println!("{}", file.display());
    }
}

/// Standard output could not be written.
pub fn output_failed(error: std::io::Error) -> Failure {
    if error.kind() == std::io::ErrorKind::BrokenPipe {
        std::process::exit(0);
    }
    Failure::new(ExitCode::RunFailed, format!("write standard output: {error}"))
}
