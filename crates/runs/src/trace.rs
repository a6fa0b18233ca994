//! `senesce trace`: the requests of a command on one device, their layout score and their modelled time.

mod shown;

use crate::simulated::{self, InitialContent};
use senesce_core::failure::{errno_message, failed};
use senesce_core::{Analysis, Environment, ExitCode, Failure};
use senesce_devmodel::{DeviceModel, ModelError, Modelled, Options, Outcome};
use senesce_layout::Condition;
use senesce_runner::{Imported, ImportedRun, Recorded, import_with};
use senesce_volume::trace::{LatencySummary, Measures, Problem};
use senesce_volume::{
    BlockDevice, BlockTrace, CommandGroup, DeviceStat, MountedTarget, OpenOptions, TargetSpec, TraceSessions,
    VisitedDirectory, visit,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use shown::{discontinuity_figure, latencies, models, size_figure, text_of, totals};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

pub(crate) const TRACE_FILE: &str = "trace.blocks";

/// The fact of the environment that names a journal that was not replayed, and damaged metadata.
pub(crate) const RESERVATIONS: &str = "target.reservations";

pub(crate) const MOUNT_VARIABLE: &str = "SENESCE_MNT";

#[derive(Debug, Clone)]
pub struct CommandLine {
    /// Program and arguments; `{}` in any of them stands for the mount point.
    pub words: Vec<String>,
    /// Send its standard output to standard error, because ours carries other data.
    pub output_to_stderr: bool,
    /// Let its leftover processes continue; otherwise they end with it, because the mount is removed.
    pub spares: bool,
}

#[derive(Debug, Clone)]
pub struct TraceRequest {
    pub target: TargetSpec,
    pub mount_options: String,
    pub read_only: bool,
    pub warm: bool,
    pub command: CommandLine,
    pub models: Vec<(String, DeviceModel)>,
}

#[derive(Debug)]
pub struct TracedCommand {
    pub trace: BlockTrace,
    pub summary: Summary,
    pub device_number: (u32, u32),
    /// The command's exit status (128 + the signal that ended it).
    pub exit_status: u8,
    pub environment: Environment,
    /// Whether the target could be restored to its initial state: the trace is complete in any case.
    pub closed: Result<(), Failure>,
}

/// Measures and modelled times; the event `trace` of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The traced device.
    pub device: String,
    /// Measures of the trace itself.
    pub measures: Measures,
    /// On the reference disk drive. `None`: the trace is not valid, or has requests beyond its end.
    pub hdd: Option<Modelled>,
    /// On the reference solid-state drive (no flash translation layer), as large as the requests need. `None`: the trace is not valid.
    pub ssd: Option<Modelled>,
    /// On the requested models, by requested name; each drive contains the data that is read.
    #[serde(default)]
    pub models: BTreeMap<String, Outcome>,
    /// Requested models that have no time, because requests are beyond their end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub too_small: Vec<String>,
    /// Completions by the device's own counters. `None`: recorded elsewhere.
    #[serde(default)]
    pub device_stat: Option<DeviceStat>,
    /// Journal and damage of the traced file system. None if unknown.
    #[serde(flatten)]
    pub condition: Option<Condition>,
    /// Why the trace is not valid; empty if it is.
    #[serde(default)]
    pub problems: Vec<Problem>,
}

impl Summary {
    pub fn of(trace: &BlockTrace) -> Result<Self, Failure> {
        let requests = trace.valid().ok().map(|trace| trace.for_models());
        let time = |model: DeviceModel| {
            let requests = requests.as_deref()?;
            model.with_space_for(requests).time(requests).ok()
        };
        Ok(Self {
            device: trace.device().into(),
            measures: Measures::of(trace),
            hdd: time(DeviceModel::reference_hdd()?),
            ssd: time(DeviceModel::reference_ssd()?),
            models: BTreeMap::new(),
            too_small: Vec::new(),
            device_stat: trace.device_stat(),
            condition: None,
            problems: trace.problems().to_vec(),
        })
    }

    pub(crate) fn on_models(trace: &BlockTrace, models: &[(String, DeviceModel)]) -> Result<Self, Failure> {
        let mut summary = Self::of(trace)?;
        if trace.is_valid() {
            for (name, model) in models {
                match simulated::simulate(model, trace, InitialContent::WhatIsRead, &Options::default()) {
                    Ok(outcome) => drop(summary.models.insert(name.clone(), outcome)),
                    // The command has run: its other results are kept.
                    Err(failure) if is_too_small(&failure) => summary.too_small.push(name.clone()),
                    Err(failure) => return Err(failure),
                }
            }
        }
        Ok(summary)
    }

    pub(crate) fn is_valid(&self) -> bool {
        self.problems.is_empty() && self.measures.lost_events == 0
    }

    pub fn reservations(&self) -> Vec<String> {
        self.condition.as_ref().map_or_else(Vec::new, Condition::reservations)
    }

