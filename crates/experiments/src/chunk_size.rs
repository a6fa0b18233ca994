//! Chunk sizes of the rolling sum (DMV study), and what FastCDC and fixed sizes make of today's data.

mod analysis;
mod findings;
mod history;

use senesce_core::parameter::ParameterError;
use senesce_core::{
    Analysis, Bytes, Experiment, Failure, Parameter, ParameterKind, Plan, Record, RunContext, RunKind, Settings,
};
use senesce_objstore::ChunkerSpec;
use senesce_objstore::chunker::study::{self, Trial};
use senesce_objstore::dedup::Totals;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The experiment.
pub struct ChunkSize;

/// One trial on the study's random stream.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Cell {
    chunker: ChunkerSpec,
    /// Mean and population deviation in bytes; none when no chunk ended.
    mean: Option<f64>,
    sd: Option<f64>,
    chunks: u64,
    bytes: u64,
    gave_up: bool,
    /// Chunks by size: upper bound and count, bounds in steps of a quarter octave.
    distribution: Vec<(u64, u64)>,
    /// Of cutting 32 MiB of the stream, in CPU time.
    bytes_per_second: Option<f64>,
}

/// One chunker over a version history.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Deduplicated {
    chunker: ChunkerSpec,
    data: String,
    versions: u64,
    totals: Totals,
}

impl RunKind for ChunkSize {
    fn kind(&self) -> &'static str {
        "chunk-size"
    }

    fn analyse(&self, record: &Record) -> Result<Analysis, Failure> {
        let cells: Vec<Cell> = record.events_of("cell").collect();
        let deduplicated: Vec<Deduplicated> = record.events_of("deduplicated").collect();
        analysis::analyse(&cells, &deduplicated, self.published())
    }
}

const ALGORITHMS: &[&str] = &["all", "rolling-sum", "fastcdc", "fixed"];
const WINDOWS: &str = "128,256,512,1K,2K,4K,8K,16K,32K,64K,128K,256K";
const DIVISORS: &str = "256,512,1K,2K,4K,8K,16K,32K,64K,128K";

impl Experiment for ChunkSize {
    fn title(&self) -> &'static str {
        "How large are chunks, how fast are they found, and what do they save?"
    }

    fn parameters(&self) -> &'static [Parameter] {
        const PARAMETERS: &[Parameter] = &[
            Parameter {
                name: "algorithm",
                help: "chunker; all: sweep of the rolling sum with and without reset, FastCDC, fixed size, deduplication",
                kind: ParameterKind::Choice(ALGORITHMS),
                defaults: ["all", "all", "all"],
            },
            Parameter {
                name: "window",
                help: "windows of the rolling sum in bytes, separated by commas",
                kind: ParameterKind::Text,
                defaults: ["256,4K", WINDOWS, WINDOWS],
            },
            Parameter {
                name: "divisor",
                help: "divisors of the rolling sum, separated by commas",
                kind: ParameterKind::Text,
                defaults: ["256,1K", DIVISORS, DIVISORS],
            },
            Parameter {
                name: "reset",
                help: "empty the window of the rolling sum after every chunk (with 'all' both ways are tried)",
                kind: ParameterKind::Flag,
                defaults: ["false", "false", "false"],
            },
            Parameter {
                name: "average",
                help: "mean of FastCDC and size of fixed chunks in bytes, separated by commas",
                kind: ParameterKind::Text,
                defaults: ["4K,16K", "4K,8K,16K,32K,64K", "2K,4K,8K,16K,32K,64K,128K"],
            },
            Parameter {
                name: "chunks",
                help: "chunks of a trial",
                kind: ParameterKind::Integer { min: 2, max: 1_000_000 },
                defaults: ["100", "100", "100"],
            },
            Parameter {
                name: "give-up",
                help: "bytes after which a trial gives up",
                kind: ParameterKind::Size,
                defaults: ["64M", "1G", "1G"],
            },
            Parameter {
                name: "data",
                help: "directories that are versions of one thing, oldest first: --data A --data B, or a made-up history",
                kind: ParameterKind::Text,
                defaults: ["generated", "generated", "generated"],
            },
            Parameter {
                name: "versions",
                help: "versions of the made-up history",
                kind: ParameterKind::Integer { min: 1, max: 1000 },
                defaults: ["3", "8", "20"],
            },
            Parameter {
                name: "large",
                help: "bytes of each large file of the made-up history",
                kind: ParameterKind::Size,
                defaults: ["512K", "8M", "64M"],
            },
        ];
        PARAMETERS
    }

    fn doc(&self) -> &'static str {
        include_str!("../../../docs/experiments/chunk-size.md")
    }

    fn published(&self) -> &'static str {
        include_str!("../../../data/published/chunk-size.csv")
    }

    fn plan(&self, settings: &Settings) -> Result<Plan, Failure> {
        let request = Request::read(settings)?;
        let mut plan = Plan::new(self.kind(), settings.seed(), settings.to_map());
        for chunker in &request.trials {
            plan.step(format!("cut random bytes with {chunker}"), "-");
        }
        for chunker in &request.history_chunkers {
            plan.step(format!("deduplicate {} with {chunker}", request.history_name()), "-");
        }
        plan.estimated_seconds = 0.2 * plan.steps.len() as f64;
        Ok(plan)
    }

    fn run(&self, settings: &Settings, context: &mut RunContext<'_>) -> Result<(), Failure> {
        let request = Request::read(settings)?;
        request.run_trials(context)?;
        history::run(&request, settings, context)
    }
}

