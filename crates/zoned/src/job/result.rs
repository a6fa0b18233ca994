//! Result of a job, and the JSON of `senesce zoned measure --json`.

use super::check::CheckedActor;
use super::tally::{Latency, Tally};
use crate::command::{Operation, ZoneFault};
use senesce_core::heartbeat::LostTime;
use serde_json::{Map, Value, json};

#[derive(Debug, Clone)]
pub struct ActorResult {
    pub name: String,
    pub op: super::spec::Activity,
    pub request_bytes: u64,
    /// Commands in flight per worker.
    pub depth: u32,
    pub jobs: u32,
    pub zones: u32,
    pub asked: RequestedEnd,
    pub tally: Tally,
    /// Simulated drive: why the model is not valid for this actor.
    pub outside_model: Option<String>,
    /// Simulated drive: why the model is not valid for rate and mean latency.
    pub rates_outside_model: Option<String>,
    /// Simulated drive: why the model is not valid for latencies, mean and percentiles.
    pub latencies_outside_model: Option<String>,
}

#[derive(Debug, Clone, Copy)]
pub struct RequestedEnd {
    commands: Option<u64>,
    /// Time limit of an actor that counts commands.
    time_ns: Option<u64>,
    once: bool,
}

#[derive(Debug, Clone)]
pub struct JobResult {
    pub device: String,
    pub actors: Vec<ActorResult>,
    pub unusable: Vec<u32>,
    pub warnings: Vec<String>,
    pub interrupted: bool,
    pub stopped: bool,
    /// Time lost to other programs, in real time, if that invalidates the numbers.
    pub lost: Option<LostTime>,
    /// Virtual seconds of a simulated drive.
    pub simulated_seconds: Option<f64>,
    /// Commands per second of processor time of the whole run.
    pub commands_per_cpu_second: f64,
    /// User processor time per command, microseconds.
    pub cpu_us_per_command: f64,
}

/// Share of cut-off commands above which a warning is printed.
const LATE_SHARE: f64 = 0.05;
const FEW_LATE: u64 = 10;

impl JobResult {
    /// Warns of an early end: rates cover only the time until then.
    pub(crate) fn warn_of_early_end(&mut self) {
        let why = match (self.interrupted, self.stopped) {
            (true, _) => "it was interrupted",
            (_, true) => "a zone was lost",
            _ => return,
        };
        let seconds = self.actors.iter().map(ActorResult::seconds).fold(0.0, f64::max);
        self.warnings.push(format!("{why}: the rates cover the {seconds:.1} s until then"));
    }

    /// Warns of actors that counted no command, or fewer than requested.
    pub(crate) fn warn_of_missing_commands(&mut self) {
        let cut_short = self.interrupted || self.stopped;
        for actor in &self.actors {
            let words = match actor.tally.commands {
                0 => actor.no_command_reason(),
                _ if cut_short => continue,
                _ => match actor.shortfall_warning() {
                    Some(words) => words,
                    None => continue,
                },
            };
            self.warnings.push(format!("actor {}: {words}", actor.name));
        }
    }

    /// Warns of latencies that are limited by the time of the run, because longer commands were cut off.
    pub(crate) fn warn_of_cut_off_latencies(&mut self) {
        for actor in &self.actors {
            let (late, commands) = (actor.tally.late, actor.tally.commands);
            if late >= FEW_LATE && late as f64 > LATE_SHARE * commands as f64 {
                let words = "in flight at the end do not count: the slowest commands are missing and latencies are too small; \
                         measure for longer";
                self.warnings
                    .push(format!("actor {}: {commands} commands count, and {late} that were {words}", actor.name));
            }
        }
    }

