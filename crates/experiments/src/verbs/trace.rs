//! `senesce trace`: the requests that a command caused on one device, their layout score and their modelled time.

use senesce_core::analysis::{Axis, Better, Figure, FigureKind, Mark, Series, Table};
use senesce_core::{
    Analysis, Environment, ExitCode, Failure, Plan, Record, RunDirectory, RunKind, Seed, failure::errno_words,
};
use senesce_devmodel::request::set_queue_depths;
use senesce_devmodel::{self as devmodel, DeviceModel, Modelled};
use senesce_target::trace::Measures;
use senesce_target::{
    BlockTrace, MountedTarget, OpenOptions, Operation, TargetSpec, TraceSession, VisitedDirectory, visit,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Name of the trace inside a run directory.
pub const TRACE_FILE: &str = "trace.blocks";

/// The variable that tells a command where its target is mounted.
pub const MOUNT_VARIABLE: &str = "SENESCE_MNT";

/// A command to be run on a target.
#[derive(Debug, Clone)]
pub struct CommandLine {
    /// Program and arguments; `{}` in any of them stands for the mount point.
    pub words: Vec<String>,
    /// Send its standard output to standard error, because ours carries something else.
    pub output_to_stderr: bool,
}

/// What is traced.
#[derive(Debug, Clone)]
pub struct TraceRequest {
    /// The target, mounted as it is.
    pub target: TargetSpec,
    /// Options of the mount.
    pub mount_options: String,
    /// Mount without writing.
    pub read_only: bool,
    /// Keep the caches instead of dropping them before the command.
    pub warm: bool,
    /// The command.
    pub command: CommandLine,
}

/// What came of it.
#[derive(Debug)]
pub struct Traced {
    /// The requests.
    pub trace: BlockTrace,
    /// Layout, load and modelled time.
    pub summary: Summary,
    /// Major and minor number of the traced device.
    pub device_number: (u32, u32),
    /// The command's exit status (128 + the signal that ended it).
    pub exit_status: u8,
    /// The target and the machine.
    pub environment: Environment,
}

/// Measures and modelled times; the event `trace` of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The traced device.
    pub device: String,
    /// What the trace says by itself.
    pub measures: Measures,
    /// On the reference disk drive.
    pub hdd: Modelled,
    /// On the reference solid-state drive (no flash translation layer).
    pub ssd: Modelled,
}

impl Summary {
    /// Computes everything from a trace.
    pub fn of(trace: &BlockTrace) -> Result<Self, Failure> {
        let requests = for_models(trace);
        let hdd = DeviceModel::reference_hdd()?.time(&requests);
        let ssd = DeviceModel::reference_ssd()?.time(&requests);
        Ok(Self { device: trace.device().into(), measures: Measures::of(trace), hdd, ssd })
    }

    /// The JSON of `senesce trace`.
    pub fn to_json(&self) -> Value {
        let (measures, layout) = (&self.measures, &self.measures.layout);
        json!({
            "device": self.device,
            "valid": measures.lost_events == 0,
            "dynamic_layout_score": layout.score,
            "discontinuities": layout.discontinuities,
            "discontinuity_log2_blocks": layout.log2_blocks,
            "seek_distance_bytes": layout.seek_distance_bytes,
            "requests": measures.requests,
            "requests_by_kind": {
                "read": measures.reads, "write": measures.writes, "discard": measures.discards,
                "flush": measures.flushes, "other": measures.others,
            },
            "bytes": measures.bytes,
            "log2_request_sectors": measures.log2_request_sectors,
            "latency_ns": {"read": measures.read_latency, "write": measures.write_latency},
            "queue_depth": measures.queue_depth,
            "lost_events": measures.lost_events,
            "modelled_seconds": {"hdd": self.hdd.seconds, "ssd": self.ssd.seconds},
            "modelled": {"hdd": self.hdd, "ssd": self.ssd},
        })
    }
}

/// The trace in the form that device models time. Writing zeroes moves no data, as a discard.
pub fn for_models(trace: &BlockTrace) -> Vec<devmodel::Request> {
    let mut requests: Vec<devmodel::Request> = trace
        .iter()
        .map(|request| devmodel::Request {
            issue_time_ns: request.issue_ns,
            ..devmodel::Request::new(operation(request.operation), request.sector, request.sectors)
        })
        .collect();
    let completions = trace.iter().map(|request| Some(request.issue_ns.saturating_add(request.latency_ns?)));
    set_queue_depths(&mut requests, completions);
    requests
}

fn operation(operation: Operation) -> devmodel::Operation {
    match operation {
        Operation::Read => devmodel::Operation::Read,
        Operation::Write => devmodel::Operation::Write,
        Operation::Flush => devmodel::Operation::Flush,
        Operation::Discard | Operation::Other => devmodel::Operation::Discard,
    }
}

