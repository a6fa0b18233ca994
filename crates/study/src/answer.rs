//! The result of a study as one sentence and as rows for programs.

use crate::questions::CellId;
use crate::results::Results;
use crate::subject::modelled_by;
use crate::verdicts::{Answer, Change, Order};
use senesce_core::analysis::Table;
use senesce_core::{Rows, number_of};
use senesce_runs::decided::{change_text, fields};
use senesce_stats::arm::Unit;
use senesce_stats::pairwise::OrderChange;
use senesce_stats::verdict::{MARGIN, PRACTICAL_UNITS, at_margin};
use senesce_stats::{Decision, Verdict};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

const PARTS: usize = 4;

/// Writes one sentence: the order of several file systems, the effect of age on each, and whether age changes the
/// order; first as measured, then on modelled drives, if they differ there.
pub(crate) fn sentence(results: &Results) -> String {
    let done = results.progress.0 - results.failed.len();
    if done == 0 && !results.failed.is_empty() && !results.interrupted {
        return format!("No cell was measured: {} failed.", number_of(results.failed.len(), "run"));
    }
    if results.answers.is_empty() && !results.interrupted {
        return not_compared(results);
    }
    let mut all = statements(results, is_measured);
    let (measured, modelled): (Vec<&Answer>, Vec<&Answer>) =
        results.answers.iter().partition(|answer| is_measured(&answer.what.metric));
    let has_model = !modelled.is_empty();
    let differs = |answers: &[&Answer]| answers.iter().any(|answer| answer.decision.verdict.is_difference());
    match (differs(&measured), differs(&modelled)) {
        (false, false) => all.push(inconclusive(&results.answers.iter().collect::<Vec<_>>(), has_model)),
        (false, true) if !measured.is_empty() => {
            all.push(format!("as measured, {}", inconclusive(&measured, has_model)))
        }
        _ => {}
    }
    if differs(&modelled) {
        let modelled = statements(results, |metric| !is_measured(metric));
        all.push(format!("on modelled drives, {}", modelled.join("; ")));
    }
    let alone = results.answers.iter().any(|answer| answer.one_image && answer.decision.verdict.is_difference());
    if alone {
        all.push("the answer holds for this one image only".into());
    }
    let answer = format!("{}.", all.join("; "));
    match results.interrupted {
        true if is_tested(&results.answers) => format!("{} {answer}", interrupted_text(results)),
        true => interrupted_text(results),
        false => answer,
    }
}

/// Returns the orders, effects of age and changes of order by the metrics that `is_wanted` selects.
fn statements(results: &Results, is_wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let orders = results.orders.iter().filter(|order| is_wanted(&order.metric));
    let ages = results.answers.iter().filter(|answer| !answer.question.is_pair() && is_wanted(&answer.what.metric));
    let stated = ages.filter(|answer| answer.decision.verdict.is_difference());
    let changes = results.changes.iter().filter(|change| is_wanted(&change.metric));
    let changed = changes.filter(|change| change.change == OrderChange::Changes);
    let all = [
        parts(orders.map(|one| order_text(results, one))),
        parts(stated.map(|one| age_text(results, one))),
        parts(changed.map(|one| change_of_order(results, one))),
    ];
    all.into_iter().flatten().collect()
}

/// Names the workload, and a modelled metric, of which there may be several.
fn subject_text(workload: &str, metric: &str) -> String {
    if is_measured(metric) { workload.into() } else { format!("{workload}, {metric}") }
}

fn is_tested(answers: &[Answer]) -> bool {
    answers.iter().any(|answer| !matches!(answer.decision.verdict, Verdict::NotTestable { .. }))
}

fn interrupted_text(results: &Results) -> String {
    let done = results.progress.0 - results.failed.len();
    let runs = match results.spec.until_decided {
        true => number_of(done, "run"),
        false => format!("{done} of {}", number_of(results.progress.1, "run")),
    };
    let few = if is_tested(&results.answers) { "" } else { ", too few for a comparison" };
    format!("interrupted: {runs} measured and kept{few}.")
}

fn is_measured(metric: &str) -> bool {
    modelled_by(metric).is_none()
}

fn parts(all: impl Iterator<Item = String>) -> Option<String> {
    let all: Vec<String> = all.collect();
    let more = match all.len().saturating_sub(PARTS) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    (!all.is_empty()).then(|| format!("{}{more}", all[..all.len().min(PARTS)].join(", ")))
}

fn order_text(results: &Results, order: &Order) -> String {
    let spec = &results.spec;
    format!(
        "{} when {}: {}",
        subject_text(&spec.workload[order.workload].name, &order.metric),
        spec.state[order.state].name,
        order_or_none(results, order)
    )
}

