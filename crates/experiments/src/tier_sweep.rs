//! Period and threshold of the evictor, swept.

use crate::tier::subject::{Kind, Setup, Subject};
use crate::tier::{self, COLD_LATENCY, THREADS};
use hdrhistogram::Histogram;
use rand::Rng;
use rustix::fs::OFlags;
use senesce_core::analysis::Better;
use senesce_core::units::parse_duration;
use senesce_core::{
    Analysis, Axis, Bytes, ExitCode, Experiment, Failure, Figure, FigureKind, Finding, Mark, Parameter, ParameterKind,
    Plan, Record, RunContext, RunKind, Seed, Series, Settings, Table, Verdict,
};
use senesce_stats::bootstrap::{Estimate, bootstrap};
use senesce_stats::describe::median;
use senesce_tierfs::cold::AlignedBuffer;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

/// The experiment.
pub struct TierSweep;

const BLOCK: u64 = 4096;
const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "periods",
        help: "times between two looks of the evictor, separated by commas",
        kind: ParameterKind::Text,
        defaults: ["1ms,10ms", "1ms,5ms,10ms,50ms,100ms", "1ms,2ms,5ms,10ms,20ms,50ms,100ms,500ms"],
    },
    Parameter {
        name: "thresholds",
        help: "bytes of files in memory above which blocks are evicted, separated by commas",
        kind: ParameterKind::Text,
        defaults: ["4M,12M", "10M,20M,40M,60M,80M", "10M,20M,30M,40M,60M,80M,120M,160M"],
    },
    Parameter {
        name: "file-size",
        help: "size of the file",
        kind: ParameterKind::Size,
        defaults: ["16M", "100M", "200M"],
    },
    Parameter {
        name: "memory",
        help: "size of the memory region",
        kind: ParameterKind::Size,
        defaults: ["64M", "256M", "512M"],
    },
    Parameter {
        name: "operations",
        help: "reads and writes of one block in each cell",
        kind: ParameterKind::Integer { min: 10, max: 100_000_000 },
        defaults: ["500", "20000", "200000"],
    },
    Parameter {
        name: "write-percent",
        help: "share of writes",
        kind: ParameterKind::Integer { min: 0, max: 100 },
        defaults: ["30"; 3],
    },
    Parameter { name: "rounds", help: tier::ROUNDS.help, kind: tier::ROUNDS.kind, defaults: ["1", "3", "5"] },
    COLD_LATENCY,
    THREADS,
];

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Cell {
    round: u64,
    period_ms: f64,
    threshold_bytes: u64,
    ops_per_second: f64,
    p50_us: f64,
    p99_us: f64,
    evicted: u64,
    fetched: u64,
}

fn cells(settings: &Settings) -> Result<Vec<(Duration, Bytes)>, Failure> {
    let periods = settings.list("periods").iter().map(|text| parse_duration(text)).collect::<Result<Vec<_>, _>>()?;
    let sizes = settings.list("thresholds").iter().map(|text| text.parse()).collect::<Result<Vec<Bytes>, _>>()?;
    if periods.is_empty() || sizes.is_empty() {
        return Err(Failure::usage("--periods and --thresholds need at least one value each"));
    }
    Ok(periods.iter().flat_map(|period| sizes.iter().map(|size| (*period, *size))).collect())
}

