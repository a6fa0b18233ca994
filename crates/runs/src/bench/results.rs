//! The content of a `bench` record.

use super::ranks::RankRepetitions;
use super::spec::Spec;
use super::{Bench, Event, MeasuredColdRead, PreparedFacts};
use senesce_core::heartbeat::LostTime;
use senesce_core::{ExitCode, Failure, Record};
use senesce_runner::{Recorded, Run};
use senesce_workload::micro::{CallResult, FileOpsResult};
use senesce_workload::{BenchResult, FilesetSummary, Repetition};
use serde_json::{Value, json};
use std::path::Path;

/// All measurements in order. A repetition that was interrupted and repeated counts once, the last.
#[derive(Debug, Clone, Default)]
pub struct Results {
    pub name: String,
    pub filesets: Vec<FilesetSummary>,
    pub repetitions: Vec<Repetition>,
    pub file_ops: Vec<FileOpsResult>,
    pub calls: Vec<CallResult>,
    pub cold_reads: Vec<MeasuredColdRead>,
    /// Whether the user kept the caches, so that no cold read was cross-checked.
    pub caches_kept: bool,
    pub ranks: Vec<RankRepetitions>,
    pub notes: Vec<String>,
}

impl Results {
    pub(crate) fn of(spec: &Spec, recorded: &Recorded<Bench>) -> Self {
        let name = spec.subject(recorded.seed).map_or_else(|_| spec.workload.clone(), |subject| spec.name(&subject));
        let (notes, caches_kept) = (recorded.caveats(), spec.how.keep_caches);
        let mut results = Self { name, notes, caches_kept, ..Self::default() };
        for event in recorded.events().cloned() {
            match event {
                Event::Prepared(PreparedFacts { filesets, .. }) => results.filesets = filesets,
                Event::Repetition(one) => push(&mut results.repetitions, *one, |one| one.interrupted),
                Event::FileOps(one) => results.file_ops.push(one),
                Event::Calls(one) => results.calls.push(one),
                Event::ColdRead(one) => push(&mut results.cold_reads, *one, |one| one.read.interrupted),
                Event::Ranks(rows) => {
                    results.ranks.retain(|other| other.repetition != rows.repetition);
                    results.ranks.push(rows);
                }
                Event::Target(_) | Event::KernelWarnings(_) | Event::Members(_) => {}
            }
        }
        results
    }

    /// Returns 0; 1 if a repetition is invalid; 5 if I/O failed or no cold read is valid.
    pub(crate) fn exit_code(&self) -> ExitCode {
        let is_lost =
            self.file_ops.iter().any(|one| one.lost.is_some()) || self.calls.iter().any(|one| one.lost.is_some());
        let invalid = self.cold_reads.iter().filter(|one| one.invalid.is_some()).count();
        if is_lost {
            return ExitCode::Negative;
        }
        if invalid > 0 {
            return if invalid == self.cold_reads.len() { ExitCode::RunFailed } else { ExitCode::Negative };
        }
        if self.repetitions.iter().all(|repetition| repetition.valid) {
            return ExitCode::Done;
        }
        let io_failed = self.repetitions.iter().any(|repetition| repetition.io_failed);
        if io_failed { ExitCode::RunFailed } else { ExitCode::Negative }
    }

    pub(crate) fn workload(&self) -> BenchResult {
        BenchResult {
            workload: self.name.clone(),
            repetitions: self.repetitions.clone(),
            filesets: self.filesets.clone(),
            notes: self.notes.clone(),
        }
    }

    pub(crate) fn benchmark(&self) -> Value {
        match (self.file_ops.is_empty(), self.calls.is_empty()) {
            (false, _) => self.with_repetitions(self.file_ops.iter().map(|one| with_validity(json!(one), one.lost))),
            (_, false) => self.with_repetitions(self.calls.iter().map(|one| with_validity(json!(one), one.lost))),
            _ => self.with_repetitions(self.cold_reads.iter().map(|one| cold_value(one, self.caches_kept))),
        }
    }

    fn with_repetitions(&self, repetitions: impl Iterator<Item = Value>) -> Value {
        json!({ "benchmark": self.name, "repetitions": repetitions.collect::<Vec<_>>() })
    }
}

/// Replaces an interrupted entry by its repetition.
fn push<T>(found: &mut Vec<T>, one: T, is_interrupted: impl Fn(&T) -> bool) {
    found.pop_if(|last| is_interrupted(last));
    found.push(one);
}

fn with_validity(mut value: Value, lost: Option<LostTime>) -> Value {
    value["valid"] = json!(lost.is_none());
    value["reason"] = json!(lost.map(|lost| lost.to_string()));
    value
}

fn cold_value(measured: &MeasuredColdRead, caches_kept: bool) -> Value {
    let mut value = json!(measured.read);
    value["valid"] = json!(measured.invalid.is_none());
    value["reason"] = json!(measured.invalid);
    value["account"] = json!(measured.account);
    let account = measured.account.as_ref().filter(|_| !caches_kept && !measured.read.interrupted);
    let state = |has_counter| if has_counter { "checked" } else { "not checked" };
    value["cross_checks"] = json!({
        "device_bytes": state(account.is_some_and(|account| account.device_bytes.is_some() && !account.in_memory)),
        "device_busy_time": state(account.is_some_and(|account| account.device_busy_ms.is_some())),
    });
    if let Some(trace) = &measured.trace {
        value["trace"] = trace.to_json();
    }
    value
}

pub fn read(path: &Path) -> Result<Results, Failure> {
    let record = Record::open(path)?;
    let spec = senesce_runner::spec_of::<Bench>(&record)?;
    debug_assert_eq!(record.plan.kind, Bench::KIND);
    Ok(Results::of(&spec, &Recorded::of(&record)?))
}
