//! The columns and rows of the whole history as one table for data frames: a row for every measured value.

use super::{ListedRun, MeasuredRun};
use crate::export::better_word;
use senesce_core::Measurement;
use serde_json::{Value, json};

/// Columns; those of `senesce report` keep their names and meaning.
pub const COLUMNS: [&str; 20] = [
    "run",
    "date",
    "host",
    "label",
    "commit",
    "kernel",
    "kind",
    "setting",
    "version",
    "seed",
    "complete",
    "verdict",
    "metric",
    "unit",
    "better",
    "condition",
    "image",
    "repetition",
    "primary",
    "value",
];

/// Returns a row for every value of a run. A run without values has one row without a metric, so that no run is lost.
pub fn rows(entry: &ListedRun, values: &MeasuredRun) -> Vec<Vec<Value>> {
    match values.as_deref().unwrap_or_default() {
        [] => vec![row(entry, None)],
        values => values.iter().map(|one| row(entry, Some(one))).collect(),
    }
}

fn row(entry: &ListedRun, one: Option<&Measurement>) -> Vec<Value> {
    let run = vec![
        json!(entry.run.display().to_string()),
        json!(entry.date),
        json!(entry.machine()),
        json!(entry.label),
        json!(entry.commit),
        json!(entry.kernel),
        json!(entry.kind),
        json!(entry.setting),
        json!(entry.version),
        json!(entry.seed),
        json!(entry.state == super::State::Complete),
        json!(entry.verdict),
    ];
    let value = one.map_or_else(
        || vec![Value::Null; COLUMNS.len() - run.len()],
        |one| {
            vec![
                json!(one.metric),
                json!(one.unit),
                json!(better_word(one.better)),
                json!(one.condition_text()),
                json!(one.image),
                json!(one.repetition),
                json!(one.primary),
                json!(one.value),
            ]
        },
    );
    [run, value].concat()
}
