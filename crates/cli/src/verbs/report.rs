//! `senesce report RUN...`: results of runs in any format, from their records only.

mod figures;
mod scoreboard;
mod site;

use crate::Exit;
use crate::arguments;
use crate::display::print_analysis;
use crate::experiment_text::Tables;
use crate::output::{Output, check_distinct, output_failed};
use crate::registry::REGISTRY;
use crate::session::Session;
use crate::verb_table::Verb;
use clap::{Args, ValueEnum};
use clap_complete::ArgValueCompleter;
use figures::Folder;
use senesce_core::output::Format;
use senesce_core::{ExitCode, Failure, Record, Table};
use senesce_report::{bundle, csv, markdown};
use senesce_runs::export::{Export, export, name_of, to_json};
use std::collections::BTreeSet;
use std::io::Cursor;
use std::path::{Path, PathBuf};

/// Write the results of runs; needs neither root nor the device
#[derive(Args)]
pub(crate) struct Report {
    /// Run directories
    #[arg(required_unless_present = "scoreboard", value_name = "RUN", value_parser = arguments::run(),
          add = ArgValueCompleter::new(arguments::complete_run))]
    runs: Vec<PathBuf>,
    /// html (default), text, markdown, csv, json, figures or zip
    #[arg(long, value_enum, value_name = "FORMAT", hide_possible_values = true)]
    format: Option<FormatWord>,
    /// File, or directory for figures
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write an index and a page for every run, or for every experiment
    #[arg(long, value_name = "DIR", conflicts_with_all = ["out", "format"], help_heading = "Output")]
    site: Option<PathBuf>,
    /// Show the result of every published claim over all runs
    #[arg(long, help_heading = "Output")]
    scoreboard: bool,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum FormatWord {
    Html,
    Text,
    Markdown,
    Csv,
    Json,
    Figures,
    Zip,
}

impl Verb for Report {
    const NAME: &'static str = "report";
    const ABOUT: &'static str = "Show results as a page, text, CSV, JSON, figures or an archive";
    const EXAMPLES: &'static [&'static str] = &[
        "senesce report latest",
        "senesce report latest --format csv --out values.csv",
        "senesce report senesce-runs --site public",
        "senesce report --scoreboard",
    ];

    fn run(self, _session: &Session) -> Result<Exit, Failure> {
        if let Some(directory) = &self.site {
            if self.scoreboard {
                scoreboard::write_site(&self.runs, directory, self.output)?;
                return Ok(ExitCode::Done.into());
            }
            return site::write(&self.runs, directory, self.output);
        }
        if self.scoreboard {
            scoreboard::write(&self.runs, self.format, self.out.as_deref(), self.output)?;
            return Ok(ExitCode::Done.into());
        }
        match self.format.unwrap_or(FormatWord::Html) {
            FormatWord::Html => self.pages()?,
            FormatWord::Text => self.runs.iter().try_for_each(|run| print_text(run))?,
            FormatWord::Markdown => {
                self.check_document(Format::Text, b"# ")?;
                self.document(Format::Text, self.markdown()?)?;
            }
            FormatWord::Csv => {
                self.check_document(Format::Csv, b"run,")?;
                self.document(Format::Csv, all_measurements(&self.exports()?))?;
            }
            FormatWord::Json => {
                self.check_document(Format::Json, b"")?;
                self.document(Format::Json, format!("{:#}\n", to_json(&self.exports()?)))?;
            }
            FormatWord::Figures => self.figures()?,
            FormatWord::Zip => self.archives()?,
        }
        Ok(ExitCode::Done.into())
    }
}

impl Report {
    fn exports(&self) -> Result<Vec<Export>, Failure> {
        self.runs.iter().map(|path| export(&REGISTRY, Record::open(path)?)).collect()
    }

    fn markdown(&self) -> Result<String, Failure> {
        let page = |run: &PathBuf| Ok(markdown::render(&REGISTRY.analyse(&Record::open(run)?)?));
        Ok(self.runs.iter().map(page).collect::<Result<Vec<_>, Failure>>()?.join("\n"))
    }

    fn pages(&self) -> Result<(), Failure> {
        arguments::one_output(&self.out, &self.runs)?;
        let runs: BTreeSet<&PathBuf> = self.runs.iter().filter(|run| run.is_dir()).collect();
        let files: Vec<PathBuf> = runs.into_iter().map(|run| page_of(run, self.out.as_deref())).collect();
        let is_here = |file: &&Path| file.parent().is_some_and(|above| above.as_os_str().is_empty());
        check_distinct(files.iter().map(PathBuf::as_path).filter(is_here))?;
        files.iter().try_for_each(|file| self.output.check(Some(file.as_path()), Format::Html, b""))?;
        for run in &self.runs {
            print_written(&write(run, self.out.as_deref(), self.output)?);
        }
        Ok(())
    }

