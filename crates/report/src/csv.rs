//! Tables and figures as CSV (RFC 4180, with `\n` as line end).

use senesce_core::analysis::Table;
use serde_json::Value;

/// Numbers keep all their digits.
pub fn table(table: &Table) -> String {
    let mut text = line(table.columns.iter().map(|column| field(column)));
    for row in &table.rows {
        text += &line(row.iter().map(cell));
    }
    text
}

fn line(fields: impl Iterator<Item = String>) -> String {
    fields.collect::<Vec<_>>().join(",") + "\n"
}

/// One cell: text quoted if necessary, `null` as empty.
pub fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => field(text),
        other => field(&other.to_string()),
    }
}

/// Text, quoted if it contains a comma, a quote or a line end.
pub fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn cells_keep_digits_and_are_quoted() {
        let mut small = Table::new("t", "T", &["name", "latency (us)"]);
        small.row(("a, \"b\"", &0.1));
        small.row((Value::Null, 12345678901234u64));
        assert_eq!(table(&small), "name,latency (us)\n\"a, \"\"b\"\"\",0.1\n,12345678901234\n");
    }

    proptest! {
        #[test]
        fn fields_round_trip(words in prop::collection::vec("[a-z ,\"]{0,12}", 1..6)) {
            let line: Vec<String> = words.iter().map(|word| field(word)).collect();
            prop_assert_eq!(senesce_core::published::split(&line.join(",")), words);
        }
    }
}
