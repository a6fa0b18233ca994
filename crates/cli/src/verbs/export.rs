//! `senesce export`: tidy tables of runs for other programs.

use crate::Exit;
use crate::arguments;
use crate::output::Output;
use crate::registry::REGISTRY;
use crate::session::Session;
use crate::table::Verb;
use clap::Args;
use clap_complete::ArgValueCompleter;
use senesce_core::output::{self, Format};
use senesce_core::{ExitCode, Failure, Record, Table};
use senesce_report::{bundle, csv, data, render_pdf, render_svg};
use senesce_runs::export::{Export as Exported, export, to_json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Write tidy tables of runs as CSV or JSON (schema: `senesce doc export`)
#[derive(Args)]
#[command(group = clap::ArgGroup::new("form").required(true).multiple(true))]
pub struct Export {
    /// Run directories
    #[arg(required = true, value_name = "RUN", value_parser = arguments::run(),
          add = ArgValueCompleter::new(arguments::complete_run))]
    runs: Vec<PathBuf>,
    /// Every measured value of all runs as one CSV table; `-` or no FILE: standard output
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", group = "form")]
    csv: Option<PathBuf>,
    /// Everything as one JSON document; `-` or no FILE: standard output
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", group = "form")]
    json: Option<PathBuf>,
    /// Tables as CSV, figures as SVG, PDF (column width) and CSV, into DIR/RUN/
    #[arg(long, value_name = "DIR", group = "form")]
    files: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

impl Verb for Export {
    const NAME: &'static str = "export";
    const ABOUT: &'static str = "Write measured values, tables and figures of runs as CSV, JSON, SVG and PDF";

    fn run(self, _session: &Session) -> Result<Exit, Failure> {
        let exports: Vec<Exported> =
            self.runs.iter().map(|path| export(&REGISTRY, Record::open(path)?)).collect::<Result<_, Failure>>()?;
        let folders = match &self.files {
            Some(directory) => exports.iter().map(|one| Folder::of(one, directory)).collect::<Result<_, Failure>>()?,
            None => Vec::new(),
        };
        self.check(&folders)?;
        if let Some(file) = &self.csv {
            self.output.write(file, Format::Csv, all_measurements(&exports).as_bytes())?;
        }
        if let Some(file) = &self.json {
            let text =
                serde_json::to_string_pretty(&to_json(&exports)).map_err(|error| Failure::usage(error.to_string()))?;
            self.output.write(file, Format::Json, (text + "\n").as_bytes())?;
        }
        folders.iter().try_for_each(|folder| folder.write(self.output))?;
        Ok(ExitCode::Done.into())
    }
}

impl Export {
    /// Nothing is written when one of the outputs would be refused.
    fn check(&self, folders: &[Folder]) -> Result<(), Failure> {
        let (csv, json) = (self.csv.as_deref(), self.json.as_deref());
        self.output.check_all(&[(csv, Format::Csv, b"run,"), (json, Format::Json, b"")])?;
        let mut runs = BTreeMap::new();
        for folder in folders {
            if *runs.entry(&folder.path).or_insert(&folder.run) != &folder.run {
                let words = format!("two of the runs would lie in {}; export them apart", folder.path.display());
                return Err(Failure::usage(words));
            }
        }
        folders.iter().try_for_each(|folder| folder.check(self.output))
    }
}

/// The files of one run, and the folder where they go.
struct Folder {
    run: PathBuf,
    path: PathBuf,
    files: Vec<(PathBuf, Format, Vec<u8>)>,
}

impl Folder {
    fn of(one: &Exported, directory: &Path) -> Result<Self, Failure> {
        let path = directory.join(&one.name);
        let mut files = Vec::new();
        let mut add = |name: String, format, bytes| files.push((path.join(name), format, bytes));
        add("measurements.csv".into(), Format::Csv, csv::table(&one.measurements).into_bytes());
        for table in &one.analysis.tables {
            add(format!("table-{}.csv", bundle::file_name(&table.id)), Format::Csv, csv::table(table).into_bytes());
        }
        for figure in &one.analysis.figures {
            let stem = format!("figure-{}", bundle::file_name(&figure.id));
            add(format!("{stem}.svg"), Format::Svg, render_svg(figure).into_bytes());
            add(format!("{stem}.pdf"), Format::Pdf, render_pdf(figure)?);
            add(format!("{stem}.csv"), Format::Csv, csv::table(&data::of_figure(figure)).into_bytes());
        }
        Ok(Self { run: one.record.path.clone(), path, files })
    }

    fn check(&self, output: Output) -> Result<(), Failure> {
        // Its name is ours and can be known before: the user named the folder around it.
        if self.path.is_symlink() {
            let words = format!(
                "refused to write into {}: it is a symbolic link; remove it, or name another folder",
                self.path.display()
            );
            return Err(Failure::new(ExitCode::Refused, words));
        }
        let planned: Vec<_> =
            self.files.iter().map(|(file, format, bytes)| (Some(&**file), *format, &**bytes)).collect();
        output.check_below(&self.path, &planned)
    }

    fn write(&self, output: Output) -> Result<(), Failure> {
        output::directory(&self.path)?;
        self.files.iter().try_for_each(|(file, format, bytes)| output.write(file, *format, bytes))?;
        println!("{}", self.path.display());
        Ok(())
    }
}

fn all_measurements(exports: &[Exported]) -> String {
    let mut all = Table::default();
    for one in exports {
        all.columns.clone_from(&one.measurements.columns);
        all.rows.extend(one.measurements.rows.iter().cloned());
    }
    csv::table(&all)
}
