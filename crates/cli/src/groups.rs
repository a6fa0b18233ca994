//! The verbs in the groups of the help, the manual and the README.

use crate::table::{Entry, VERBS};
use clap::builder::Styles;
use std::fmt::Write;

/// Names of groups, what is in them, and their verbs.
pub const GROUPS: &[(&str, &[&str])] = &[
    ("Age", &["demo", "age", "verify", "profile", "twin"]),
    ("Look", &["layout", "trace", "prognosis"]),
    ("Measure", &["bench", "study", "experiments", "reproduce", "carry"]),
    ("Compare", &["compare"]),
    ("Drives and images", &["device", "zns", "zones", "image", "snapshot", "rollback", "run-and-rollback"]),
    ("Stores", &["objects", "advise", "tier"]),
    ("Lab", &["lab"]),
    ("Records", &["runs", "history", "report", "export", "import", "bundle"]),
    ("Help", &["doctor", "doc", "man", "completions"]),
];

/// The verbs of a group, as the table has them.
pub fn verbs(names: &'static [&'static str]) -> impl Iterator<Item = &'static Entry> {
    names.iter().filter_map(|name| VERBS.iter().find(|verb| verb.name == *name))
}

/// The list of verbs for the help.
pub fn list() -> String {
    let style = *Styles::styled().get_header();
    let literal = *Styles::styled().get_literal();
    let mut text = String::new();
    for (title, names) in GROUPS {
        let _ = writeln!(text, "{style}{title}:{style:#}");
        for verb in verbs(names) {
            let about = (verb.command)().get_about().map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {literal}{:<18}{literal:#}{about}", verb.name);
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_verb_is_in_one_group() {
        let listed: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let unique: BTreeSet<&str> = listed.iter().copied().collect();
        assert_eq!(listed.len(), unique.len());
        assert_eq!(unique, VERBS.iter().map(|verb| verb.name).collect());
    }

    #[test]
    fn the_list_names_every_verb_with_its_line() {
        let list = list();
        for verb in VERBS {
            assert!(list.lines().any(|line| line.contains(verb.name)), "{}", verb.name);
        }
    }
}
