//! The fileserver personality on the anti-caching file system, by threshold.

use crate::tier::interleave::AGAIN;
use crate::tier::subject::{Kind, Setup};
use crate::tier::{self, COLD_LATENCY, PERIOD, THREADS};
use senesce_core::analysis::Better;
use senesce_core::{
    Analysis, Axis, Bytes, ExitCode, Experiment, Failure, Figure, FigureKind, Finding, Mark, Parameter, ParameterKind,
    Plan, Record, RunContext, RunKind, Seed, Series, Settings, Table, Verdict,
};
use senesce_stats::bootstrap::{Estimate, bootstrap};
use senesce_stats::describe::{mean, median};
use senesce_workload::{Bench, Length, Options, Workload, builtin};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;

/// The experiment.
pub struct TierFileserver;

const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "threshold-percent",
        help: "thresholds in percent of the workload's bytes, separated by commas",
        kind: ParameterKind::Text,
        defaults: ["20,100", "20,40,60,80,100", "20,40,60,80,100"],
    },
    Parameter {
        name: "baselines",
        help: "file systems beside it",
        kind: ParameterKind::Choices(&["bpfs", "ext4"]),
        defaults: ["bpfs", "bpfs,ext4", "bpfs,ext4"],
    },
    Parameter {
        name: "files",
        help: "files of the file set; the personality has 10000",
        kind: ParameterKind::Integer { min: 100, max: 10_000_000 },
        defaults: ["200", "2000", "10000"],
    },
    Parameter {
        name: "workload-threads",
        help: "threads of the workload; the personality has 50",
        kind: ParameterKind::Integer { min: 1, max: 1000 },
        defaults: ["8", "50", "50"],
    },
    Parameter {
        name: "time",
        help: "measured time of each run; the personality has 60 s",
        kind: ParameterKind::Duration,
        defaults: ["500ms", "4s", "60s"],
    },
    Parameter {
        name: "memory",
        help: "size of the memory region and of ext4's image",
        kind: ParameterKind::Size,
        defaults: ["128M", "768M", "3G"],
    },
    Parameter { name: "rounds", help: tier::ROUNDS.help, kind: tier::ROUNDS.kind, defaults: ["1", "5", "5"] },
    COLD_LATENCY,
    PERIOD,
    THREADS,
];

/// One run of the personality.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Run {
    round: u64,
    /// `anticache 40 %`, `bpfs`, `ext4`.
    condition: String,
    threshold_percent: Option<f64>,
    ops_per_second: f64,
    mb_per_second: f64,
    evicted: u64,
    fetched: u64,
}

/// What is run: a file system with a threshold.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Condition {
    kind: Kind,
    percent: Option<f64>,
    /// Bpfs mode measured a second time.
    again: bool,
}

impl Condition {
    fn name(&self) -> String {
        match self.percent {
            _ if self.again => AGAIN.into(),
            None => self.kind.name().into(),
            Some(percent) => format!("{} {percent} %", self.kind.name()),
        }
    }
}

fn conditions(settings: &Settings) -> Result<Vec<Condition>, Failure> {
    let mut all = Vec::new();
    for word in settings.list("threshold-percent") {
        match word.parse::<f64>() {
            Ok(percent) if percent > 0.0 && percent <= 1000.0 => {
                all.push(Condition { kind: Kind::Anticache, percent: Some(percent), again: false });
            }
            _ => return Err(Failure::usage(format!("--threshold-percent: '{word}' is not a number above 0"))),
        }
    }
    let baselines = Kind::list(&settings.list("baselines"));
    let again = baselines.contains(&Kind::Bpfs).then_some((Kind::Bpfs, true));
    let baselines = baselines.into_iter().map(|kind| (kind, false)).chain(again);
    all.extend(baselines.map(|(kind, again)| Condition { kind, percent: None, again }));
    Ok(all)
}

