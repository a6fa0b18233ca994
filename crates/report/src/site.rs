//! A static site of many runs: a searchable index, and a page for each run. Without script the index is a plain list.

use crate::bundle::file_name;
use crate::page::{PageFrame, laid_out, render_record};
use askama::Template;
use senesce_core::analysis::Analysis;
use senesce_core::record::Record;
use std::collections::BTreeSet;

/// One line of the index; unknown fields are empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SiteEntry {
    pub name: String,
    /// File of its page; empty if it has none.
    pub page: String,
    pub date: String,
    pub kind: String,
    pub label: String,
    pub host: String,
    pub verdict: String,
}

#[derive(Template)]
#[template(path = "index.html")]
struct Index<'a> {
    frame: PageFrame,
    title: &'a str,
    version: &'static str,
    summary: String,
    runs: &'a [SiteEntry],
}

pub fn index(title: &str, runs: &[SiteEntry]) -> String {
    let summary = format!("{}.", senesce_core::number_of(runs.len(), "run"));
    laid_out(&Index { frame: PageFrame::new(false), title, version: env!("CARGO_PKG_VERSION"), summary, runs })
}

pub fn page(analysis: &Analysis, record: &Record) -> String {
    render_record(analysis, record, true)
}

#[derive(Debug, Default)]
pub struct PageNames(BTreeSet<String>);

impl PageNames {
    pub fn next(&mut self, run: &str) -> String {
        let stem = match file_name(run) {
            empty if empty.is_empty() || empty == "index" => "run".to_string(),
            plain => plain,
        };
        let numbered = (2..).map(|number| format!("{stem}-{number}.html"));
        let mut names = std::iter::once(format!("{stem}.html")).chain(numbered);
        let free = names.find(|name| !self.0.contains(name)).unwrap_or(stem);
        self.0.insert(free.clone());
        free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_names_are_unique_and_portable() {
        let mut names = PageNames::default();
        let all = ["age-1", "age-1", "index", "../../etc", "a b", "a-b"].map(|run| names.next(run));
        assert_eq!(all, ["age-1.html", "age-1-2.html", "run.html", "-..-etc.html", "a-b.html", "a-b-2.html"]);
    }

    #[test]
    fn index_links_existing_pages_and_names_other_runs() {
        let run = |name: &str, page: &str| SiteEntry { name: name.into(), page: page.into(), ..SiteEntry::default() };
        let text = index("Runs", &[run("<a>", "a.html"), run("broken", "")]);
        assert!(text.contains("<a href=\"a.html\">&#60;a&#62;</a>") && text.contains("<td>broken</td>"), "{text}");
    }
}
