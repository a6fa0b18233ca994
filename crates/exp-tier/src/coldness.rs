//! Latency of reads with a chosen share of cold blocks.

mod figure;
mod reads;

use crate::tier::disk::Disk;
use crate::tier::settle::{self, settle};
use crate::tier::subject::{Subject, SubjectKind};
use crate::tier::{self, ColdLatency};
use clap::{Args, value_parser};
use reads::{choose, first_uses, read_blocks};
use rustix::fs::{Advice, fadvise};
use senesce_claims::Facts;
use senesce_core::analysis::Better;
use senesce_core::failure::failed;
use senesce_core::heartbeat::watched;
use senesce_core::parameter::real;
use senesce_core::{Analysis, Bytes, Failure, Level, Measurement, Rows, Seed, Size, Span};
use senesce_runner::{Context, Experiment, Needs, Planned, Recorded, Run};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub struct Coldness;

const BLOCK: u64 = 4096;
/// Two on the disk and two on the same modelled disk, whose latency is an input: claims on those can only agree or differ.
const SUBJECTS: [SubjectKind; 4] =
    [SubjectKind::Anticache, SubjectKind::Ext4Disk, SubjectKind::AnticacheModel, SubjectKind::Ext4Model];

/// Files to read, and the share of cold blocks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Args)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Spec {
    /// file systems to compare
    #[arg(long, value_delimiter = ',', value_parser = SubjectKind::among(SUBJECTS))]
    pub subjects: Vec<SubjectKind>,
    /// size of the memory region, and of ext4's disk
    #[arg(long)]
    pub memory: Size,
    /// bytes of the file that stay in memory
    #[arg(long)]
    pub threshold: Size,
    /// size of the file
    #[arg(long)]
    pub file_size: Size,
    /// percent of the reads that go to blocks which were cold at the start, separated by commas
    #[arg(long, value_delimiter = ',', value_parser = real(0.0..=100.0))]
    pub cold_percent: Vec<f64>,
    /// reads of one block per share, file system and round
    #[arg(long, value_parser = value_parser!(u64).range(10..=10_000_000))]
    pub reads: u64,
    /// rounds over all file systems, each in a different order
    #[arg(long, value_parser = value_parser!(u64).range(1..=1000))]
    pub rounds: u64,
    /// latency of the modelled disks: ssd, hdd or microseconds
    #[arg(long)]
    pub cold_latency: ColdLatency,
    /// directory on the disk that holds the cold store of anticache and the image of ext4-disk
    #[arg(long)]
    pub disk: Disk,
    /// time between two passes of the evictor
    #[arg(long)]
    pub period: Span,
    /// threads of a tier file system that answer the kernel
    #[arg(long, value_parser = value_parser!(u64).range(1..=64))]
    pub threads: u64,
}

/// Reads with one share on one file system.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    subject: String,
    round: u64,
    cold_percent: f64,
    /// Percent of reads that fetched a block. The hot set shrinks as fetched blocks displace others.
    fetched_percent: f64,
    /// Percent of the reads of initially resident blocks that fetched.
    missed_percent: Option<f64>,
    evicted: u64,
    mean_us: f64,
    p50_us: f64,
    p99_us: f64,
}

impl Point {
    fn measurements(&self, reads: u64) -> Vec<Measurement> {
        let values = [
            ("read latency", "us", Better::Lower, self.mean_us),
            ("p99 latency", "us", Better::Lower, self.p99_us),
            ("fetched", "%", Better::Lower, self.fetched_percent),
            ("evicted blocks per read", "", Better::Lower, self.evicted as f64 / reads as f64),
            ("missed", "%", Better::Lower, self.missed_percent.unwrap_or(f64::NAN)),
        ];
        let under = |one: Measurement| one.under("subject", &self.subject).under("cold", self.cold_percent.to_string());
        tier::measurements(self.round, values).into_iter().map(under).collect()
    }
}

/// One result of a step.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// Reads with one share on one file system.
    Point(Point),
}

/// A file system in a round, with all shares.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    round: u64,
    subject: SubjectKind,
}

/// The file under test, and which of its blocks are in memory at the start of a measurement.
struct PreparedFile {
    path: PathBuf,
    resident: Vec<u64>,
    cold: Vec<u64>,
}

