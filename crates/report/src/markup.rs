//! Text, emphasis and links as Markdown or HTML.

use crate::{markdown, svg};
use senesce_core::MeasuredList;
use senesce_core::analysis::Finding;
use std::collections::BTreeMap;

/// Addresses of the pages of experiments, by the name of the experiment.
pub type Pages = BTreeMap<String, String>;

/// Number of measured values in a table cell.
pub(crate) const MEASURED: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Markup {
    Markdown,
    Html,
}

impl Markup {
    pub(crate) fn text(self, text: &str) -> String {
        match self {
            Self::Markdown => markdown::escape(text),
            Self::Html => svg::escape(text),
        }
    }

    fn strong(self, text: &str) -> String {
        match self {
            Self::Markdown => format!("**{}**", self.text(text)),
            Self::Html => format!("<strong>{}</strong>", self.text(text)),
        }
    }

    fn link(self, text: &str, address: &str) -> String {
        match self {
            Self::Markdown => format!("[{}]({address})", self.text(text)),
            Self::Html => format!("<a href=\"{}\">{}</a>", self.text(address), self.text(text)),
        }
    }

    /// Formats a cell. Columns `experiment` have names of experiments, columns `... (experiment)` have text with names in
    /// parentheses; both link to pages.
    pub(crate) fn cell(self, column: &str, text: &str, pages: &Pages) -> String {
        match column {
            _ if column.ends_with("(experiment)") => self.cited(text, pages),
            _ if column.ends_with("experiment") => self.linked(text, pages),
            _ => self.text(text),
        }
    }

    fn cited(self, text: &str, pages: &Pages) -> String {
        let cited = |word: &str| match word.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
            Some(name) if pages.contains_key(name) => format!("({})", self.word(name, pages)),
            _ => self.text(word),
        };
        text.split(' ').map(cited).collect::<Vec<_>>().join(" ")
    }

    /// Links the words that are experiments with a page.
    pub(crate) fn linked(self, text: &str, pages: &Pages) -> String {
        text.split(' ').map(|word| self.word(word, pages)).collect::<Vec<_>>().join(" ")
    }

    /// Links the experiment at the beginning of a note. Other words of a note are prose.
    pub(crate) fn note(self, note: &str, pages: &Pages) -> String {
        let (first, rest) = note.split_at(note.find(' ').unwrap_or(note.len()));
        self.word(first, pages) + &self.text(rest)
    }

    fn word(self, word: &str, pages: &Pages) -> String {
        let name = word.trim_end_matches([',', ';']);
        match pages.get(name) {
            Some(address) => self.link(name, address) + &self.text(&word[name.len()..]),
            None => self.text(word),
        }
    }

    /// Formats at most `most` measured values; those that contradict the claim are emphasised.
    pub(crate) fn measured(self, finding: &Finding, most: usize) -> String {
        let MeasuredList { values, omitted } = MeasuredList::parse(&finding.measured).cut(most);
        let value = |(index, value): (usize, &&str)| match index < finding.contradicting {
            true => self.strong(value),
            false => self.text(value),
        };
        let marked: Vec<String> = values.iter().enumerate().map(value).collect();
        MeasuredList { values: marked.iter().map(String::as_str).collect(), omitted }.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contradicting_values_are_bold_and_others_are_cut() {
        let finding = Finding {
            measured: "fs=a_b: 9 (<1); fs=b: 1; fs=c: 2; fs=d: 3".into(),
            contradicting: 1,
            ..Finding::default()
        };
        let found = Markup::Markdown.measured(&finding, MEASURED);
        assert_eq!(found, "**fs=a\\_b: 9 (\\<1)**; fs=b: 1; fs=c: 2; and 1 more");
        let found = Markup::Html.measured(&finding, 1);
        assert_eq!(found, "<strong>fs=a_b: 9 (&lt;1)</strong>; and 3 more");
    }

    #[test]
    fn experiments_are_linked_and_prose_is_not() {
        let pages = Pages::from([("append".into(), "append.md".into())]);
        let cell = |column: &str, text: &str| Markup::Markdown.cell(column, text, &pages);
        assert_eq!(cell("by experiment", "append 1 of 2, other 0"), "[append](append.md) 1 of 2, other 0");
        assert_eq!(cell("for example (experiment)", "They append. (append)"), "They append. ([append](append.md))");
        assert_eq!(cell("for example (experiment)", "append it (other)"), "append it (other)");
        assert_eq!(cell("note", "append"), "append");
        assert_eq!(Markup::Markdown.note("append; each append", &pages), "[append](append.md); each append");
        assert_eq!(Markup::Html.note("append", &pages), "<a href=\"append.md\">append</a>");
        assert_eq!(Markup::Markdown.note("only append", &pages), "only append");
    }
}