    fn document_file(&self) -> &Path {
        self.out.as_deref().unwrap_or(Path::new("-"))
    }

    fn check_document(&self, format: Format, likely: &[u8]) -> Result<(), Failure> {
        self.output.check(Some(self.document_file()), format, likely)
    }

    fn document(&self, format: Format, text: String) -> Result<(), Failure> {
        self.output.write(self.document_file(), format, text.as_bytes())
    }

    fn figures(&self) -> Result<(), Failure> {
        let directory = self
            .out
            .as_deref()
            .ok_or_else(|| Failure::usage("no directory for the figures\nhint: --format figures --out DIR"))?;
        let exports = self.exports()?;
        let folders = exports.iter().map(|one| Folder::of(one, directory)).collect::<Result<Vec<_>, Failure>>()?;
        figures::check(&folders, self.output)?;
        folders.iter().try_for_each(|folder| folder.write(self.output))
    }

    fn archives(&self) -> Result<(), Failure> {
        arguments::one_output(&self.out, &self.runs)?;
        let runs: BTreeSet<&PathBuf> = self.runs.iter().collect();
        let files: Vec<PathBuf> = runs.into_iter().map(|run| self.archive_of(run)).collect();
        let planned: Vec<_> = files.iter().map(|file| (Some(file.as_path()), Format::Zip, &b""[..])).collect();
        self.output.check_all(&planned)?;
        self.runs.iter().try_for_each(|run| self.pack(run))
    }

    fn archive_of(&self, run: &Path) -> PathBuf {
        self.out.clone().unwrap_or_else(|| PathBuf::from(format!("{}.zip", name_of(run))))
    }

    fn pack(&self, run: &Path) -> Result<(), Failure> {
        let one = export(&REGISTRY, Record::open(run)?)?;
        let mut archive = Cursor::new(Vec::new());
        bundle::write(&one.record, &one.analysis, &one.measurements, &mut archive)?;
        let file = self.archive_of(run);
        self.output.write(&file, Format::Zip, archive.get_ref())?;
        print_written(&file);
        Ok(())
    }
}

fn print_text(run: &Path) -> Result<(), Failure> {
    let record = Record::open(run)?;
    let analysis = REGISTRY.analyse(&record)?;
    if record.is_partial() {
        println!("The run did not complete: this is its partial record.\n");
    }
    print_analysis(&analysis, false, Tables::Whole).map_err(output_failed)
}

fn all_measurements(exports: &[Export]) -> String {
    let mut all = Table::default();
    for one in exports {
        all.columns.clone_from(&one.measurements.columns);
        all.rows.extend(one.measurements.rows.iter().cloned());
    }
    csv::table(&all)
}

/// Returns the file of a page: in its run, or in the current directory if this user may write only there.
fn page_of(run: &Path, out: Option<&Path>) -> PathBuf {
    match out {
        Some(file) => file.into(),
        None if !may_write(run) && may_write(Path::new(".")) => format!("{}.html", name_of(run)).into(),
        None => run.join("report.html"),
    }
}

fn may_write(folder: &Path) -> bool {
    rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_ok()
}

fn write(run: &Path, out: Option<&Path>, output: Output) -> Result<PathBuf, Failure> {
    let record = Record::open(run)?;
    let analysis = REGISTRY.analyse(&record)?;
    let file = page_of(run, out);
    output.write(&file, Format::Html, senesce_report::render_html(&analysis, &record).as_bytes())?;
    Ok(file)
}

/// Writes the report of a run where `senesce report RUN` does.
pub(crate) fn write_default(run: &Path) -> Result<PathBuf, Failure> {
    write(run, None, Output::default())
}

/// Refuses what [`write_default`] would refuse for an existing run.
pub(crate) fn check_default(run: &Path) -> Result<(), Failure> {
    match run.is_dir() {
        true => Output::default().check(Some(&page_of(run, None)), Format::Html, b""),
        false => Ok(()),
    }
}

/// Prints the name of a file, unless standard output or a device received its content.
pub(crate) fn print_written(file: &Path) {
    if file.symlink_metadata().is_ok_and(|found| found.is_file()) {
        println!("{}", file.display());
    }
}
