//! `senesce report RUN`: the HTML report of a run, from its record alone.

mod site;

use crate::Exit;
use crate::arguments;
use crate::display::print_analysis;
use crate::output::Output;
use crate::registry::REGISTRY;
use crate::session::Session;
use crate::table::Verb;
use clap::Args;
use clap_complete::ArgValueCompleter;
use senesce_core::output::Format;
use senesce_core::{ExitCode, Failure, Record};
use std::path::{Path, PathBuf};

/// Write the report of a run; needs neither root nor the device
#[derive(Args)]
pub struct Report {
    /// Run directories; each gets its own report
    #[arg(required = true, value_name = "RUN", value_parser = arguments::run(),
          add = ArgValueCompleter::new(arguments::complete_run))]
    runs: Vec<PathBuf>,
    /// File to write
    #[arg(long, short, value_name = "FILE", help = "File to write [default: RUN/report.html]")]
    out: Option<PathBuf>,
    /// Write a site: an index that can be searched, and a page for each run; directories are looked through for runs
    #[arg(long, value_name = "DIR", conflicts_with_all = ["out", "json", "text"])]
    site: Option<PathBuf>,
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
        if let Some(directory) = &self.site {
            return site::write(&self.runs, directory, self.output);
        }
        arguments::one_output(&self.out, &self.runs)?;
        if self.json && self.runs.len() > 1 {
            return print_results(&self.runs);
        }
        self.check_files()?;
        for run in &self.runs {
            self.report(run)?;
        }
        Ok(ExitCode::Done.into())
    }
}

impl Report {
    /// No report is written when one of them would be refused. What is no directory is refused as a run.
    fn check_files(&self) -> Result<(), Failure> {
        if self.json || self.text {
            return Ok(());
        }
        let mut files = self.runs.iter().filter(|run| run.is_dir()).map(|run| file_of(run, self.out.as_deref()));
        files.try_for_each(|file| self.output.check(Some(&file), Format::Html, b""))
    }

    fn report(&self, run: &Path) -> Result<(), Failure> {
        if !(self.json || self.text) {
            let file = write(run, self.out.as_deref(), self.output)?;
            say_written(&file);
            return Ok(());
        }
        let record = Record::open(run)?;
        let analysis = REGISTRY.analyse(&record)?;
        if self.text && record.is_partial() {
            println!("The run did not complete: this is its partial record.\n");
        }
        print_analysis(&analysis, self.json).map_err(output_failed)
    }
}

/// The results of several runs as one JSON array.
fn print_results(runs: &[PathBuf]) -> Result<Exit, Failure> {
    let result = |run: &PathBuf| Ok(REGISTRY.analyse(&Record::open(run)?)?.result);
    let results = runs.iter().map(result).collect::<Result<Vec<_>, Failure>>()?;
    println!("{:#}", serde_json::Value::Array(results));
    Ok(ExitCode::Done.into())
}

fn file_of(run: &Path, out: Option<&Path>) -> PathBuf {
    out.map_or_else(|| run.join("report.html"), PathBuf::from)
}

fn write(run: &Path, out: Option<&Path>, output: Output) -> Result<PathBuf, Failure> {
    let record = Record::open(run)?;
    let analysis = REGISTRY.analyse(&record)?;
    let file = file_of(run, out);
    output.write(&file, Format::Html, senesce_report::render_html(&analysis, &record).as_bytes())?;
    Ok(file)
}

/// Writes the report of a run into its directory, as `senesce report RUN` does.
pub fn write_default(run: &Path) -> Result<PathBuf, Failure> {
    write(run, None, Output::default())
}

/// Refuses what [`write_default`] would refuse of a run that is there already.
pub fn check_default(run: &Path) -> Result<(), Failure> {
    match run.is_dir() {
        true => Output::default().check(Some(&file_of(run, None)), Format::Html, b""),
        false => Ok(()),
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
