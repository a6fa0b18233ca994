//! Results over time: all runs below some directories in one list, and the history of each metric with its change
//! points.

mod baseline;
mod find;
mod metric_history;
mod present;
mod scrape;
mod tidy_table;

pub(crate) use baseline::BaselineComparison;
pub use baseline::against_baseline;
pub use find::is_run;
pub(crate) use find::run_directories;
pub(crate) use metric_history::MetricHistory;
pub use metric_history::{HistoryPoints, MetricHistories};
pub use present::{analysis, list, runs_table};
pub use scrape::prometheus;
pub use tidy_table::{COLUMNS, rows};

use crate::import::DATED_BY_FILE;
use crate::measurements;
use rayon::prelude::*;
use senesce_core::record::{Overview, RecordError};
use senesce_core::{ExitCode, Failure, Measurement, Plan, Progress, Record, Silent};
use senesce_runner::{Identity, Registry};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// How far a run came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It has its result.
    Complete,
    /// It was interrupted, failed in part, or still runs.
    Partial,
    /// Its record contradicts itself, or was altered.
    Damaged,
    /// Its record cannot be read by this version.
    Unreadable,
}

impl State {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Partial => "partial",
            Self::Damaged => "damaged",
            Self::Unreadable => "unreadable",
        }
    }
}

/// Name of a machine without one, such as a guest (`UTS_NODENAME` of the kernel).
const UNNAMED: &str = "(none)";

/// One run in the list. Unrecorded facts are `None`: imported results have no machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListedRun {
    pub run: PathBuf,
    /// When it began (RFC 3339, UTC).
    pub date: Option<String>,
    /// The source of the date of imported results, if not the results themselves ("the time of their file").
    #[serde(skip_serializing_if = "Option::is_none")]
    pub date_from: Option<String>,
    /// The machine; `None` if unrecorded, as in a guest that does not know its host.
    pub host: Option<String>,
    /// How the guest ran (`uml`, `kvm` or `tcg`), if the run was made in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guest: Option<String>,
    /// The user's label.
    pub label: Option<String>,
    pub commit: Option<String>,
    /// The kernels of the guests that were measured, otherwise that of the machine.
    pub kernel: Option<String>,
    /// The experiment's id or the verb.
    pub kind: Option<String>,
    /// Stands for kind and specification whatever the seed: runs with the same value repeat each other.
    pub setting: Option<String>,
    /// Root seed.
    pub seed: Option<u64>,
    pub version: Option<String>,
    /// How far it came.
    pub state: State,
    /// Its result, in a few words.
    pub verdict: String,
    /// The command that repeats or continues it.
    pub command: Option<String>,
    #[serde(skip)]
    pub(crate) identity: Identity,
}

impl ListedRun {
    /// Reads no events.
    fn head(run: &Path) -> Self {
        match Overview::read(run) {
            Ok(found) => Self::known(found),
            Err(error) => Self::without_values(run, state_of(&error), without_hint(&error)),
        }
    }

    /// Reads the events. Returns the run and its values.
    fn with_events(self, registry: &Registry, use_of_values: Values) -> (Self, MeasuredRun) {
        if matches!(self.state, State::Unreadable | State::Damaged) {
            let why = self.verdict.clone();
            return (self, Err(why));
        }
        let failed = |found: Self, state: State, why: String| (Self { state, verdict: why.clone(), ..found }, Err(why));
        let record = match Record::open(&self.run) {
            Ok(record) => record,
            Err(error) => return failed(self, state_of(&error), without_hint(&error)),
        };
        match values(registry, &record) {
            Ok(values) => {
                let found = Self { identity: Identity::of(&record, &values), ..self };
                let values = match use_of_values {
                    Values::Unused => Ok(Vec::new()),
                    Values::Used if values.is_empty() => {
                        measurements::of(registry, &record).map_err(|failure| failure.to_string())
                    }
                    Values::Used => Ok(measurements::timed(&record, values)),
                };
                (found, values)
            }
            Err((state, why)) => failed(self, state, why),
        }
    }

    fn known(found: Overview) -> Self {
        let fact = |name: &str| found.fact(name).map(str::to_string);
        let is_guest = fact("vm.accelerator").is_some();
        Self {
            date: fact("run.date"),
            date_from: fact("run.date_from").filter(|from| from == DATED_BY_FILE),
            host: fact("machine.host").filter(|name| !is_guest || name != UNNAMED),
            guest: fact("vm.accelerator"),
            label: fact("run.label"),
            commit: fact("program.commit"),
            kernel: match found.plan.guest_kernels() {
                guests if guests.is_empty() => fact("kernel.release"),
                guests => Some(guests.join(", ")),
            },
            setting: Some(setting(&found.plan)),
            seed: Some(found.plan.seed.0),
            state: if found.is_partial() { State::Partial } else { State::Complete },
            verdict: found.summary.as_deref().map_or_else(|| "did not complete".into(), verdict),
            kind: Some(found.plan.kind),
            version: Some(found.plan.program_version),
            command: Some(found.plan.command),
            run: found.path,
            identity: Identity::default(),
        }
    }