fn order_or_none(results: &Results, order: &Order) -> String {
    match order.pairwise.classes.is_empty() {
        true => "no pair can be tested".into(),
        false => order.text(&results.spec),
    }
}

fn age_text(results: &Results, answer: &Answer) -> String {
    let id = answer.question.sample;
    let (fs, state, workload) = results.spec.names((id.fs, id.state, id.workload));
    let change = answer.decision.interval.map_or_else(String::new, |interval| change_text(&interval));
    format!("{fs} is {} when {state} ({workload}, {} {change})", answer.decision.verdict.word(), answer.what.metric)
}

fn change_of_order(results: &Results, change: &Change) -> String {
    let (a, b) = systems(results, change);
    let (_, state, workload) =
        results.spec.names((change.after.sample.fs, change.after.sample.state, change.after.sample.workload));
    format!("'{state}' changes the order of {a} and {b} ({})", subject_text(workload, &change.metric))
}

fn systems<'a>(results: &'a Results, change: &Change) -> (&'a str, &'a str) {
    let name = |fs: usize| results.spec.file_system[fs].name.as_str();
    (name(change.after.sample.fs), name(change.after.reference.fs))
}

/// Returns the sentence of a study without comparisons.
fn not_compared(results: &Results) -> String {
    let cells: BTreeSet<CellId> = results.judged.iter().map(|cell| cell.id).collect();
    match cells.len() {
        0 => "No cell was measured.".into(),
        1 => "One cell was measured; compare it with another study with senesce compare.".into(),
        count => format!(
            "{count} cells were measured, and no two can be compared; compare them with another study with senesce \
             compare."
        ),
    }
}

fn inconclusive(answers: &[&Answer], has_model: bool) -> String {
    let decisions = || answers.iter().map(|answer| &answer.decision);
    let verdicts = || decisions().map(|decision| &decision.verdict);
    if verdicts().all(|verdict| *verdict == Verdict::Equivalent) {
        return "all compared cells are equivalent".into();
    }
    let open: Vec<(f64, (&str, Option<u64>))> = decisions().filter_map(undecided).collect();
    let tested = verdicts().filter(|verdict| !matches!(verdict, Verdict::NotTestable { .. })).count();
    if tested == 0 {
        let why = verdicts().find_map(|verdict| match verdict {
            Verdict::NotTestable { why } => Some(why.to_string()),
            _ => None,
        });
        return format!("nothing can be tested: {}", why.unwrap_or_default());
    }
    if open.is_empty() {
        return format!(
            "no difference was found ({tested} of {} equivalent), and the others cannot be tested",
            number_of(answers.len(), "comparison")
        );
    }
    let (count, all) = (open.len(), answers.len());
    let needed = needed_text(open.iter().map(|(_, needed)| *needed));
    let undecided = format!("no difference was found ({count} of {} undecided)", number_of(all, "comparison"));
    if verdicts().any(Verdict::is_too_noisy) {
        let other = if has_model { "" } else { ", or a modelled metric" };
        return format!("{undecided}, and the runs are too noisy: {needed}, so use a quieter machine{other}");
    }
    let reach = open.iter().map(|(detectable, _)| *detectable).fold(1.0, f64::max);
    format!("{undecided}, changes of {:.1} % would have been found, {needed}", (reach - 1.0) * 100.0)
}

/// Returns the detectable change of an undecided comparison, its unit, and the number required to decide it.
fn undecided(decision: &Decision) -> Option<(f64, (&'static str, Option<u64>))> {
    match decision.verdict {
        Verdict::Undecided { detectable, repetitions_needed } => {
            Some((detectable, (decision.unit.unwrap_or(Unit::Repetition).plural(), repetitions_needed)))
        }
        _ => None,
    }
}

/// Returns the number of each unit that decides all comparisons, up to [`PRACTICAL_UNITS`].
pub(crate) fn needed_text<'a>(open: impl Iterator<Item = (&'a str, Option<u64>)>) -> String {
    let mut most: BTreeMap<&str, u64> = BTreeMap::new();
    for (units, needed) in open {
        let Some(needed) = needed else { return format!("no number of {units} would decide all{}", at_margin(MARGIN)) };
        let most = most.entry(units).or_default();
        *most = needed.max(*most);
    }
    let amount = |(units, needed): (&&str, &u64)| match *needed > PRACTICAL_UNITS {
        true => format!("more than {PRACTICAL_UNITS} {units}"),
        false => format!("{needed} {units}"),
    };
    let words: Vec<String> = most.iter().map(amount).collect();
    format!("{} of a cell would be needed to decide{}", words.join(" and "), at_margin(MARGIN))
}

