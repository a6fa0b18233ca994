//! Compares the newest runs with those that carry a label.

use super::{ListedRun, State};
use crate::compare::{Comparison, Options, compare};
use crate::decided::interval_text;
use senesce_core::{Failure, Record, Table};
use senesce_runner::Registry;
use serde_json::{Value, json};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug)]
pub struct BaselineComparison {
    pub run: usize,
    pub baseline: Vec<usize>,
    /// A caveat if the run did not begin after all of its baseline, or its date is unknown.
    pub time: Option<&'static str>,
    pub found: Result<Comparison, String>,
}

/// Compares the newest complete run of each setting and machine with the complete runs that carry the label `name`.
/// Skips a setting that lacks either.
pub fn against_baseline(
    registry: &Registry,
    entries: &[ListedRun],
    name: &str,
    options: &Options,
) -> Result<Vec<BaselineComparison>, Failure> {
    let is_named = |entry: &ListedRun| entry.label.as_deref() == Some(name);
    if !entries.iter().any(is_named) {
        return Err(no_baseline(entries, name));
    }
    let mut groups: BTreeMap<_, (Option<usize>, Vec<usize>)> = BTreeMap::new();
    for (index, entry) in entries.iter().enumerate().filter(|(_, entry)| entry.state == State::Complete) {
        let group = groups.entry((&entry.kind, &entry.setting, entry.machine())).or_default();
        if is_named(entry) {
            group.1.push(index);
        } else {
            group.0 = Some(index);
        }
    }
    let pairs = groups.into_values().filter_map(|(run, baseline)| Some((run?, baseline)));
    let pairs = pairs.filter(|(_, baseline)| !baseline.is_empty());
    Ok(pairs.map(|(run, baseline)| found(registry, entries, run, baseline, options)).collect())
}

fn found(
    registry: &Registry,
    entries: &[ListedRun],
    run: usize,
    baseline: Vec<usize>,
    options: &Options,
) -> BaselineComparison {
    let open = |index: &usize| Record::open(&entries[*index].run).map_err(Failure::from);
    let comparison = || {
        let reference = baseline.iter().map(open).collect::<Result<Vec<_>, Failure>>()?;
        compare(registry, &[open(&run)?], &reference, options)
    };
    let found = comparison().map_err(|failure| failure.to_string());
    BaselineComparison { run, time: time(entries, run, &baseline), baseline, found }
}

/// Dates in the same format sort as text.
fn time(entries: &[ListedRun], run: usize, baseline: &[usize]) -> Option<&'static str> {
    let date = |index: usize| entries[index].date.as_deref();
    if date(run).is_none() || baseline.iter().any(|index| date(*index).is_none()) {
        return Some("not dated: the order is unknown");
    }
    match baseline.iter().map(|index| date(*index)).max()?.cmp(&date(run)) {
        Ordering::Less => None,
        Ordering::Equal => Some("from the same second as the newest run of its baseline: the order is unknown"),
        Ordering::Greater => Some("older than the newest run of its baseline"),
    }
}

fn no_baseline(entries: &[ListedRun], name: &str) -> Failure {
    let labels: BTreeSet<&str> = entries.iter().filter_map(|entry| entry.label.as_deref()).collect();
    let known = match labels.is_empty() {
        true => "no run has a label".to_string(),
        false => format!("labels are: {}", labels.into_iter().collect::<Vec<_>>().join(", ")),
    };
    Failure::usage(format!(
        "no run has the label '{name}' ({known}); add it: senesce runs label {name} RUN, or --label {name} when running"
    ))
}

pub(super) fn table(name: &str, entries: &[ListedRun], found: &[BaselineComparison]) -> Table {
    let title = format!("The newest runs against the baseline {name}");
    let columns = ["run", "baseline (runs)", "metric", "condition", "ratio", "interval", "verdict"];
    let mut table = Table::new("baseline", &title, &columns);
    for one in found {
        let time = one.time.map_or_else(String::new, |text| format!(" ({text})"));
        let (run, runs) = (json!(format!("{}{time}", entries[one.run].name())), json!(one.baseline.len()));
        match &one.found {
            Err(why) => table.row((run, runs, Value::Null, Value::Null, Value::Null, Value::Null, why)),
            Ok(comparison) => {
                for row in &comparison.rows {
                    let Some(decision) = row.judged() else { continue };
                    let interval = decision.interval;
                    table.row((
                        run.clone(),
                        runs.clone(),
                        &row.what.metric,
                        row.what.condition_text(),
                        interval.map_or(Value::Null, |interval| json!(interval.value)),
                        interval.map_or(Value::Null, |interval| json!(interval_text(&interval))),
                        decision.text_at(comparison.margin),
                    ));
                }
            }
        }
    }
    table
}

pub(super) fn json(entries: &[ListedRun], found: &[BaselineComparison]) -> Value {
    let of = |one: &BaselineComparison| {
        let baseline: Vec<_> = one.baseline.iter().map(|index| &entries[*index].run).collect();
        let mut all = json!({"run": entries[one.run].run, "baseline": baseline, "time": one.time});
        match &one.found {
            Ok(comparison) => all["metrics"] = comparison.analysis().result["metrics"].take(),
            Err(why) => all["error"] = json!(why),
        }
        all
    };
    found.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn run_older_than_its_baseline_gives_a_caveat() {
        let entry = |date: Option<&str>| {
            let unread = ListedRun::without_values(Path::new("no such run"), State::Unreadable, String::new());
            ListedRun { date: date.map(str::to_string), ..unread }
        };
        let dates = [None, Some("2026-01-01T00:00:00Z"), Some("2026-01-02T00:00:00Z"), Some("2026-01-03T00:00:00Z")];
        let entries: Vec<ListedRun> = dates.map(entry).into();
        assert_eq!(time(&entries, 3, &[1, 2]), None);
        assert!(time(&entries, 2, &[1, 2]).unwrap().starts_with("from the same second"), "files of one second");
        assert!(time(&entries, 2, &[1, 3]).unwrap().starts_with("older"));
        assert!(time(&entries, 3, &[0, 1]).unwrap().starts_with("not dated"));
        assert!(time(&entries, 0, &[1]).unwrap().starts_with("not dated"));
    }
}
