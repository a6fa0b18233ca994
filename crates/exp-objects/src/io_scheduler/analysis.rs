//! Means with intervals, and a verdict for every pair of schedulers.

use super::{Condition, IoScheduler, Measured, ObjectLayout, Spec};
use senesce_core::published::{self, PublishedValue};
use senesce_core::{Analysis, Axis, Better, Failure, Figure, FigureKind, Finding, Mark, Seed, Series, Table, Verdict};
use senesce_runs::run::Run;
use senesce_stats::{Estimate, bootstrap, holm, mann_whitney, mean, noise_floor, ratio_of_means};
use serde::Serialize;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// Level of significance, after the correction.
const ALPHA: f64 = 0.05;

/// The times of one scheduler under one condition.
type Samples = BTreeMap<(Condition, String), Vec<f64>>;

#[derive(Debug, Serialize)]
struct Cell {
    scheduler: String,
    files: u64,
    threads: u64,
    n: usize,
    mean: f64,
    /// Population deviation, as published.
    sd: f64,
    /// 95 % interval of the mean.
    low: f64,
    high: f64,
}

#[derive(Debug, Serialize)]
struct Pair {
    first: String,
    second: String,
    files: u64,
    threads: u64,
    /// Mean of the first over mean of the second, with 95 % interval.
    ratio: Option<Estimate>,
    p: Option<f64>,
    /// After Holm over the pairs of the same condition.
    p_corrected: Option<f64>,
    verdict: Verdict,
}

/// A noise floor above this hides differences of the published size.
const QUIET: f64 = 0.10;

pub(super) fn analyse(
    measured: &[Measured],
    no_room: Option<u64>,
    spec: &Spec,
    seed: Seed,
) -> Result<Analysis, Failure> {
    let published = published::parse(IoScheduler::PUBLISHED).map_err(|error| Failure::usage(error.to_string()))?;
    let (mut samples, mut controls) = (Samples::new(), Samples::new());
    for one in measured {
        let side = if one.arm.control { &mut controls } else { &mut samples };
        side.entry((one.arm.condition, one.arm.scheduler.clone())).or_default().push(one.seconds);
    }
    let both: Vec<(Vec<f64>, Vec<f64>)> =
        controls.iter().filter_map(|(key, control)| Some((samples.get(key)?.clone(), control.clone()))).collect();
    let floor = noise_floor(&both);
    let mut random = seed.stream("io-scheduler/bootstrap");
    let cells: Vec<Cell> = samples.iter().filter_map(|(key, sample)| cell(key, sample, &mut random)).collect();
    let conditions: BTreeSet<Condition> = samples.keys().map(|(condition, _)| *condition).collect();
    let pairs: Vec<Pair> =
        conditions.iter().flat_map(|condition| pairs(*condition, &samples, floor, &mut random)).collect();
    let device = format!(
        "{} on {}, {} objects",
        spec.fs,
        spec.target,
        if spec.layout == ObjectLayout::Pack { "pack" } else { "loose" }
    );
    Ok(Analysis {
        title: "I/O schedulers under a store of many small objects".into(),
        summary: format!("{} commits; the noise floor is {}.", measured.len(), floor_words(floor)),
        figures: conditions
            .iter()
            .map(|condition| condition.threads)
            .collect::<BTreeSet<_>>()
            .into_iter()
            .map(|threads| figure(threads, &cells, &published, &device))
            .collect(),
        tables: vec![cell_table(&cells), pair_table(&pairs)],
        findings: findings(&pairs, floor),
        caveats: caveats(spec, no_room, floor),
        result: json!({"cells": cells, "pairs": pairs, "noise_floor": floor, "no_room_for_files": no_room}),
    })
}

fn floor_words(floor: Option<f64>) -> String {
    floor.map_or("not known".into(), |floor| format!("{:.1} %", 100.0 * floor))
}