impl Run for Coldness {
    const KIND: &'static str = "coldness";
    const PUBLISHED: &'static str = include_str!("../data/published/coldness.csv");
    const CLAIMS: &'static str = include_str!("../data/published/coldness.claims.toml");
    type Spec = Spec;
    type Event = Event;
    type Step = Step;

    fn needs(spec: &Spec) -> Needs {
        tier::needs(spec.memory)
    }

    fn steps(spec: &Spec, seed: Seed) -> Result<Vec<Planned<Step>>, Failure> {
        let (file, shares) = (spec.file_size.0, spec.cold_percent.len());
        if file <= spec.threshold.0 || file.0 > spec.memory.bytes() * 9 / 10 {
            return Err(Failure::usage("--file-size must be between --threshold and nine tenths of --memory"));
        }
        if shares == 0 {
            return Err(Failure::usage("--cold-percent: expected numbers of 0 to 100"));
        }
        let reads = (spec.reads * shares as u64) as f64;
        let seconds = reads * (60e-6 + spec.cold_latency.read_seconds() / 2.0) + file.0 as f64 / 200e6;
        let planned = |(round, subject): (u64, SubjectKind)| {
            let action = format!("round {}: write {file}, read it with {shares} shares of cold blocks", round + 1);
            Planned::new(Step { round, subject }, action, subject.name()).costing(file, seconds)
        };
        let kinds = SubjectKind::in_order(&spec.subjects);
        Ok(tier::rounds(spec.rounds, &kinds, seed, "tier/order").into_iter().map(planned).collect())
    }

    fn begin(spec: &Spec, _context: &mut Context<'_, Self>) -> Result<Self, Failure> {
        tier::check_disk(&spec.subjects, &spec.disk)?;
        Ok(Self)
    }

    fn step(&mut self, spec: &Spec, step: &Step, context: &mut Context<'_, Self>) -> Result<(), Failure> {
        let disk = (spec.cold_latency.model, &spec.disk);
        let setup = tier::setup(spec.memory, spec.threshold, spec.period, spec.threads, disk);
        tier::with_subject(step.subject, &setup, |subject| measure(subject, spec, step.round, context))
    }

    fn facts(spec: &Spec, _recorded: &Recorded<Self>, facts: Facts) -> Facts {
        spec.cold_latency.stated(facts)
    }

    fn analyse(spec: &Spec, recorded: &Recorded<Self>) -> Result<Analysis, Failure> {
        let mut points: Vec<Point> = recorded.events().map(|Event::Point(point)| point.clone()).collect();
        points.sort_by(|a, b| {
            let share = a.cold_percent.total_cmp(&b.cold_percent);
            a.subject.cmp(&b.subject).then(share).then(a.round.cmp(&b.round))
        });
        let table = Rows::of(&points)
            .column("file system", |point| &point.subject)
            .column("requested cold (%)", |point| &point.cold_percent)
            .column("round", |point| point.round + 1)
            .column("fetched (%)", |point| point.fetched_percent)
            .column("missed (%)", |point| point.missed_percent)
            .column("evicted (blocks)", |point| &point.evicted)
            .column("mean (us)", |point| &point.mean_us)
            .column("median (us)", |point| point.p50_us)
            .column("p99 (us)", |point| point.p99_us)
            .table("coldness", "Reads by the share that was cold at the start");
        Ok(Analysis {
            title: "Cost of cold data".into(),
            summary: "Reads of one 4 KiB block; mean over each share and round.".into(),
            figures: vec![figure::figure(&points, spec)],
            tables: vec![table],
            findings: Vec::new(),
            caveats: spec.cold_latency.caveats(&spec.disk),
            result: json!({"points": points, "cold_latency": spec.cold_latency.to_string()}),
        })
    }
}

impl Experiment for Coldness {
    const TITLE: &'static str = "How much slower do reads become as more of them are cold?";
    const PAGE: &'static str = include_str!("../docs/experiments/coldness.md");

    fn defaults(level: Level) -> Spec {
        let all = || (0..=10).map(|tenth| f64::from(tenth) * 10.0).collect();
        Spec {
            subjects: SUBJECTS.into(),
            memory: Size(Bytes::mib(level.of([64, 512, 2048]))),
            threshold: Size(Bytes::mib(level.of([12, 100, 400]))),
            file_size: Size(Bytes::mib(level.of([30, 250, 1000]))),
            cold_percent: level.of([vec![0.0, 50.0, 100.0], all(), all()]),
            reads: level.of([200, 4000, 50_000]),
            rounds: level.of([1, 5, 5]),
            cold_latency: ColdLatency::ssd(),
            disk: Disk::default(),
            period: Span::from_millis(10),
            threads: 2,
        }
    }
}

