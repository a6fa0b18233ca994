//! Means with intervals, and a verdict for every pair of schedulers.

use super::{Condition, IoScheduler, MeasuredCommit, ObjectLayout, Spec};
use senesce_core::published::{self, PublishedValue};
use senesce_core::{Analysis, Axis, Better, Failure, Figure, FigureKind, Mark, Rows, Series, Table};
use senesce_runner::Run;
use senesce_runs::decided::{fields, interval_text};
use senesce_stats::verdict::FAMILY_ERROR;
use senesce_stats::{Arm, Decision, Direction, Mean, Ratio, Rule, Unit, decide_all, mean, pairs_of};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

type Samples = BTreeMap<(Condition, String), BTreeMap<u64, f64>>;

#[derive(Debug, Serialize)]
struct Cell {
    scheduler: String,
    files: u64,
    threads: u64,
    n: usize,
    /// Arithmetic mean, as published.
    mean: f64,
    /// Population deviation, as published.
    sd: f64,
    /// 95 % interval of the mean; `null` for fewer than five commits.
    low: Option<f64>,
    high: Option<f64>,
}

struct Pair {
    condition: Condition,
    first: String,
    second: String,
    decision: Decision,
}

pub(super) fn analyse(measured: &[MeasuredCommit], no_space: Option<u64>, spec: &Spec) -> Result<Analysis, Failure> {
    let published = published::parse(IoScheduler::PUBLISHED).map_err(|error| Failure::usage(error.to_string()))?;
    let (mut samples, mut controls) = (Samples::new(), Samples::new());
    for one in measured {
        let side = if one.arm.control { &mut controls } else { &mut samples };
        side.entry((one.arm.condition, one.arm.scheduler.clone())).or_default().insert(one.arm.repeat, one.seconds);
    }
    let cells: Vec<Cell> = samples.iter().filter_map(|(key, sample)| cell(key, sample)).collect();
    let conditions: BTreeSet<Condition> = samples.keys().map(|(condition, _)| *condition).collect();
    let pairs = pairs(&samples);
    let again = against_themselves(&samples, &controls);
    let stated = pairs.iter().filter(|pair| pair.decision.verdict.is_difference()).count();
    let device = format!(
        "{} on {}, {} objects",
        spec.fs,
        spec.target,
        if spec.layout == ObjectLayout::Pack { "pack" } else { "loose" }
    );
    Ok(Analysis {
        title: "I/O schedulers and a store of many small objects".into(),
        summary: format!("{} commits; {stated} of {} pairs of schedulers differ.", measured.len(), pairs.len()),
        figures: conditions
            .iter()
            .map(|condition| condition.threads)
            .collect::<BTreeSet<_>>()
            .into_iter()
            .map(|threads| figure(threads, &cells, &published, &device))
            .collect(),
        tables: vec![
            cell_table(&cells),
            pair_table("pairs", "All pairs of schedulers, decided together", &pairs),
            pair_table("again", "The first scheduler measured again, against itself", &again),
        ],
        findings: Vec::new(),
        caveats: caveats(spec, no_space, &again),
        result: json!({
            "cells": cells,
            "pairs": pairs.iter().map(Pair::json).collect::<Vec<_>>(),
            "again": again.iter().map(Pair::json).collect::<Vec<_>>(),
            "no_room_for_files": no_space,
        }),
    })
}

fn caveats(spec: &Spec, no_space: Option<u64>, again: &[Pair]) -> Vec<String> {
    let mut caveats = vec![
        "Published times come from a hard disk and a store that did not sync; compare only the order of the schedulers.".to_string(),
    ];
    let limit = spec.limit();
    let bytes = limit.bytes_per_second.map(|bytes| format!("{bytes}"));
    let requests = limit.requests_per_second.map(|requests| format!("{requests} requests"));
    for text in bytes.into_iter().chain(requests) {
        caveats.push(format!("The device was limited to {text} per second."));
    }
    caveats.extend(no_space.map(|files| format!("{files} files and more did not fit on the target and were omitted.")));
    if again.iter().any(|pair| pair.decision.verdict.is_difference()) {
        let text = "The same scheduler measured twice differs from itself: ignore all differences, and measure again on a quiet machine.";
        caveats.push(text.into());
    }
    caveats
}