struct Request {
    trials: Vec<ChunkerSpec>,
    history_chunkers: Vec<ChunkerSpec>,
    /// None: the made-up history.
    data: Vec<PathBuf>,
    versions: u64,
    large: Bytes,
    chunks: usize,
    give_up: Bytes,
}

impl Request {
    fn read(settings: &Settings) -> Result<Self, Failure> {
        let algorithm = settings.text("algorithm");
        let all = algorithm == "all";
        let mut rolling = Vec::new();
        let resets = if all { vec![false, true] } else { vec![settings.flag("reset")?] };
        for reset in resets {
            for window in sizes(settings, "window")? {
                for divisor in sizes(settings, "divisor")? {
                    let suffix = if reset { ":reset" } else { "" };
                    rolling.push(format!("rolling-sum:{window}:{divisor}{suffix}").parse()?);
                }
            }
        }
        let averages = sizes(settings, "average")?;
        let of = |name: &str| {
            averages.iter().map(move |size| format!("{name}:{size}").parse()).collect::<Result<Vec<ChunkerSpec>, _>>()
        };
        let (fastcdc, fixed) = (of("fastcdc")?, of("fixed")?);
        let trials = match algorithm {
            "rolling-sum" => rolling,
            "fastcdc" => fastcdc.clone(),
            "fixed" => fixed.clone(),
            _ => [rolling, fastcdc.clone(), fixed.clone()].concat(),
        };
        let generated = settings.text("data") == "generated";
        let data: Vec<PathBuf> =
            if generated { Vec::new() } else { settings.list("data").into_iter().map(PathBuf::from).collect() };
        if let Some(missing) = data.iter().find(|path| !path.is_dir()) {
            return Err(Failure::usage(format!("--data {}: there is no such directory", missing.display())));
        }
        // For files, a rolling sum with about the same mean: divisor = mean, window 4 KiB.
        let rolling_alike: Vec<ChunkerSpec> =
            averages.iter().map(|size| format!("rolling-sum:4096:{size}").parse()).collect::<Result<_, _>>()?;
        let history_chunkers = match algorithm {
            _ if !all && generated => Vec::new(),
            "rolling-sum" => trials.clone(),
            "fastcdc" => fastcdc,
            "fixed" => fixed,
            _ => [rolling_alike, fastcdc, fixed].concat(),
        };
        Ok(Self {
            trials,
            history_chunkers,
            data,
            versions: settings.integer("versions")?,
            large: settings.size("large")?,
            chunks: settings.integer("chunks")? as usize,
            give_up: settings.size("give-up")?,
        })
    }

    fn history_name(&self) -> String {
        if self.data.is_empty() {
            return format!("{} versions of a made-up project", self.versions);
        }
        self.data.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
    }

