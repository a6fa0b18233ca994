//! What age costs, from the aged file system and the copies of its files.

use super::super::copies::{Copies, CopySeen};
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
    let others: [(String, &dyn Fn(&CopySeen) -> Value); 3] = [
        (format!("pieces of a new file of {}", copies.new_file), &|copy| json!(copy.new_file_pieces)),
        ("largest free extent (MiB)".into(), &|copy| json!(copy.largest_free.0 as f64 / Bytes::mib(1).0 as f64)),
        ("files in pieces".into(), &|copy| json!(copy.fragmented_files)),
    ];
    let others = others.into_iter().map(|(what, of)| AnswerRow { what, values: values(of) });
    reads.chain(others).collect()
}

/// How to read the table. `None` without the times of all three.
pub(crate) fn answer_words(copies: &Copies, seen: &LayoutSeen) -> Option<String> {
    let times = seen.read_times.first()?.times;
    let [ordered, unaged, aged] = copies.seen.as_slice() else { return None };
    let seconds = |copy: &CopySeen| copy.read_seconds.first().copied();
    let (ordered, unaged, aged) = (seconds(ordered)?, seconds(unaged)?, seconds(aged)?);
    Some(format!(
        "On a disk, age makes reading all files {:.1} times slower: {:.1} times because replaced files lie elsewhere \
         (placement), {:.1} times because files are in pieces. Before any aging, the order in which the files were created \
         costs {:.1} times: an ordered copy has them in the order of reading. Times are modelled from measured layouts.",
        aged / unaged,
        aged / unaged / times.pieces_factor(),
        times.pieces_factor(),
        unaged / ordered,
    ))
}
