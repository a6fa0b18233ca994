//! Latency of reads of which a chosen share is cold.

mod figure;

use crate::tier::subject::{Kind, Subject};
use crate::tier::{self, COLD_LATENCY, PERIOD, THREADS};
use hdrhistogram::Histogram;
use rand::Rng;
use rustix::fs::{Advice, OFlags, fadvise};
use senesce_core::{
    Analysis, Bytes, ExitCode, Experiment, Failure, Finding, Parameter, ParameterKind, Plan, Record, RunContext,
    RunKind, Seed, Settings, Table, Verdict,
};
use senesce_stats::describe::mean;
use senesce_tierfs::TierFs;
use senesce_tierfs::cold::AlignedBuffer;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The experiment.
pub struct Coldness;

const BLOCK: u64 = 4096;
const SUBJECTS: &[&str] = &["anticache", "ext4-disk"];
const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "subjects",
        help: "file systems to compare",
        kind: ParameterKind::Choices(SUBJECTS),
        defaults: ["anticache,ext4-disk"; 3],
    },
    Parameter {
        name: "memory",
        help: "size of the memory region, and of ext4's disk",
        kind: ParameterKind::Size,
        defaults: ["64M", "512M", "2G"],
    },
    Parameter {
        name: "threshold",
        help: "bytes of the file that stay in memory",
        kind: ParameterKind::Size,
        defaults: ["12M", "100M", "400M"],
    },
    Parameter {
        name: "file-size",
        help: "size of the file",
        kind: ParameterKind::Size,
        defaults: ["30M", "250M", "1000M"],
    },
    Parameter {
        name: "cold-percent",
        help: "percent of the reads that go to blocks which were cold at the start, separated by commas",
        kind: ParameterKind::Text,
        defaults: ["0,50,100", "0,10,20,30,40,50,60,70,80,90,100", "0,10,20,30,40,50,60,70,80,90,100"],
    },
    Parameter {
        name: "reads",
        help: "reads of one block per share, file system and round",
        kind: ParameterKind::Integer { min: 10, max: 10_000_000 },
        defaults: ["200", "4000", "50000"],
    },
    Parameter { name: "rounds", help: tier::ROUNDS.help, kind: tier::ROUNDS.kind, defaults: ["1", "3", "5"] },
    COLD_LATENCY,
    PERIOD,
    THREADS,
];

/// Reads with one share on one file system.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Point {
    subject: String,
    round: u64,
    cold_percent: f64,
    /// What the reads fetched, in percent of them; the hot set erodes as fetched blocks displace others.
    fetched_percent: f64,
    evicted: u64,
    mean_us: f64,
    p50_us: f64,
    p99_us: f64,
}

fn shares(settings: &Settings) -> Result<Vec<f64>, Failure> {
    let words = settings.list("cold-percent");
    let parsed: Option<Vec<f64>> = words.iter().map(|word| word.parse().ok()).collect();
    parsed.filter(|shares| shares.iter().all(|share| (0.0..=100.0).contains(share)) && !shares.is_empty()).ok_or_else(
        || Failure::usage(format!("--cold-percent {}: expected numbers of 0 to 100", settings.text("cold-percent"))),
    )
}

/// The file under test and which of its blocks are in memory at the start of a measurement.
struct Prepared {
    path: PathBuf,
    resident: Vec<u64>,
    cold: Vec<u64>,
}

impl RunKind for Coldness {
    fn kind(&self) -> &'static str {
        "coldness"
    }

    fn analyse(&self, record: &Record) -> Result<Analysis, Failure> {
        let mut points: Vec<Point> = record.events_of("point").collect();
        points.sort_by(|a, b| {
            let share = a.cold_percent.total_cmp(&b.cold_percent);
            a.subject.cmp(&b.subject).then(share).then(a.round.cmp(&b.round))
        });
        let latency = record.events_of::<String>("latency").last().unwrap_or("none".into());
        let mut table = Table::new(
            "coldness",
            "Reads by the share that was cold at the start",
            &[
                "file system",
                "asked cold (%)",
                "round",
                "fetched (%)",
                "evicted (blocks)",
                "mean (us)",
                "median (us)",
                "p99 (us)",
            ],
        );
        for point in &points {
            table.row(vec![
                json!(point.subject),
                json!(point.cold_percent),
                json!(point.round + 1),
                json!(point.fetched_percent),
                json!(point.evicted),
                json!(point.mean_us),
                json!(point.p50_us),
                json!(point.p99_us),
            ]);
        }
        let (hot, cold) = (mean_of(&points, "anticache", 0.0), mean_of(&points, "anticache", 100.0));
        let grows = hot.zip(cold).is_some_and(|(hot, cold)| cold > hot);
        let word = |value: Option<f64>| value.map_or("not measured".into(), |value| format!("{value:.1} us"));
        Ok(Analysis {
            title: "What cold data cost".into(),
            summary: "Reads of one 4 KiB block; mean over each share and round.".into(),
            figures: vec![figure::figure(&points, &latency, record.plan.seed)],
            tables: vec![table],
            findings: vec![Finding {
                claim: "latency grows with the share of reads from the cold store".into(),
                published: "a figure without readable values".into(),
                measured: format!("mean {} with nothing cold asked, {} with everything", word(hot), word(cold)),
                verdict: match (hot, cold) {
                    (Some(_), Some(_)) if grows => Verdict::Seen,
                    (Some(_), Some(_)) => Verdict::NotSeen,
                    _ => Verdict::Invalid,
                },
                note: "compare at the share that was fetched, not at the share that was asked for".into(),
            }],
            caveats: vec![format!("modelled: latency of the cold store and of ext4's disk: {latency}")],
            result: json!({"points": points, "cold_latency": latency}),
        })
    }
}

