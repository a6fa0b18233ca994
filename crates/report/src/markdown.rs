//! An analysis as Markdown, for a pull request or a log.

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
    text + &blocks(findings)
}

pub(crate) fn blocks(findings: &[Finding]) -> String {
    let mut text = String::new();
    for block in answer::blocks(findings) {
        text += &format!("\n### {}\n", escape(&block.title));
        for group in &block.groups {
            if !group.source.is_empty() {
                text += &format!("\n{}:\n", escape(&group.source));
            }
            text += &claim_table(&group.findings, block.shows_verdicts);
        }
    }
    text
}

fn claim_table(findings: &[&Finding], shows_verdicts: bool) -> String {
    let (head, rule) = if shows_verdicts { (" verdict |", " --- |") } else { ("", "") };
    let mut text = format!("\n| claim | published | measured |{head}\n| --- | --- | --- |{rule}\n");
    for finding in findings {
        let [claim, published, measured, note] =
            [&finding.claim, &finding.published, &finding.measured, &finding.note].map(|cell| escape(cell));
        let note = if note.is_empty() { note } else { format!(" ({note})") };
        let verdict = if shows_verdicts { format!(" {} |", finding.verdict.text()) } else { String::new() };
        text += &format!("| {claim}{note} | {published} | {measured} |{verdict}\n");
    }
    text
}

/// Renders a table. Columns of numbers are right-aligned.
pub(crate) fn table(table: &Table) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let numeric = |column: usize| table.rows.iter().any(|row| row.get(column).is_some_and(Value::is_number));
    let rule = (0..table.columns.len()).map(|column| if numeric(column) { "---:" } else { "---" }.to_string());
    let mut text = line(table.columns.iter().map(|column| escape(column)).collect()) + &line(rule.collect());
    for row in &table.rows {
        text += &line(row.iter().map(cell).collect());
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
}
