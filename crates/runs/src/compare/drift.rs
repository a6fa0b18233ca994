//! What drifted while the runs of a comparison were made. It is named and nothing is corrected: a ratio between two sides that were
//! measured one after the other holds the drift too.

use super::Row;
use senesce_core::Record;
use senesce_stats::{mean, trend};
use serde_json::Value;

/// A drift is named that is significant at this level over all series of the comparison (Bonferroni) ...
const ERROR: f64 = 0.05;

/// ... and larger than this share.
const MARGIN: f64 = 0.02;

/// When a run was begun (RFC 3339, UTC); none for imports that do not say.
fn date(record: &Record) -> Option<&str> {
    record.environment.0.get("run.date").and_then(Value::as_str)
}

/// The runs by date, those without one first.
pub(super) fn by_date(records: &[Record]) -> Vec<&Record> {
    let mut sorted: Vec<&Record> = records.iter().collect();
    sorted.sort_by(|a, b| date(a).cmp(&date(b)));
    sorted
}

/// What to say of two sides, each by date, and of what was judged of them.
pub(super) fn caveats(sample: &[&Record], reference: &[&Record], rows: &[Row]) -> Vec<String> {
    let judged = || rows.iter().filter(|row| row.described.is_none());
    let series: Vec<Series> = judged()
        .flat_map(|row| [("sample", &row.sample), ("reference", &row.reference)].map(|side| series(row, side)))
        .flatten()
        .collect();
    let tested: Vec<_> = series.iter().filter_map(|one| Some((one, trend(&one.values)?))).collect();
    let error = ERROR / tested.len().max(1) as f64;
    let drifts = tested.into_iter().filter_map(|(one, trend)| {
        let found = trend.text(error, MARGIN)?;
        Some(format!("{} {} {found}: it is part of every ratio with the other side", one.name, one.over))
    });
    one_after_the_other(sample, reference).into_iter().chain(drifts).collect()
}

/// Values in the order in which they were measured.
struct Series {
    name: String,
    over: String,
    values: Vec<f64>,
}

/// The repetitions of each run of a side, and its runs.
fn series(row: &Row, (side, runs): (&str, &Vec<Vec<f64>>)) -> Vec<Series> {
    let of = |over: String, values: Vec<f64>| Series { name: row.name(), over, values };
    let within = runs.iter().enumerate().map(|(number, values)| {
        let which = if runs.len() == 1 { String::new() } else { format!(" (run {})", number + 1) };
        of(format!("within the {side}{which}"), values.clone())
    });
    let between = of(format!("over the runs of the {side}"), runs.iter().filter_map(|run| mean(run)).collect());
    within.chain([between]).collect()
}

/// What the machine did between the two sides cannot be told from what differs between them. Of one run against one that is said
/// already, unless days lie between.
fn one_after_the_other(sample: &[&Record], reference: &[&Record]) -> Option<String> {
    let span = |side: &[&Record]| Some((date(side.first()?)?.to_string(), date(side.last()?)?.to_string()));
    let (ours, theirs) = (span(sample)?, span(reference)?);
    let (before, after, words) = match () {
        () if ours.1 < theirs.0 => (ours.1, theirs.0, ["sample", "reference"]),
        () if theirs.1 < ours.0 => (theirs.1, ours.0, ["reference", "sample"]),
        () => return None,
    };
    let single = sample.len() == 1 && reference.len() == 1;
    let is_same_day = before.get(..10) == after.get(..10);
    (!single || !is_same_day).then(|| {
        format!(
            "all of the {} was measured before the {} ({before} against {after}): what changed on the machine meanwhile is part of \
             every ratio; measured in turns (--until-decided) it is not",
            words[0], words[1]
        )
    })
}
