//! What age costs, from the aged file system and the copies of its files.

use super::super::copies::{Copies, CopySeen};
use super::super::demo::Ranges;
use super::super::events::LayoutSeen;
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

pub(crate) fn answer_table(copies: &Copies) -> Table {
    Rows::of(&rows(copies))
        .column("", |row| &row.what)
        .column("ordered copy", |row| &row.values[0])
        .column("unaged", |row| &row.values[1])
        .column("aged", |row| &row.values[2])
        .table("answer", "What age costs")
        .leading()
}

fn rows(copies: &Copies) -> Vec<AnswerRow> {
    let values =
        |of: &dyn Fn(&CopySeen) -> Value| std::array::from_fn(|index| copies.seen.get(index).map_or(Value::Null, of));
    let read = |(index, drive): (usize, &String)| {
        let kind = DRIVE_KINDS.get(index).copied().unwrap_or(drive);
        let values = values(&|copy| json!(copy.read_seconds.get(index)));
        AnswerRow { what: format!("reading all files, {kind} (s)"), values }
    };
    let reads = copies.drives.iter().enumerate().map(read);
    let row = |what: &str, of: &dyn Fn(&CopySeen) -> Value| AnswerRow { what: what.into(), values: values(of) };
    let others = [
        row(&format!("pieces of a new file of {}", copies.new_file), &|copy| json!(copy.new_file_pieces)),
        row("largest free extent (MiB)", &|copy| json!(copy.largest_free.0 as f64 / Bytes::mib(1).0 as f64)),
        row("files in pieces", &|copy| json!(copy.fragmented_files)),
    ];
    reads.chain(others).collect()
}

/// How to read the table. `None` without the times of all three.
pub(crate) fn answer_words(copies: &Copies, seen: &LayoutSeen, ranges: Option<Ranges>) -> Option<String> {
    let pieces = seen.read_times.first()?.times.pieces_factor();
    let [ordered, unaged, aged] = copies.seen.as_slice() else { return None };
    let slower = |drive: usize| Some(aged.read_seconds.get(drive)? / unaged.read_seconds.get(drive)?);
    let order = unaged.read_seconds.first()? / ordered.read_seconds.first()?;
    let (disk, sata, nvme) = (slower(0)?, slower(1)?, slower(2)?);
    let times = |factor: f64, range: fn(&Ranges) -> (f64, f64)| match ranges.as_ref().map(range) {
        Some((least, most)) => format!("{factor:.1} times [{least:.1} to {most:.1}]"),
        None => format!("{factor:.1} times"),
    };
    let seeds = ranges.map_or(String::new(), |ranges| format!(" Brackets: 95 % of agings ({} seeds).", ranges.seeds));
    Some(format!(
        "On a disk, age makes reading all files {} slower (aged / unaged): {} because replaced files lie elsewhere, {} because \
         files are in pieces. On the SSDs: {sata:.1} and {nvme:.1} times. Unaged: the same files, created once in the order of \
         birth. That order alone costs {}, compared with a copy written in the order of reading. Times are modelled.{seeds}",
        times(disk, |ranges| ranges.age),
        times(disk / pieces, |ranges| ranges.placement),
        times(pieces, |ranges| ranges.pieces),
        times(order, |ranges| ranges.order),
    ))
}