/// Mounts the target, traces its device while the command runs and until what it wrote is written back, and undoes the mount.
pub fn trace_command(request: &TraceRequest) -> Result<Traced, Failure> {
    let options = OpenOptions {
        mount_options: request.mount_options.clone(),
        read_only: request.read_only,
        keep_existing: true,
        ..OpenOptions::default()
    };
    let mut target = visit(&request.target, &options)?;
    let device = target.block_device_info().ok_or_else(|| {
        Failure::new(
            ExitCode::Missing,
            format!(
                "{} lies on no block device (tmpfs, overlay or network?); trace an image or a device",
                request.target
            ),
        )
    })?;
    if !request.warm {
        target.drop_caches()?;
    }
    let session = TraceSession::start(&device)?;
    let exit_status = run_command(&request.command, target.mount_point())?;
    if !request.read_only {
        target.sync()?;
    }
    let trace = session.stop()?;
    let environment = environment(&mut target);
    target.close()?;
    Ok(Traced { summary: Summary::of(&trace)?, trace, device_number: device.number(), exit_status, environment })
}

fn environment(target: &mut MountedTarget<VisitedDirectory>) -> Environment {
    let mut facts = target.environment();
    let warnings = target.kernel_warnings();
    if !warnings.is_empty() {
        facts.put("kernel.warnings", warnings.join("; "));
    }
    facts
}

/// Runs a command with `{}` and [`MOUNT_VARIABLE`] set to the mount point, its input and outputs untouched.
pub fn run_command(command: &CommandLine, mount_point: &Path) -> Result<u8, Failure> {
    let mount = mount_point.to_string_lossy();
    let words: Vec<OsString> = command.words.iter().map(|word| word.replace("{}", &mount).into()).collect();
    let [program, arguments @ ..] = words.as_slice() else {
        return Err(Failure::usage("no command was given: write it behind --"));
    };
    let mut process = Command::new(program);
    process.args(arguments).env(MOUNT_VARIABLE, mount_point);
    if command.output_to_stderr {
        process.stdout(Stdio::from(std::io::stderr()));
    }
    let status = process.status().map_err(|error| {
        Failure::usage(format!(
            "start {}: {}; check the command behind --",
            program.to_string_lossy(),
            errno_words(&error)
        ))
    })?;
    Ok(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)) as u8)
}

/// Writes a trace and its summary as a run directory.
pub fn record(
    trace: &BlockTrace,
    summary: &Summary,
    settings: BTreeMap<String, String>,
    environment: &Environment,
    out: &Path,
) -> Result<(), Failure> {
    let plan = Plan::new(BlockTraceRun.kind(), Seed(0), settings);
    let mut directory = RunDirectory::open(out, &plan, environment)?;
    if directory.is_finished() {
        return Ok(());
    }
    trace.save(&out.join(TRACE_FILE))?;
    directory.append("trace", summary)?;
    Ok(directory.finish(&summary.to_json())?)
}

/// Reader of the records of `senesce trace` and of imported traces.
pub struct BlockTraceRun;

impl RunKind for BlockTraceRun {
    fn kind(&self) -> &'static str {
        "trace"
    }

    fn analyse(&self, record: &Record) -> Result<Analysis, Failure> {
        let mut analysis = Analysis { title: "Block trace".into(), ..Analysis::default() };
        let Some(summary) = record.events_of::<Summary>("trace").last() else {
            analysis.summary = "The run ended before its trace was complete.".into();
            return Ok(analysis);
        };
        analysis.summary = in_words(&summary);
        if summary.measures.lost_events > 0 {
            analysis.caveats.push(format!("invalid: {} events were lost", summary.measures.lost_events));
        }
        analysis.caveats.push("modelled: seconds on the reference drives; no flash translation layer".into());
        analysis.tables = vec![totals(&summary), latencies(&summary)];
        analysis.figures = vec![discontinuity_figure(&summary), size_figure(&summary)];
        analysis.result = summary.to_json();
        Ok(analysis)
    }
}

fn in_words(summary: &Summary) -> String {
    let layout = &summary.measures.layout;
    match layout.score {
        Some(score) => format!(
            "{} requests on {}; {:.1} MiB were read with {} discontinuities: dynamic layout score {score:.4}.",
            summary.measures.requests,
            summary.device,
            layout.blocks_read * 4096.0 / (1 << 20) as f64,
            layout.discontinuities
        ),
        None => format!(
            "{} requests on {}; nothing was read, so there is no layout score.",
            summary.measures.requests, summary.device
        ),
    }
}

