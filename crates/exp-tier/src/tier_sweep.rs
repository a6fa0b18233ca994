//! Sweeps period and threshold of the evictor.

mod analysis;

use crate::tier::disk::Disk;
use crate::tier::settle::settle;
use crate::tier::subject::{Subject, SubjectKind};
use crate::tier::{self, ColdLatency};
use clap::{Args, value_parser};
use hdrhistogram::Histogram;
use rand::Rng;
use rustix::fs::OFlags;
use senesce_claims::Facts;
use senesce_core::analysis::Better;
use senesce_core::failure::failed;
use senesce_core::heartbeat::Heartbeat;
use senesce_core::{Analysis, Bytes, Failure, Level, Measurement, Seed, Size, Span};
use senesce_runner::{Context, Experiment, Needs, Planned, Recorded, Run};
use senesce_tierfs::cold::AlignedBuffer;
use serde::{Deserialize, Serialize};
use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::Instant;

pub struct TierSweep;

const BLOCK: u64 = 4096;
/// The published choice: period in milliseconds and threshold in MiB.
const PUBLISHED: (u64, u64) = (10, 40);
/// In addition to the grid: without eviction, and ext4 on the disk.
const BASELINES: [SubjectKind; 2] = [SubjectKind::Bpfs, SubjectKind::Ext4Disk];
const AGAIN: &str = "anticache again";

/// Grid and load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Args)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Spec {
    /// times between two passes of the evictor, separated by commas
    #[arg(long, value_delimiter = ',')]
    pub periods: Vec<Span>,
    /// bytes of files in memory above which blocks are evicted, separated by commas
    #[arg(long, value_delimiter = ',')]
    pub thresholds: Vec<Size>,
    /// size of the file
    #[arg(long)]
    pub file_size: Size,
    /// size of the memory region
    #[arg(long)]
    pub memory: Size,
    /// reads and writes of one block in each cell
    #[arg(long, value_parser = value_parser!(u64).range(10..=100_000_000))]
    pub operations: u64,
    /// share of writes
    #[arg(long, value_parser = value_parser!(u64).range(0..=100))]
    pub write_percent: u64,
    /// rounds over all file systems, each in a different order
    #[arg(long, value_parser = value_parser!(u64).range(1..=1000))]
    pub rounds: u64,
    /// location of the cold store: anticache (on the disk) or anticache-model (in memory, with --cold-latency)
    #[arg(long, value_parser = SubjectKind::among([SubjectKind::Anticache, SubjectKind::AnticacheModel]))]
    pub subject: SubjectKind,
    /// latency of the modelled cold store: ssd, hdd or microseconds
    #[arg(long)]
    pub cold_latency: ColdLatency,
    /// directory on the disk that holds the cold store of anticache and the image of ext4-disk
    #[arg(long)]
    pub disk: Disk,
    /// threads of a tier file system that answer the kernel
    #[arg(long, value_parser = value_parser!(u64).range(1..=64))]
    pub threads: u64,
}

/// Measurements of a round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    round: u64,
    condition: Condition,
}

/// A cell of the grid, or a file system outside of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Condition {
    kind: SubjectKind,
    grid: Option<(Span, Size)>,
    /// A cell measured a second time.
    again: bool,
}

impl Condition {
    fn subject(&self) -> &'static str {
        if self.again { AGAIN } else { self.kind.name() }
    }

    fn text(&self) -> String {
        match self.grid {
            Some((period, threshold)) => {
                format!("{}, period {:?}, threshold {}", self.subject(), period.0, threshold.0)
            }
            None => self.subject().into(),
        }
    }
}

/// Measurement of a condition in a round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    round: u64,
    /// `anticache`, `anticache again`, `bpfs`, `ext4-disk`.
    subject: String,
    /// `null` for a file system without an evictor.
    period_ms: Option<f64>,
    threshold_bytes: Option<u64>,
    ops_per_second: f64,
    p50_us: f64,
    p99_us: f64,
    evicted: u64,
    fetched: u64,
}

/// One result of a step.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// A cell was measured.
    Cell(Cell),
}

