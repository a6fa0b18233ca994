//! `database`: SQLite executes transactions, each made durable, then reads by an index. Its final content is known.

use super::{ReadySetup, failed, wrong};
use rand::Rng;
use senesce_core::analysis::Better;
use senesce_core::seed::DEFAULT_SEED;
use senesce_core::{Failure, Measurement};
use senesce_volume::ScratchDirectory;
use std::fmt::Write;
use std::time::Instant;

/// Transactions at scale 1, rows inserted by each, and rows read back at the end.
const TRANSACTIONS: f64 = 800.0;
const ROWS: u32 = 10;
const READS: u32 = 500;

/// Bytes of payload of a row, in hexadecimal.
const PAYLOAD: usize = 12;

pub(super) fn run(place: &ReadySetup<'_>) -> Result<Vec<Measurement>, Failure> {
    let transactions = place.count(TRANSACTIONS, 10);
    let (script, expected) = script(transactions);
    // Outside of the volume: reading the script is not a part of the workload.
    let directory = ScratchDirectory::large("database")?;
    let file = directory.path().join("script.sql");
    std::fs::write(&file, script).map_err(failed("write", &file))?;
    place.progress.phase("database", 0, "transactions");
    let begun = Instant::now();
    let printed = place.program("sqlite3", &["-batch", "database.sqlite", &format!(".read {}", file.display())])?;
    let seconds = begun.elapsed().as_secs_f64();
    let last = printed.lines().last().unwrap_or_default();
    if last != expected {
        return Err(wrong(format!("the database has '{last}' at the end instead of '{expected}'")));
    }
    Ok(vec![
        Measurement::new("transactions", "transactions/s", Better::Higher, f64::from(transactions) / seconds)?,
        Measurement::new("database time", "s", Better::Lower, seconds)?,
    ])
}

/// Returns the statements and the output of the last one: count and sum of all rows.
fn script(transactions: u32) -> (String, String) {
    let mut rng = DEFAULT_SEED.stream("study/ready/database");
    let mut text = String::from(
        "PRAGMA journal_mode=DELETE;\nPRAGMA synchronous=FULL;\n\
         CREATE TABLE item(id INTEGER PRIMARY KEY, key INTEGER, value INTEGER, payload TEXT);\nCREATE INDEX by_key ON item(key);\n",
    );
    let mut values: Vec<u64> = Vec::new();
    for _ in 0..transactions {
        text += "BEGIN;\n";
        for _ in 0..ROWS {
            let (key, value) = (rng.next_u32(), u64::from(rng.next_u32() >> 8));
            let payload = format!("{:016x}", rng.next_u64()).repeat(PAYLOAD);
            values.push(value);
            let _ = writeln!(text, "INSERT INTO item VALUES({}, {key}, {value}, '{payload}');", values.len());
        }
        let place = (rng.next_u64() % values.len() as u64) as usize;
        values[place] += 1;
        let _ = writeln!(text, "UPDATE item SET value = value + 1 WHERE id = {};\nCOMMIT;", place + 1);
    }
    for _ in 0..READS {
        let key = rng.next_u32();
        let _ =
            writeln!(text, "SELECT max(value) FROM item WHERE key BETWEEN {key} AND {};", u64::from(key) + (1 << 24));
    }
    text += "SELECT count(*), sum(value) FROM item;\n";
    (text, format!("{}|{}", values.len(), values.iter().sum::<u64>()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_core::Silent;
    use senesce_core::interrupt::Interrupt;

    #[test]
    #[ignore = "needs sqlite3"]
    fn database_has_expected_content() {
        let directory = tempfile::tempdir().unwrap();
        let interrupt = Interrupt::new();
        let place = ReadySetup { folder: directory.path(), scale: 0.02, progress: &Silent, interrupt: &interrupt };
        let found = run(&place).unwrap();
        assert!((found[0].value.get() * found[1].value.get() - 16.0).abs() < 1e-6, "{found:?}");
        assert!(directory.path().join("database.sqlite").metadata().unwrap().len() > 16 * 10 * 200);
    }

    #[test]
    fn script_states_expected_result() {
        let (text, expected) = script(3);
        assert_eq!(text.matches("INSERT").count(), 30);
        assert!(expected.starts_with("30|"), "{expected}");
        assert_eq!(script(3), (text, expected));
    }
}
