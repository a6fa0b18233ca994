//! Chunk sizes of the rolling sum (DMV study), and of FastCDC and fixed sizes on current data.

mod analysis;
mod history;
mod measurements;

use clap::{Args, ValueEnum};
use senesce_core::{Analysis, Bytes, Failure, Level, Measurement, Seed, Size};
use senesce_objstore::ChunkerSpec;
use senesce_objstore::chunker::study::{self, Trial};
use senesce_objstore::dedup::Totals;
use senesce_runner::{Context, Experiment, Planned, Recorded, Run};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

pub(crate) struct ChunkSize;

/// Data and chunkers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Args)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Spec {
    /// chunker; all: sweep of the rolling sum with and without reset, FastCDC, fixed size, deduplication
    #[arg(long)]
    pub algorithm: Algorithm,
    /// windows of the rolling sum in bytes, separated by commas
    #[arg(long, value_delimiter = ',', value_parser = above_zero)]
    pub window: Vec<Size>,
    /// divisors of the rolling sum, separated by commas
    #[arg(long, value_delimiter = ',', value_parser = above_zero)]
    pub divisor: Vec<Size>,
    /// empty the window of the rolling sum after every chunk (with 'all', both are tried)
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, action = clap::ArgAction::Set)]
    pub reset: bool,
    /// mean of FastCDC and size of fixed chunks in bytes, separated by commas
    #[arg(long, value_delimiter = ',', value_parser = above_zero)]
    pub average: Vec<Size>,
    /// chunks of a trial
    #[arg(long, value_parser = clap::value_parser!(u64).range(2..=1_000_000))]
    pub chunks: u64,
    /// bytes after which a trial stops
    #[arg(long)]
    pub give_up: Size,
    /// directories with the versions of one project, oldest first: --data A --data B, or a generated history
    #[arg(long, value_delimiter = ',')]
    pub data: Vec<String>,
    /// versions of the generated history
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub versions: u64,
    /// bytes of each large file of the generated history
    #[arg(long)]
    pub large: Size,
}

fn above_zero(text: &str) -> Result<Size, String> {
    let size: Option<Size> = text.trim().parse().ok().filter(|size: &Size| size.bytes() > 0);
    size.ok_or_else(|| "expected sizes above zero separated by commas, for example 4K,16K".into())
}

/// A chunker, or all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Algorithm {
    /// All.
    All,
    /// The rolling sum of the study.
    RollingSum,
    /// FastCDC.
    #[value(name = "fastcdc")]
    #[serde(rename = "fastcdc")]
    FastCdc,
    /// A fixed size.
    Fixed,
}

/// One trial on the study's random stream.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Cell {
    chunker: ChunkerSpec,
    /// Mean and population deviation in bytes; `null` if no chunk ended.
    mean: Option<f64>,
    sd: Option<f64>,
    chunks: u64,
    bytes: u64,
    gave_up: bool,
    /// Chunks of a second trial that differ from the first one; `null` if it was not made.
    #[serde(default)]
    differ: Option<u64>,
    /// Chunks by size: upper bound and count, bounds in steps of a quarter octave.
    distribution: Vec<(u64, u64)>,
    /// CPU-time throughput on 32 MiB of the stream.
    bytes_per_second: Option<f64>,
}

/// One chunker over a version history.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Deduplicated {
    chunker: ChunkerSpec,
    data: String,
    versions: u64,
    totals: Totals,
}

/// One result of a step.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Event {
    /// A trial.
    Cell(Cell),
    /// A chunker on the history.
    Deduplicated(Deduplicated),
}

/// A unit of work that completes or is repeated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Step {
    Trial(ChunkerSpec),
    /// All chunkers on the history, which is read once.
    History,
}

impl Run for ChunkSize {
    const KIND: &'static str = "chunk-size";
    const PUBLISHED: &'static str = include_str!("../data/published/chunk-size.csv");
    const CLAIMS: &'static str = include_str!("../data/published/chunk-size.claims.toml");
    type Spec = Spec;
    type Event = Event;
    type Step = Step;

