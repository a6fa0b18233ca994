//! Tables and figures as CSV (RFC 4180, with `\n` as line end).

use senesce_core::analysis::Table;
use serde_json::Value;

/// Renders a table. Numbers keep all their digits; `null` is an empty cell.
pub fn table(table: &Table) -> String {
    rows(&[table.columns.iter().map(|name| Value::from(name.as_str())).collect()]) + &rows(&table.rows)
}

/// Renders rows without the names of their columns, as [`table`] does.
pub fn rows(rows: &[Vec<Value>]) -> String {
    let mut writer = csv::WriterBuilder::new().flexible(true).from_writer(Vec::new());
    let cell = |value: &Value| match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    for row in rows {
        writer.write_record(row.iter().map(cell)).expect("memory can be written");
    }
    String::from_utf8(writer.into_inner().expect("memory can be written")).expect("the cells are text")
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
            let columns: Vec<&str> = words.iter().map(String::as_str).collect();
            let text = table(&Table::new("t", "T", &columns));
            let mut reader = csv::Reader::from_reader(text.as_bytes());
            prop_assert_eq!(reader.headers().unwrap().iter().collect::<Vec<_>>(), columns);
        }
    }
}