fn caveats(spec: &Spec, no_room: Option<u64>, floor: Option<f64>) -> Vec<String> {
    let mut caveats = vec![
        "Published times are of a hard disk and of a store that did not sync; only the order of the schedulers can be compared.".to_string(),
    ];
    let limit = spec.limit();
    let bytes = limit.bytes_per_second.map(|bytes| format!("{bytes}"));
    let requests = limit.requests_per_second.map(|requests| format!("{requests} requests"));
    for words in bytes.into_iter().chain(requests) {
        caveats.push(format!("The device was slowed down to {words} per second."));
    }
    caveats.extend(no_room.map(|files| format!("{files} files and more did not fit on the target and were left out.")));
    if is_noisy(floor) {
        let words = floor_words(floor);
        caveats.push(format!("The same scheduler measured twice differs by {words}: smaller differences cannot be seen. Measure again on a quiet machine, or with more --repeats."));
    }
    caveats
}

fn is_noisy(floor: Option<f64>) -> bool {
    floor.is_some_and(|floor| floor > QUIET)
}

fn cell((condition, scheduler): &(Condition, String), sample: &[f64], random: &mut impl rand::Rng) -> Option<Cell> {
    let interval = bootstrap(sample, mean, random)?;
    let squares: f64 = sample.iter().map(|value| (value - interval.value).powi(2)).sum();
    Some(Cell {
        scheduler: scheduler.clone(),
        files: condition.files,
        threads: condition.threads,
        n: sample.len(),
        mean: interval.value,
        sd: (squares / sample.len() as f64).sqrt(),
        low: interval.low,
        high: interval.high,
    })
}

/// All pairs of one condition, corrected together.
fn pairs(condition: Condition, samples: &Samples, floor: Option<f64>, random: &mut impl rand::Rng) -> Vec<Pair> {
    let here: Vec<(&String, &Vec<f64>)> = samples
        .iter()
        .filter(|((found, _), _)| *found == condition)
        .map(|((_, name), sample)| (name, sample))
        .collect();
    let mut pairs = Vec::new();
    let mut least_p = 1.0f64;
    for (index, (first, ours)) in here.iter().enumerate() {
        for (second, theirs) in &here[index + 1..] {
            least_p = least_p.min(senesce_stats::mann_whitney::least_p(ours.len(), theirs.len()));
            pairs.push(Pair {
                first: (*first).clone(),
                second: (*second).clone(),
                files: condition.files,
                threads: condition.threads,
                ratio: ratio_of_means(ours, theirs, random),
                p: mann_whitney(ours, theirs).map(|test| test.p),
                p_corrected: None,
                verdict: Verdict::Invalid,
            });
        }
    }
    let corrected = holm(&pairs.iter().map(|pair| pair.p.unwrap_or(1.0)).collect::<Vec<_>>());
    let can_tell = least_p * pairs.len() as f64 <= ALPHA;
    for (pair, p) in pairs.iter_mut().zip(corrected) {
        pair.p_corrected = Some(p);
        pair.verdict = match pair.ratio {
            _ if !can_tell => Verdict::Invalid,
            Some(ratio) if p < ALPHA && (ratio.value - 1.0).abs() > floor.unwrap_or(0.0) => {
                if ratio.value < 1.0 {
                    Verdict::Faster
                } else {
                    Verdict::Slower
                }
            }
            _ => Verdict::NoDifference,
        };
    }
    pairs
}

