//! Replays a recording on the models and cross-checks it.

use super::commands::{Commands, commands};
use super::drives::{simulated, unequal_zones};
use super::recording::TracedDrives;
use senesce_core::failure::failed;
use senesce_core::{Failure, Seed, input, number_of};
use senesce_volume::BlockTrace;
use senesce_zoned::ZonedDevice;
use senesce_zoned::replay::{OperationTotals, Replayed, replay};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// The host assumed in a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Host {
    /// A host that takes no time: the drive without its host.
    None,
    /// The guest's own time divided by how much faster this machine is.
    Scaled,
    /// The guest's own time, unchanged.
    Guest,
}

/// A recording replayed on a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct TimedReplay {
    /// The assumed host.
    pub host: Host,
    /// The factor on the guest's own time.
    pub host_share: f64,
    /// Seconds on the model between start and end of the measurement.
    pub seconds: f64,
    /// Seconds on the model of the whole recording, which starts earlier and ends later.
    pub recording_seconds: f64,
    /// Seconds of the recording in which the drive was busy.
    pub busy_seconds: f64,
    /// Seconds of the recording spent in the host only.
    pub host_seconds: f64,
    /// Commands, bytes and latencies by operation.
    pub kinds: BTreeMap<String, OperationTotals>,
    /// Requests to the drive that take no time on the model, by kind.
    pub unmodelled: BTreeMap<String, u64>,
    /// Bytes written to drives that take no time on the model.
    pub elsewhere_bytes: u64,
    /// The requested times of the recording on the model, in seconds since the start.
    pub moments: Vec<f64>,
    /// Reasons to reject the result: commands that the model refused, and differences from the guest's counts. Empty if
    /// both agree.
    pub problems: Vec<String>,
}

/// Replays a recording from the files in `folder`, once per host. `moments_ns` are times of the recording's clock to
/// convert to the model's time.
///
/// # Errors
/// Files that are missing, damaged or invalid; commands of unknown kind; the errors of [`replay`].
pub(crate) fn time(
    traced: &TracedDrives,
    folder: &Path,
    hosts: &[(Host, f64)],
    moments_ns: &[u64],
    seed: Seed,
) -> Result<Vec<TimedReplay>, Failure> {
    let traces: Vec<BlockTrace> =
        traced.drives.iter().map(|drive| load(folder, &drive.file)).collect::<Result<_, _>>()?;
    let (device, _) = simulated(traced, seed)?;
    let all = commands(traced, &traces, device.geometry())?;
    let origin_ns = traced.drives.iter().map(|drive| drive.start_ns).min().unwrap_or(0);
    let moments: Vec<u64> = moments_ns.iter().map(|at_ns| at_ns.saturating_sub(origin_ns)).collect();
    hosts.iter().map(|(host, share)| one(traced, &all, (*host, *share), &moments, seed)).collect()
}

/// Loads a trace. The guest wrote the file, and a program there may have replaced it by a link.
fn load(folder: &Path, file: &str) -> Result<BlockTrace, Failure> {
    let path = folder.join(file);
    let bytes = input::within(folder, file).map_err(failed("read", &path))?;
    Ok(BlockTrace::from_bytes(&bytes, &path)?)
}

pub(crate) fn hosts(scaled: Option<f64>) -> Vec<(Host, f64)> {
    let scaled = scaled.map(|share| (Host::Scaled, share));
    [Some((Host::None, 0.0)), scaled, Some((Host::Guest, 1.0))].into_iter().flatten().collect()
}

