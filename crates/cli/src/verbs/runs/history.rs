//! `senesce runs history`: results over time.

use crate::Exit;
use crate::display::{print_analysis, print_table};
use crate::experiment_text::Tables;
use crate::output::Output;
use crate::output::output_failed;
use crate::registry::REGISTRY;
use crate::session::{Session, runs_directory};
use crate::verbs::report::print_written;
use clap::Args;
use senesce_core::output::Format;
use senesce_core::{ExitCode, Failure};
use senesce_report::csv;
use senesce_runs::compare::{Options, parse_share};
use senesce_runs::history::{self, HistoryPoints, ListedRun, Values};
use serde_json::Value;
use std::path::PathBuf;

#[derive(Args)]
pub(crate) struct History {
    /// Directories to search recursively [default: ./senesce-runs]
    #[arg(value_name = "DIR")]
    directories: Vec<PathBuf>,
    /// Only runs of this experiment or verb
    #[arg(long, value_name = "KIND", help_heading = "Selection")]
    kind: Option<String>,
    /// Only runs with this label
    #[arg(long, value_name = "TEXT", help_heading = "Selection")]
    labelled: Option<String>,
    /// Show metrics over time and changes of level
    #[arg(long, help_heading = "Analysis")]
    trend: bool,
    /// Compare the newest runs with those of this label
    #[arg(long, value_name = "TEXT", help_heading = "Analysis")]
    baseline: Option<String>,
    /// Assumed difference of two equal runs, such as 2%
    #[arg(long, value_name = "SHARE", requires = "baseline", help_heading = "Analysis")]
    noise: Option<String>,
    /// Write an HTML page to FILE
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write every value as CSV [default: stdout]
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    csv: Option<PathBuf>,
    /// Write Prometheus metrics [default: stdout]
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    prometheus: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    output: Output,
}

impl History {
    pub(crate) fn run(self, session: &Session) -> Result<Exit, Failure> {
        self.output.check_all(&[
            (self.csv.as_deref(), Format::Csv, b"run,"),
            (self.prometheus.as_deref(), Format::Text, b"# HELP "),
            (self.html.as_deref(), Format::Html, b""),
        ])?;
        session.progress().phase("find runs", 0, "");
        let heads = self.heads()?;
        if heads.is_empty() {
            session.clear();
            eprintln!("no runs found\nhint: runs are stored in ./senesce-runs or the directory of --out");
        }
        let values = if self.needs_values() { Values::Used } else { Values::Unused };
        let (mut rows, mut points) = (csv_header(), HistoryPoints::default());
        let entries = history::read_events(&REGISTRY, heads, values, session.progress(), &mut |entry, values| {
            if self.csv.is_some() {
                rows.push_str(&csv::rows(&history::rows(entry, &values)));
            }
            points.add(entry, &values);
        });
        session.clear();
        if !self.needs_values() {
            self.print_list(&entries)?;
            return Ok(ExitCode::Done.into());
        }
        if let Some(file) = &self.csv {
            self.output.write(file, Format::Csv, rows.as_bytes())?;
        }
        self.show_courses(&entries, points)?;
        Ok(ExitCode::Done.into())
    }

    fn heads(&self) -> Result<Vec<ListedRun>, Failure> {
        let standard = [runs_directory()];
        let below = match self.directories.as_slice() {
            [] if !standard[0].is_dir() => &[],
            [] => standard.as_slice(),
            named => named,
        };
        let is_wanted = |wanted: &Option<String>, found: &Option<String>| wanted.is_none() || wanted == found;
        history::heads(below, |entry| is_wanted(&self.kind, &entry.kind) && is_wanted(&self.labelled, &entry.label))
    }

    /// Returns whether events of the runs are needed, not only the heads of their records.
    fn needs_values(&self) -> bool {
        let writes = [&self.html, &self.csv, &self.prometheus];
        self.trend || self.baseline.is_some() || writes.iter().any(|file| file.is_some())
    }

    /// Returns whether standard output has data for a program, so that no file name may be among it.
    fn writes_data_to_stdout(&self) -> bool {
        self.json || [&self.csv, &self.prometheus].into_iter().flatten().any(|file| file.as_os_str() == "-")
    }

    fn print_list(&self, entries: &[ListedRun]) -> Result<(), Failure> {
        if self.json {
            println!("{:#}", history::list(entries));
        } else if !entries.is_empty() {
            print_table(&mut crate::output::stdout(), &history::runs_table(entries)).map_err(output_failed)?;
        }
        Ok(())
    }

    fn show_courses(&self, entries: &[ListedRun], points: HistoryPoints) -> Result<(), Failure> {
        let shows = self.trend || self.baseline.is_some();
        if !shows && self.html.is_none() && self.prometheus.is_none() {
            return Ok(());
        }
        let courses = points.histories(entries);
        if let Some(file) = &self.prometheus {
            self.output.write(file, Format::Text, history::prometheus(entries, &courses).as_bytes())?;
        }
        if !shows && self.html.is_none() {
            return Ok(());
        }
        let noise = self.noise.as_deref().map(parse_share).transpose()?;
        let options = Options { noise, ..Options::default() };
        let name = self.baseline.as_deref();
        let found = name.map(|name| history::against_baseline(&REGISTRY, entries, name, &options)).transpose()?;
        let analysis = history::analysis(entries, &courses, name.zip(found.as_deref()));
        if let Some(file) = &self.html {
            self.output.write(file, Format::Html, senesce_report::render_page(&analysis).as_bytes())?;
            if !self.writes_data_to_stdout() {
                print_written(file);
            }
        }
        if shows {
            print_analysis(&analysis, self.json, Tables::Whole).map_err(output_failed)?;
        }
        Ok(())
    }
}

fn csv_header() -> String {
    csv::rows(&[history::COLUMNS.map(Value::from).to_vec()])
}
