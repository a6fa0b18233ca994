//! `bench`: workloads, microbenchmarks and cold reads on any target, with a record of every repetition.

use crate::verbs::bench_plan::{ends_interrupted, measurements, of_repetition, repetitions_done};
pub use crate::verbs::bench_plan::{plan, subject_name};
use crate::verbs::trace::Summary;
use crate::verbs::{bench_analysis, bench_measurements};
use senesce_core::interrupt::Interrupt;
use senesce_core::{
    Analysis, Bytes, Environment, ExitCode, Failure, Measurement, Progress, Record, RunDirectory, RunKind, Seed,
};
use senesce_target::{ClaimedDirectory, Limits, MountedTarget, OpenOptions, Remounted, TargetSpec, TraceSession, open};
use senesce_workload::micro::{
    CallOptions, CallResult, ColdRead, FileOpsOptions, FileOpsResult, cold_read, file_ops, measure_calls,
};
use senesce_workload::{
    Bench as Prepared, BenchResult, Execution, FilesetSummary, Finished, Options, Repetition, Workload,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The kind of run that `senesce bench` leaves.
pub struct Bench;

impl RunKind for Bench {
    fn kind(&self) -> &'static str {
        "bench"
    }

    fn analyse(&self, record: &Record) -> Result<Analysis, Failure> {
        bench_analysis::analyse(record)
    }

    fn measurements(&self, record: &Record) -> Vec<Measurement> {
        bench_measurements::of(record)
    }
}

/// What is measured.
#[derive(Debug, Clone)]
pub enum Subject {
    /// A workload.
    Workload(Box<Workload>, Options),
    /// Single file operations.
    FileOps(FileOpsOptions),
    /// Appends or random writes by size.
    Calls(CallOptions),
    /// Reading everything that is there.
    ColdRead(ColdReadOptions),
}

/// How a cold read is done.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ColdReadOptions {
    /// Wait this long after the remount.
    pub settle: Duration,
    /// Read-ahead in KiB; `None`: as it is.
    pub read_ahead_kib: Option<u64>,
    /// Record the device's requests meanwhile.
    pub trace: bool,
}

/// A cold read with the requests that it caused, where they were recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasuredColdRead {
    /// What was read, and how long it took.
    #[serde(flatten)]
    pub read: ColdRead,
    /// Layout, load and modelled time of the requests; the trace itself is the file `trace-N.blocks` of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Summary>,
}

/// A benchmark on a target.
#[derive(Debug, Clone)]
pub struct Request {
    /// Where.
    pub target: TargetSpec,
    /// How the target is opened.
    pub open: OpenOptions,
    /// What.
    pub subject: Subject,
    /// How often.
    pub repetitions: u64,
    /// Caches stay as preparation leaves them.
    pub keep_caches: bool,
    /// Memory and processors.
    pub limits: Limits,
    /// Stop after the file sets are written.
    pub populate_only: bool,
    /// What the plan says beyond this: names and values as the user gave them.
    pub settings: BTreeMap<String, String>,
    /// Root seed.
    pub seed: Seed,
    /// The run directory.
    pub out: PathBuf,
    /// Who runs it together; `None`: one process.
    pub ranks: Option<Ranks>,
}

/// Ranks that run a workload at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ranks {
    /// How many.
    pub count: u32,
    /// One file set for all of them instead of one for each.
    pub shared: bool,
}

/// What came of it.
pub struct Outcome {
    /// The analysis of the record.
    pub analysis: Analysis,
    /// 0; 1 when a repetition does not count; 5 when I/O failed; 130 when interrupted.
    pub exit: ExitCode,
    /// All repetitions, for other formats than the analysis.
    pub repetitions: Vec<Repetition>,
}

/// Facts of a prepared repetition, in the record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PreparedFacts {
    /// File sets.
    pub filesets: Vec<FilesetSummary>,
    /// Seconds that writing them took.
    pub populate_seconds: f64,
}

/// Runs a request and records every repetition as it ends.
pub fn run(request: &Request, progress: &dyn Progress, interrupt: &Interrupt) -> Result<Outcome, Failure> {
    let plan = plan(request)?;
    let mut directory = RunDirectory::open(&request.out, &plan, &Environment::capture())?;
    if directory.is_finished() {
        return outcome(request);
    }
    let limits = request.limits.apply()?;
    let mut target = open(&request.target, &request.open)?;
    directory.add_environment(limits.environment())?;
    directory.add_environment(&target.environment())?;
    let mut run = Run { request, target: &mut target, directory: &mut directory, progress, interrupt };
    let done = run.all();
    let warnings = target.kernel_warnings();
    if !warnings.is_empty() {
        directory.append("kernel-warnings", &warnings)?;
    }
    let closed = target.close();
    if let Err(failure) = done {
        directory.append("failed", &json!({ "reason": failure.to_string() }))?;
        return Err(failure);
    }
    closed?;
    let outcome = outcome(request)?;
    if outcome.exit != ExitCode::Interrupted {
        directory.finish(&outcome.analysis.result)?;
    }
    Ok(outcome)
}

