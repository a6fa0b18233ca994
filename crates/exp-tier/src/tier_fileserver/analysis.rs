//! Table, figure and findings of the file server.

use super::{PersonalityRun, Spec};
use crate::tier::subject::SubjectKind;
use senesce_core::analysis::Better;
use senesce_core::{Analysis, Axis, Figure, FigureKind, Mark, Rows, Series, Table};
use senesce_runs::decided::{fields, interval_text};
use senesce_stats::verdict::FAMILY_ERROR;
use senesce_stats::{Decision, Direction, Mean, Ratio, Rule, Unit, decide_all, mean};
use serde_json::{Value, json};

pub(crate) fn analyse(runs: &[PersonalityRun], spec: &Spec) -> Analysis {
    let names = names(runs);
    let of = |name: &str, value: fn(&PersonalityRun) -> f64| average(runs, name, &value);
    let table = Rows::of(&names)
        .column("file system", |name| name)
        .column("operations/s", |name| of(name, |run| run.ops_per_second))
        .column("MB/s", |name| of(name, |run| run.mb_per_second))
        .column("evicted (blocks)", |name| of(name, |run| run.evicted as f64))
        .column("fetched (blocks)", |name| of(name, |run| run.fetched as f64))
        .column("runs", |name| runs.iter().filter(|run| run.condition == **name).count())
        .table("fileserver", "The fileserver personality, means over the rounds");
    let judged = compare_with_bpfs(runs);
    Analysis {
        title: "A file server by the share of its data that stays in memory".into(),
        summary: "Operations per second as Filebench counts them.".into(),
        figures: vec![figure(runs, spec)],
        tables: vec![table, costs_table(&judged)],
        caveats: spec.cold_latency.caveats(&spec.disk),
        result: json!({
            "runs": runs,
            "against_bpfs": judged.iter().map(|(name, decision)| {
                let mut row = fields(decision);
                row.insert("condition".into(), json!(name));
                Value::Object(row)
            }).collect::<Vec<_>>(),
            "cold_latency": spec.cold_latency.to_string(),
        }),
        ..Analysis::default()
    }
}

/// Up to this share of the speed, anti-caching counts as free.
const NO_COST: f64 = 0.03;

/// Compares every condition with bpfs mode in the same round, as one family that includes bpfs mode against itself.
fn compare_with_bpfs(runs: &[PersonalityRun]) -> Vec<(String, Decision)> {
    let names: Vec<String> = names(runs).into_iter().filter(|name| name != SubjectKind::Bpfs.name()).collect();
    let rule = Rule { direction: Direction::HigherIsBetter, margin: NO_COST };
    let family: Vec<_> =
        names.iter().map(|name| (Ratio::paired(&pairs(runs, name), Mean::Geometric, Unit::Round), rule)).collect();
    names.into_iter().zip(decide_all(&family, FAMILY_ERROR)).collect()
}

fn pairs(runs: &[PersonalityRun], condition: &str) -> Vec<(f64, f64)> {
    let pair = |run: &PersonalityRun| {
        let base = runs.iter().find(|base| base.condition == SubjectKind::Bpfs.name() && base.round == run.round)?;
        Some((run.ops_per_second, base.ops_per_second))
    };
    runs.iter().filter(|run| run.condition == condition).filter_map(pair).collect()
}

fn costs_table(judged: &[(String, Decision)]) -> Table {
    let title = "Operations per second over those of bpfs mode in the same round";
    Rows::of(judged)
        .column("file system", |(name, _)| name)
        .column("ratio", |(_, decision)| decision.interval.map(|interval| interval.value))
        .column("interval", |(_, decision)| decision.interval.map(|interval| interval_text(&interval)))
        .column("verdict", |(_, decision)| decision.text())
        .table("against-bpfs", title)
}

fn names(runs: &[PersonalityRun]) -> Vec<String> {
    let mut keys: Vec<(bool, u64, String)> = runs
        .iter()
        .map(|run| {
            let percent = run.threshold_percent.map_or(0, |percent| (percent * 1000.0) as u64);
            (run.threshold_percent.is_none(), percent, run.condition.clone())
        })
        .collect();
    keys.sort();
    keys.dedup();
    keys.into_iter().map(|(_, _, name)| name).collect()
}

fn average(runs: &[PersonalityRun], name: &str, value: &dyn Fn(&PersonalityRun) -> f64) -> Option<f64> {
    mean(&runs.iter().filter(|run| run.condition == name).map(value).collect::<Vec<_>>())
}

fn figure(runs: &[PersonalityRun], spec: &Spec) -> Figure {
    let percents: Vec<f64> = names(runs)
        .iter()
        .filter_map(|name| runs.iter().find(|run| run.condition == *name)?.threshold_percent)
        .collect();
    let line = |name: &str| {
        let rate = average(runs, name, &|run| run.ops_per_second)?;
        let points = percents.iter().map(|percent| (*percent, rate)).collect();
        Some(Series { name: SubjectKind::label(name).into(), mark: Mark::Measured, points, ..Series::default() })
    };
    let points = percents
        .iter()
        .filter_map(|percent| {
            let of = runs.iter().filter(|run| run.threshold_percent == Some(*percent));
            Some((*percent, mean(&of.map(|run| run.ops_per_second).collect::<Vec<_>>())?))
        })
        .collect();
    let anticache =
        Series { name: SubjectKind::label("anticache").into(), mark: Mark::Measured, points, ..Series::default() };
    Figure {
        id: "fileserver".into(),
        title: "Fileserver by threshold".into(),
        caption: "Means over the rounds; the baselines have no threshold.".into(),
        device: format!("memory, the disk of {}, and a modelled disk: {}", spec.disk, spec.cold_latency),
        better: Better::Higher,
        kind: FigureKind::Lines {
            x: Axis::linear("threshold (% of the workload)").from_zero(),
            y: Axis::linear("operations/s").from_zero(),
            series: std::iter::once(anticache)
                .chain(["bpfs", "ext4", "ext4-disk", "ext4-model", "ext4-hdd"].into_iter().filter_map(line))
                .collect(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_listed_by_threshold() {
        let run = |condition: &str, threshold_percent| PersonalityRun {
            round: 0,
            condition: condition.into(),
            threshold_percent,
            ops_per_second: 1.0,
            mb_per_second: 1.0,
            evicted: 0,
            fetched: 0,
            read_percent: None,
            workload_bytes: 0,
            files: 0,
        };
        let runs = [run("bpfs", None), run("anticache 100 %", Some(100.0)), run("anticache 20 %", Some(20.0))];
        assert_eq!(names(&runs), ["anticache 20 %", "anticache 100 %", "bpfs"]);
    }

    #[test]
    fn loss_is_reported_within_rounds_and_few_rounds_have_no_verdict() {
        let run = |condition: &str, round: u64, factor: f64| PersonalityRun {
            round,
            condition: condition.into(),
            threshold_percent: (condition != "bpfs").then_some(100.0),
            ops_per_second: factor * 100.0 * (1.0 + round as f64),
            mb_per_second: 1.0,
            evicted: 0,
            fetched: 0,
            read_percent: None,
            workload_bytes: 0,
            files: 0,
        };
        let words = |factor: f64, rounds: u64| {
            let runs: Vec<PersonalityRun> = (0..rounds)
                .flat_map(|round| [run("bpfs", round, 1.0), run("anticache 100 %", round, factor)])
                .collect();
            compare_with_bpfs(&runs)[0].1.verdict.word()
        };
        assert_eq!((words(0.8, 6), words(0.99, 6), words(0.8, 3)), ("worse", "equivalent", "not-testable"));
    }
}