fn mean_of(points: &[Point], subject: &str, percent: f64) -> Option<f64> {
    let matching = points.iter().filter(|point| point.subject == subject && point.cold_percent == percent);
    mean(&matching.map(|point| point.mean_us).collect::<Vec<_>>())
}

impl Experiment for Coldness {
    fn title(&self) -> &'static str {
        "How much slower do reads become as more of them are cold?"
    }

    fn parameters(&self) -> &'static [Parameter] {
        PARAMETERS
    }

    fn doc(&self) -> &'static str {
        include_str!("../../../docs/experiments/coldness.md")
    }

    fn published(&self) -> &'static str {
        include_str!("../../../data/published/coldness.csv")
    }

    fn plan(&self, settings: &Settings) -> Result<Plan, Failure> {
        let shares = shares(settings)?;
        let setup = tier::setup(settings)?;
        let (file, rounds) = (settings.size("file-size")?, settings.integer("rounds")?);
        if file.0 <= setup.threshold.0 || file.0 > setup.memory.0 * 9 / 10 {
            return Err(Failure::usage("--file-size must lie between --threshold and nine tenths of --memory"));
        }
        let mut plan = Plan::new(self.kind(), settings.seed(), settings.to_map());
        let kinds = Kind::list(&settings.list("subjects"));
        for kind in &kinds {
            plan.step(format!("write {file}, read it with {} shares of cold blocks", shares.len()), kind.name());
        }
        plan.bytes_to_write = rounds * kinds.len() as u64 * file.0;
        let disk = setup.latency.map_or(0.0, |latency| latency.read.as_secs_f64());
        let reads = (settings.integer("reads")? * rounds) as f64 * shares.len() as f64 * kinds.len() as f64;
        plan.estimated_seconds = reads * (60e-6 + disk / 2.0) + plan.bytes_to_write as f64 / 200e6;
        Ok(plan)
    }

    fn run(&self, settings: &Settings, context: &mut RunContext<'_>) -> Result<(), Failure> {
        let (setup, kinds) = (tier::setup(settings)?, Kind::list(&settings.list("subjects")));
        if let Some(latency) = &setup.latency {
            context.progress.say(&format!("cold store and disk of ext4: {latency}"));
            context.directory.append("latency", &latency.to_string())?;
        }
        let done = tier::done(context, "round");
        tier::rounds(&kinds, settings.integer("rounds")?, settings.seed(), &done, context, |context, round, kind| {
            let points = tier::with_subject(kind, &setup, |subject| measure(subject, settings, round, context))?;
            for point in points {
                context.directory.append("point", &point)?;
            }
            tier::mark_done(context, "round", round, kind)
        })
    }
}

fn measure(
    subject: &Subject,
    settings: &Settings,
    round: u64,
    context: &RunContext<'_>,
) -> Result<Vec<Point>, Failure> {
    let path = subject.directory()?.path().join("data");
    write_file(&path, settings.size("file-size")?)?;
    let threshold = settings.size("threshold")?;
    let mut shares = shares(settings)?;
    tier::shuffle(&mut shares, settings.seed(), &format!("tier/coldness/order/{round}"));
    let mut points = Vec::new();
    for percent in shares {
        context.check_interrupt()?;
        let prepared = prepare(subject, &path, threshold)?;
        let stream = settings.seed().child(&format!("tier/coldness/{round}/{percent}"));
        let blocks = choose(&prepared, percent, settings.integer("reads")?, stream);
        let before = subject.tier().map(|fs| fs.stats());
        let latencies = read_blocks(&prepared.path, subject.tier().is_some(), &blocks)?;
        let (fetched, evicted) = match (subject.tier(), before) {
            (Some(fs), Some(before)) => {
                let after = fs.stats();
                (after.fetched - before.fetched, after.evicted - before.evicted)
            }
            _ => (first_uses(&blocks, &prepared.cold), 0),
        };
        points.push(Point {
            subject: subject.kind.name().into(),
            round,
            cold_percent: percent,
            fetched_percent: 100.0 * fetched as f64 / blocks.len() as f64,
            evicted,
            mean_us: latencies.mean() / 1e3,
            p50_us: latencies.value_at_quantile(0.5) as f64 / 1e3,
            p99_us: latencies.value_at_quantile(0.99) as f64 / 1e3,
        });
    }
    Ok(points)
}