fn totals(summary: &Summary) -> Table {
    let measures = &summary.measures;
    let mut table = Table::new("requests", "Requests", &["kind", "requests", "bytes"]);
    let bytes = measures.bytes;
    for (kind, requests, bytes) in [
        ("read", measures.reads, Some(bytes.read)),
        ("write", measures.writes, Some(bytes.write)),
        ("discard", measures.discards, Some(bytes.discard)),
        ("flush", measures.flushes, None),
        ("other", measures.others, None),
    ] {
        table.row(vec![json!(kind), json!(requests), json!(bytes)]);
    }
    table
}

fn latencies(summary: &Summary) -> Table {
    let columns = ["kind", "mean (us)", "median (us)", "90 % (us)", "99 % (us)", "max (us)"];
    let mut table = Table::new("latency", "Latency from issue to completion", &columns);
    for (kind, latency) in [("read", summary.measures.read_latency), ("write", summary.measures.write_latency)] {
        let us = |ns: u64| json!(ns as f64 / 1e3);
        let (p50, p90, p99) = (us(latency.p50_ns), us(latency.p90_ns), us(latency.p99_ns));
        table.row(vec![json!(kind), json!(latency.mean_ns / 1e3), p50, p90, p99, us(latency.max_ns)]);
    }
    table
}

fn log2_figure(
    summary: &Summary,
    id: &str,
    title: &str,
    caption: &str,
    axis: &str,
    unit: f64,
    counts: &[u64],
) -> Figure {
    let mut points: Vec<(f64, f64)> =
        counts.iter().enumerate().map(|(index, count)| (unit * 2f64.powi(index as i32), *count as f64)).collect();
    points.push((unit * 2f64.powi(counts.len() as i32), 0.0));
    let series = vec![Series::new(summary.device.clone(), Mark::Measured, points)];
    let (x, y) = (Axis::linear(axis).log2().in_bytes(), Axis::linear("count").from_zero());
    Figure {
        id: id.into(),
        title: title.into(),
        caption: caption.into(),
        device: summary.device.clone(),
        better: if id == "discontinuities" { Better::Lower } else { Better::Neither },
        kind: FigureKind::Steps { x, y, series },
    }
}

fn discontinuity_figure(summary: &Summary) -> Figure {
    let counts = &summary.measures.layout.log2_blocks;
    let caption = "Reads that did not begin where the read before them ended, by the distance that was jumped.";
    log2_figure(summary, "discontinuities", "Discontinuities by length", caption, "distance (bytes)", 4096.0, counts)
}

fn size_figure(summary: &Summary) -> Figure {
    let counts = &summary.measures.log2_request_sectors;
    let caption = "Reads and writes by the size of the request.";
    log2_figure(summary, "request-sizes", "Request sizes", caption, "size (bytes)", 512.0, counts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_target::Request;

    #[test]
    fn a_recorded_trace_is_analysed_from_its_record() {
        let room = tempfile::tempdir().unwrap();
        let out = room.path().join("run");
        let requests = (0..50).map(|index| Request {
            issue_ns: index * 1_000_000,
            latency_ns: Some(90_000),
            ..Request::new(Operation::Read, if index % 5 == 0 { index * 1000 } else { index * 8 }, 8)
        });
        let trace = BlockTrace::from_requests("loop7", 1 << 30, requests.collect());
        let summary = Summary::of(&trace).unwrap();
        record(&trace, &summary, BTreeMap::new(), &Environment::default(), &out).unwrap();
        let run = Record::open(&out).unwrap();
        let analysis = BlockTraceRun.analyse(&run).unwrap();
        assert_eq!(analysis.result, run.summary.unwrap());
        assert_eq!(analysis.result["requests"], 50);
        assert!(
            analysis.result["modelled_seconds"]["hdd"].as_f64().unwrap()
                > analysis.result["modelled_seconds"]["ssd"].as_f64().unwrap()
        );
        assert_eq!(BlockTrace::load(&out.join(TRACE_FILE)).unwrap(), trace);
    }

    #[test]
    fn a_command_is_told_its_mount_point_and_its_status_comes_back() {
        let command = |script: &str| CommandLine {
            words: ["sh", "-c", script].map(String::from).to_vec(),
            output_to_stderr: false,
        };
        let run = |script: &str| run_command(&command(script), Path::new("/some/where")).unwrap();
        assert_eq!(run(r#"[ "{}" = "$SENESCE_MNT" ] && [ "{}" = /some/where ]"#), 0);
        assert_eq!(run("exit 7"), 7);
        assert_eq!(run("kill -9 $$"), 137);
        let missing = CommandLine { words: vec!["no-such-program".into()], output_to_stderr: false };
        assert_eq!(run_command(&missing, Path::new("/")).unwrap_err().exit_code(), ExitCode::Usage);
    }
}
