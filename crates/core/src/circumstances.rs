//! Circumstances of a run: time, and load of the machine before and during it.

use crate::environment::Environment;
use senesce_sys::clock;
use senesce_sys::pressure::{self, Resource};
use senesce_sys::processes;
use std::fs;
use std::sync::OnceLock;
use std::time::SystemTime;

/// Prefix of facts that differ between any two runs; facts of a guest have their own prefix before it.
const PREFIX: &str = "run.";

/// Returns whether a fact describes the circumstances of one run.
pub(crate) fn is_circumstance(name: &str) -> bool {
    name.strip_prefix("guest.").unwrap_or(name).starts_with(PREFIX)
}

/// Share of time (percent) in which tasks waited for a processor, above which the machine counts as busy before a run.
const BUSY_PERCENT: f64 = 10.0;

/// Share of time (percent) used by other guests of the host, above which a warning is printed.
const STOLEN_PERCENT: f64 = 100.0 * crate::heartbeat::LOST_SHARE;

/// Share of processor time (percent) used by other programs, above which a warning is printed.
const OTHERS_PERCENT: f64 = 5.0;

static COMMIT: OnceLock<&'static str> = OnceLock::new();
static LABEL: OnceLock<String> = OnceLock::new();

/// Sets the commit of this program; only the first call has an effect.
pub fn set_commit(commit: &'static str) {
    let _ = COMMIT.set(commit);
}

/// Returns the commit that this program was built from, if set.
pub fn commit() -> Option<&'static str> {
    COMMIT.get().copied()
}

/// Sets the label of all runs of this process; only the first call has an effect.
pub fn set_label(label: String) {
    let _ = LABEL.set(label);
}

/// Converts `run.date` to seconds since 1970.
pub fn seconds_since_1970(date: &str) -> Option<u64> {
    let moment = humantime::parse_rfc3339(date).ok()?;
    Some(moment.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs())
}

/// Formats a time as `run.date`.
pub fn date_of(moment: SystemTime) -> String {
    humantime::format_rfc3339_seconds(moment).to_string()
}

/// Adds the facts that are known at the start of a run.
pub(crate) fn at_start(facts: &mut Environment) {
    // Virtual time begins in 1970.
    let of_host = crate::machine::time_is_virtual().then(|| std::env::var(crate::machine::GUEST_DATE).ok()).flatten();
    facts.put("run.date", of_host.unwrap_or_else(|| date_of(SystemTime::now())));
    facts.put("machine.host", crate::machine::host_name());
    if let Some(commit) = COMMIT.get() {
        facts.put("program.commit", commit);
    }
    if let Some(label) = LABEL.get() {
        facts.put("run.label", label);
    }
    if let Some(load) = fs::read_to_string("/proc/loadavg").ok().and_then(|text| first_number(&text)) {
        put(facts, "run.load_average", load);
    }
    for resource in Resource::ALL {
        if let Some(pressure) = pressure::of(resource) {
            let name = format!("run.before.{}_pressure_percent", resource.name());
            put(facts, &name, pressure.last_ten_seconds_percent);
        }
    }
}

/// Caveats that a report must show before any number.
pub(crate) fn caveats(facts: &Environment) -> Vec<String> {
    let value = |name: &str| facts.0.get(name).and_then(serde_json::Value::as_f64).unwrap_or(0.0);
    let mut caveats = Vec::new();
    let waiting = value("run.before.cpu_pressure_percent");
    if waiting > BUSY_PERCENT {
        caveats.push(format!(
            "the machine was busy when the run began: tasks waited for a processor {waiting:.0} % of the time"
        ));
    }
    let stolen = value("run.during.stolen_percent");
    if stolen > STOLEN_PERCENT {
        caveats.push(format!("other guests of the host took {stolen:.1} % of the processors' time during the run"));
    }
    let others = value("run.during.others_percent");
    if others > OTHERS_PERCENT {
        caveats.push(format!("other programs took {others:.0} % of the processors' time during the run"));
    }
    caveats
}

/// Estimates the share (fraction, at most nine tenths) of processor time that a run may have lost. It counts the time
/// of other programs, and the part of non-idle time stolen by other guests of the host. `None` if unknown.
pub fn lost_to_others(facts: &Environment) -> Option<f64> {
    let value = |name: &str| facts.0.get(name).and_then(serde_json::Value::as_f64);
    let others = value("run.during.others_percent")? / 100.0;
    // Stolen time is part of non-idle time.
    let stolen = value("run.during.stolen_percent").unwrap_or(0.0) / value("run.during.busy_percent").unwrap_or(100.0);
    Some((others + if stolen.is_finite() { stolen } else { 0.0 }).clamp(0.0, 0.9))
}

/// Measures the load during a run.
#[derive(Debug, Clone)]
pub struct Watch {
    begun: Counters,
}

