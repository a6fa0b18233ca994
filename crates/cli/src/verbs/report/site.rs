//! `senesce report RUN... --site DIR`.

use crate::Exit;
use crate::output::Output;
use crate::registry::REGISTRY;
use senesce_core::output::{self, Format};
use senesce_core::{ExitCode, Failure, Record, number_of};
use senesce_report::site::{self, PageNames, SiteEntry};
use senesce_runs::history::{self, ListedRun};
use std::path::{Path, PathBuf};

/// Writes the pages of all runs, with the newest first in the index. A run whose page cannot be written is listed with the
/// reason.
pub(crate) fn write(runs: &[PathBuf], directory: &Path, output: Output) -> Result<Exit, Failure> {
    let mut entries = history::entries(&REGISTRY, runs)?;
    entries.reverse();
    check(&entries, directory, output)?;
    output::directory(directory)?;
    let mut names = PageNames::default();
    let mut listed = Vec::new();
    for entry in &entries {
        listed.push(match page(&entry.run) {
            Ok(page) => {
                let name = names.next(&entry.name());
                output.write(&directory.join(&name), Format::Html, page.as_bytes())?;
                line(entry, name, entry.verdict.clone())
            }
            Err(failure) => line(entry, String::new(), failure.to_string()),
        });
    }
    let index = directory.join("index.html");
    output.write(&index, Format::Html, site::index("Runs", &listed).as_bytes())?;
    super::print_written(&index);
    let missing = listed.iter().filter(|line| line.page.is_empty()).count();
    if missing > 0 {
        let runs = number_of(listed.len(), "run");
        eprintln!("senesce: without a page: {missing} of {runs}; the index lists the reasons");
    }
    let has_some = missing < listed.len();
    Ok(if has_some { ExitCode::Done } else { ExitCode::RunFailed }.into())
}

fn check(entries: &[ListedRun], directory: &Path, output: Output) -> Result<(), Failure> {
    let mut names = PageNames::default();
    let mut files: Vec<PathBuf> = entries.iter().map(|entry| directory.join(names.next(&entry.name()))).collect();
    files.push(directory.join("index.html"));
    let planned: Vec<_> = files.iter().map(|file| (Some(file.as_path()), Format::Html, &b""[..])).collect();
    output.check_below(directory, &planned)
}

fn page(run: &Path) -> Result<String, Failure> {
    let record = Record::open(run)?;
    Ok(site::page(&REGISTRY.analyse(&record)?, &record))
}

fn line(entry: &ListedRun, page: String, verdict: String) -> SiteEntry {
    let text = |fact: &Option<String>| fact.clone().unwrap_or_default();
    let date = text(&entry.date).replace('T', " ").replace('Z', "");
    let (kind, label, host) = (text(&entry.kind), text(&entry.label), text(&entry.machine()));
    SiteEntry { name: entry.name(), page, date, kind, label, host, verdict }
}