impl RunKind for TierSweep {
    fn kind(&self) -> &'static str {
        "tier-sweep"
    }

    fn analyse(&self, record: &Record) -> Result<Analysis, Failure> {
        let cells: Vec<Cell> = record.events_of("cell").collect();
        let latency = record.events_of::<String>("latency").last().unwrap_or("none".into());
        let means = means(&cells);
        let columns = ["period (ms)", "threshold", "operations/s", "median (us)", "p99 (us)", "evicted", "fetched"];
        let mut table = Table::new("sweep", "Period and threshold of the evictor, means over the rounds", &columns);
        for cell in &means {
            table.row(vec![
                json!(cell.period_ms),
                json!(Bytes(cell.threshold_bytes).to_string()),
                json!(cell.ops_per_second),
                json!(cell.p50_us),
                json!(cell.p99_us),
                json!(cell.evicted),
                json!(cell.fetched),
            ]);
        }
        let seed = record.plan.seed;
        let period = |cell: &Cell| format!("{} ms", cell.period_ms);
        let threshold = |cell: &Cell| Bytes(cell.threshold_bytes).to_string();
        let at = |keep: &dyn Fn(&Cell) -> bool| cells.iter().filter(|cell| keep(cell)).cloned().collect::<Vec<_>>();
        let (at_40_mib, at_10_ms) = (at(&|cell| cell.threshold_bytes == 40 << 20), at(&|cell| cell.period_ms == 10.0));
        Ok(Analysis {
            title: "How often to look, and how much to keep".into(),
            summary: "One thread reads and writes blocks; four fifths of the accesses go to one fifth of the file."
                .into(),
            figures: vec![figure(&means, &cells, &latency, seed)],
            tables: vec![table],
            findings: vec![
                Finding {
                    claim: "at a threshold of 40 MB, a period of 10 ms serves as well as the best".into(),
                    published: "10 ms, found by trial on a region of 2 GiB".into(),
                    note: String::new(),
                    ..chosen_against_best(&rates(&at_40_mib, period, seed), "10 ms")
                },
                Finding {
                    claim: "at a period of 10 ms, a threshold of 40 MB serves as well as the best".into(),
                    published: "40 MB, found by trial on a region of 2 GiB".into(),
                    note: "more memory cannot serve worse, and what it costs is not part of the measure".into(),
                    ..chosen_against_best(&rates(&at_10_ms, threshold, seed), "40 MiB")
                },
            ],
            caveats: vec![format!("modelled: latency of the cold store: {latency}")],
            result: json!({"cells": means, "cold_latency": latency}),
        })
    }
}

/// Median rates with intervals over the rounds, by name.
fn rates(cells: &[Cell], name: impl Fn(&Cell) -> String, seed: Seed) -> Vec<(String, Estimate)> {
    let mut groups: Vec<(String, Vec<f64>)> = Vec::new();
    for cell in cells {
        match groups.iter_mut().find(|(known, _)| *known == name(cell)) {
            Some((_, rates)) => rates.push(cell.ops_per_second),
            None => groups.push((name(cell), vec![cell.ops_per_second])),
        }
    }
    let estimate = |(name, rates): (String, Vec<f64>)| {
        let found = bootstrap(&rates, median, &mut seed.stream(&format!("tier-sweep/{name}")))?;
        Some((name, found))
    };
    groups.into_iter().filter_map(estimate).collect()
}

/// Whether the published choice reaches 95 % of the best; undecided where their intervals meet.
fn chosen_against_best(rates: &[(String, Estimate)], chosen: &str) -> Finding {
    let best = rates.iter().max_by(|a, b| a.1.value.total_cmp(&b.1.value));
    let (measured, verdict) = match best.zip(rates.iter().find(|(name, _)| name == chosen)) {
        None => ("it is not among the cells".into(), Verdict::NotTestable),
        Some(((name, best), (_, ours))) => {
            let words = |rate: &Estimate| format!("{:.0} ({:.0} to {:.0})", rate.value, rate.low, rate.high);
            let verdict = match ours.value >= 0.95 * best.value {
                true => Verdict::Seen,
                false if ours.high < 0.95 * best.low => Verdict::NotSeen,
                false => Verdict::Invalid,
            };
            (format!("{} operations/s; {} at {name}, the best", words(ours), words(best)), verdict)
        }
    };
    Finding { claim: String::new(), published: String::new(), measured, verdict, note: String::new() }
}