impl Cell {
    fn measurements(&self) -> Vec<Measurement> {
        let values = [
            ("throughput", "operations/s", Better::Higher, self.ops_per_second),
            ("median latency", "us", Better::Lower, self.p50_us),
            ("p99 latency", "us", Better::Lower, self.p99_us),
        ];
        let under = |one: Measurement| {
            let one = one.under("subject", &self.subject);
            match (self.period_ms, self.threshold_bytes) {
                (Some(period), Some(threshold)) => one
                    .under("period", period.to_string())
                    .under("threshold", (threshold as f64 / f64::from(1 << 20)).to_string()),
                _ => one,
            }
        };
        tier::measurements(self.round, values).into_iter().map(under).collect()
    }

    fn is_like(&self, other: &Self) -> bool {
        let key = |cell: &Self| (cell.subject.clone(), cell.period_ms.map(f64::to_bits), cell.threshold_bytes);
        key(self) == key(other)
    }
}

impl Spec {
    fn conditions(&self) -> Vec<Condition> {
        let grid = self.periods.iter().flat_map(|period| self.thresholds.iter().map(|size| (*period, *size)));
        let cell = |grid, again| Condition { kind: self.subject, grid: Some(grid), again };
        let all: Vec<(Span, Size)> = grid.collect();
        let again = self.reference().map(|reference| cell(reference, true));
        let beside = BASELINES.map(|kind| Condition { kind, grid: None, again: false });
        all.into_iter().map(|grid| cell(grid, false)).chain(again).chain(beside).collect()
    }

    /// Returns the reference cell: the published one, or the first if the grid lacks it.
    fn reference(&self) -> Option<(Span, Size)> {
        let published = (Span::from_millis(PUBLISHED.0), Size(Bytes::mib(PUBLISHED.1)));
        if self.periods.contains(&published.0) && self.thresholds.contains(&published.1) {
            return Some(published);
        }
        self.periods.first().copied().zip(self.thresholds.first().copied())
    }
}

impl Run for TierSweep {
    const KIND: &'static str = "tier-sweep";
    const PUBLISHED: &'static str = include_str!("../data/published/tier-sweep.csv");
    const CLAIMS: &'static str = include_str!("../data/published/tier-sweep.claims.toml");
    type Spec = Spec;
    type Event = Event;
    type Step = Step;

    fn needs(spec: &Spec) -> Needs {
        tier::needs(spec.memory)
    }

    fn steps(spec: &Spec, seed: Seed) -> Result<Vec<Planned<Step>>, Failure> {
        let file = spec.file_size.0;
        let conditions = spec.conditions();
        if spec.reference().is_none() {
            return Err(Failure::usage("--periods and --thresholds need at least one value each"));
        }
        if file.0 > spec.memory.bytes() / 2 {
            return Err(Failure::usage("--memory must be at least twice --file-size"));
        }
        let of_operation = 50e-6 + spec.cold_latency.read_seconds() / 3.0;
        let seconds = 1.0 + file.0 as f64 / 200e6 + spec.operations as f64 * of_operation;
        let bytes = Bytes(file.0 + spec.operations * BLOCK);
        let planned = |(round, condition): (u64, Condition)| {
            let action = format!("round {}: {}: read and write {file}", round + 1, condition.text());
            let name = condition.subject();
            Planned::new(Step { round, condition }, action, name).costing(bytes, seconds)
        };
        Ok(tier::rounds(spec.rounds, &conditions, seed, "tier/sweep/order").into_iter().map(planned).collect())
    }

    fn begin(spec: &Spec, _context: &mut Context<'_, Self>) -> Result<Self, Failure> {
        let kinds: Vec<SubjectKind> = spec.conditions().iter().map(|one| one.kind).collect();
        tier::check_disk(&kinds, &spec.disk)?;
        Ok(Self)
    }

    fn step(&mut self, spec: &Spec, step: &Step, context: &mut Context<'_, Self>) -> Result<(), Failure> {
        let (period, threshold) = step.condition.grid.unwrap_or((Span::from_millis(PUBLISHED.0), spec.file_size));
        let disk = (spec.cold_latency.model, &spec.disk);
        let setup = tier::setup(spec.memory, threshold, period, spec.threads, disk);
        let seed = context.seed.child(&format!("tier/sweep/{}", step.round));
        let kind = step.condition.kind;
        let cell = tier::with_subject(kind, &setup, |subject| measure(subject, spec, step, seed))?;
        cell.measurements().into_iter().for_each(|one| context.measure(one));
        context.record(Event::Cell(cell));
        Ok(())
    }

