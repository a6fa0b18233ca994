//! Runs db_bench's benchmarks on a setup in the published order, and records the bytes written to the drives.

use super::output::{self, Percentiles};
use super::setup::Database;
use super::{Event, Recorded, Spec, ZnsRocksdb};
use crate::on_model::{HostSpeed, MachineRole, Recording, now_ns};
use senesce_core::failure::failed;
use senesce_core::{ExitCode, Failure, Seed};
use senesce_runner::Context;
use senesce_volume::guest::Guest;
use senesce_volume::{CommandGroup, ScratchDirectory};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// In the published order. The last one limits the rate of its writer.
pub(crate) const BENCHMARKS: [&str; 5] =
    ["fillrandom", "overwrite", "readrandom", "readwhilewriting", "readwhilewriting-limited"];

/// Sizes of the study.
pub(crate) const KEY_BYTES: u64 = 20;
pub(crate) const VALUE_BYTES: u64 = 800;

/// One benchmark on one setup.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct BenchmarkRun {
    /// The setup with the database.
    pub setup: String,
    /// One of [`BENCHMARKS`].
    pub benchmark: String,
    /// Repetition, from 0.
    #[serde(default)]
    pub repeat: u32,
    /// Operations per second; of the readers if there are readers.
    pub ops_per_second: f64,
    /// Duration.
    pub seconds: f64,
    /// Completed operations.
    pub operations: u64,
    /// Latency of reads.
    pub reads: Option<Percentiles>,
    /// Latency of writes.
    pub writes: Option<Percentiles>,
    /// Keys and values written by the user, in bytes.
    pub user_bytes: u64,
    /// Bytes written by RocksDB to its files: log, flushes and compactions.
    pub database_bytes: Option<u64>,
    /// Bytes written to the drives.
    pub drive_bytes: u64,
    /// Bytes of space in use afterwards.
    pub used_bytes: Option<u64>,
}

pub(crate) fn chosen(spec: &Spec) -> Vec<&'static str> {
    BENCHMARKS.into_iter().filter(|benchmark| spec.benchmarks.iter().any(|name| name == benchmark)).collect()
}

/// Makes a setup and runs every selected benchmark on it.
///
/// # Errors
/// The setup cannot be made, a benchmark fails, or the user interrupts the run.
pub(crate) fn run_setup(
    (setup, repeat): (&str, u32),
    spec: &Spec,
    ours: &mut Vec<PathBuf>,
    context: &mut Context<'_, ZnsRocksdb>,
) -> Result<(), Failure> {
    let place = Database::make(setup, spec, ours)?;
    let outcome = chosen(spec).into_iter().try_for_each(|name| {
        context.check_interrupt()?;
        context.progress.say(&format!("{setup}: {name}"));
        measure((setup, repeat), name, &place, spec, context)
    });
    place.close()?;
    outcome
}

fn measure(
    (setup, repeat): (&str, u32),
    name: &str,
    place: &Database,
    spec: &Spec,
    context: &mut Context<'_, ZnsRocksdb>,
) -> Result<(), Failure> {
    place.drop_caches()?;
    // Only drives of the guest need a recording: the times of real drives are valid.
    let recording = Guest::here().map(|_| Recording::start(&place.roles())).transpose()?;
    let before = place.bytes_written()?;
    let folder = context.path().join("db_bench");
    fs::create_dir_all(&folder).map_err(failed("make folder", &folder))?;
    let report = folder.join(match repeat {
        0 => format!("{setup}-{name}.txt"),
        repeat => format!("{setup}-{name}-{repeat}.txt"),
    });
    let seed = if repeat == 0 { context.seed } else { context.seed.child(&format!("repetition/{repeat}")) };
    let mut words = arguments(name, setup.ends_with("-zns"), spec, seed);
    words.extend(place.arguments());
    let benchmark = name.trim_end_matches("-limited");
    let Output { text, told_ns } = run_program(&spec.db_bench, &words, benchmark, &report, context)?;
    let used_bytes = place.bytes_used()?;
    let throughput = output::throughput(&text, benchmark).ok_or_else(|| unreadable(&text, &report))?;
    // Excludes opening the database before the benchmark and the statistics after it.
    let measured = (told_ns.saturating_sub((throughput.seconds * 1e9) as u64), told_ns);
    let file = format!("{setup}-{name}-{repeat}");
    let traced = recording.map(|recording| recording.stop(context, &file, measured)).transpose()?;
    let drive_bytes = place.bytes_written()? - before;
    let writes = output::percentiles(&text, "rocksdb.db.write.micros");
    let written =
        ["wal", "flush.write", "compact.write"].map(|name| output::ticker(&text, &format!("rocksdb.{name}.bytes")));
    let measured = BenchmarkRun {
        setup: setup.into(),
        benchmark: name.into(),
        repeat,
        ops_per_second: throughput.ops_per_second,
        seconds: throughput.seconds,
        operations: throughput.operations,
        reads: output::percentiles(&text, "rocksdb.db.get.micros"),
        user_bytes: writes.map_or(0, |writes| writes.count) * (KEY_BYTES + VALUE_BYTES),
        writes,
        database_bytes: written.into_iter().sum(),
        drive_bytes,
        used_bytes,
    };
    let (setup, benchmark) = (measured.setup.clone(), measured.benchmark.clone());
    context.record(Event::Measured(measured));
    if let Some(traced) = traced {
        context.record(Event::Recorded(Recorded { setup, benchmark, repeat, traced }));
    }
    Ok(())
}