pub(crate) fn json(results: &Results) -> Map<String, Value> {
    let of = |is_pair: bool| results.answers.iter().filter(move |answer| answer.question.is_pair() == is_pair);
    let mut all = Map::new();
    all.insert("answer".into(), json!(sentence(results)));
    all.insert("pairs".into(), of(true).map(|answer| pair(results, answer)).collect());
    all.insert("ages".into(), of(false).map(|answer| age(results, answer)).collect());
    all.insert("groups".into(), results.orders.iter().flat_map(|order| groups(results, order)).collect());
    all.insert("order_changes".into(), results.changes.iter().map(|one| order_change(results, one)).collect());
    all
}

fn pair(results: &Results, answer: &Answer) -> Value {
    let (ours, theirs) = (answer.question.sample, answer.question.reference);
    let (a, state, workload) = results.spec.names((ours.fs, ours.state, ours.workload));
    let named = json!({"workload": workload, "state": state, "a": a, "b": results.spec.file_system[theirs.fs].name});
    with_decision(named, answer)
}

fn age(results: &Results, answer: &Answer) -> Value {
    let (ours, theirs) = (answer.question.sample, answer.question.reference);
    let (fs, state, workload) = results.spec.names((ours.fs, ours.state, ours.workload));
    let against = &results.spec.state[theirs.state].name;
    with_decision(json!({"workload": workload, "file_system": fs, "state": state, "against": against}), answer)
}

fn with_decision(mut row: Value, answer: &Answer) -> Value {
    if let Some(row) = row.as_object_mut() {
        row.insert("metric".into(), json!(answer.what.metric));
        row.insert("unit".into(), json!(answer.what.unit));
        row.insert("better".into(), json!(answer.what.better));
        row.insert("one_image".into(), json!(answer.one_image));
        row.extend(fields(&answer.decision));
    }
    row
}

fn groups(results: &Results, order: &Order) -> Vec<Value> {
    let spec = &results.spec;
    let entry = |text: String, groups: Vec<Vec<&str>>| {
        json!({
            "workload": spec.workload[order.workload].name, "state": spec.state[order.state].name, "metric": order.metric,
            "words": text, "groups": groups,
        })
    };
    let classes = &order.pairwise.classes;
    if classes.is_empty() {
        return vec![entry(order_or_none(results, order), Vec::new())];
    }
    let names = order.names(spec);
    classes.iter().map(|class| entry(order.pairwise.class_text(class, &names), order.groups(spec, class))).collect()
}

fn order_change(results: &Results, change: &Change) -> Value {
    let (a, b) = systems(results, change);
    let spec = &results.spec;
    json!({
        "workload": spec.workload[change.after.sample.workload].name, "metric": change.metric, "a": a, "b": b,
        "against": spec.state[change.before.sample.state].name, "state": spec.state[change.after.sample.state].name,
        "change": change.change.word(), "probability": change.probability,
    })
}

pub(crate) fn pairs_table(results: &Results) -> Table {
    let columns = ["workload", "state", "metric", "pair", "ratio", "interval", "the first is"];
    let title = format!("Pairs of file systems, the first over the second {}", verdicts_text());
    let mut table = Table::new("pairs", &title, &columns);
    for answer in results.answers.iter().filter(|answer| answer.question.is_pair()) {
        let id = answer.question.sample;
        let (a, state, workload) = results.spec.names((id.fs, id.state, id.workload));
        let b = &results.spec.file_system[answer.question.reference.fs].name;
        let interval = answer.decision.interval;
        table.row((
            workload,
            state,
            &answer.what.metric,
            format!("{a} / {b}"),
            interval.map(|interval| interval.value),
            interval.map(|interval| senesce_runs::decided::interval_text(&interval)),
            answer.decision.short_text(),
        ));
    }
    table
}

/// Explains the verdicts of a table for its title.
pub(crate) fn verdicts_text() -> String {
    format!("(verdicts{}, numbers needed per side)", at_margin(MARGIN))
}

pub(crate) fn groups_table(results: &Results) -> Table {
    let title = "Order of the file systems: = not distinguishable, > is better; incomparable ones have no order";
    Rows::of(&results.orders)
        .column("workload", |order| &results.spec.workload[order.workload].name)
        .column("metric", |order| &order.metric)
        .column("state", |order| &results.spec.state[order.state].name)
        .column("order", |order| order_or_none(results, order))
        .table("groups", title)
}

pub(crate) fn changes_table(results: &Results) -> Table {
    let columns = ["workload", "metric", "pair", "state", "against", "the order", "probability that it differs"];
    let title = "Does the order change against the first state of both?";
    let mut table = Table::new("order-changes", title, &columns);
    for change in &results.changes {
        let (a, b) = systems(results, change);
        table.row((
            &results.spec.workload[change.after.sample.workload].name,
            &change.metric,
            format!("{a} and {b}"),
            &results.spec.state[change.after.sample.state].name,
            &results.spec.state[change.before.sample.state].name,
            change.change.word(),
            change.probability,
        ));
    }
    table
}