    fn facts(spec: &Spec, _recorded: &Recorded<Self>, facts: Facts) -> Facts {
        spec.cold_latency.stated(facts)
    }

    fn analyse(spec: &Spec, recorded: &Recorded<Self>) -> Result<Analysis, Failure> {
        let cells: Vec<Cell> = recorded.events().map(|Event::Cell(cell)| cell.clone()).collect();
        Ok(analysis::analyse(&cells, spec))
    }
}

impl Experiment for TierSweep {
    const TITLE: &'static str = "Which period and threshold suit the evictor?";
    const PAGE: &'static str = include_str!("../docs/experiments/tier-sweep.md");

    fn defaults(level: Level) -> Spec {
        let periods = |list: &[u64]| list.iter().map(|period| Span::from_millis(*period)).collect::<Vec<_>>();
        let sizes = |list: &[u64]| list.iter().map(|size| Size(Bytes::mib(*size))).collect::<Vec<_>>();
        Spec {
            periods: level.of([
                periods(&[1, 10]),
                periods(&[1, 5, 10, 50, 100]),
                periods(&[1, 2, 5, 10, 20, 50, 100, 500]),
            ]),
            thresholds: level.of([
                sizes(&[10, 40]),
                sizes(&[10, 20, 40, 60, 80]),
                sizes(&[10, 20, 30, 40, 60, 80, 120, 160]),
            ]),
            file_size: Size(Bytes::mib(level.of([50, 100, 200]))),
            memory: Size(Bytes::mib(level.of([128, 256, 512]))),
            operations: level.of([500, 20_000, 200_000]),
            write_percent: 30,
            rounds: level.of([1, 5, 5]),
            subject: SubjectKind::Anticache,
            cold_latency: ColdLatency::ssd(),
            disk: Disk::default(),
            threads: 2,
        }
    }
}

fn measure(subject: &Subject, spec: &Spec, step: &Step, seed: Seed) -> Result<Cell, Failure> {
    let path = subject.directory()?.path().join("data");
    let blocks = spec.file_size.bytes() / BLOCK;
    let counted = || subject.tier().map_or((0, 0), |fs| (fs.stats().evicted, fs.stats().fetched));
    fill(&path, blocks).map_err(failed("fill", &path))?;
    if let (Some(fs), Some((_, threshold))) = (subject.evicting(), step.condition.grid) {
        settle(fs, &path, threshold.0)?;
    }
    let before = counted();
    let (heartbeat, start) = (Heartbeat::begin(), Instant::now());
    let latencies =
        access(&path, blocks, (spec.operations, spec.write_percent), seed).map_err(failed("read and write", &path))?;
    let seconds = start.elapsed().as_secs_f64();
    heartbeat.end().check()?;
    let after = counted();
    let grid = step.condition.grid;
    Ok(Cell {
        round: step.round,
        subject: step.condition.subject().into(),
        period_ms: grid.map(|(period, _)| period.seconds() * 1e3),
        threshold_bytes: grid.map(|(_, threshold)| threshold.bytes()),
        ops_per_second: latencies.len() as f64 / seconds,
        p50_us: latencies.value_at_quantile(0.5) as f64 / 1e3,
        p99_us: latencies.value_at_quantile(0.99) as f64 / 1e3,
        evicted: after.0 - before.0,
        fetched: after.1 - before.1,
    })
}

fn fill(path: &Path, blocks: u64) -> std::io::Result<()> {
    let file = std::fs::File::create(path)?;
    let piece = vec![0x5a; 1 << 20];
    for start in (0..blocks * BLOCK).step_by(piece.len()) {
        file.write_all_at(&piece[..piece.len().min((blocks * BLOCK - start) as usize)], start)?;
    }
    file.sync_all()
}

/// Reads and writes single blocks, bypassing the page cache. Four fifths of the accesses go to the first fifth of a fixed
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