    fn without_values(run: &Path, state: State, why: String) -> Self {
        let run = run.to_path_buf();
        let (date, date_from, host, guest, label, commit, kernel, kind) = Default::default();
        let (setting, seed, version, command) = Default::default();
        Self {
            run,
            date,
            date_from,
            host,
            guest,
            label,
            commit,
            kernel,
            kind,
            setting,
            seed,
            version,
            state,
            verdict: why,
            command,
            identity: Identity::default(),
        }
    }

    /// Returns the machine, and whether the run was made in a guest on it: their times are not comparable.
    pub fn machine(&self) -> Option<String> {
        match (&self.host, &self.guest) {
            (host, None) => host.clone(),
            (Some(host), Some(_)) => Some(format!("{host}, in a guest")),
            (None, Some(_)) => Some("a guest".into()),
        }
    }

    pub fn name(&self) -> String {
        self.run.file_name().unwrap_or(self.run.as_os_str()).to_string_lossy().into_owned()
    }
}

/// Imports of files with the same name are one setting: the identity of the file does not affect the result.
fn setting(plan: &Plan) -> String {
    let number = match plan.spec.contains_key("crc32") {
        true => {
            let mut plan = plan.clone();
            plan.spec.remove("crc32");
            plan.setting()
        }
        false => plan.setting(),
    };
    format!("{number:08x}")
}

/// The summary fields of a result; all others are ignored.
#[derive(Deserialize)]
struct ResultSummary {
    answer: Option<Value>,
    verdict: Option<Value>,
    findings: Option<Value>,
}

fn verdict(summary: &[u8]) -> String {
    let Ok(stated) = serde_json::from_slice::<ResultSummary>(summary) else { return "done".into() };
    let text = |value: Option<Value>| value.as_ref().and_then(Value::as_str).map(str::to_string);
    let counted = || findings(stated.findings.as_ref()?.as_array()?);
    text(stated.answer).or_else(|| text(stated.verdict)).or_else(counted).unwrap_or_else(|| "done".into())
}

fn findings(found: &[Value]) -> Option<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for finding in found {
        *counts.entry(finding.get("verdict")?.as_str()?).or_default() += 1;
    }
    let words: Vec<String> = counts.iter().map(|(word, count)| format!("{count} {}", word.replace('-', " "))).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

/// The values of a run, or why they cannot be read.
pub type MeasuredRun = Result<Vec<Measurement>, String>;

/// Whether the values of runs are used. Otherwise their events are read only to find damage and copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values {
    Used,
    Unused,
}

/// Runs whose events are read at the same time. Only their values are in memory.
const AT_ONCE: usize = 64;

/// Returns all runs below some directories, by date; those without one come first.
pub fn entries(registry: &Registry, below: &[PathBuf]) -> Result<Vec<ListedRun>, Failure> {
    wanted_entries(registry, below, |_| true)
}

/// Returns the runs as [`entries`] does, without the events of unwanted ones.
pub fn wanted_entries(
    registry: &Registry,
    below: &[PathBuf],
    is_wanted: impl Fn(&ListedRun) -> bool + Sync,
) -> Result<Vec<ListedRun>, Failure> {
    Ok(read_events(registry, heads(below, is_wanted)?, Values::Unused, &Silent, &mut |_, _| {}))
}

/// Returns the wanted runs by date, without their events.
pub fn heads(below: &[PathBuf], is_wanted: impl Fn(&ListedRun) -> bool + Sync) -> Result<Vec<ListedRun>, Failure> {
    let heads = run_directories(below)?.into_par_iter().map(|run| ListedRun::head(&run));
    let mut found: Vec<ListedRun> = heads.filter(&is_wanted).collect();
    found.sort_by(|a, b| a.date.cmp(&b.date).then_with(|| a.run.cmp(&b.run)));
    Ok(found)
}