fn workload(settings: &Settings) -> Result<Workload, Failure> {
    let variable = |name: &str, parameter: &str| (name.to_string(), settings.text(parameter).to_string());
    let overrides = BTreeMap::from([
        variable("nfiles", "files"),
        variable("nthreads", "workload-threads"),
        ("memsize".into(), "1m".into()),
    ]);
    Ok(builtin("fileserver", 1.0, &overrides)?)
}

fn options(settings: &Settings) -> Result<Options, Failure> {
    let length = Some(Length::Time(settings.duration("time")?));
    Ok(Options { seed: settings.seed(), length, populate_threads: 4, ..Options::default() })
}

/// Bytes of all files of the personality.
fn workload_bytes(settings: &Settings) -> Result<Bytes, Failure> {
    let filesets = senesce_workload::bench::draw(&workload(settings)?, &options(settings)?)?;
    Ok(Bytes(filesets.iter().map(|fileset| fileset.bytes).sum()))
}

impl RunKind for TierFileserver {
    fn kind(&self) -> &'static str {
        "tier-fileserver"
    }

    fn analyse(&self, record: &Record) -> Result<Analysis, Failure> {
        let runs: Vec<Run> = record.events_of("run").collect();
        let latency = record.events_of::<String>("latency").last().unwrap_or("none".into());
        let names = names(&runs);
        let columns = ["file system", "operations/s", "MB/s", "evicted (blocks)", "fetched (blocks)", "runs"];
        let mut table = Table::new("fileserver", "The fileserver personality, means over the rounds", &columns);
        for name in &names {
            let of = |value: &dyn Fn(&Run) -> f64| average(&runs, name, value);
            table.row(vec![
                json!(name),
                json!(of(&|run| run.ops_per_second)),
                json!(of(&|run| run.mb_per_second)),
                json!(of(&|run| run.evicted as f64)),
                json!(of(&|run| run.fetched as f64)),
                json!(runs.iter().filter(|run| run.condition == **name).count()),
            ]);
        }
        let hot = ratio_to_bpfs(&runs, HOT, record.plan.seed);
        let again = ratio_to_bpfs(&runs, AGAIN, record.plan.seed);
        Ok(Analysis {
            title: "A file server by the share of its data that stays in memory".into(),
            summary: "Operations per second as Filebench counts them.".into(),
            figures: vec![figure(&runs, &latency)],
            tables: vec![table],
            findings: vec![Finding {
                claim: "with a threshold that holds the workload, anti-caching costs nothing".into(),
                published: "a figure without readable values".into(),
                measured: hot.map_or("not measured".into(), |hot| {
                    let again =
                        again.map_or(String::new(), |again| format!("; bpfs mode against itself {}", in_words(again)));
                    format!(
                        "{} of the operations per second of bpfs mode at a threshold of 100 %{again}",
                        in_words(hot)
                    )
                }),
                verdict: costs_nothing(hot, again),
                note: "the workload grows a little while it runs: at 100 % some blocks are evicted".into(),
            }],
            caveats: vec![format!("modelled: latency of the cold store: {latency}")],
            result: json!({
                "runs": runs,
                "ratio_when_hot": hot.map(|hot| hot.value),
                "ratio_of_bpfs_to_itself": again.map(|again| again.value),
                "cold_latency": latency,
            }),
        })
    }
}

/// The condition that holds the workload.
const HOT: &str = "anticache 100 %";
/// A share of the speed from which on anti-caching costs nothing; a machine that differs more from itself cannot tell.
const NO_COST: f64 = 0.97;

/// The median over the rounds of a condition's speed over that of bpfs mode in the same round.
fn ratio_to_bpfs(runs: &[Run], condition: &str, seed: Seed) -> Option<Estimate> {
    let ratios = runs.iter().filter(|run| run.condition == condition).filter_map(|run| {
        let base = runs.iter().find(|base| base.condition == "bpfs" && base.round == run.round)?;
        (base.ops_per_second > 0.0).then(|| run.ops_per_second / base.ops_per_second)
    });
    bootstrap(&ratios.collect::<Vec<_>>(), median, &mut seed.stream(&format!("tier/fileserver/ratio/{condition}")))
}