    /// Warns of zones that an actor left because the drive refused its commands.
    pub(crate) fn warn_of_lost_zones(&mut self) {
        for actor in &self.actors {
            let Some((zone, fault)) = actor.tally.lost.first() else { continue };
            let why = match fault {
                ZoneFault::NotAtPointer | ZoneFault::Full | ZoneFault::Boundary => {
                    ": its write pointer is not where this run left it; another program wrote or reset the zone, or \
                     writes were reordered on their way to the drive"
                }
                _ => "",
            };
            let others = match actor.tally.lost.len() - 1 {
                0 => String::new(),
                more => format!("; {more} more"),
            };
            let words = format!("actor {} left zone {zone}, {fault}{why}{others}", actor.name);
            self.warnings.push(words);
        }
    }
}

impl ActorResult {
    pub(crate) fn new(actor: &CheckedActor) -> Self {
        Self {
            name: actor.spec.name.clone(),
            op: actor.spec.op,
            request_bytes: actor.spec.bs.0,
            depth: actor.spec.qd,
            jobs: actor.jobs,
            zones: actor.zones.end - actor.zones.start,
            asked: RequestedEnd {
                commands: actor.spec.count.map(|count| count.saturating_mul(u64::from(actor.jobs))),
                time_ns: actor.spec.time.map(super::Span::ns),
                once: actor.spec.ends_after_one_pass(),
            },
            tally: Tally::default(),
            outside_model: None,
            rates_outside_model: None,
            latencies_outside_model: None,
        }
    }

    fn no_command_reason(&self) -> String {
        if self.tally.error_count() == 0 {
            return "no command ended within its time, so nothing was measured".into();
        }
        format!("the drive refused all its commands ({}), so nothing was measured", self.tally.error_words())
    }

    /// Returns a warning about an end before the count and the time.
    fn shortfall_warning(&self) -> Option<String> {
        let asked = self.asked.commands?;
        let in_time = self.asked.time_ns.is_none_or(|time| self.tally.counted_ns < time);
        if self.tally.commands >= asked || !in_time {
            return None;
        }
        let why = match (self.tally.error_count(), self.asked.once) {
            (0, true) => "it uses each zone only once; with occupancy it repeats zones".into(),
            (0, false) => "it ran out of zones or time".into(),
            _ => format!("the drive refused the others ({})", self.tally.error_words()),
        };
        Some(format!("it counted {} commands of {asked}: {why}", self.tally.commands))
    }

    pub(crate) fn operation(&self) -> Operation {
        use super::spec::Activity as A;
        match self.op {
            A::Write => Operation::Write,
            A::Append => Operation::Append,
            A::RandomRead | A::SequentialRead => Operation::Read,
            A::Reset => Operation::Reset,
            A::Finish => Operation::Finish,
            A::OpenClose => Operation::Open,
        }
    }

    pub fn latency(&self) -> Latency {
        self.tally.latency(self.operation()).cloned().unwrap_or_default()
    }

    pub fn seconds(&self) -> f64 {
        self.tally.counted_ns as f64 / 1e9
    }

    /// Returns the commands per second. Zone commands can be few and long: those partly within the measured time count
    /// by their share.
    pub fn iops(&self) -> f64 {
        let commands = if self.op.manages() { self.tally.shares } else { self.tally.commands as f64 };
        if self.tally.counted_ns == 0 { 0.0 } else { commands / self.seconds() }
    }

    pub fn bw_mib(&self) -> f64 {
        if self.tally.counted_ns == 0 { 0.0 } else { self.tally.bytes as f64 / 1048576.0 / self.seconds() }
    }

    /// Returns the bandwidth of each whole second, MiB/s.
    pub fn bw_by_second(&self) -> Vec<f64> {
        let whole = (self.seconds() + 1e-9) as usize;
        self.tally.per_second.iter().take(whole).map(|bytes| *bytes as f64 / 1048576.0).collect()
    }