/// What the record of a request tells.
pub(crate) fn outcome(request: &Request) -> Result<Outcome, Failure> {
    let record = Record::open(&request.out)?;
    let repetitions: Vec<Repetition> = measurements_of(&record, "repetition");
    let exit = if ends_interrupted(&record.events) {
        ExitCode::Interrupted
    } else if repetitions.iter().all(|repetition| repetition.valid) {
        ExitCode::Done
    } else if repetitions.iter().any(|repetition| repetition.io_failed) {
        ExitCode::RunFailed
    } else {
        ExitCode::Negative
    };
    Ok(Outcome { analysis: crate::registry::analyse(&record)?, exit, repetitions })
}

struct Run<'a> {
    request: &'a Request,
    target: &'a mut MountedTarget<ClaimedDirectory>,
    directory: &'a mut RunDirectory,
    progress: &'a dyn Progress,
    interrupt: &'a Interrupt,
}

impl Run<'_> {
    fn all(&mut self) -> Result<(), Failure> {
        let event = match self.request.subject {
            Subject::Workload(..) => "repetition",
            _ => "measured",
        };
        for number in repetitions_done(self.directory, event)..self.request.repetitions {
            if self.interrupt.requested() {
                self.directory.append("interrupted", &json!({ "before_repetition": number + 1 }))?;
                return Ok(());
            }
            match &self.request.subject {
                Subject::Workload(workload, options) => {
                    if !self.workload(workload, of_repetition(*options, number), number)? {
                        return Ok(());
                    }
                }
                Subject::FileOps(options) => {
                    let result = file_ops(self.target.directory(), options, self.progress, self.interrupt)?;
                    self.directory.append("measured", &result)?;
                }
                Subject::Calls(options) => {
                    self.chill(true)?;
                    let result = measure_calls(self.target.directory(), options, self.progress, self.interrupt)?;
                    self.directory.append("measured", &result)?;
                }
                Subject::ColdRead(options) => self.cold_read(*options, number)?,
            }
        }
        Ok(())
    }

    /// One repetition; `false` ends the run.
    fn workload(&mut self, workload: &Workload, options: Options, number: u64) -> Result<bool, Failure> {
        let prepared = Prepared::prepare(workload, self.target.directory(), options, self.progress, self.interrupt)?;
        let facts = PreparedFacts { filesets: prepared.filesets(), populate_seconds: prepared.populate_seconds };
        self.directory.append("prepared", &facts)?;
        if self.request.populate_only {
            self.target.sync()?;
            return Ok(false);
        }
        if options.execution == Execution::System {
            self.chill(workload.filesets.iter().all(|fileset| !fileset.cached))?;
        }
        let Finished { repetition, histograms } =
            prepared.run(self.target.directory(), self.progress, self.interrupt)?;
        for (name, histogram) in &histograms {
            let file = format!("{}-{}", number + 1, name.replace('/', "_"));
            self.directory.write_histogram(&file, histogram)?;
        }
        self.directory.append("repetition", &repetition)?;
        Ok(!repetition.interrupted)
    }

    /// Makes the caches cold, or says why they are not.
    fn chill(&mut self, wanted: bool) -> Result<(), Failure> {
        if self.request.keep_caches {
            return self.note("caches were kept as the preparation left them (--keep-caches)");
        }
        if !wanted {
            return self.note("a file set asks for cached files: caches were not dropped");
        }
        if !rustix::process::geteuid().is_root() {
            self.target.sync()?;
            return self.note("measured without dropping the caches before: that needs root");
        }
        match self.target.remount()? {
            Remounted::Yes => Ok(()),
            Remounted::CachesDropped => {
                self.note("the target is a directory: caches were dropped, the file system was not remounted")
            }
        }
    }

    fn note(&mut self, text: &str) -> Result<(), Failure> {
        Ok(self.directory.append("note", &json!({ "text": text }))?)
    }

    fn cold_read(&mut self, options: ColdReadOptions, number: u64) -> Result<(), Failure> {
        self.chill(true)?;
        if let Some(kib) = options.read_ahead_kib {
            let files = self.target.set_read_ahead(kib)?;
            let files: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
            self.note(&format!("read-ahead was {kib} KiB ({})", files.join(", ")))?;
        }
        self.settle(options.settle)?;
        let session = if options.trace { Some(self.trace()?) } else { None };
        let before = bytes_from_devices();
        let read = cold_read(self.target.mount_point(), self.progress, self.interrupt)?;
        if let (Some(before), Some(after), false) = (before, bytes_from_devices(), self.request.keep_caches) {
            self.note_unread(read.bytes_read, after.saturating_sub(before))?;
        }
        let trace = session.map(TraceSession::stop).transpose()?;
        if let Some(trace) = &trace {
            trace.save(&self.request.out.join(format!("trace-{}.blocks", number + 1)))?;
        }
        if read.interrupted {
            self.directory.append("interrupted", &json!({ "bytes_read": read.bytes_read }))?;
        }
        let trace = trace.as_ref().map(Summary::of).transpose()?;
        Ok(self.directory.append("measured", &MeasuredColdRead { read, trace })?)
    }

    /// Says so when most of what was read lies on no device: such a time measures nothing. Other file systems (in memory,
    /// of the network, in a program) have no device to read from.
    fn note_unread(&mut self, read: u64, from_devices: u64) -> Result<(), Failure> {
        if from_devices >= read / 2 || self.target.block_device_info().is_none() {
            return Ok(());
        }
        self.note(&format!(
            "{} were read but only {} of them came from a block device: files that were preallocated and never written, or \
             holes, read as zeroes without the device; age with --data write an image that is to be read cold",
            Bytes(read),
            Bytes(from_devices)
        ))
    }

    /// Waits until the file system's own work after the mount is done, or the user has enough.
    fn settle(&self, time: Duration) -> Result<(), Failure> {
        let end = Instant::now() + time;
        self.progress.phase("settling", time.as_secs(), "seconds");
        while Instant::now() < end && !self.interrupt.requested() {
            std::thread::sleep((end - Instant::now()).min(Duration::from_millis(100)));
        }
        Ok(())
    }

    fn trace(&self) -> Result<TraceSession, Failure> {
        let device = self.target.block_device_info().ok_or_else(|| {
            let message = format!("{} lies on no block device: trace an image or a device", self.request.target);
            Failure::new(ExitCode::Missing, message)
        })?;
        Ok(TraceSession::start(&device)?)
    }
}