fn one(
    traced: &TracedDrives,
    all: &Commands,
    (host, host_share): (Host, f64),
    moments: &[u64],
    seed: Seed,
) -> Result<TimedReplay, Failure> {
    let (mut device, zones) = simulated(traced, seed)?;
    let replayed = replay(&mut device, &all.list, host_share)?;
    let mut problems = disagreements(all, &replayed);
    if let Some(zones) = &zones {
        let unequal = unequal_zones(&mut device, zones)?;
        if let Some(first) = unequal.first() {
            problems.push(format!(
                "the write pointers of {} differ from the guest's at the end, first in zone {first}",
                number_of(unequal.len(), "zone")
            ));
        }
    }
    let on_model = on_model(all, &replayed);
    let [begin, end] = [all.measured.0, all.measured.1].map(|index| replayed.times[index].submitted_ns);
    let since = |at_ns: &u64| on_model(*at_ns).saturating_sub(begin) as f64 * 1e-9;
    let owned = |(name, count): (&&'static str, &u64)| ((*name).to_string(), *count);
    Ok(TimedReplay {
        host,
        host_share,
        seconds: end.saturating_sub(begin) as f64 * 1e-9,
        recording_seconds: replayed.seconds(),
        busy_seconds: replayed.busy_seconds,
        host_seconds: replayed.host_seconds,
        kinds: replayed.kinds.iter().map(|(name, kind)| ((*name).to_string(), *kind)).collect(),
        unmodelled: all.unmodelled.iter().map(owned).collect(),
        elsewhere_bytes: all.elsewhere_bytes,
        moments: moments.iter().map(since).collect(),
        problems,
    })
}

/// Converts a time of the recording to the time at which the model has completed the commands that were complete by then.
fn on_model<'a>(all: &'a Commands, replayed: &'a Replayed) -> impl Fn(u64) -> u64 + 'a {
    let pairs = all.list.iter().zip(&replayed.times);
    let mut done: Vec<(u64, u64)> =
        pairs.filter_map(|(one, times)| Some((one.completed_ns?, times.completed_ns))).collect();
    done.sort_unstable();
    let mut latest = 0;
    done.iter_mut().for_each(|(_, on_model)| {
        latest = latest.max(*on_model);
        *on_model = latest;
    });
    move |at_ns| {
        let behind = done.partition_point(|(completed, _)| *completed <= at_ns);
        behind.checked_sub(1).map_or(0, |index| done[index].1)
    }
}

fn disagreements(all: &Commands, replayed: &Replayed) -> Vec<String> {
    let mut problems = Vec::new();
    if let Some((index, fault)) = replayed.refused.first() {
        let count = replayed.refused.len();
        problems.push(format!("the model refused {count} commands, the first (number {index}) because {fault}"));
    }
    for (name, (commands, bytes)) in &all.asked {
        let done = replayed.kinds.get(name).copied().unwrap_or_default();
        if (done.commands, done.bytes) != (*commands, *bytes) {
            problems.push(format!(
                "{name}: {commands} commands and {bytes} bytes were recorded, but {} commands and {} bytes were \
                 executed",
                done.commands, done.bytes
            ));
        }
    }
    problems
}

impl TimedReplay {
    /// Divides the bytes written on all drives by `bytes` requested.
    pub(crate) fn write_amplification(&self, bytes: u64) -> f64 {
        let of = |name: &str| self.kinds.get(name).map_or(0, |kind| kind.bytes);
        (of("write") + of("append") + self.elsewhere_bytes) as f64 / bytes.max(1) as f64
    }

    pub(crate) fn bytes(&self, operation: &str) -> u64 {
        self.kinds.get(operation).map_or(0, |kind| kind.bytes)
    }

    pub(crate) fn commands(&self, operation: &str) -> u64 {
        self.kinds.get(operation).map_or(0, |kind| kind.commands)
    }

    /// Returns a quantity of the measurement per second. `None`: the drive received no request.
    pub(crate) fn rate(&self, quantity: f64) -> Option<f64> {
        (self.seconds > 0.0 && !self.kinds.is_empty()).then(|| quantity / self.seconds)
    }

    pub(crate) fn accounts(&self) -> String {
        if self.problems.is_empty() { "agree".into() } else { self.problems.join("; ") }
    }

    pub(crate) fn host_words(&self) -> String {
        match self.host {
            Host::None => "no time".into(),
            Host::Scaled => format!("guest / {:.1}", 1.0 / self.host_share),
            Host::Guest => "guest".into(),
        }
    }
}
