//! What age costs, from the aged file system and the copies of its files.

use super::super::copies::{Copies, ExaminedCopy};
use super::super::demo::Ranges;
use super::super::events::{ExaminedLayout, ModelledRead};
use super::super::final_layout::READ_ORDER;
use super::super::new_file::ModelledNewFile;
use senesce_core::{Bytes, Rows, Table};
use serde::Serialize;
use serde_json::{Value, json};

/// The kinds of the reference drives, in their order.
const DRIVE_KINDS: [&str; 3] = ["disk", "SATA SSD", "NVMe drive"];

#[derive(Serialize)]
struct AnswerRow {
    what: String,
    values: [Value; 3],
}

pub(crate) fn answer_table(copies: &Copies, files: u64) -> Table {
    Rows::of(&rows(copies, files))
        .column("", |row| &row.what)
        .column("ordered copy", |row| &row.values[0])
        .column("unaged", |row| &row.values[1])
        .column("aged", |row| &row.values[2])
        .table("answer", &format!("What age costs, {}", reading_words()))
        .leading()
}

/// Makes the same table without copies: both references are packed without gaps, which is a bound and not a layout.
pub(crate) fn modelled_answer_table(examined: &ExaminedLayout, new_file: Option<ModelledNewFile>) -> Option<Table> {
    let layout = examined.layout.as_ref()?;
    if examined.read_times.is_empty() {
        return None;
    }
    let read = |(index, read): (usize, &ModelledRead)| {
        let kind = DRIVE_KINDS.get(index).copied().unwrap_or(&read.drive);
        let values =
            [read.times.in_order, read.times.created, read.times.aged].map(|seconds| json!(three_digits(seconds)));
        AnswerRow { what: format!("read all files, {kind} (modelled s)"), values }
    };
    let mut rows: Vec<AnswerRow> = examined.read_times.iter().enumerate().map(read).collect();
    rows.extend(new_file.map(|ModelledNewFile { bytes, minimum_pieces }| AnswerRow {
        what: format!("minimum pieces of a new file of {bytes} (modelled)"),
        values: [1, 1, minimum_pieces].map(|pieces| json!(pieces)),
    }));
    let of_aged = |what: String, value: Value| AnswerRow { what, values: [Value::Null, Value::Null, value] };
    if let Some(free) = layout.free_space.as_ref().filter(|free| free.extents > 0) {
        let mib = |bytes: f64| json!(three_digits(bytes / Bytes::mib(1).0 as f64));
        rows.push(of_aged("largest free extent (MiB)".into(), mib(free.max_bytes as f64)));
        rows.push(of_aged("mean free extent (MiB)".into(), mib(free.avg_bytes)));
    }
    let pieces = [json!(0), json!(0), json!(layout.fragmented_files)];
    rows.push(AnswerRow { what: files_in_pieces(layout.files), values: pieces });
    let table = Rows::of(&rows)
        .column("", |row| &row.what)
        .column("in order", |row| &row.values[0])
        .column("unaged", |row| &row.values[1])
        .column("aged", |row| &row.values[2]);
    let title = format!("Effect of age, {} (references are packed without gaps)", reading_words());
    Some(table.table("answer", &title).leading())
}

/// Names the order of reading, on which the times of a disk depend.
fn reading_words() -> String {
    format!("files read in {} order", READ_ORDER.name())
}

fn rows(copies: &Copies, files: u64) -> Vec<AnswerRow> {
    let values = |of: &dyn Fn(&ExaminedCopy) -> Value| {
        std::array::from_fn(|index| copies.layouts.get(index).map_or(Value::Null, of))
    };
    let read = |(index, drive): (usize, &String)| {
        let kind = DRIVE_KINDS.get(index).copied().unwrap_or(drive);
        let values = values(&|copy| json!(copy.read_seconds.get(index).copied().map(three_digits)));
        AnswerRow { what: format!("read all files, {kind} (modelled s)"), values }
    };
    let reads = copies.drives.iter().enumerate().map(read);
    let row = |what: &str, of: &dyn Fn(&ExaminedCopy) -> Value| AnswerRow { what: what.into(), values: values(of) };
    let others = [
        row(&format!("pieces of a new file of {}", copies.new_file), &|copy| json!(copy.new_file_pieces)),
        row("largest free extent (MiB)", &|copy| {
            json!(three_digits(copy.largest_free.0 as f64 / Bytes::mib(1).0 as f64))
        }),
        row(&files_in_pieces(files), &|copy| json!(copy.fragmented_files)),
    ];
    reads.chain(others).collect()
}