/// Bytes that this process made block devices read (proc(5), `read_bytes` of /proc/PID/io); `None`: not counted here.
fn bytes_from_devices() -> Option<u64> {
    let counters = std::fs::read_to_string("/proc/self/io").ok()?;
    counters.lines().find_map(|line| line.strip_prefix("read_bytes: ")?.parse().ok())
}

/// The result of a workload as `--json` prints it, from the record.
pub fn workload_result(record: &Record) -> BenchResult {
    let prepared: Option<PreparedFacts> = record.events_of("prepared").last();
    let mut notes: Vec<String> = Vec::new();
    for event in record.events.iter().filter(|event| event.kind == "note") {
        let text = event.data["text"].as_str().unwrap_or_default().to_string();
        if !notes.contains(&text) {
            notes.push(text);
        }
    }
    BenchResult {
        workload: record.plan.settings.get("workload").cloned().unwrap_or_default(),
        repetitions: measurements_of(record, "repetition"),
        filesets: prepared.map(|facts| facts.filesets).unwrap_or_default(),
        notes,
    }
}

/// The results of the other subjects, from the record.
pub fn measured<T: serde::de::DeserializeOwned>(record: &Record) -> Vec<T> {
    measurements_of(record, "measured")
}

fn measurements_of<T: serde::de::DeserializeOwned>(record: &Record, kind: &str) -> Vec<T> {
    measurements(&record.events, kind).into_iter().filter_map(|event| T::deserialize(&event.data).ok()).collect()
}

/// Result of the microbenchmarks as JSON.
pub fn measured_value(record: &Record) -> Value {
    let file_ops: Vec<FileOpsResult> = measured(record);
    let calls: Vec<CallResult> = measured(record);
    let cold: Vec<MeasuredColdRead> = measured(record);
    let subject = record.plan.settings.get("workload").cloned().unwrap_or_default();
    match (file_ops.is_empty(), calls.is_empty()) {
        (false, _) => json!({ "benchmark": subject, "repetitions": file_ops }),
        (_, false) => json!({ "benchmark": subject, "repetitions": calls }),
        _ => json!({ "benchmark": subject, "repetitions": cold.iter().map(cold_value).collect::<Vec<_>>() }),
    }
}

fn cold_value(measured: &MeasuredColdRead) -> Value {
    let mut value = json!(measured.read);
    if let Some(trace) = &measured.trace {
        value["trace"] = trace.to_json();
    }
    value
}