fn figure(threads: u64, cells: &[Cell], published: &[PublishedValue], device: &str) -> Figure {
    let mut series: BTreeMap<&str, Series> = BTreeMap::new();
    for cell in cells.iter().filter(|cell| cell.threads == threads) {
        let line = series
            .entry(&cell.scheduler)
            .or_insert_with(|| Series { name: cell.scheduler.clone(), ..Series::default() });
        line.points.push((cell.files as f64, cell.mean));
        line.intervals.push((cell.low, cell.high));
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
    let columns = ["scheduler", "files", "threads", "n", "mean (s)", "sd (s)", "95 % from (s)", "95 % to (s)"];
    let mut table = Table::new("commits", "Time of a commit", &columns);
    for cell in cells {
        table.row(vec![
            json!(cell.scheduler),
            json!(cell.files),
            json!(cell.threads),
            json!(cell.n),
            json!(cell.mean),
            json!(cell.sd),
            json!(cell.low),
            json!(cell.high),
        ]);
    }
    table
}

fn pair_table(pairs: &[Pair]) -> Table {
    let columns = [
        "first",
        "second",
        "files",
        "threads",
        "time of first / second",
        "from",
        "to",
        "p",
        "p corrected",
        "the first is",
    ];
    let mut table = Table::new("pairs", "Every pair, corrected by Holm within a condition", &columns);
    for pair in pairs {
        table.row(vec![
            json!(pair.first),
            json!(pair.second),
            json!(pair.files),
            json!(pair.threads),
            json!(pair.ratio.map(|ratio| ratio.value)),
            json!(pair.ratio.map(|ratio| ratio.low)),
            json!(pair.ratio.map(|ratio| ratio.high)),
            json!(pair.p),
            json!(pair.p_corrected),
            json!(pair.verdict.words()),
        ]);
    }
    table
}

fn findings(pairs: &[Pair], floor: Option<f64>) -> Vec<Finding> {
    let judged: Vec<&Pair> = pairs.iter().filter(|pair| pair.verdict != Verdict::Invalid).collect();
    let told = |pairs: &mut dyn Iterator<Item = &&Pair>| -> (usize, usize) {
        pairs.fold((0, 0), |(different, all), pair| {
            (different + usize::from(pair.verdict != Verdict::NoDifference), all + 1)
        })
    };
    let (different, all) = told(&mut judged.iter());
    let (single, singles) = told(&mut judged.iter().filter(|pair| pair.threads == 1));
    let (multi, multis) = told(&mut judged.iter().filter(|pair| pair.threads > 1));
    vec![
        Finding {
            claim: "the scheduler makes little difference".into(),
            published: "100,000 files: cfq 19.67 (0.67) s, deadline 19.71 (0.32) s, noop 19.60 (0.45) s; at 2.5 million cfq is 9 to 11 % faster".into(),
            measured: format!("{different} of {all} pairs differ beyond noise and chance"),
            verdict: match (all, different) {
                (0, _) => Verdict::Invalid,
                (_, 0) if is_noisy(floor) => Verdict::NotTestable,
                (_, 0) => Verdict::Seen,
                _ => Verdict::NotSeen,
            },
            note: match (all, different) {
                (0, _) => "too few repeats to tell any pair apart".into(),
                (_, 0) => format!("the noise floor is {}", floor_words(floor)),
                _ => String::new(),
            },
            ..Finding::default()
        },
        Finding {
            claim: "a single process hides what the scheduler does".into(),
            published: "a suspicion of the thesis, not tested there".into(),
            measured: format!("pairs that differ: {single} of {singles} with one thread, {multi} of {multis} with several"),
            verdict: match (singles, multis) {
                (0, _) | (_, 0) => Verdict::NotTestable,
                _ if different == 0 && is_noisy(floor) => Verdict::NotTestable,
                _ if multi as f64 / multis as f64 > single as f64 / singles as f64 => Verdict::Seen,
                _ => Verdict::NotSeen,
            },
            note: String::new(),
            ..Finding::default()
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io_scheduler::Arm;
    use senesce_core::Level;
    use senesce_runs::run::Experiment;

    fn commits(scheduler: &str, control: bool, seconds: &[f64]) -> Vec<Measured> {
        let condition = Condition { files: 100, threads: 1 };
        let one = |(repeat, seconds): (usize, &f64)| Measured {
            arm: Arm { scheduler: scheduler.into(), control, condition, repeat: repeat as u64 },
            seconds: *seconds,
        };
        seconds.iter().enumerate().map(one).collect()
    }

    fn verdicts(measured: &[Measured]) -> Vec<Verdict> {
        let analysis = analyse(measured, None, &IoScheduler::defaults(Level::Smoke), Seed(42)).unwrap();
        let pairs = analysis.result["pairs"].as_array().unwrap().clone();
        pairs.into_iter().map(|pair| serde_json::from_value(pair["verdict"].clone()).unwrap()).collect()
    }

    #[test]
    fn a_clear_difference_is_told_and_too_few_repeats_are_said() {
        let quick = [1.0, 1.01, 1.02, 0.99, 1.0, 1.01];
        let slow = quick.map(|value| value * 1.5);
        let both = |n: usize| {
            [commits("bfq", false, &slow[..n]), commits("none", false, &quick[..n]), commits("none", true, &quick[..n])]
                .concat()
        };
        assert_eq!(verdicts(&both(6)), [Verdict::Slower]);
        assert_eq!(verdicts(&both(3)), [Verdict::Invalid]);
        let same = [commits("bfq", false, &quick), commits("none", false, &quick)].concat();
        assert_eq!(verdicts(&same), [Verdict::NoDifference]);
    }
}