    fn steps(spec: &Spec, _seed: Seed) -> Result<Vec<Planned<Step>>, Failure> {
        if let Some(missing) = spec.directories().iter().find(|path| !path.is_dir()) {
            return Err(Failure::usage(format!("--data {}: directory not found", missing.display())));
        }
        let words =
            |chunkers: &[ChunkerSpec]| chunkers.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and with ");
        let mut steps: Vec<Planned<Step>> = Vec::new();
        for chunker in spec.trials()? {
            let action = format!("cut random bytes with {chunker}");
            steps.push(Planned::new(Step::Trial(chunker), action, "-").costing(Bytes(0), 0.2));
        }
        let chunkers = spec.history_chunkers()?;
        if !chunkers.is_empty() {
            let action = format!("deduplicate {} with {}", spec.history_name(), words(&chunkers));
            steps.push(Planned::new(Step::History, action, "-").costing(Bytes(0), 0.2 * chunkers.len() as f64));
        }
        Ok(steps)
    }

    fn begin(_spec: &Spec, _context: &mut Context<'_, Self>) -> Result<Self, Failure> {
        Ok(Self)
    }

    fn step(&mut self, spec: &Spec, step: &Step, context: &mut Context<'_, Self>) -> Result<(), Failure> {
        match step {
            Step::Trial(chunker) => {
                context.record(Event::Cell(spec.cell(*chunker)));
                Ok(())
            }
            Step::History => history::run(spec, context),
        }
    }

    fn measurements(_spec: &Spec, recorded: &Recorded<Self>) -> Vec<Measurement> {
        let cells = recorded.events().filter_map(|event| if let Event::Cell(cell) = event { Some(cell) } else { None });
        measurements::measurements(cells)
    }

    fn analyse(_spec: &Spec, recorded: &Recorded<Self>) -> Result<Analysis, Failure> {
        let (mut cells, mut deduplicated) = (Vec::new(), Vec::new());
        for event in recorded.events().cloned() {
            match event {
                Event::Cell(cell) => cells.push(cell),
                Event::Deduplicated(one) => deduplicated.push(one),
            }
        }
        analysis::analyse(&cells, &deduplicated, Self::PUBLISHED)
    }
}

impl Experiment for ChunkSize {
    const TITLE: &'static str = "How large are chunks, how fast are they found, and what do they save?";
    const PAGE: &'static str = include_str!("../docs/experiments/chunk-size.md");

    fn defaults(level: Level) -> Spec {
        let powers = |from: u32, to: u32| (from..=to).map(|power| Size(Bytes(1 << power))).collect::<Vec<_>>();
        let kib = |sizes: &[u64]| sizes.iter().map(|size| Size(Bytes::kib(*size))).collect::<Vec<_>>();
        let (few_windows, few_divisors) =
            (vec![Size(Bytes(256)), Size(Bytes::kib(4))], vec![Size(Bytes(256)), Size(Bytes::kib(1))]);
        Spec {
            algorithm: Algorithm::All,
            window: level.of([few_windows, powers(7, 18), powers(7, 18)]),
            divisor: level.of([few_divisors, powers(8, 17), powers(8, 17)]),
            reset: false,
            average: level.of([kib(&[4, 16]), powers(12, 16), powers(11, 17)]),
            chunks: 100,
            give_up: Size(level.of([Bytes::mib(64), Bytes::gib(1), Bytes::gib(1)])),
            data: vec![GENERATED.into()],
            versions: level.of([3, 8, 20]),
            large: Size(level.of([Bytes::kib(512), Bytes::mib(8), Bytes::mib(64)])),
        }
    }
}

const GENERATED: &str = "generated";

impl Spec {
    fn directories(&self) -> Vec<PathBuf> {
        if self.data == [GENERATED] { Vec::new() } else { self.data.iter().map(PathBuf::from).collect() }
    }

    fn trials(&self) -> Result<Vec<ChunkerSpec>, Failure> {
        Ok(match self.algorithm {
            Algorithm::RollingSum => self.rolling_sums(&[self.reset])?,
            Algorithm::FastCdc => self.averages("fastcdc:")?,
            Algorithm::Fixed => self.averages("fixed:")?,
            Algorithm::All => {
                [self.rolling_sums(&[false, true])?, self.averages("fastcdc:")?, self.averages("fixed:")?].concat()
            }
        })
    }

    fn history_chunkers(&self) -> Result<Vec<ChunkerSpec>, Failure> {
        Ok(match self.algorithm {
            // For files, a rolling sum with about the same mean: divisor = mean, window 4 KiB.
            Algorithm::All => {
                let rolling_sums = self.averages("rolling-sum:4096:")?;
                [rolling_sums, self.averages("fastcdc:")?, self.averages("fixed:")?].concat()
            }
            _ if self.directories().is_empty() => Vec::new(),
            _ => self.trials()?,
        })
    }

