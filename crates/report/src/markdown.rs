//! An analysis as Markdown, for a pull request or a log.

use crate::markup::{MEASURED, Markup, Pages};
use crate::{answer, data, number};
use senesce_core::analysis::{Analysis, Finding, Table, score_lines};
use senesce_core::text::visible;
use serde_json::Value;

pub fn render(analysis: &Analysis) -> String {
    let mut text = format!("# {}\n", escape(&analysis.title));
    for paragraph in answer::answer(analysis).into_iter().chain(score_lines(&analysis.findings)) {
        text += &format!("\n{}\n", escape(&paragraph));
    }
    text += &format!("\n{}\n", escape(answer::method(analysis)));
    for caveat in &analysis.caveats {
        text += &format!("\n> {}\n", escape(caveat));
    }
    if !analysis.findings.is_empty() {
        for figure in analysis.leading_figures().into_iter().filter(|one| !one.series().is_empty()) {
            text += &format!("\n## {}\n\n{}", escape(&figure.title), table(&data::of_figure(figure)));
        }
        text += &claims(&analysis.findings);
    }
    for one in &analysis.tables {
        text += &format!("\n## {}\n\n{}", escape(&one.title), table(one));
    }
    text
}

pub(crate) fn claims(findings: &[Finding]) -> String {
    let mut text = "\n## Claims\n".to_string();
    if let Some(work) = answer::common_work(findings) {
        text += &format!("\nClaims from {}.\n", escape(work));
    }
    text + &blocks(findings, &Pages::new())
}

/// Renders claims by outcome. The experiment at the beginning of a note links to its page.
pub(crate) fn blocks(findings: &[Finding], pages: &Pages) -> String {
    let mut text = String::new();
    for block in answer::blocks(findings) {
        text += &format!("\n### {}\n", escape(&block.title));
        for group in &block.groups {
            if !group.source.is_empty() {
                text += &format!("\n{}:\n", escape(&group.source));
            }
            text += &claim_table(&group.findings, block.shows_verdicts, pages);
        }
    }
    text
}

fn claim_table(findings: &[&Finding], shows_verdicts: bool, pages: &Pages) -> String {
    let shows_rules = findings.iter().any(|finding| !finding.measured.is_empty() && !finding.rule_text.is_empty());
    let rule = if shows_rules { &["rule"][..] } else { &[] };
    let verdict = if shows_verdicts { &["verdict"][..] } else { &[] };
    let heads = [&["claim", "published"][..], rule, &["measured"], verdict].concat();
    let mut text = format!("\n| {} |\n|{}\n", heads.join(" | "), " --- |".repeat(heads.len()));
    for finding in findings {
        let note = match finding.note.as_str() {
            "" => String::new(),
            note => format!(" ({})", Markup::Markdown.note(note, pages)),
        };
        text += &format!("| {}{note} | {} |", escape(&finding.claim), escape(&finding.published));
        if shows_rules {
            text += &format!(" {} |", escape(&finding.rule_text));
        }
        text += &format!(" {} |", Markup::Markdown.measured(finding, MEASURED));
        if shows_verdicts {
            text += &format!(" {} |", finding.verdict.text());
        }
        text.push('\n');
    }
    text
}

/// Renders a table. Columns of numbers are right-aligned.
pub(crate) fn table(table: &Table) -> String {
    linked_table(table, &Pages::new())
}

/// Renders a table whose columns of experiments link to pages.
pub(crate) fn linked_table(table: &Table, pages: &Pages) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let numeric = |column: usize| table.rows.iter().any(|row| row.get(column).is_some_and(Value::is_number));
    let rule = (0..table.columns.len()).map(|column| if numeric(column) { "---:" } else { "---" }.to_string());
    let mut text = line(table.columns.iter().map(|column| escape(column)).collect()) + &line(rule.collect());
    for row in &table.rows {
        let cells = row.iter().zip(&table.columns).map(|(value, column)| match value {
            Value::String(text) => Markup::Markdown.cell(column, text, pages),
            other => cell(other),
        });
        text += &line(cells.collect());
    }
    text
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => "–".into(),
        Value::String(text) => escape(text),
        Value::Number(digits) => digits.as_f64().map_or_else(|| digits.to_string(), number::value),
        other => escape(&other.to_string()),
    }
}

pub(crate) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in visible(text).chars() {
        match character {
            '|' | '*' | '_' | '`' | '<' | '[' | '\\' => safe.extend(['\\', character]),
            '\n' | '\r' => safe.push(' '),
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_keep_their_shape() {
        let mut small = Table::new("t", "T", &["name", "time (s)"]);
        small.row(("a|b", &1.5));
        small.row(("c", Value::Null));
        assert_eq!(table(&small), "| name | time (s) |\n| --- | ---: |\n| a\\|b | 1.5 |\n| c | – |\n");
    }

    #[test]
    fn rules_are_next_to_measured_values_only() {
        let tested = Finding {
            claim: "A".into(),
            published: "9".into(),
            rule_text: "[rate] is at least 9".into(),
            measured: "a: 1; b: 2; c: 3; d: 4".into(),
            contradicting: 1,
            ..Finding::default()
        };
        let untested = Finding { measured: String::new(), ..tested.clone() };
        let text = claim_table(&[&tested], false, &Pages::new());
        assert_eq!(
            text,
            "\n| claim | published | rule | measured |\n| --- | --- | --- | --- |\n\
             | A | 9 | \\[rate] is at least 9 | **a: 1**; b: 2; c: 3; and 1 more |\n"
        );
        assert!(!claim_table(&[&untested], false, &Pages::new()).contains("rate"));
    }
}