fn io(operation: &str, path: &Path) -> impl FnOnce(std::io::Error) -> Failure {
    let text = format!("{operation} {}", path.display());
    move |error| Failure::new(ExitCode::RunFailed, format!("{text}: {}", senesce_core::failure::errno_words(&error)))
}

fn write_file(path: &Path, size: Bytes) -> Result<(), Failure> {
    let mut file = File::create(path).map_err(io("create", path))?;
    let piece = vec![0x5a; 1 << 20];
    let mut left = size.0 / BLOCK * BLOCK;
    while left > 0 {
        let len = left.min(piece.len() as u64);
        file.write_all(&piece[..len as usize]).map_err(io("write", path))?;
        left -= len;
    }
    file.sync_all().map_err(io("sync", path))
}

/// Brings a part of the file into memory and says which blocks are where. On a tier file system the evictor has decided;
/// on ext4 the first blocks are read into an empty page cache.
fn prepare(subject: &Subject, path: &Path, threshold: Bytes) -> Result<Prepared, Failure> {
    let file = File::open(path).map_err(io("open", path))?;
    let metadata = file.metadata().map_err(io("stat", path))?;
    let blocks = metadata.len() / BLOCK;
    let (cold, resident): (Vec<u64>, Vec<u64>) = match subject.tier() {
        Some(fs) => {
            settle(fs);
            let map = fs.cold_blocks_of(metadata.ino() as u32).map_err(|error| io("look at", path)(error.into()))?;
            (0..blocks).partition(|block| map[*block as usize])
        }
        None => {
            fadvise(&file, 0, None, Advice::DontNeed).map_err(|error| io("advise", path)(error.into()))?;
            let mut piece = vec![0; 1 << 20];
            for start in (0..threshold.0).step_by(piece.len()) {
                file.read_at(&mut piece, start).map_err(io("read", path))?;
            }
            (0..blocks).partition(|block| *block >= threshold.0 / BLOCK)
        }
    };
    Ok(Prepared { path: path.into(), resident, cold })
}

/// Waits until the evictor has nothing left to do.
fn settle(fs: &TierFs) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while fs.stats().resident_blocks > fs.stats().threshold_blocks && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The blocks to read: each from the cold ones with the given probability, else from those in memory.
fn choose(prepared: &Prepared, percent: f64, reads: u64, seed: Seed) -> Vec<u64> {
    let mut rng = seed.stream("tier/coldness");
    let mut below = |limit: u64| ((u128::from(rng.next_u64()) * u128::from(limit)) >> 64) as u64;
    (0..reads)
        .map(|_| {
            let cold = below(1_000_000) < (percent * 10_000.0) as u64;
            let list = match (cold, prepared.cold.is_empty(), prepared.resident.is_empty()) {
                (true, false, _) | (false, false, true) => &prepared.cold,
                _ => &prepared.resident,
            };
            list[below(list.len() as u64) as usize]
        })
        .collect()
}

/// On ext4 a block is fetched at its first use, and stays.
fn first_uses(blocks: &[u64], cold: &[u64]) -> u64 {
    let cold: std::collections::HashSet<u64> = cold.iter().copied().collect();
    let used: std::collections::HashSet<u64> = blocks.iter().copied().filter(|block| cold.contains(block)).collect();
    used.len() as u64
}

/// Times every read. A tier file system is read past the kernel's page cache, which would hide its tiers.
fn read_blocks(path: &Path, direct: bool, blocks: &[u64]) -> Result<Histogram<u64>, Failure> {
    let mut options = OpenOptions::new();
    options.read(true);
    if direct {
        options.custom_flags(OFlags::DIRECT.bits() as i32);
    }
    let file = options.open(path).map_err(io("open", path))?;
    if !direct {
        fadvise(&file, 0, None, Advice::Random).map_err(|error| io("advise", path)(error.into()))?;
    }
    let mut buffer = AlignedBuffer::new(1);
    let new = Histogram::new_with_bounds(1, 60_000_000_000, 3);
    let mut latencies = new.map_err(|error| Failure::new(ExitCode::RunFailed, error.to_string()))?;
    for block in blocks {
        let start = Instant::now();
        file.read_exact_at(&mut buffer, block * BLOCK).map_err(io("read", path))?;
        latencies.saturating_record(start.elapsed().as_nanos() as u64);
    }
    Ok(latencies)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_cold_blocks_is_as_asked() {
        let prepared = Prepared { path: "x".into(), resident: (0..100).collect(), cold: (100..300).collect() };
        let cold = |percent| {
            let blocks = choose(&prepared, percent, 10_000, Seed(1));
            blocks.iter().filter(|block| **block >= 100).count()
        };
        assert_eq!((cold(0.0), cold(100.0)), (0, 10_000));
        assert!((2700..3300).contains(&cold(30.0)));
        assert_eq!(first_uses(&[1, 100, 100, 101], &prepared.cold), 2);
    }
}
