//! `senesce diagnose TARGET`: cost of age, useful remedies, and remaining files.

use crate::Exit;
use crate::display::print_analysis;
use crate::experiment_text::Tables;
use crate::output::Output;
use crate::output::output_failed;
use crate::session::Session;
use crate::verb_table::Verb;
use clap::Args;
use senesce_core::output::Format;
use senesce_core::plan::Plan;
use senesce_core::record::{Record, RunDirectory};
use senesce_core::seed::DEFAULT_SEED;
use senesce_core::{Environment, ExitCode, Failure, Table};
use senesce_diagnose::estimate::{self, Prognosis};
use senesce_diagnose::headroom::{NAME_BYTES, NAME_BYTES_ALLOWED};
use senesce_diagnose::reading::Order;
use senesce_diagnose::record::{self, Trend};
use senesce_diagnose::twin::{self, TrialRequest, TrialSetup};
use senesce_diagnose::{Options, analysis, prometheus};
use senesce_volume::ScratchDirectory;
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Diagnose a file system without changing it
#[derive(Args)]
pub(crate) struct Diagnose {
    /// Mounted directory, image or block device; never written
    target: String,
    /// Drive model for the times
    #[arg(long, default_value = "auto", value_name = "NAME|FILE")]
    model: String,
    /// Read order: readdir or path
    #[arg(long, default_value = "readdir", value_name = "ORDER", value_parser = ["readdir", "path"], hide_possible_values = true,
          help_heading = "Measurement")]
    order: String,
    /// Name length of new files
    #[arg(long, default_value_t = NAME_BYTES, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(NAME_BYTES_ALLOWED),
          help_heading = "Measurement")]
    name_length: u64,
    /// Try remedies, new files and COMMAND on a metadata copy
    #[arg(long = "try", help_heading = "Trial")]
    try_on_twin: bool,
    /// Try only remedies or only creations
    #[arg(long, value_name = "WHAT", value_parser = ["remedies", "creations"], hide_possible_values = true,
          requires = "try_on_twin", help_heading = "Trial")]
    only: Option<String>,
    /// Maximum passes of the defragmenter
    #[arg(long, value_name = "N", default_value_t = 3, requires = "try_on_twin", help_heading = "Trial")]
    passes: u32,
    /// Freeze a mounted target during the copy
    #[arg(long, requires = "try_on_twin", help_heading = "Trial")]
    freeze: bool,
    /// Command to try on the copy; {} is its mount point
    #[arg(last = true, requires = "try_on_twin", value_name = "COMMAND")]
    command: Vec<String>,
    /// Append the result to DIR; several show a trend
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    record: Option<PathBuf>,
    /// Write an HTML page to FILE
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write Prometheus metrics to FILE
    #[arg(long, value_name = "FILE")]
    prometheus: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    output: Output,
}