fn in_words(ratio: Estimate) -> String {
    format!("{:.1} % ({:.1} to {:.1})", 100.0 * ratio.value, 100.0 * ratio.low, 100.0 * ratio.high)
}

fn costs_nothing(hot: Option<Estimate>, again: Option<Estimate>) -> Verdict {
    let Some(hot) = hot else { return Verdict::NotTestable };
    match again {
        Some(again) if (again.value - 1.0).abs() > 1.0 - NO_COST => Verdict::Invalid,
        _ if hot.high < NO_COST => Verdict::NotSeen,
        _ if hot.value >= NO_COST => Verdict::Seen,
        _ => Verdict::Invalid,
    }
}

fn names(runs: &[Run]) -> Vec<String> {
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

fn average(runs: &[Run], name: &str, value: &dyn Fn(&Run) -> f64) -> Option<f64> {
    mean(&runs.iter().filter(|run| run.condition == name).map(value).collect::<Vec<_>>())
}

fn figure(runs: &[Run], latency: &str) -> Figure {
    let percents: Vec<f64> = names(runs)
        .iter()
        .filter_map(|name| runs.iter().find(|run| run.condition == *name)?.threshold_percent)
        .collect();
    let line = |name: &str| {
        let rate = average(runs, name, &|run| run.ops_per_second)?;
        let points = percents.iter().map(|percent| (*percent, rate)).collect();
        Some(Series { name: Kind::label(name).into(), mark: Mark::Measured, points, ..Series::default() })
    };
    let points = percents
        .iter()
        .filter_map(|percent| {
            let of = runs.iter().filter(|run| run.threshold_percent == Some(*percent));
            Some((*percent, mean(&of.map(|run| run.ops_per_second).collect::<Vec<_>>())?))
        })
        .collect();
    let anticache = Series { name: Kind::label("anticache").into(), mark: Mark::Measured, points, ..Series::default() };
    Figure {
        id: "fileserver".into(),
        title: "Fileserver by threshold".into(),
        caption: "Means over the rounds; the baselines have no threshold.".into(),
        device: format!("memory; cold store modelled: {latency}"),
        better: Better::Higher,
        kind: FigureKind::Lines {
            x: Axis::linear("threshold (% of the workload)").from_zero(),
            y: Axis::linear("operations/s").from_zero(),
            series: [Some(anticache), line("bpfs"), line("ext4")].into_iter().flatten().collect(),
        },
    }
}

impl Experiment for TierFileserver {
    fn title(&self) -> &'static str {
        "How does a file server fare when only a part of its data stays in memory?"
    }

    fn parameters(&self) -> &'static [Parameter] {
        PARAMETERS
    }

    fn doc(&self) -> &'static str {
        include_str!("../../../docs/experiments/tier-fileserver.md")
    }

    fn published(&self) -> &'static str {
        include_str!("../../../data/published/tier-fileserver.csv")
    }

    fn plan(&self, settings: &Settings) -> Result<Plan, Failure> {
        let (bytes, setup) = (workload_bytes(settings)?, tier::setup(settings)?);
        if bytes.0 * 3 / 2 > setup.memory.0 {
            return Err(Failure::usage(format!(
                "the workload has {bytes} and grows: --memory must be at least {}, so that bpfs mode holds it",
                Bytes(bytes.0 * 3 / 2)
            )));
        }
        let (conditions, rounds) = (conditions(settings)?, settings.integer("rounds")?);
        let time = settings.duration("time")?.as_secs_f64();
        let mut plan = Plan::new(self.kind(), settings.seed(), settings.to_map());
        for condition in &conditions {
            plan.step(format!("fileserver, {bytes}, {rounds} times {time} s"), condition.name());
        }
        let runs = rounds * conditions.len() as u64;
        plan.bytes_to_write = runs * (bytes.0 + (time * 300e6) as u64);
        plan.estimated_seconds = runs as f64 * (time + 2.0 + bytes.0 as f64 / 100e6);
        Ok(plan)
    }

    fn run(&self, settings: &Settings, context: &mut RunContext<'_>) -> Result<(), Failure> {
        let (setup, bytes) = (tier::setup(settings)?, workload_bytes(settings)?);
        if let Some(latency) = &setup.latency {
            context.progress.say(&format!("cold store: {latency}"));
            context.directory.append("latency", &latency.to_string())?;
        }
        let events = context.directory.earlier_events();
        let done: Vec<Run> = events.iter().filter_map(|event| Run::deserialize(&event.data).ok()).collect();
        for round in 0..settings.integer("rounds")? {
            let mut order = conditions(settings)?;
            tier::shuffle(&mut order, settings.seed(), &format!("tier/fileserver/order/{round}"));
            for condition in order {
                if done.iter().any(|run| run.round == round && run.condition == condition.name()) {
                    continue;
                }
                context.check_interrupt()?;
                context.progress.say(&format!("round {}: {}", round + 1, condition.name()));
                let run = measure(settings, &setup, bytes, condition, round, context)?;
                context.directory.append("run", &run)?;
            }
        }
        Ok(())
    }
}

