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
        if let Some(file) = &self.csv {
            self.output.write(file, Format::Csv, all_measurements(&exports).as_bytes())?;
        }
        if let Some(file) = &self.json {
            let text =
                serde_json::to_string_pretty(&to_json(&exports)).map_err(|error| Failure::usage(error.to_string()))?;
            self.output.write(file, Format::Json, (text + "\n").as_bytes())?;
        }
        if let Some(directory) = &self.files {
            for one in &exports {
                write_files(one, &directory.join(&one.name), self.output)?;
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

fn write_files(one: &Exported, directory: &Path, output: Output) -> Result<(), Failure> {
    // Its name is ours and can be known before: the user named the folder around it.
    if directory.is_symlink() {
        let words = format!(
            "refused to write into {}: it is a symbolic link; remove it, or name another folder",
            directory.display()
        );
        return Err(Failure::new(ExitCode::Refused, words));
    }
    output::directory(directory)?;
    let write = |name: String, format, bytes: &[u8]| output.write(&directory.join(name), format, bytes);
    write("measurements.csv".into(), Format::Csv, csv::table(&one.measurements).as_bytes())?;
    for table in &one.analysis.tables {
        write(format!("table-{}.csv", bundle::file_name(&table.id)), Format::Csv, csv::table(table).as_bytes())?;
    }
    for figure in &one.analysis.figures {
        let stem = format!("figure-{}", bundle::file_name(&figure.id));
        write(format!("{stem}.svg"), Format::Svg, render_svg(figure).as_bytes())?;
        write(format!("{stem}.pdf"), Format::Pdf, &render_pdf(figure)?)?;
        write(format!("{stem}.csv"), Format::Csv, csv::table(&data::of_figure(figure)).as_bytes())?;
    }
    println!("{}", directory.display());
    Ok(())
}