impl Verb for Diagnose {
    const NAME: &'static str = "diagnose";
    const ABOUT: &'static str = "Show the cost of age, remedies, and how many files still fit";
    const EXAMPLES: &'static [&'static str] = &["senesce diagnose /mnt/data", "sudo senesce diagnose old.img --try"];

    fn run(self, session: &Session) -> Result<Exit, Failure> {
        let metrics = (self.prometheus.as_deref(), Format::Text, &b"# HELP senesce_"[..]);
        self.output.check_all(&[(self.html.as_deref(), Format::Html, b""), metrics])?;
        self.record.as_deref().map_or(Ok(()), |directory| self.output.check_below(directory, &[]))?;
        let target = path_of(&self.target);
        let order = if self.order == "path" { Order::Path } else { Order::Readdir };
        let options = Options { model: self.model.clone(), order, threads: 0, name_length: self.name_length };
        let mut found = estimate::prognosis(&target, &options)?;
        let mut failure = None;
        if self.try_on_twin {
            match self.tried(&target, &options, &found, session) {
                Ok(tried) => found.take_trial(tried),
                Err(error) if error.exit_code() == ExitCode::RunFailed => {
                    found.notes.push(format!("no trial: {error}"));
                    failure = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        session.clear();
        let trends = match &self.record {
            Some(directory) => {
                let history = record::keep(directory, &found)?;
                found.notes.extend(history.note());
                record::trends(&history.kept)
            }
            None => Vec::new(),
        };
        if let Some(file) = &self.prometheus {
            self.output.write(file, Format::Text, prometheus::text(&found).as_bytes())?;
        }
        if let Some(file) = &self.html {
            self.output.write(file, Format::Html, self.page(&found, &trends)?.as_bytes())?;
        }
        self.print(&found, &trends)?;
        match failure {
            Some(failure) => Err(failure),
            None if found.twin.as_ref().is_some_and(twin::TrialResult::has_failed) => Ok(ExitCode::RunFailed.into()),
            None => Ok(ExitCode::Done.into()),
        }
    }
}

impl Diagnose {
    fn tried(
        &self,
        target: &Path,
        options: &Options,
        found: &Prognosis,
        session: &Session,
    ) -> Result<twin::TrialResult, Failure> {
        let interrupt = session.interrupt()?;
        let scratch = ScratchDirectory::large("twin")?;
        let image = scratch.path().join("twin.img");
        session.progress().phase("make a twin", 0, "");
        let made = twin::make(target, &image, self.freeze)?;
        let model = found.drive.parameters()?;
        let setup = TrialSetup {
            twin: &image,
            file_system: made.file_system,
            mount_options: made.mount_options.clone(),
            options,
            model: &model,
            progress: session.progress(),
            interrupt: &interrupt,
        };
        let wanted = TrialRequest {
            create: self.only.as_deref() != Some("remedies"),
            passes: if self.only.as_deref() == Some("creations") { 0 } else { self.passes },
            command: self.command.clone(),
        };
        Ok(setup.run(&found.target, made, &wanted)?)
    }

    fn print(&self, found: &Prognosis, trends: &[Trend]) -> Result<(), Failure> {
        if self.json {
            let mut value = json!(found);
            if self.record.is_some() {
                value["trend"] = json!(trends);
            }
            return writeln!(crate::output::stdout(), "{value:#}").map_err(output_failed);
        }
        let mut analysis = analysis::analysis(found);
        analysis.tables.extend(trend_table(trends));
        print_analysis(&analysis, false, Tables::Whole).map_err(output_failed)
    }

    fn page(&self, found: &Prognosis, trends: &[Trend]) -> Result<String, Failure> {
        let mut analysis = analysis::analysis(found);
        analysis.tables.extend(trend_table(trends));
        let scratch = ScratchDirectory::small("page")?;
        let plan = Plan {
            command: format!("senesce diagnose {}", found.target),
            program_version: env!("CARGO_PKG_VERSION").into(),
            estimated_seconds: found.elapsed_seconds,
            ..Plan::default_of(Self::NAME, DEFAULT_SEED)
        };
        let folder = scratch.path().join("run");
        let mut run = RunDirectory::open(&folder, &plan, &Environment::capture())?;
        run.append("diagnosis", found)?;
        run.finish(&json!({}))?;
        Ok(senesce_report::render_html(&analysis, &Record::open(&folder)?))
    }
}

fn trend_table(trends: &[Trend]) -> Option<Table> {
    let first = trends.first().map(|_| Table::new("trend", "Trend", &["value", "per day", "days left", "until"]))?;
    Some(trends.iter().fold(first, |mut table, trend| {
        table.row((&trend.value, trend.per_day, trend.days_left, &trend.threshold));
        table
    }))
}

/// Accepts `image:FILE` like other verbs; here a plain FILE means the same.
pub(crate) fn path_of(target: &str) -> PathBuf {
    PathBuf::from(target.strip_prefix("image:").unwrap_or(target))
}
