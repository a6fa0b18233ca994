//! Tables and the result of a gate.

use crate::Gate;
use crate::judge::{ALARM, MetricVerdict};
use crate::metric::METRICS;
use crate::run::{AgedStep, CompletedAgings, answer, judge_all};
use crate::spec::GateSpec;
use crate::words::{percent, sentence};
use senesce_aging::execute::sets_commit_time;
use senesce_core::analysis::{Analysis, Table};
use senesce_core::{Finite, Measurement, number_of, significant};
use senesce_runner::Recorded;
use senesce_study::spec::FileSystemSpec;
use serde_json::{Value, json};

pub(crate) fn analyse(spec: &GateSpec, recorded: &Recorded<Gate>) -> Analysis {
    let agings = CompletedAgings::of(recorded.events());
    let judged = judge_all(spec, &agings);
    let failed: Vec<String> = recorded
        .failures()
        .into_iter()
        .map(|(step, reason)| {
            let step = step.map(|step| format!("{}, seed {}: ", spec.file_system[step.side].name, step.seed));
            format!("{}{reason}", step.unwrap_or_default())
        })
        .collect();
    Analysis {
        title: spec.name.clone(),
        summary: sentence(spec, &judged, failed.len()),
        tables: vec![verdicts(spec, &judged), sides(spec, agings.all()), values(spec, agings.all())],
        caveats: failed_sides(spec, recorded).into_iter().chain(unused_commit_time(spec)).collect(),
        result: result(spec, &agings, &judged, &failed),
        ..Analysis::default()
    }
}

/// Lists the file systems with failed agings and their number; the runner names the reasons.
fn failed_sides(spec: &GateSpec, recorded: &Recorded<Gate>) -> Vec<String> {
    let failures = recorded.failures();
    let count = |side| failures.iter().filter(|(step, _)| step.is_some_and(|step| step.side == side)).count();
    let sides = spec.file_system.iter().enumerate().map(|(side, fs)| (&fs.name, count(side)));
    sides
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| format!("{} of {name} failed", number_of(count, "aging")))
        .collect()
}

/// Returns a caveat for sides that set the time between commits, if the commits come from the plan: in a guest without a pace, no
/// time passes, so that no timer expires.
pub(crate) fn unused_commit_time(spec: &GateSpec) -> Option<String> {
    let commits_by_plan = spec.aging.operations_per_second.is_none() && spec.aging.command.is_empty();
    let has_time = |fs: &&FileSystemSpec| sets_commit_time(&fs.mount) || sets_commit_time(&fs.after_mount);
    let names: Vec<&str> = spec.file_system.iter().filter(has_time).map(|fs| fs.name.as_str()).collect();
    (commits_by_plan && !spec.gate.host && !names.is_empty()).then(|| {
        format!(
            "commit= of {} has no effect here: the commits come from the plan; with operations_per_second in [aging] they come \
             from the file system's timer",
            names.join(" and ")
        )
    })
}

fn verdicts(spec: &GateSpec, judged: &[MetricVerdict]) -> Table {
    let title = format!(
        "Is B worse by more than {} %? Designed for {} % false alarms; * decides",
        significant(spec.gate.minimum_effect * 100.0),
        ALARM * 100.0
    );
    let percent = |ratio| percent(ratio, spec.gate.minimum_effect);
    let columns = ["metric", "verdict", "A", "B", "B/A - 1", "interval"];
    let mut table = Table::new("gate", &title, &columns).leading();
    for one in judged {
        let name = format!("{}{}", if one.primary { "* " } else { "" }, one.metric);
        let change = one.ratio.map(|ratio| percent(ratio.value));
        let interval = one.ratio.map(|ratio| ratio.ends_text(percent));
        table.row((name, one.text(), one.reference, one.variant, change, interval));
    }
    table
}