fn cell((condition, scheduler): &(Condition, String), sample: &BTreeMap<u64, f64>) -> Option<Cell> {
    let sample: Vec<f64> = sample.values().copied().collect();
    let mean = mean(&sample)?;
    let squares: f64 = sample.iter().map(|value| (value - mean).powi(2)).sum();
    let interval = Arm::single(&sample, Mean::Arithmetic).ok().map(|arm| arm.interval(FAMILY_ERROR));
    Some(Cell {
        scheduler: scheduler.clone(),
        files: condition.files,
        threads: condition.threads,
        n: sample.len(),
        mean,
        sd: (squares / sample.len() as f64).sqrt(),
        low: interval.map(|interval| interval.low),
        high: interval.map(|interval| interval.high),
    })
}

fn pairs(samples: &Samples) -> Vec<Pair> {
    let mut wanted = Vec::with_capacity(pairs_of(samples.len()));
    for ((condition, first), ours) in samples {
        let after = samples.iter().filter(|((other, second), _)| other == condition && second > first);
        wanted.extend(after.map(|((_, second), theirs)| (*condition, first.as_str(), second.as_str(), ours, theirs)));
    }
    compare_pairs(wanted)
}

fn against_themselves(samples: &Samples, controls: &Samples) -> Vec<Pair> {
    let wanted = controls.iter().filter_map(|(key, control)| {
        let (condition, name) = key;
        Some((*condition, name.as_str(), name.as_str(), control, samples.get(key)?))
    });
    compare_pairs(wanted.collect())
}

type PairValues<'a> = (Condition, &'a str, &'a str, &'a BTreeMap<u64, f64>, &'a BTreeMap<u64, f64>);

fn compare_pairs(wanted: Vec<PairValues<'_>>) -> Vec<Pair> {
    let rounds = |(_, _, _, ours, theirs): &PairValues<'_>| -> Vec<(f64, f64)> {
        ours.iter().filter_map(|(round, ours)| Some((*ours, *theirs.get(round)?))).collect()
    };
    let rule = Rule::new(Direction::LowerIsBetter);
    let family: Vec<_> =
        wanted.iter().map(|one| (Ratio::paired(&rounds(one), Mean::Geometric, Unit::Round), rule)).collect();
    wanted
        .into_iter()
        .zip(decide_all(&family, FAMILY_ERROR))
        .map(|((condition, first, second, ..), decision)| Pair {
            condition,
            first: first.into(),
            second: second.into(),
            decision,
        })
        .collect()
}

impl Pair {
    fn json(&self) -> Value {
        let mut row = fields(&self.decision);
        let Condition { files, threads } = self.condition;
        row.extend([("first".to_string(), json!(self.first)), ("second".into(), json!(self.second))]);
        row.extend([("files".to_string(), json!(files)), ("threads".into(), json!(threads))]);
        Value::Object(row)
    }
}

fn figure(threads: u64, cells: &[Cell], published: &[PublishedValue], device: &str) -> Figure {
    let mut series: BTreeMap<&str, Series> = BTreeMap::new();
    for cell in cells.iter().filter(|cell| cell.threads == threads) {
        let line = series
            .entry(&cell.scheduler)
            .or_insert_with(|| Series { name: cell.scheduler.clone(), ..Series::default() });
        line.points.push((cell.files as f64, cell.mean));
        line.intervals.push((cell.low.unwrap_or(f64::NAN), cell.high.unwrap_or(f64::NAN)));
    }
    let most = cells.iter().map(|cell| cell.files as f64).fold(0.0, f64::max);
    let mut lines: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
    for value in published.iter().filter(|value| value.metric == "commit_mean") {
        let Some((scheduler, files)) = value.condition.split_once("; ") else { continue };
        let Some(files) = files.strip_suffix(" files").and_then(|files| files.parse::<f64>().ok()) else { continue };
        if files <= most {
            lines.entry(scheduler).or_default().push((files, value.value));
        }
    }
    let published = lines.into_iter().map(|(name, points)| Series {
        name: format!("{name}, published"),
        mark: Mark::Published,
        points,
        ..Series::default()
    });
    Figure {
        id: format!("commit-{threads}-threads"),
        title: format!("Commit with {threads} {}", if threads == 1 { "thread" } else { "threads" }),
        caption: "Mean time until the commit is durable, with 95 % intervals.".into(),
        device: device.into(),
        better: Better::Lower,
        kind: FigureKind::Lines {
            x: Axis::linear("files of 1 KiB").log10(),
            y: Axis::linear("time (s)").log10(),
            series: series.into_values().chain(published).collect(),
        },
    }
}

