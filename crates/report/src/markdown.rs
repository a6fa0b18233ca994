//! An analysis as Markdown, for a pull request or a log.

use crate::number;
use senesce_core::analysis::{Analysis, Table};
use senesce_core::text::visible;
use serde_json::Value;

pub fn render(analysis: &Analysis) -> String {
    let mut text = format!("# {}\n\n{}\n", escape(&analysis.title), escape(&analysis.summary));
    for caveat in &analysis.caveats {
        text += &format!("\n> {}\n", escape(caveat));
    }
    if !analysis.findings.is_empty() {
        text += "\n## Findings\n\n| claim | published | measured | verdict |\n| --- | --- | --- | --- |\n";
        for finding in &analysis.findings {
            let cells = [&finding.claim, &finding.published, &finding.measured].map(|cell| escape(cell));
            let source =
                if finding.source.is_empty() { String::new() } else { format!(" ({})", escape(&finding.source)) };
            let note = if finding.note.is_empty() { String::new() } else { format!(" ({})", escape(&finding.note)) };
            text +=
                &format!("| {} | {}{source} | {} | {}{note} |\n", cells[0], cells[1], cells[2], finding.verdict.text());
        }
    }
    for one in &analysis.tables {
        text += &format!("\n## {}\n\n{}", escape(&one.title), table(one));
    }
    text
}

/// Columns of numbers are right-aligned.
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

fn escape(text: &str) -> String {
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