fn sides(spec: &GateSpec, agings: &[AgedStep]) -> Table {
    let columns = ["side", "name", "mkfs", "mkfs version", "mount", "after mount", "kernel"];
    let mut table = Table::new("sides", "Both sides", &columns);
    for (index, (side, fs)) in ["A", "B"].into_iter().zip(&spec.file_system).enumerate() {
        let mut versions = agings.iter().filter(|one| one.step.side == index).map(|one| &one.aged.mkfs_version);
        let version = versions.find_map(Option::as_ref);
        table.row((side, &fs.name, &fs.mkfs, version, &fs.mount, &fs.after_mount, &fs.kernel));
    }
    table
}

fn values(spec: &GateSpec, agings: &[AgedStep]) -> Table {
    let names = METRICS.iter().map(|metric| metric.name);
    let columns: Vec<&str> = ["aging", "seed"].into_iter().chain(names).chain(["layout digest"]).collect();
    let mut table = Table::new("agings", "Each aging", &columns);
    for AgedStep { step, aged } in agings {
        let name = &spec.file_system[step.side].name;
        let mut row: Vec<Value> =
            vec![if step.sham { format!("{name}, sham") } else { name.clone() }.into(), step.seed.into()];
        row.extend(METRICS.iter().map(|metric| json!((metric.value)(aged))));
        row.push(json!(aged.digest));
        table.row(row);
    }
    table
}

fn result(spec: &GateSpec, agings: &CompletedAgings, judged: &[MetricVerdict], failed: &[String]) -> Value {
    json!({
        "answer": answer(judged, failed.len()),
        "pairs": agings.pairs().count(),
        "shams": agings.shams().count(),
        "minimum_effect": spec.gate.minimum_effect,
        "alarm": ALARM,
        "metrics": judged,
        "agings": agings.all(),
        "failed": failed,
    })
}

/// Returns the values of all agings but shams, for comparisons between gates.
pub(crate) fn measurements(spec: &GateSpec, recorded: &Recorded<Gate>) -> Vec<Measurement> {
    let agings = CompletedAgings::of(recorded.events());
    let plain = agings.all().iter().filter(|one| !one.step.sham);
    let of = |one: &AgedStep| -> Vec<Measurement> {
        let values = METRICS.iter().filter_map(|metric| Some((metric, Finite::new((metric.value)(&one.aged)?).ok()?)));
        let (fs, image) = (&spec.file_system[one.step.side].name, one.step.seed);
        let of = |(metric, value): (&crate::metric::Metric, Finite)| {
            let measured = metric.measurement(value.get())?;
            let measured = Measurement { image, ..measured.under("fs", fs) };
            let measured = if metric.of_layout { measured.of_layout(one.aged.layout()) } else { measured };
            Some(if metric.primary { measured.primary() } else { measured })
        };
        values.filter_map(of).collect()
    };
    plain.flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::tests::{agings, gate};

    #[test]
    fn sides_name_their_versions_of_mkfs() {
        let mut all = agings(1, &mut |_| 1.0).all().to_vec();
        for one in &mut all {
            one.aged.mkfs_version = (one.step.side == 1).then(|| "mke2fs 1.47.2".into());
        }
        let table = sides(&gate(8), &all);
        let place = table.columns.iter().position(|column| column == "mkfs version").unwrap();
        assert_eq!(
            table.rows.iter().map(|row| row[place].clone()).collect::<Vec<_>>(),
            [json!(null), json!("mke2fs 1.47.2")]
        );
    }

    #[test]
    fn commit_time_without_effect_is_a_caveat() {
        assert_eq!(unused_commit_time(&gate(8)), None);
        let mut spec = gate(8);
        spec.file_system[1].mount = "noatime,commit=1".into();
        assert!(
            unused_commit_time(&spec).is_some_and(|words| words.starts_with("commit= of nodelalloc has no effect"))
        );
        spec.aging.operations_per_second = Some(10.0);
        assert_eq!(unused_commit_time(&spec), None, "time passes");
        spec.aging.operations_per_second = None;
        spec.gate.host = true;
        assert_eq!(unused_commit_time(&spec), None, "timers of the machine");
    }
}