fn cell_table(cells: &[Cell]) -> Table {
    Rows::of(cells)
        .column("scheduler", |cell| &cell.scheduler)
        .column("files", |cell| &cell.files)
        .column("threads", |cell| &cell.threads)
        .column("n", |cell| cell.n)
        .column("mean (s)", |cell| cell.mean)
        .column("sd (s)", |cell| cell.sd)
        .column("95 % from (s)", |cell| &cell.low)
        .column("95 % to (s)", |cell| &cell.high)
        .table("commits", "Time of a commit")
}

fn pair_table(id: &str, title: &str, pairs: &[Pair]) -> Table {
    Rows::of(pairs)
        .column("first", |pair| &pair.first)
        .column("second", |pair| &pair.second)
        .column("files", |pair| &pair.condition.files)
        .column("threads", |pair| &pair.condition.threads)
        .column("time of first / second", |pair| pair.decision.interval.map(|interval| interval.value))
        .column("interval", |pair| pair.decision.interval.map(|interval| interval_text(&interval)))
        .column("the first is", |pair| pair.decision.text())
        .table(id, title)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io_scheduler::Arm;
    use senesce_core::Level;
    use senesce_runner::Experiment;

    fn commits(scheduler: &str, control: bool, seconds: &[f64]) -> Vec<MeasuredCommit> {
        let condition = Condition { files: 100, threads: 1 };
        let one = |(repeat, seconds): (usize, &f64)| MeasuredCommit {
            arm: Arm { scheduler: scheduler.into(), control, condition, repeat: repeat as u64 },
            seconds: *seconds,
        };
        seconds.iter().enumerate().map(one).collect()
    }

    fn analysed(measured: &[MeasuredCommit]) -> Analysis {
        analyse(measured, None, &IoScheduler::defaults(Level::Smoke)).unwrap()
    }

    fn verdicts(measured: &[MeasuredCommit]) -> Vec<String> {
        let pairs = analysed(measured).result["pairs"].as_array().unwrap().clone();
        pairs.into_iter().map(|pair| pair["verdict"].as_str().unwrap().to_string()).collect()
    }

    #[test]
    fn clear_difference_is_reported_and_too_few_repeats_are_noted() {
        let quick = [1.0, 1.01, 1.02, 0.99, 1.0, 1.01];
        let slow = [1.5, 1.52, 1.51, 1.49, 1.5, 1.53];
        let both = |n: usize| [commits("bfq", false, &slow[..n]), commits("none", false, &quick[..n])].concat();
        assert_eq!(verdicts(&both(6)), ["worse"]);
        assert_eq!(verdicts(&both(3)), ["not-testable"]);
        let same = [commits("bfq", false, &quick), commits("none", false, &quick)].concat();
        assert_eq!(verdicts(&same), ["equivalent"]);
    }

    #[test]
    fn scheduler_that_differs_from_itself_is_reported() {
        let quick = [1.0, 1.01, 1.02, 0.99, 1.0, 1.01];
        let slow = [1.5, 1.52, 1.51, 1.49, 1.5, 1.53];
        let said = |control: &[f64]| {
            let measured = [commits("none", false, &quick), commits("none", true, control)].concat();
            analysed(&measured).caveats.iter().any(|message| message.contains("differs from itself"))
        };
        assert!(said(&slow) && !said(&quick));
    }
}
