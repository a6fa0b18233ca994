//! The pages to which a scoreboard links: the results of an experiment, or else its description.

use senesce_report::Pages;
use senesce_runs::scoreboard::Scoreboard;
use std::collections::BTreeSet;
use std::path::Path;

const DESCRIPTIONS: &str = "../experiments/";

/// Returns the pages of a site in `docs/results`.
pub(super) fn of_site(found: &Scoreboard) -> Pages {
    let results: BTreeSet<String> = found.results.iter().map(|result| page(&result.experiment)).collect();
    pages(&names(found), |address| address.starts_with(DESCRIPTIONS) || results.contains(address))
}

/// Returns the pages that exist next to a document; without a file, those in the working directory.
pub(super) fn of_files(found: &Scoreboard, document: Option<&Path>) -> Pages {
    let folder = document.and_then(Path::parent).unwrap_or(Path::new(""));
    pages(&names(found), |address| folder.join(address).is_file())
}

fn names(found: &Scoreboard) -> BTreeSet<&'static str> {
    found.documents.iter().flat_map(|document| &document.entries).map(|entry| entry.experiment).collect()
}

fn page(experiment: &str) -> String {
    format!("{experiment}.md")
}

fn pages(experiments: &BTreeSet<&str>, exists: impl Fn(&str) -> bool) -> Pages {
    let found = experiments.iter().filter_map(|experiment| {
        let results = page(experiment);
        let description = format!("{DESCRIPTIONS}{results}");
        let address = [results, description].into_iter().find(|address| exists(address))?;
        Some(((*experiment).to_string(), address))
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_linked_before_descriptions() {
        let existing = ["append.md", "../experiments/append.md", "../experiments/kernels.md"];
        let found = pages(&BTreeSet::from(["append", "kernels", "coldness"]), |address| existing.contains(&address));
        let expected = [("append", "append.md"), ("kernels", "../experiments/kernels.md")];
        assert_eq!(found, Pages::from(expected.map(|(name, address)| (name.to_string(), address.to_string()))));
    }
}
