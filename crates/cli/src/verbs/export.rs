//! `senesce export`: tidy tables of runs for other programs.

use crate::Exit;
use crate::session::Session;
use crate::table::Verb;
use crate::verbs::report::output_failed;
use clap::Args;
use senesce_core::failure::errno_words;
use senesce_core::record::write_atomically;
use senesce_core::{ExitCode, Failure, Record, Table};
use senesce_experiments::export::{Export as Exported, export, to_json};
use senesce_report::{bundle, csv, data, render_pdf, render_svg};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Write tidy tables of runs as CSV or JSON (schema: `senesce doc export`)
#[derive(Args)]
#[command(group = clap::ArgGroup::new("form").required(true).multiple(true))]
pub struct Export {
    /// Run directories
    #[arg(required = true, value_name = "RUN")]
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
}

impl Verb for Export {
    const NAME: &'static str = "export";
    const ABOUT: &'static str = "Write measured values, tables and figures of runs as CSV, JSON, SVG and PDF";

    fn run(self, _session: &Session) -> Result<Exit, Failure> {
        let exports: Vec<Exported> =
            self.runs.iter().map(|path| export(Record::open(path)?)).collect::<Result<_, Failure>>()?;
        if let Some(file) = &self.csv {
            put(file, &all_measurements(&exports))?;
        }
        if let Some(file) = &self.json {
            let text =
                serde_json::to_string_pretty(&to_json(&exports)).map_err(|error| Failure::usage(error.to_string()))?;
            put(file, &(text + "\n"))?;
        }
        if let Some(directory) = &self.files {
            for one in &exports {
                write_files(one, &directory.join(&one.name))?;
            }
        }
        Ok(ExitCode::Done.into())
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

fn put(file: &Path, text: &str) -> Result<(), Failure> {
    if file == Path::new("-") {
        return std::io::stdout().lock().write_all(text.as_bytes()).map_err(output_failed);
    }
    Ok(write_atomically(file, text.as_bytes())?)
}

fn write_files(one: &Exported, directory: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(directory).map_err(|error| {
        Failure::new(ExitCode::RunFailed, format!("make directory {}: {}", directory.display(), errno_words(&error)))
    })?;
    let write = |name: String, bytes: &[u8]| write_atomically(&directory.join(name), bytes);
    write("measurements.csv".into(), csv::table(&one.measurements).as_bytes())?;
    for table in &one.analysis.tables {
        write(format!("table-{}.csv", bundle::file_name(&table.id)), csv::table(table).as_bytes())?;
    }
    for figure in &one.analysis.figures {
        let stem = format!("figure-{}", bundle::file_name(&figure.id));
        write(format!("{stem}.svg"), render_svg(figure).as_bytes())?;
        write(format!("{stem}.pdf"), &render_pdf(figure)?)?;
        write(format!("{stem}.csv"), csv::table(&data::of_figure(figure)).as_bytes())?;
    }
    println!("{}", directory.display());
    Ok(())
}