/// Counters of the kernel, since boot.
#[derive(Debug, Clone, Default, PartialEq)]
struct Counters {
    /// Microseconds in which some task waited, by resource; `None` if not reported by the kernel.
    waited_us: [Option<f64>; 3],
    /// Ticks of all processors, ticks stolen by the hypervisor, and ticks idle.
    ticks: Option<[f64; 3]>,
    /// Ticks of this process, its children and kernel threads.
    our_ticks: Option<f64>,
    now_us: f64,
}

impl Watch {
    /// Starts the measurement.
    pub fn begin() -> Self {
        Self { begun: Counters::read() }
    }

    /// Returns the shares of the time since [`Self::begin`], in percent.
    pub fn facts(&self) -> Environment {
        self.begun.facts_until(&Counters::read())
    }
}

impl Counters {
    fn read() -> Self {
        let waited = |resource| Some(pressure::of(resource)?.total.as_micros() as f64);
        Self {
            waited_us: Resource::ALL.map(waited),
            ticks: ticks_now(),
            our_ticks: processes::ticks_of_ours_and_the_kernel().map(|ticks| ticks as f64),
            now_us: clock::monotonic().as_nanos() as f64 / 1e3,
        }
    }

    fn facts_until(&self, later: &Self) -> Environment {
        let mut facts = Environment::default();
        let elapsed = later.now_us - self.now_us;
        if elapsed > 0.0 {
            for (resource, (before, after)) in Resource::ALL.iter().zip(self.waited_us.iter().zip(&later.waited_us)) {
                if let (Some(before), Some(after)) = (before, after) {
                    let percent = 100.0 * (after - before) / elapsed;
                    put(&mut facts, &format!("run.during.{}_pressure_percent", resource.name()), percent);
                }
            }
        }
        if let (Some(before), Some(after)) = (self.ticks, later.ticks) {
            let [all, stolen, idle] = [0, 1, 2].map(|part| after[part] - before[part]);
            if all > 0.0 {
                put(&mut facts, "run.during.stolen_percent", 100.0 * stolen / all);
                put(&mut facts, "run.during.busy_percent", 100.0 * (all - idle) / all);
                if let (Some(before), Some(after)) = (self.our_ticks, later.our_ticks) {
                    let others = (all - idle - stolen - (after - before)).clamp(0.0, all);
                    put(&mut facts, "run.during.others_percent", 100.0 * others / all);
                }
            }
        }
        facts
    }
}

/// Rounds to a hundredth.
fn put(facts: &mut Environment, name: &str, value: f64) {
    facts.0.insert(name.into(), ((value * 100.0).round() / 100.0).into());
}

fn first_number(text: &str) -> Option<f64> {
    text.split_whitespace().next()?.parse().ok()
}

/// Reads the clock ticks of all processors since boot: total, stolen, idle.
pub(crate) fn ticks_now() -> Option<[f64; 3]> {
    ticks(&fs::read_to_string("/proc/stat").ok()?)
}

/// Parses the line `cpu user nice system idle iowait irq softirq steal guest guest_nice` (proc_stat(5)); user time includes guest
/// time.
fn ticks(stat: &str) -> Option<[f64; 3]> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let values: Vec<f64> = line.split_whitespace().take(8).map(str::parse).collect::<Result<_, _>>().ok()?;
    let [.., idle, waiting, _, _, stolen] = values[..] else { return None };
    Some([values.iter().sum(), stolen, idle + waiting])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_statistics_are_parsed() {
        assert_eq!(ticks("cpu  10 1 5 100 4 0 2 8 3 0\ncpu0 1 1 1 1\n"), Some([130.0, 8.0, 104.0]));
        assert_eq!(ticks("cpu 1 2 3\n"), None);
    }

    #[test]
    fn shares_cover_the_interval() {
        let at = |now_us: f64, waited: f64, ticks: [f64; 3]| Counters {
            waited_us: [Some(waited), None, Some(0.0)],
            ticks: Some(ticks),
            our_ticks: Some(ticks[0] / 4.0),
            now_us,
        };
        let facts = at(0.0, 100.0, [0.0; 3]).facts_until(&at(1000.0, 350.0, [200.0, 10.0, 50.0]));
        assert_eq!(facts.0["run.during.others_percent"], 45.0, "of 150 busy ticks 10 stolen and 50 ours");
        let lost = lost_to_others(&facts).unwrap();
        assert!((lost - (0.45 + 0.05 / 0.75)).abs() < 1e-9, "{lost}: a fifteenth of what was not idle was stolen");
        assert_eq!(lost_to_others(&Environment::default()), None);
        assert_eq!(facts.0["run.during.cpu_pressure_percent"], 25.0);
        assert_eq!(
            (&facts.0["run.during.stolen_percent"], &facts.0["run.during.busy_percent"]),
            (&5.0.into(), &75.0.into())
        );
        assert!(!facts.0.contains_key("run.during.memory_pressure_percent"), "unknown values are omitted");
        assert_eq!(caveats(&facts).len(), 2);
    }
}