    pub(crate) fn reasons(&self) -> Vec<String> {
        self.problems.iter().map(Problem::to_string).collect()
    }

    pub fn text(&self) -> String {
        let references = [("hdd", &self.hdd), ("ssd", &self.ssd)];
        let of_references =
            references.iter().filter_map(|(name, one)| Some(format!("{name} {:.3} s", one.as_ref()?.seconds)));
        let of_models = self.models.iter().map(|(name, outcome)| format!("{name} {:.3} s", outcome.seconds));
        let times: Vec<String> = of_references.chain(of_models).collect();
        let mut text = text_of(self);
        if !times.is_empty() {
            text += &format!(" Modelled time: {}.", times.join(", "));
        }
        let without = references.into_iter().filter(|(_, one)| one.is_none() && self.is_valid()).map(|(name, _)| name);
        let without: Vec<&str> = without.chain(self.too_small.iter().map(String::as_str)).collect();
        if !without.is_empty() {
            text += &format!(
                " No time on {}: requests are beyond the end.\nhint: add the model of a larger drive with --model, such as a \
                 file of senesce device measure",
                without.join(", ")
            );
        }
        text
    }

    /// Returns the JSON of `senesce trace`. In an invalid trace, values that need every request are `null`.
    pub fn to_json(&self) -> Value {
        let (measures, layout) = (&self.measures, &self.measures.layout);
        let if_valid = |value: Value| if self.is_valid() { value } else { Value::Null };
        let latency = |summary: LatencySummary| (summary.count > 0).then_some(summary);
        let seconds = |modelled: &Option<Modelled>| modelled.as_ref().map(|modelled| modelled.seconds);
        let mut value = json!({
            "device": self.device,
            "valid": self.is_valid(),
            "reasons": self.reasons(),
            "device_stat": self.device_stat,
            "journal": self.condition.as_ref().map(|condition| &condition.journal),
            "damage": self.condition.as_ref().map(|condition| &condition.damage),
            "dynamic_layout_score": if_valid(json!(layout.score)),
            "discontinuities": if_valid(json!(layout.discontinuities)),
            "discontinuity_log2_blocks": if_valid(json!(layout.log2_blocks)),
            "seek_distance_bytes": if_valid(json!(layout.seek_distance_bytes)),
            "requests": measures.requests,
            "requests_by_kind": {
                "read": measures.reads, "write": measures.writes, "discard": measures.discards,
                "flush": measures.flushes, "other": measures.others,
            },
            "bytes": measures.bytes,
            "log2_request_sectors": measures.log2_request_sectors,
            "latency_ns": if_valid(json!({
                "read": latency(measures.read_latency), "write": latency(measures.write_latency),
            })),
            "queue_depth": if_valid(json!(measures.queue_depth)),
            "lost_events": measures.lost_events,
            "modelled_seconds": {"hdd": seconds(&self.hdd), "ssd": seconds(&self.ssd)},
            "modelled": {"hdd": self.hdd, "ssd": self.ssd},
        });
        for (name, outcome) in &self.models {
            value["modelled_seconds"][name] = json!(outcome.seconds);
            value["modelled"][name] = json!(outcome);
        }
        for name in &self.too_small {
            value["modelled_seconds"][name] = Value::Null;
            value["modelled"][name] = Value::Null;
        }
        value
    }
}

fn is_too_small(failure: &Failure) -> bool {
    matches!(failure.origin(), Some(ModelError::Outside { .. }))
}

/// Mounts the target, traces its device from the start of the command until everything is written back, and unmounts.
/// The exit status of the command is not an error. Fails with [`ExitCode::Missing`] if the
/// target has no block device.
pub fn trace_command(request: &TraceRequest) -> Result<TracedCommand, Failure> {
    let options = OpenOptions {
        mount_options: request.mount_options.clone(),
        read_only: request.read_only,
        keep_existing: true,
        ..OpenOptions::default()
    };
    let target = visit(&request.target, &options)?;
    let devices = match BlockDevice::of_btrfs(target.mount_point()) {
        devices if devices.is_empty() => target.block_device_info().into_iter().collect(),
        devices => devices,
    };
    let device = devices.first().ok_or_else(|| {
        Failure::new(
            ExitCode::Missing,
            format!(
                "{} is not on a block device (tmpfs, overlay or network?); trace an image or a device",
                request.target
            ),
        )
    })?;
    if !request.warm {
        target.drop_caches()?;
    }
    let session = TraceSessions::start(&devices)?;
    // A leftover process in the user's own directory does not keep a mount of ours busy.
    let spares = request.command.spares || matches!(request.target, TargetSpec::Directory(_));
    let exit_status = run_command(&CommandLine { spares, ..request.command.clone() }, target.mount_point())?;
    if !request.read_only {
        target.sync()?;
    }
    let trace = session.stop()?;
    let mut environment = environment(&target);
    let condition = Condition::of_directory(target.mount_point()).ok();
    let reservations = condition.as_ref().map_or_else(Vec::new, Condition::reservations);
    if !reservations.is_empty() {
        environment.put(RESERVATIONS, reservations.join("; "));
    }
    let closed = target.close().map_err(Failure::from);
    Ok(TracedCommand {
        summary: Summary { condition, ..Summary::on_models(&trace, &request.models)? },
        trace,
        device_number: device.number(),
        exit_status,
        environment,
        closed,
    })
}