    pub fn to_json(&self) -> Value {
        let mut object = Map::new();
        object.insert("name".into(), self.name.clone().into());
        object.insert("op".into(), self.op.name().into());
        object.insert("bs".into(), self.request_bytes.into());
        object.insert("qd".into(), self.depth.into());
        object.insert("zones".into(), self.zones.into());
        object.insert("jobs".into(), self.jobs.into());
        object.insert("seconds".into(), round(self.seconds(), 6).into());
        object.insert("iops".into(), rate(self.iops()).into());
        object.insert("bw_mib".into(), round(self.bw_mib(), 4).into());
        object.insert("lat_us".into(), latency_json(&self.latency()));
        if let Some(latency) = &self.tally.from_intended {
            object.insert("lat_from_intended_start_us".into(), latency_json(latency));
        }
        object.insert("commands".into(), self.tally.commands.into());
        if let Some(why) = &self.outside_model {
            object.insert("outside_model".into(), why.clone().into());
        }
        let parts = [
            ("rates_outside_model", &self.rates_outside_model),
            ("latencies_outside_model", &self.latencies_outside_model),
        ];
        for (name, why) in parts.into_iter().filter_map(|(name, why)| Some((name, why.as_ref()?))) {
            object.insert(name.into(), why.clone().into());
        }
        object.insert("errors".into(), self.tally.error_count().into());
        if self.tally.error_count() > 0 {
            object.insert("errors_by_kind".into(), json!(self.tally.errors));
        }
        if !self.tally.lost.is_empty() {
            let lost = self.tally.lost.iter().map(|(zone, fault)| json!({"zone": zone, "why": fault.name()}));
            object.insert("zones_dropped".into(), lost.collect());
        }
        let others = Operation::ALL.into_iter().filter(|operation| *operation != self.operation());
        let others: Map<String, Value> = others
            .filter_map(|operation| {
                let latency = self.tally.latency(operation)?;
                let mut value = latency_json(latency);
                value["count"] = latency.count().into();
                Some((operation.name().to_string(), value))
            })
            .collect();
        if !others.is_empty() {
            object.insert("other_operations_us".into(), others.into());
        }
        let bandwidth: Vec<f64> = self.bw_by_second().into_iter().map(|value| round(value, 3)).collect();
        if !bandwidth.is_empty() {
            object.insert("bw_mib_by_second".into(), json!(bandwidth));
        }
        object.into()
    }
}

/// Returns `{mean, p50, p95, p99, max}` in microseconds; null without commands.
pub(crate) fn latency_json(latency: &Latency) -> Value {
    if latency.count() == 0 {
        return Value::Null;
    }
    json!({
        "mean": round(latency.mean_us(), 4),
        "p50": round(latency.quantile_us(0.50), 3),
        "p95": round(latency.quantile_us(0.95), 3),
        "p99": round(latency.quantile_us(0.99), 3),
        "max": round(latency.max_us(), 3),
    })
}

/// Rounds to three decimals; below one, to three significant digits.
fn rate(per_second: f64) -> f64 {
    let magnitude = if per_second > 0.0 { -per_second.log10().floor() as i32 } else { 0 };
    round(per_second, (magnitude + 2).clamp(3, 15))
}

fn round(value: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    (value * scale).round() / scale
}

impl JobResult {
    pub fn to_json(&self) -> Value {
        let mut object = Map::new();
        object.insert("device".into(), self.device.clone().into());
        object.insert("actors".into(), self.actors.iter().map(ActorResult::to_json).collect());
        if let Some(seconds) = self.simulated_seconds {
            object.insert("sim_seconds".into(), round(seconds, 6).into());
        }
        object.insert("commands_per_cpu_second".into(), self.commands_per_cpu_second.round().into());
        object.insert("cpu_us_per_command".into(), round(self.cpu_us_per_command, 4).into());
        object.insert("interrupted".into(), self.interrupted.into());
        object.insert("stopped_by_lost_zone".into(), self.stopped.into());
        if let Some(lost) = self.lost {
            object.insert("valid".into(), false.into());
            object.insert("reason".into(), lost.to_string().into());
        }
        object.insert("unusable_zones".into(), json!(self.unusable));
        object.insert("warnings".into(), json!(self.warnings));
        object.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_rates_keep_three_digits() {
        assert_eq!(rate(3.0 / 1077.0), 0.00279);
        assert_eq!([rate(0.0), rate(66_666.666_66), rate(0.25), rate(1e-300)], [0.0, 66_666.667, 0.25, 0.0]);
    }
}