fn measure(
    settings: &Settings,
    setup: &Setup,
    bytes: Bytes,
    condition: Condition,
    round: u64,
    context: &RunContext<'_>,
) -> Result<Run, Failure> {
    let percent = condition.percent.unwrap_or(100.0);
    let setup = Setup { threshold: Bytes((bytes.0 as f64 * percent / 100.0) as u64), ..setup.clone() };
    let (workload, options) = (workload(settings)?, options(settings)?);
    tier::with_subject(condition.kind, &setup, |subject| {
        let directory = subject.directory()?;
        let bench = Bench::prepare(&workload, directory, options, context.progress, context.interrupt)?;
        let before = subject.tier().map(|fs| fs.stats());
        let result = bench.run(directory, context.progress, context.interrupt)?.repetition;
        if !result.valid {
            let reason = result.reason.unwrap_or_default();
            return Err(Failure::new(ExitCode::RunFailed, format!("{}: {reason}", condition.name())));
        }
        let after = subject.tier().map(|fs| fs.stats());
        let (evicted, fetched) = before
            .zip(after)
            .map_or((0, 0), |(before, after)| (after.evicted - before.evicted, after.fetched - before.fetched));
        Ok(Run {
            round,
            condition: condition.name(),
            threshold_percent: condition.percent,
            ops_per_second: result.ops_per_second,
            mb_per_second: result.mb_per_second,
            evicted,
            fetched,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_listed_by_threshold() {
        let run = |condition: &str, threshold_percent| Run {
            round: 0,
            condition: condition.into(),
            threshold_percent,
            ops_per_second: 1.0,
            mb_per_second: 1.0,
            evicted: 0,
            fetched: 0,
        };
        let runs = [run("bpfs", None), run("anticache 100 %", Some(100.0)), run("anticache 20 %", Some(20.0))];
        assert_eq!(names(&runs), ["anticache 20 %", "anticache 100 %", "bpfs"]);
    }

    #[test]
    fn a_machine_that_differs_from_itself_cannot_tell() {
        let estimate = |value: f64| Some(Estimate { value, low: value - 0.01, high: value + 0.01 });
        assert_eq!(costs_nothing(estimate(0.99), estimate(1.01)), Verdict::Seen);
        assert_eq!(costs_nothing(estimate(0.90), estimate(1.01)), Verdict::NotSeen);
        assert_eq!(costs_nothing(estimate(1.71), estimate(1.30)), Verdict::Invalid);
        assert_eq!(costs_nothing(None, None), Verdict::NotTestable);
    }
}