    /// Trials in parallel, recorded in order.
    fn run_trials(&self, context: &mut RunContext<'_>) -> Result<(), Failure> {
        let done = context.directory.earlier_events().iter().filter(|event| event.kind == "cell").count();
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        context.progress.phase("chunk-size", self.trials.len() as u64, "trials");
        let rest = &self.trials[done.min(self.trials.len())..];
        for (number, group) in rest.chunks(threads).enumerate() {
            context.check_interrupt()?;
            context.progress.position((done + number * threads) as u64, &group[0].to_string());
            let cells: Vec<Cell> = std::thread::scope(|scope| {
                let handles: Vec<_> = group.iter().map(|chunker| scope.spawn(move || self.cell(*chunker))).collect();
                let join = |handle: std::thread::ScopedJoinHandle<'_, Cell>| {
                    handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                };
                handles.into_iter().map(join).collect()
            });
            for cell in &cells {
                context.directory.append("cell", cell)?;
            }
        }
        Ok(())
    }

    fn cell(&self, chunker: ChunkerSpec) -> Cell {
        let rolling = matches!(chunker, ChunkerSpec::RollingSum { .. });
        // The study took 100 chunks; for the others more cost little and show the distribution.
        let chunks = if rolling { self.chunks } else { self.chunks.max(5000) };
        let trial = study::trial(&chunker, chunks, self.give_up.0);
        Cell {
            chunker,
            mean: trial.mean(),
            sd: trial.deviation(),
            chunks: trial.sizes.len() as u64,
            bytes: trial.bytes,
            gave_up: trial.sizes.len() < chunks,
            distribution: distribution(&trial),
            bytes_per_second: (!rolling).then(|| throughput(chunker)),
        }
    }
}

fn distribution(trial: &Trial) -> Vec<(u64, u64)> {
    let mut counts = std::collections::BTreeMap::new();
    for size in &trial.sizes {
        let bound = 2f64.powf(((*size).max(1) as f64).log2().mul_add(4.0, 0.0).ceil() / 4.0).round() as u64;
        *counts.entry(bound).or_insert(0) += 1;
    }
    counts.into_iter().collect()
}

/// CPU time of cutting the study's stream.
fn throughput(chunker: ChunkerSpec) -> f64 {
    let mut data = vec![0; 32 << 20];
    study::XorShift::study().fill(&mut data);
    let begun = senesce_objstore::dedup::thread_cpu_time();
    let cuts = senesce_objstore::chunker::lengths(chunker.build().as_mut(), &data).len();
    std::hint::black_box(cuts);
    let took = senesce_objstore::dedup::thread_cpu_time() - begun;
    data.len() as f64 / took.as_secs_f64().max(1e-9)
}

fn sizes(settings: &Settings, name: &str) -> Result<Vec<u64>, Failure> {
    let wrong = |value: &str| ParameterError::Value {
        name: name.into(),
        value: value.into(),
        expected: "sizes above zero separated by commas, for example 4K,16K".into(),
    };
    let words = settings.list(name);
    if words.is_empty() {
        return Err(wrong(settings.text(name)).into());
    }
    let read = |word: &String| word.parse::<Bytes>().ok().map(|size| size.0).filter(|size| *size > 0);
    words.iter().map(|word| read(word).ok_or_else(|| wrong(word).into())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_core::Level;

    fn settings(pairs: &[(&str, &str)]) -> Settings {
        let overrides = pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        Settings::resolve(ChunkSize.parameters(), Level::Quick, &overrides).unwrap()
    }

    #[test]
    fn the_default_sweep_covers_both_ways_and_one_cell_is_one_trial() {
        let request = Request::read(&settings(&[])).unwrap();
        assert_eq!(request.trials.len(), 2 * 12 * 10 + 5 + 5);
        let one = [("algorithm", "rolling-sum"), ("window", "4096"), ("divisor", "1024")];
        let request = Request::read(&settings(&one)).unwrap();
        assert_eq!((request.trials.len(), request.history_chunkers.len()), (1, 0));
    }

    #[test]
    fn wrong_numbers_are_refused() {
        for (name, value) in [("window", "0"), ("divisor", "x"), ("average", "16"), ("data", "/no/such/place")] {
            let failure = ChunkSize.plan(&settings(&[(name, value)])).unwrap_err();
            assert_eq!(failure.exit_code(), senesce_core::ExitCode::Usage, "{name}={value}");
        }
    }
}