fn measure(subject: &Subject, spec: &Spec, round: u64, context: &mut Context<'_, Coldness>) -> Result<(), Failure> {
    let path = subject.directory()?.path().join("data");
    write_file(&path, spec.file_size.0)?;
    let mut shares = spec.cold_percent.clone();
    tier::shuffle(&mut shares, context.seed, &format!("tier/coldness/order/{round}"));
    for (number, percent) in shares.into_iter().enumerate() {
        context.check_interrupt()?;
        if let Some(fs) = subject.tier().filter(|_| number == 0) {
            let evicted = ("evicted before reading", "%", Better::Neither, 100.0 * settle::share_left_cold(fs, &path)?);
            let of_subject = |one: Measurement| one.under("subject", subject.kind.name());
            tier::measurements(round, [evicted]).into_iter().map(of_subject).for_each(|one| context.measure(one));
        }
        let prepared = prepare(subject, &path, spec.threshold.0)?;
        let stream = context.seed.child(&format!("tier/coldness/{round}/{percent}"));
        let aims = choose(&prepared, percent, spec.reads, stream);
        let before = subject.tier().map(|fs| fs.stats());
        let (reads, lost) = watched(|| read_blocks(&prepared.path, subject.tier().map(Arc::as_ref), &aims));
        let reads = reads?;
        lost.map_or(Ok(()), Err)?;
        let (fetched, evicted) = match (subject.tier(), before) {
            (Some(fs), Some(before)) => {
                let after = fs.stats();
                (after.fetched - before.fetched, after.evicted - before.evicted)
            }
            _ => (first_uses(&aims), 0),
        };
        let point = Point {
            subject: subject.kind.name().into(),
            round,
            cold_percent: percent,
            fetched_percent: 100.0 * fetched as f64 / aims.len() as f64,
            missed_percent: reads.missed_percent,
            evicted,
            mean_us: reads.latencies.mean() / 1e3,
            p50_us: reads.latencies.value_at_quantile(0.5) as f64 / 1e3,
            p99_us: reads.latencies.value_at_quantile(0.99) as f64 / 1e3,
        };
        point.measurements(spec.reads).into_iter().for_each(|one| context.measure(one));
        context.record(Event::Point(point));
    }
    Ok(())
}

fn write_file(path: &Path, size: Bytes) -> Result<(), Failure> {
    let mut file = File::create(path).map_err(failed("create", path))?;
    let piece = vec![0x5a; 1 << 20];
    let mut left = size.0 / BLOCK * BLOCK;
    while left > 0 {
        let len = left.min(piece.len() as u64);
        file.write_all(&piece[..len as usize]).map_err(failed("write", path))?;
        left -= len;
    }
    file.sync_all().map_err(failed("sync", path))
}

/// Brings a part of the file into memory and returns the location of each block. On a tier file system the evictor has decided;
/// on ext4 the first blocks are read into an empty page cache.
fn prepare(subject: &Subject, path: &Path, threshold: Bytes) -> Result<PreparedFile, Failure> {
    let file = File::open(path).map_err(failed("open", path))?;
    let metadata = file.metadata().map_err(failed("stat", path))?;
    let blocks = metadata.len() / BLOCK;
    let (cold, resident): (Vec<u64>, Vec<u64>) = match subject.tier() {
        Some(fs) => {
            let map = settle(fs, path, threshold)?;
            (0..blocks).partition(|block| map[*block as usize])
        }
        None => {
            fadvise(&file, 0, None, Advice::DontNeed).map_err(|error| failed("advise", path)(error.into()))?;
            let mut piece = vec![0; 1 << 20];
            for start in (0..threshold.0).step_by(piece.len()) {
                file.read_at(&mut piece, start).map_err(failed("read", path))?;
            }
            (0..blocks).partition(|block| *block >= threshold.0 / BLOCK)
        }
    };
    Ok(PreparedFile { path: path.into(), resident, cold })
}