/// Reads the events of runs, and passes each run in turn with its values to `each`.
pub fn read_events(
    registry: &Registry,
    heads: Vec<ListedRun>,
    use_of_values: Values,
    progress: &dyn Progress,
    each: &mut dyn FnMut(&ListedRun, MeasuredRun),
) -> Vec<ListedRun> {
    progress.phase("read runs", heads.len() as u64, "runs");
    let (mut heads, mut entries) = (heads.into_iter(), Vec::new());
    loop {
        let next: Vec<ListedRun> = heads.by_ref().take(AT_ONCE).collect();
        if next.is_empty() {
            return entries;
        }
        let read: Vec<_> = next.into_par_iter().map(|run| run.with_events(registry, use_of_values)).collect();
        for (entry, values) in read {
            each(&entry, values);
            entries.push(entry);
        }
        progress.position(entries.len() as u64, "");
    }
}

fn without_hint(error: &impl Display) -> String {
    error.to_string().split("\nhint:").next().unwrap_or_default().into()
}

/// Returns the recorded values of a run, or why its record is damaged or unreadable. A run of a kind that this version
/// does not know has none.
fn values(registry: &Registry, record: &Record) -> Result<Vec<Measurement>, (State, String)> {
    // A run may end before it records anything.
    if record.events.is_empty() {
        return Ok(Vec::new());
    }
    match registry.kind(&record.plan).and_then(|kind| kind.measurements(record)) {
        Err(failure) if failure.exit_code() == ExitCode::RunFailed => {
            Err((state_after(&failure), without_hint(&failure)))
        }
        read => Ok(read.unwrap_or_default()),
    }
}

fn state_of(error: &RecordError) -> State {
    if error.is_damage() { State::Damaged } else { State::Unreadable }
}

/// Returns the state of a record whose values cannot be read. A denied permission does not make it damaged.
fn state_after(failure: &Failure) -> State {
    match failure.origin::<RecordError>() {
        Some(RecordError::Io(error)) if error.kind() != ErrorKind::NotFound => State::Unreadable,
        _ => State::Damaged,
    }
}

/// Returns whether a record is damaged or unreadable, and why, as a report of it does.
pub fn damage(registry: &Registry, record: &Record) -> Option<(State, String)> {
    values(registry, record).err()
}

/// Opens runs in parallel, and returns what `of` makes of them in the order of their paths.
pub fn each_record<T: Send>(runs: &[PathBuf], of: impl Fn(&Path, Result<Record, RecordError>) -> T + Sync) -> Vec<T> {
    runs.par_iter().map(|run| of(run, Record::open(run))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;
    use senesce_core::{Environment, IoFailure, Seed};

    fn listed(facts: &[(&str, &str)]) -> ListedRun {
        let mut environment = Environment::default();
        facts.iter().for_each(|(name, value)| environment.put(name, value));
        let plan = Plan::default_of("age", Seed(1));
        ListedRun::known(Overview { path: "run".into(), plan, environment, summary: None })
    }

    #[test]
    fn record_that_cannot_be_read_here_is_not_damaged() {
        let state = |errno: Errno| state_after(&RecordError::from(IoFailure::new("read", "1-read.hdr", errno)).into());
        assert_eq!([Errno::ACCESS, Errno::MFILE, Errno::NOMEM].map(state), [State::Unreadable; 3]);
        assert_eq!(state(Errno::NOENT), State::Damaged);
    }

    #[test]
    fn kernel_of_a_guest_precedes_that_of_its_host() {
        let mut environment = Environment::default();
        environment.put("kernel.release", "6.18.0-host");
        let mut plan = Plan::default_of("gate", Seed(1));
        plan.spec.insert("kernel".into(), "6.12.95-uml".into());
        let found = Overview { path: "run".into(), plan, environment, summary: None };
        assert_eq!(ListedRun::known(found).kernel.as_deref(), Some("6.12.95-uml"));
        assert_eq!(listed(&[("kernel.release", "6.1.0")]).kernel.as_deref(), Some("6.1.0"));
    }

    #[test]
    fn run_in_a_guest_counts_to_its_machine_with_a_series_of_its_own() {
        let own = listed(&[("machine.host", "builder")]);
        let guest = listed(&[("machine.host", "builder"), ("vm.accelerator", "uml")]);
        assert_eq!((&own.host, &own.guest), (&Some("builder".into()), &None));
        assert_eq!((&guest.host, &guest.guest), (&Some("builder".into()), &Some("uml".into())));
        assert_ne!(own.machine(), guest.machine());
        // A guest of QEMU does not know its host.
        let unnamed = listed(&[("machine.host", UNNAMED), ("vm.accelerator", "tcg")]);
        assert_eq!(unnamed.host, None);
        assert!(unnamed.machine().is_some_and(|machine| machine != UNNAMED));
        assert_eq!(present::machines(&[own, guest, unnamed]).len(), 1);
    }
}