pub(crate) fn speeds(
    place: MachineRole,
    spec: &Spec,
    context: &Context<'_, ZnsRocksdb>,
) -> Result<Vec<HostSpeed>, Failure> {
    let folder = ScratchDirectory::in_memory("host-speed")?;
    let report = folder.path().join("report.txt");
    let small = Spec { keys: spec.keys.min(SMALL_KEYS), readers: 1, ..spec.clone() };
    let mut words = arguments("fillrandom", false, &small, context.seed);
    words[0] = "--benchmarks=fillrandom,readrandom".into();
    words.push(format!("--db={}", folder.path().join("db").display()));
    words.retain(|word| !word.contains("direct_io"));
    let Output { text, .. } = run_program(&spec.db_bench, &words, READING, &report, context)?;
    let speed = |work: &str| {
        let found = output::throughput(&text, work).ok_or_else(|| unreadable(&text, &report))?;
        Ok(HostSpeed { place, work: work.into(), per_second: found.ops_per_second })
    };
    [WRITING, READING].iter().map(|work| speed(work)).collect()
}

const SMALL_KEYS: u64 = 50_000;
const WRITING: &str = "fillrandom";
const READING: &str = "readrandom";

pub(crate) fn work_of(benchmark: &str) -> &'static str {
    if benchmark.starts_with("read") { READING } else { WRITING }
}

/// Returns the study's options. Sizes and durations are parameters because they must shrink with the drive.
fn arguments(name: &str, zoned: bool, spec: &Spec, seed: Seed) -> Vec<String> {
    let buffer = spec.write_buffer.bytes();
    let file = if zoned { spec.zoned_file_size } else { spec.file_size }.bytes();
    let mut words = vec![
        format!("--benchmarks={},stats", name.trim_end_matches("-limited")),
        format!("--num={}", spec.keys),
        format!("--seed={}", seed_of(seed)),
        format!("--key_size={KEY_BYTES}"),
        format!("--value_size={VALUE_BYTES}"),
        format!("--target_file_size_base={file}"),
        format!("--write_buffer_size={buffer}"),
        format!("--max_bytes_for_level_base={}", 2 * buffer),
        "--max_bytes_for_level_multiplier=4".into(),
        "--max_background_jobs=8".into(),
        "--use_direct_io_for_flush_and_compaction".into(),
        "--statistics".into(),
    ];
    if name != "fillrandom" {
        words.push("--use_existing_db".into());
    }
    if name.starts_with("read") {
        words.push("--histogram".into());
        words.push(format!("--threads={}", spec.readers));
        words.push(format!("--duration={}", spec.read_time.0.as_secs().max(1)));
    }
    if name.ends_with("-limited") {
        words.push(format!("--benchmark_write_rate_limit={}", spec.write_limit.bytes()));
    }
    words
}

/// Converts a seed for db_bench, which takes a signed number; 0 means the current time.
fn seed_of(seed: Seed) -> u64 {
    (seed.0 & i64::MAX as u64).max(1)
}

/// The output of db_bench, and when it printed the result of a benchmark ([`now_ns`]); 0 if it did not.
#[derive(Debug, Default)]
struct Output {
    text: String,
    told_ns: u64,
}

impl Output {
    /// Reads until the program has closed its streams.
    fn read(from: impl Read, benchmark: &str) -> io::Result<Self> {
        let mut output = Self::default();
        let (mut from, mut line) = (BufReader::new(from), Vec::new());
        while from.read_until(b'\n', &mut line)? > 0 {
            let text = String::from_utf8_lossy(&line);
            if output.told_ns == 0 && output::throughput(&text, benchmark).is_some() {
                output.told_ns = now_ns();
            }
            output.text.push_str(&text);
            line.clear();
        }
        Ok(output)
    }
}