    fn rolling_sums(&self, resets: &[bool]) -> Result<Vec<ChunkerSpec>, Failure> {
        let mut all = Vec::new();
        for reset in resets {
            for window in &self.window {
                for divisor in &self.divisor {
                    let suffix = if *reset { ":reset" } else { "" };
                    all.push(format!("rolling-sum:{}:{}{suffix}", window.bytes(), divisor.bytes()).parse()?);
                }
            }
        }
        Ok(all)
    }

    fn averages(&self, prefix: &str) -> Result<Vec<ChunkerSpec>, Failure> {
        self.average.iter().map(|size| Ok(format!("{prefix}{}", size.bytes()).parse()?)).collect()
    }

    fn history_name(&self) -> String {
        match self.directories().is_empty() {
            true => format!("{} versions of a generated project", self.versions),
            false => self.data.join(", "),
        }
    }

    fn cell(&self, chunker: ChunkerSpec) -> Cell {
        let rolling = matches!(chunker, ChunkerSpec::RollingSum { .. });
        // The study used 100 chunks. For the others more chunks are cheap and show the distribution.
        let chunks = if rolling { self.chunks } else { self.chunks.max(5000) } as usize;
        let trial = study::trial(&chunker, chunks, self.give_up.bytes());
        let gave_up = trial.sizes.len() < chunks;
        Cell {
            chunker,
            mean: trial.mean(),
            sd: trial.deviation(),
            chunks: trial.sizes.len() as u64,
            bytes: trial.bytes,
            gave_up,
            // A trial that gave up has read much and has no chunks to compare.
            differ: (rolling && !gave_up).then(|| {
                let again = study::trial(&chunker, chunks, self.give_up.bytes());
                trial.sizes.iter().zip(&again.sizes).filter(|(one, other)| one != other).count() as u64
                    + trial.sizes.len().abs_diff(again.sizes.len()) as u64
            }),
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

/// Measures the CPU-time throughput on the study's stream.
fn throughput(chunker: ChunkerSpec) -> f64 {
    let mut data = vec![0; 32 << 20];
    study::XorShift::study().fill(&mut data);
    let begun = senesce_sys::clock::thread_cpu_time();
    let cuts = senesce_objstore::chunker::lengths(chunker.build().as_mut(), &data).len();
    std::hint::black_box(cuts);
    let took = senesce_sys::clock::thread_cpu_time() - begun;
    data.len() as f64 / took.as_secs_f64().max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn cell(chunker: &str, chunks: u64) -> Cell {
        Cell {
            chunker: chunker.parse().unwrap(),
            mean: Some(1000.0),
            sd: Some(500.0),
            chunks,
            bytes: 1000 * chunks,
            gave_up: false,
            differ: Some(0),
            distribution: Vec::new(),
            bytes_per_second: None,
        }
    }

    #[test]
    fn default_sweep_covers_both_variants_with_one_trial_per_cell() {
        let mut spec = ChunkSize::defaults(Level::Quick);
        assert_eq!(spec.trials().unwrap().len(), 2 * 12 * 10 + 5 + 5);
        spec.algorithm = Algorithm::RollingSum;
        (spec.window, spec.divisor) = (vec![Size(Bytes(4096))], vec![Size(Bytes(1024))]);
        assert_eq!((spec.trials().unwrap().len(), spec.history_chunkers().unwrap().len()), (1, 0));
    }

    /// The working directory must not affect the remaining trials.
    #[test]
    fn every_trial_is_a_step() {
        let spec = ChunkSize::defaults(Level::Smoke);
        let steps: Vec<Step> =
            ChunkSize::steps(&spec, Seed(1)).unwrap().into_iter().map(|planned| planned.step).collect();
        let trials = spec.trials().unwrap().into_iter().map(Step::Trial);
        assert_eq!(steps, trials.chain([Step::History]).collect::<Vec<_>>());
    }

    #[test]
    fn invalid_numbers_are_refused() {
        assert!(above_zero("0").is_err() && above_zero("x").is_err());
        let (mut small, mut nowhere) = (ChunkSize::defaults(Level::Quick), ChunkSize::defaults(Level::Quick));
        small.average = vec![Size(Bytes(16))];
        nowhere.data = vec!["/no/such/place".into()];
        for spec in [small, nowhere] {
            let failure = ChunkSize::steps(&spec, Seed(1)).unwrap_err();
            assert_eq!(failure.exit_code(), senesce_core::ExitCode::Usage, "{failure}");
        }
    }
}
