//! The results of each document in a row: counts by experiment, and statements chosen by a rule.

use senesce_core::analysis::{Finding, Verdict};
use senesce_core::{Rows, Table};
use senesce_runs::scoreboard::Document;
use std::collections::BTreeMap;

/// Maximum number of statements of a document.
const EXAMPLES: usize = 3;

/// Longer statements, in characters, come after the others.
const LONG: usize = 100;

pub(super) const NOTE: &str = "Examples: the first statements of different experiments, those of at most 100 characters before longer ones. \
                               Two have the more frequent verdict, one has the other. If all have the same verdict, there are three.";

/// Decided statements, with their experiments.
type Decided<'a> = Vec<(&'a str, &'a Finding)>;

pub(super) fn table(documents: &[&Document]) -> Table {
    let examples = |document: &Document, verdict| examples(&decided(document), verdict).join(" ");
    Rows::of(documents)
        .column("document", |document| document.work.short())
        .column("supported of decided statements, by experiment", |document| by_experiment(&decided(document)))
        .column("supported, for example (experiment)", |document| examples(document, Verdict::Supported))
        .column("not supported, for example (experiment)", |document| examples(document, Verdict::NotSupported))
        .table("overview", "")
}

fn decided(document: &Document) -> Decided<'_> {
    let all = document.entries.iter().map(|entry| (entry.experiment, &entry.finding));
    all.filter(|(_, finding)| finding.stated && finding.verdict.is_decided()).collect()
}

/// Counts the statements: `frag-intra 9 of 12, frag-inter 2 of 9`.
fn by_experiment(decided: &[(&str, &Finding)]) -> String {
    let mut counts: Vec<(&str, usize, usize)> = Vec::new();
    for (experiment, finding) in decided {
        let supported = usize::from(finding.verdict == Verdict::Supported);
        match counts.iter_mut().find(|(known, ..)| known == experiment) {
            Some((_, count, all)) => (*count, *all) = (*count + supported, *all + 1),
            None => counts.push((*experiment, supported, 1)),
        }
    }
    let words = counts.iter().map(|(experiment, count, all)| format!("{experiment} {count} of {all}"));
    words.collect::<Vec<_>>().join(", ")
}

/// Returns the first statements with a verdict, one of each experiment before a second one, and short ones before long ones:
/// `Appends happen wholly in memory. (append)`.
fn examples(decided: &[(&str, &Finding)], verdict: Verdict) -> Vec<String> {
    let mut numbers: BTreeMap<(bool, &str), usize> = BTreeMap::new();
    let mut found: Vec<(bool, usize, &str, &str)> = Vec::new();
    for (experiment, finding) in decided.iter().filter(|(_, finding)| finding.verdict == verdict) {
        let claim = finding.claim.as_str();
        if found.iter().any(|(.., known)| *known == claim) {
            continue;
        }
        let is_long = claim.chars().count() > LONG;
        let number = numbers.entry((is_long, *experiment)).or_default();
        found.push((is_long, *number, *experiment, claim));
        *number += 1;
    }
    found.sort_by_key(|(is_long, number, ..)| (*is_long, *number));
    let shown = found.into_iter().take(most(decided, verdict));
    shown.map(|(_, _, experiment, claim)| format!("{claim} ({experiment})")).collect()
}

fn most(decided: &[(&str, &Finding)], verdict: Verdict) -> usize {
    let own = decided.iter().filter(|(_, finding)| finding.verdict == verdict).count();
    let others = decided.len() - own;
    match (others, own > others || (own == others && verdict == Verdict::Supported)) {
        (0, _) => EXAMPLES,
        (_, true) => EXAMPLES - 1,
        (_, false) => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(claim: &str, verdict: Verdict) -> Finding {
        Finding { claim: claim.into(), verdict, ..Finding::default() }
    }

    #[test]
    fn examples_are_the_first_short_ones_of_different_experiments() {
        let long = "x".repeat(LONG + 1);
        let [supported, not] = [Verdict::Supported, Verdict::NotSupported];
        let claims = [(long.as_str(), supported), ("a", supported), ("b", supported), ("c", not), ("d", not)];
        let claims = claims.map(|(claim, verdict)| finding(claim, verdict));
        let others = [finding("a", supported), finding("e", supported)];
        let first = claims.iter().map(|one| ("first", one));
        let all: Vec<_> = first.chain(others.iter().map(|one| ("second", one))).collect();
        assert_eq!(examples(&all, supported), ["a (first)", "e (second)"], "a repeated sentence is omitted");
        assert_eq!(examples(&all, not), ["c (first)"]);
        let long = format!("{long} (first)");
        assert_eq!(examples(&all[..3], supported), ["a (first)", "b (first)", long.as_str()]);
        assert!(examples(&all[5..], not).is_empty());
        assert_eq!(by_experiment(&all), "first 3 of 5, second 2 of 2");
    }

    #[test]
    fn note_names_the_rule() {
        assert!(NOTE.contains(&format!("at most {LONG} characters")));
    }
}