/// Means over the rounds, cell by cell.
fn means(cells: &[Cell]) -> Vec<Cell> {
    let mut means: Vec<Cell> = Vec::new();
    for cell in cells {
        if means.iter().any(|mean| mean.period_ms == cell.period_ms && mean.threshold_bytes == cell.threshold_bytes) {
            continue;
        }
        let same: Vec<&Cell> = cells
            .iter()
            .filter(|other| other.period_ms == cell.period_ms && other.threshold_bytes == cell.threshold_bytes)
            .collect();
        let mean = |value: &dyn Fn(&Cell) -> f64| same.iter().map(|cell| value(cell)).sum::<f64>() / same.len() as f64;
        means.push(Cell {
            ops_per_second: mean(&|cell| cell.ops_per_second),
            p50_us: mean(&|cell| cell.p50_us),
            p99_us: mean(&|cell| cell.p99_us),
            evicted: mean(&|cell| cell.evicted as f64) as u64,
            fetched: mean(&|cell| cell.fetched as f64) as u64,
            ..cell.clone()
        });
    }
    means.sort_by(|a, b| {
        (a.threshold_bytes, a.period_ms)
            .partial_cmp(&(b.threshold_bytes, b.period_ms))
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    means
}

fn figure(means: &[Cell], cells: &[Cell], latency: &str, seed: Seed) -> Figure {
    let mut series: Vec<Series> = Vec::new();
    for cell in means {
        let name = format!("threshold {}", Bytes(cell.threshold_bytes));
        if series.iter().any(|series| series.name == name) {
            continue;
        }
        let same: Vec<Cell> =
            cells.iter().filter(|other| other.threshold_bytes == cell.threshold_bytes).cloned().collect();
        let mut line = Series { name, mark: Mark::Measured, ..Series::default() };
        let mut rates: Vec<(f64, Estimate)> = rates(&same, |cell| cell.period_ms.to_string(), seed)
            .into_iter()
            .filter_map(|(period, rate)| Some((period.parse().ok()?, rate)))
            .collect();
        rates.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (period, rate) in rates {
            line.points.push((period, rate.value));
            line.intervals.push((rate.low, rate.high));
        }
        series.push(line);
    }
    Figure {
        id: "sweep".into(),
        title: "Operations per second by period and threshold".into(),
        caption: "Median and 95 % interval over the rounds.".into(),
        device: format!("memory; cold store modelled: {latency}"),
        better: Better::Higher,
        kind: FigureKind::Lines {
            x: Axis::linear("period (ms)").log10(),
            y: Axis::linear("operations/s").from_zero(),
            series,
        },
    }
}

impl Experiment for TierSweep {
    fn title(&self) -> &'static str {
        "Which period and threshold suit the evictor?"
    }

    fn parameters(&self) -> &'static [Parameter] {
        PARAMETERS
    }

    fn doc(&self) -> &'static str {
        include_str!("../../../docs/experiments/tier-sweep.md")
    }

    fn published(&self) -> &'static str {
        include_str!("../../../data/published/tier-sweep.csv")
    }

    fn plan(&self, settings: &Settings) -> Result<Plan, Failure> {
        let cells = cells(settings)?;
        let (file, memory) = (settings.size("file-size")?, settings.size("memory")?);
        if file.0 > memory.0 / 2 {
            return Err(Failure::usage("--memory must be at least twice --file-size"));
        }
        let latency = tier::setup(settings)?.latency.map_or(0.0, |latency| latency.read.as_secs_f64());
        let rounds = settings.integer("rounds")?;
        let mut plan = Plan::new(self.kind(), settings.seed(), settings.to_map());
        for (period, threshold) in &cells {
            plan.step(format!("period {period:?}, threshold {threshold}: read and write {file}"), "anticache");
        }
        let operations = settings.integer("operations")?;
        plan.bytes_to_write = rounds * cells.len() as u64 * (file.0 + operations * BLOCK);
        let seconds = 1.0 + file.0 as f64 / 200e6 + operations as f64 * (50e-6 + latency / 3.0);
        plan.estimated_seconds = (rounds * cells.len() as u64) as f64 * seconds;
        Ok(plan)
    }

    fn run(&self, settings: &Settings, context: &mut RunContext<'_>) -> Result<(), Failure> {
        let base = tier::setup(settings)?;
        if let Some(latency) = &base.latency {
            context.directory.append("latency", &latency.to_string())?;
        }
        let done: Vec<Cell> =
            context.directory.earlier_events().iter().filter_map(|event| Cell::deserialize(&event.data).ok()).collect();
        for round in 0..settings.integer("rounds")? {
            let mut order = cells(settings)?;
            tier::shuffle(&mut order, settings.seed(), &format!("tier/sweep/order/{round}"));
            for (period, threshold) in order {
                let same = |cell: &Cell| {
                    (cell.round, cell.period_ms, cell.threshold_bytes)
                        == (round, period.as_secs_f64() * 1e3, threshold.0)
                };
                if done.iter().any(same) {
                    continue;
                }
                context.check_interrupt()?;
                context.progress.say(&format!("round {}: period {period:?}, threshold {threshold}", round + 1));
                let setup = Setup { period, threshold, ..base.clone() };
                let cell = tier::with_subject(Kind::Anticache, &setup, |subject| {
                    measure(subject, settings, round, period, threshold)
                })?;
                context.directory.append("cell", &cell)?;
            }
        }
        Ok(())
    }
}