fn environment(target: &MountedTarget<VisitedDirectory>) -> Environment {
    let mut facts = target.environment();
    let warnings = target.kernel_warnings();
    if !warnings.is_empty() {
        facts.put("kernel.warnings", warnings.join("; "));
    }
    if let Some(caveat) = target.kernel_log_caveat() {
        facts.put("kernel.log", caveat);
    }
    facts
}

/// Runs a command with `{}` and [`MOUNT_VARIABLE`] set to the mount point, its input and outputs untouched. An
/// interrupt of this process ends the command.
pub fn run_command(command: &CommandLine, mount_point: &Path) -> Result<u8, Failure> {
    let mount = mount_point.to_string_lossy();
    let words: Vec<OsString> = command.words.iter().map(|word| word.replace("{}", &mount).into()).collect();
    let [program, arguments @ ..] = words.as_slice() else {
        return Err(Failure::usage("no command was given: write it after --"));
    };
    let group = CommandGroup::of(mount_point)?;
    let mut process = Command::new(program);
    process.args(arguments).env(MOUNT_VARIABLE, mount_point);
    if command.output_to_stderr {
        process.stdout(Stdio::from(std::io::stderr()));
    }
    let status = group.run(&mut process).map_err(|error| {
        Failure::usage(format!(
            "start {}: {}; check the command after --",
            program.to_string_lossy(),
            errno_message(&error)
        ))
    })?;
    let ended = if command.spares { group.release() } else { group.end() };
    ended.map_err(failed("end the processes of the command on", mount_point))?;
    Ok(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)) as u8)
}

/// Refuses a directory with a record: a command must not run for the record of another run.
pub fn refuse_record(out: &Path) -> Result<(), Failure> {
    match ["plan.toml", "summary.json"].iter().any(|name| out.join(name).exists()) {
        true => Err(Failure::new(
            ExitCode::Refused,
            format!("{} already contains a record; name another directory with --out", out.display()),
        )),
        false => Ok(()),
    }
}

/// The identity of a trace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "recorded", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Spec {
    /// Recorded here while a command ran.
    Command {
        /// The target.
        target: String,
        command: Vec<String>,
        mount_options: String,
        /// Mounted without writing.
        read_only: bool,
        /// The caches were kept.
        warm: bool,
    },
    /// Recorded elsewhere.
    Imported {
        format: String,
        /// Name of the file.
        source: String,
        requests: u64,
        /// CRC-32 of the requests, in hexadecimal; empty in records of earlier versions.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        crc32: String,
    },
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Event {
    /// Measures and modelled times.
    Trace(Box<Summary>),
}

pub fn record(
    trace: &BlockTrace,
    summary: &Summary,
    spec: Spec,
    environment: &Environment,
    caveats: Vec<String>,
    out: &Path,
) -> Result<(), Failure> {
    let events = vec![Event::Trace(Box::new(summary.clone()))];
    let imported = Imported { spec, environment: environment.clone(), events, measurements: Vec::new(), caveats };
    import_with::<BlockTraceRun>(out, imported, |directory| Ok(directory.write_file(TRACE_FILE, &trace.to_bytes())?))
}

pub(crate) struct BlockTraceRun;

impl ImportedRun for BlockTraceRun {
    const KIND: &'static str = "trace";
    type Spec = Spec;
    type Event = Event;

    fn analyse(_spec: &Spec, recorded: &Recorded<Self>) -> Result<Analysis, Failure> {
        let mut analysis = Analysis { title: "Block trace".into(), ..Analysis::default() };
        let Some(Event::Trace(summary)) = recorded.events().last() else {
            analysis.summary = "The run ended before its trace was complete.".into();
            return Ok(analysis);
        };
        analysis.summary = text_of(summary);
        analysis.caveats.extend(summary.reasons().iter().map(|reason| format!("invalid: {reason}")));
        analysis.caveats.extend(summary.reservations());
        if summary.is_valid() && summary.device_stat.is_none() {
            analysis.caveats.push("recorded elsewhere: no device counters to compare the trace with".into());
        }
        analysis.caveats.push("modelled: seconds on the reference drives; no flash translation layer".into());
        analysis.tables.push(totals(summary));
        if !summary.models.is_empty() {
            analysis.tables.push(models(summary));
        }
        if summary.is_valid() {
            analysis.tables.push(latencies(summary));
            analysis.figures = vec![discontinuity_figure(summary), size_figure(summary)];
        }
        analysis.result = summary.to_json();
        Ok(analysis)
    }
}

#[cfg(test)]
mod tests;