/// Labels the files in pieces. The marker of the directory is one of the `files`, but not of the plan.
fn files_in_pieces(files: u64) -> String {
    format!("files in pieces, of {}", files.saturating_sub(1))
}

/// Rounds to three significant digits.
fn three_digits(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let scale = 10f64.powi(2 - value.abs().log10().floor() as i32);
    (value * scale).round() / scale
}

/// Formats a range with its bounds rounded away from the middle, so that no value within it looks like one outside.
fn outward((least, most): (f64, f64), digits: usize) -> String {
    let scale = 10f64.powi(i32::try_from(digits).unwrap_or(0));
    format!("{:.digits$} to {:.digits$}", (least * scale).floor() / scale, (most * scale).ceil() / scale)
}

/// Explains how to read the table. Returns `None` without the times of all three.
pub(crate) fn answer_words(copies: &Copies, examined: &ExaminedLayout, ranges: Option<Ranges>) -> Option<String> {
    let pieces = examined.read_times.first()?.times.pieces_factor();
    let [ordered, unaged, aged] = copies.layouts.as_slice() else { return None };
    let ratio = |drive: usize| Some(aged.read_seconds.get(drive)? / unaged.read_seconds.get(drive)?);
    let order = unaged.read_seconds.first()? / ordered.read_seconds.first()?;
    let (disk, sata, nvme) = (ratio(0)?, ratio(1)?, ratio(2)?);
    let range = |of: fn(&Ranges) -> (f64, f64)| {
        ranges.as_ref().map(of).map_or(String::new(), |range| format!(" [{}]", outward(range, 1)))
    };
    let aged_range =
        ranges.map_or(String::new(), |Ranges { age, .. }| format!(" [{} in 95 % of agings]", outward(age, 1)));
    let flash =
        |drive: usize| ranges.map_or(String::new(), |Ranges { flash, .. }| format!(" [{}]", outward(flash[drive], 2)));
    let new_file = ranges.and_then(|ranges| ranges.new_file);
    Some(format!(
        "Ordered copy: files in reading order; unaged: in creation order. Aged, the disk takes {disk:.2} times as long as \
         unaged{aged_range}: {:.2}{} because files lie elsewhere, times {pieces:.2}{} because they are in pieces. SATA \
         SSD: {sata:.2}{}; NVMe: {nvme:.2}{}. New file: {}{} pieces. Not due to age: unaged over ordered, {order:.2}{}.",
        disk / pieces,
        range(|ranges| ranges.placement),
        range(|ranges| ranges.pieces),
        flash(0),
        flash(1),
        aged.new_file_pieces,
        new_file.map_or(String::new(), |(least, most)| format!(" [{least} to {most}]")),
        range(|ranges| ranges.order),
    ))
}

#[cfg(test)]
mod tests {
    use super::super::super::final_layout::tests::layout_seen;
    use super::*;

    #[test]
    fn ranges_are_rounded_outward() {
        assert_eq!(outward((1.211, 1.422), 1), "1.2 to 1.5");
        assert_eq!(outward((1.083, 1.139), 2), "1.08 to 1.14");
        assert_eq!(outward((1.5, 2.0), 1), "1.5 to 2.0");
    }

    #[test]
    fn modelled_table_has_the_pieces_of_a_new_file() {
        let new_file = ModelledNewFile { bytes: Bytes::mib(8), minimum_pieces: 7 };
        let table = modelled_answer_table(&layout_seen(), Some(new_file)).unwrap();
        let is_new_file = |row: &&Vec<Value>| row[0].as_str().is_some_and(|name| name.contains("new file of 8 MiB"));
        let row = table.rows.iter().find(is_new_file).unwrap();
        assert_eq!(row[1..], [json!(1), json!(1), json!(7)]);
        let without = modelled_answer_table(&layout_seen(), None).unwrap();
        assert_eq!(without.rows.len() + 1, table.rows.len());
    }

    #[test]
    fn title_and_result_name_the_order_of_reading() {
        let table = modelled_answer_table(&layout_seen(), None).unwrap();
        assert!(table.title.contains(&reading_words()) && reading_words().contains("path"), "{}", table.title);
        assert_eq!(json!(READ_ORDER), "path");
    }

    #[test]
    fn values_are_rounded_to_three_digits() {
        for (value, expected) in [(15.987, 16.0), (0.123_456, 0.123), (1234.0, 1230.0), (0.0, 0.0)] {
            assert!((three_digits(value) - expected).abs() < 1e-9, "{value}");
        }
    }
}