fn measure(
    subject: &Subject,
    settings: &Settings,
    round: u64,
    period: Duration,
    threshold: Bytes,
) -> Result<Cell, Failure> {
    let path = subject.directory()?.path().join("data");
    let blocks = settings.size("file-size")?.0 / BLOCK;
    let fs = subject.tier().ok_or_else(|| Failure::new(ExitCode::RunFailed, "the tier file system is not mounted"))?;
    let seed = settings.seed().child(&format!("tier/sweep/{round}"));
    let options = (settings.integer("operations")?, settings.integer("write-percent")?);
    fill(&path, blocks).map_err(io(&path))?;
    let before = fs.stats();
    let start = Instant::now();
    let latencies = access(&path, blocks, options, seed).map_err(io(&path))?;
    let seconds = start.elapsed().as_secs_f64();
    let after = fs.stats();
    Ok(Cell {
        round,
        period_ms: period.as_secs_f64() * 1e3,
        threshold_bytes: threshold.0,
        ops_per_second: latencies.len() as f64 / seconds,
        p50_us: latencies.value_at_quantile(0.5) as f64 / 1e3,
        p99_us: latencies.value_at_quantile(0.99) as f64 / 1e3,
        evicted: after.evicted - before.evicted,
        fetched: after.fetched - before.fetched,
    })
}

fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Failure {
    let text = format!("read and write {}", path.display());
    move |error| Failure::new(ExitCode::RunFailed, format!("{text}: {}", senesce_core::failure::errno_words(&error)))
}

fn fill(path: &Path, blocks: u64) -> std::io::Result<()> {
    let file = std::fs::File::create(path)?;
    let piece = vec![0x5a; 1 << 20];
    for start in (0..blocks * BLOCK).step_by(piece.len()) {
        file.write_all_at(&piece[..piece.len().min((blocks * BLOCK - start) as usize)], start)?;
    }
    file.sync_all()
}

/// Reads and writes single blocks past the page cache; four fifths of the accesses go to the first fifth of a fixed
/// permutation of the blocks.
fn access(path: &Path, blocks: u64, (count, writes): (u64, u64), seed: Seed) -> std::io::Result<Histogram<u64>> {
    let flags = OFlags::DIRECT.bits() as i32;
    let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)?;
    let mut places: Vec<u64> = (0..blocks).collect();
    tier::shuffle(&mut places, seed, "tier/sweep/places");
    let mut rng = seed.stream("tier/sweep/accesses");
    let mut below = |limit: u64| ((u128::from(rng.next_u64()) * u128::from(limit)) >> 64) as u64;
    let mut buffer = AlignedBuffer::new(1);
    let mut latencies = Histogram::new_with_bounds(1, 60_000_000_000, 3).map_err(std::io::Error::other)?;
    for _ in 0..count {
        let limit = if below(5) < 4 { (blocks / 5).max(1) } else { blocks };
        let offset = places[below(limit) as usize] * BLOCK;
        let start = Instant::now();
        if below(100) < writes {
            file.write_all_at(&buffer, offset)?;
        } else {
            file.read_exact_at(&mut buffer, offset)?;
        }
        latencies.saturating_record(start.elapsed().as_nanos() as u64);
    }
    Ok(latencies)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_averaged_over_the_rounds() {
        let cell = |round, ops| Cell {
            round,
            period_ms: 10.0,
            threshold_bytes: 40 << 20,
            ops_per_second: ops,
            p50_us: 1.0,
            p99_us: 2.0,
            evicted: 10,
            fetched: 4,
        };
        let means = means(&[cell(0, 100.0), cell(1, 300.0)]);
        assert_eq!((means.len(), means[0].ops_per_second), (1, 200.0));
    }
}