/// Runs db_bench and saves its output to a file, which is replaced.
fn run_program(
    program: &str,
    words: &[String],
    benchmark: &str,
    report: &Path,
    context: &Context<'_, ZnsRocksdb>,
) -> Result<Output, Failure> {
    let (reader, writer) = io::pipe().map_err(failed("make a pipe for", Path::new(program)))?;
    let errors = writer.try_clone().map_err(failed("make a pipe for", Path::new(program)))?;
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null()).stdout(writer).stderr(errors);
    // The program would otherwise continue to write when this process is killed.
    let group = CommandGroup::marked()?;
    let mut child = group.start(&mut command).map_err(|error| missing(program, &error))?;
    // Closes this process's copies of the write end of the pipe.
    drop(command);
    let (output, ended) = std::thread::scope(|scope| {
        let reading = scope.spawn(|| Output::read(reader, benchmark));
        let ended = wait_for(&mut child, program, context);
        (reading.join(), ended)
    });
    let output = output.unwrap_or_else(|_| Err(io::ErrorKind::Other.into()));
    let output = output.map_err(failed("read the output of", Path::new(program)))?;
    fs::write(report, &output.text).map_err(failed("write", report))?;
    match ended? {
        status if status.success() => Ok(output),
        status => {
            let message = format!("{program} ended with {status}: {}", last_line(&output.text));
            Err(Failure::new(ExitCode::RunFailed, message))
        }
    }
}

/// Waits for the program's end; stops it when the user interrupts.
fn wait_for(child: &mut Child, program: &str, context: &Context<'_, ZnsRocksdb>) -> Result<ExitStatus, Failure> {
    loop {
        if let Some(status) = child.try_wait().map_err(failed("wait for", Path::new(program)))? {
            return Ok(status);
        }
        std::thread::sleep(Duration::from_millis(20));
        if let Err(failure) = context.check_interrupt() {
            let _ = child.kill();
            let _ = child.wait();
            return Err(failure);
        }
    }
}

/// Finds the path of the program.
///
/// # Errors
/// The program was not found; the message names its package.
pub(crate) fn find_program(name: &str) -> Result<PathBuf, Failure> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&folders).map(|folder| folder.join(name));
    std::iter::once(PathBuf::from(name))
        .filter(|path| path.components().count() > 1)
        .chain(places)
        .find(|path| path.is_file())
        .ok_or_else(|| missing(name, &std::io::ErrorKind::NotFound.into()))
}

fn missing(program: &str, error: &std::io::Error) -> Failure {
    let remedy = "apt-get install rocksdb-tools, or name another with --db-bench PATH";
    Failure::new(ExitCode::Missing, format!("run {program}: {error}; {remedy}"))
}

fn unreadable(text: &str, report: &Path) -> Failure {
    let message = format!("{} contains no result; its last line: {}", report.display(), last_line(text));
    Failure::new(ExitCode::RunFailed, message)
}

fn last_line(text: &str) -> &str {
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("nothing")
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_core::Level;
    use senesce_runner::Experiment;

    #[test]
    fn paper_level_has_the_published_options() {
        let spec = ZnsRocksdb::defaults(Level::Paper);
        let words = arguments("readwhilewriting-limited", true, &spec, Seed(42)).join(" ");
        for word in [
            "--benchmarks=readwhilewriting,stats",
            "--num=1300000000",
            "--write_buffer_size=2147483648",
            "--max_bytes_for_level_base=4294967296",
            "--threads=32",
            "--duration=1800",
            "--benchmark_write_rate_limit=20971520",
            "--use_existing_db",
        ] {
            assert!(words.contains(word), "{word} in {words}");
        }
        let fill = arguments("fillrandom", false, &spec, Seed(42)).join(" ");
        assert!(fill.contains("--target_file_size_base=134217728") && !fill.contains("--use_existing_db"), "{fill}");
    }

    #[test]
    fn every_seed_is_valid_for_db_bench() {
        let seeds =
            [0, 1, 42, i64::MAX as u64, 1 << 63, 15_094_097_559_966_215_333, u64::MAX].map(|seed| seed_of(Seed(seed)));
        assert!(seeds.iter().all(|seed| i64::try_from(*seed).is_ok_and(|seed| seed > 0)), "{seeds:?}");
        assert_eq!(seeds[2], 42);
    }

    #[test]
    fn time_of_the_result_is_recorded_once() {
        let line =
            |rate: u32| format!("overwrite : 9.6 micros/op {rate} ops/sec 1.0 seconds {rate} operations; 81.3 MB/s\n");
        let printed = format!("Set seed to 42\n... finished 100 ops\r{}Statistics:\n{}", line(100), line(200));
        let before = now_ns();
        let output = Output::read(printed.as_bytes(), "overwrite").unwrap();
        assert_eq!(output.text, printed);
        assert!((before..=now_ns()).contains(&output.told_ns));
        assert_eq!(output::throughput(&output.text, "overwrite").unwrap().operations, 100);
        assert_eq!(Output::read(printed.as_bytes(), "fillrandom").unwrap().told_ns, 0);
    }

    #[test]
    fn a_missing_db_bench_names_its_package() {
        let failure = find_program("no-such-db-bench").unwrap_err();
        assert_eq!(failure.exit_code(), ExitCode::Missing);
        assert!(failure.to_string().contains("rocksdb-tools"), "{failure}");
    }
}
