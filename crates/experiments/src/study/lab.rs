//! Cells in the lab: the guest runs the same study, restricted to them, and writes an ordinary run directory into a folder
//! shared with it. What it recorded is checked and taken over.

use super::conduct::memory_needed;
use super::images::memory_available;
use super::matrix::{RunId, runs};
use super::spec::{CellSpec, StudySpec};
use crate::lab_cell::own_program;
use crate::study::conduct::FailureEvent;
use senesce_core::failure::errno_words;
use senesce_core::{Bytes, Environment, ExitCode, Failure, Record, RunContext};
use senesce_lab::{Drive, LabRun, kernel};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Cells that a guest measured; stored as the event `lab-cells`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LabCells {
    /// Kernel of the guest.
    pub kernel: String,
    /// `kvm`, or `tcg` for emulation.
    pub accelerator: String,
    /// The guest's run directory, below this one.
    pub directory: String,
    /// Runs taken over.
    pub runs: usize,
}

/// Name of the kernel that is asked for, and its runs.
pub type Groups = BTreeMap<String, Vec<RunId>>;

/// Splits runs into those done here and those of the lab, by kernel.
pub fn split(spec: &StudySpec, all: Vec<RunId>) -> (Vec<RunId>, Groups) {
    let (mut here, mut groups) = (Vec::new(), Groups::new());
    for id in all {
        match spec.lab_kernel(id.on.fs, id.on.state, &spec.workload[id.workload].name) {
            None => here.push(id),
            Some(kernel) => groups.entry(kernel).or_default().push(id),
        }
    }
    (here, groups)
}

/// The same study with nothing but the cells of these runs. Indices, and so seeds, stay.
pub fn restricted(spec: &StudySpec, wanted: &[RunId]) -> StudySpec {
    let keep: BTreeSet<_> = wanted.iter().map(|id| (id.on.fs, id.on.state, id.workload)).collect();
    let mut part = spec.clone();
    for one in &mut part.file_system {
        one.kernel.clear();
    }
    for one in &mut part.cell {
        one.lab = false;
        one.kernel.clear();
    }
    let left_out = spec.combinations().filter(|cell| !keep.contains(cell)).map(|(fs, state, workload)| CellSpec {
        file_system: spec.file_system[fs].name.clone(),
        state: spec.state[state].name.clone(),
        workload: spec.workload[workload].name.clone(),
        skip: true,
        ..CellSpec::default()
    });
    part.cell.extend(left_out);
    part
}

/// Measures the runs of one kernel in a guest. What the guest did not do is recorded as failed.
pub fn run_group(spec: &StudySpec, name: &str, wanted: &[RunId], context: &mut RunContext<'_>) -> Result<(), Failure> {
    context.progress.phase(&format!("{} runs in the lab", wanted.len()), 0, "runs");
    let outcome = measure(spec, name, wanted, context);
    let reason = match outcome {
        Ok(done) if wanted.iter().all(|id| done.contains(id)) => return Ok(()),
        Ok(_) => "the guest did not run it".to_string(),
        Err(failure) if context.interrupt.requested() => return Err(failure),
        Err(failure) => format!("in the lab: {failure}"),
    };
    context.progress.say(&reason);
    let recorded = super::conduct::done_in(&Record::open(context.directory.path())?.events);
    for id in wanted.iter().filter(|id| !recorded.contains(id)) {
        context.directory.append("failed-run", &FailureEvent { id: *id, reason: reason.clone() })?;
    }
    Ok(())
}

fn measure(
    spec: &StudySpec,
    name: &str,
    wanted: &[RunId],
    context: &mut RunContext<'_>,
) -> Result<BTreeSet<RunId>, Failure> {
    let kernel = kernel::choose(Some(name).filter(|name| !name.is_empty()))?;
    let part = restricted(spec, wanted);
    let share = folder(context.directory.path(), &kernel.version)?;
    let (toml, inside) = (share.join("study.toml"), share.join("run"));
    let text = super::embed(&part)?;
    fs::write(&toml, &text).map_err(|error| failed("write", &toml, &error))?;
    let words = ["-q", "study", &toml.to_string_lossy(), "--out", &inside.to_string_lossy()].map(String::from);
    let command = [own_program()?].into_iter().chain(words).collect();
    let expected = super::matrix::plan(&part, "")?.estimated_seconds;
    let lab = LabRun {
        kernel,
        drives: drives(spec, wanted)?,
        memory: memory(spec, wanted),
        cpus: 2,
        accelerator: None,
        command,
        shares: vec![share],
        // Emulation is slower by a factor of ten to thirty.
        time_limit: Some(Duration::from_secs_f64(300.0 + 30.0 * expected)),
    };
    let (mut out, mut errors) = (Vec::new(), Vec::new());
    let outcome = lab.run(context.interrupt, &mut out, &mut errors)?;
    if outcome.exit_status != 0 {
        let said = String::from_utf8_lossy(&errors);
        let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing").to_string();
        return Err(Failure::new(ExitCode::RunFailed, format!("exit status {}: {last}", outcome.exit_status)));
    }
    let record = checked(&inside, &text)?;
    let done = take_over(&record, context)?;
    let cells = LabCells {
        kernel: outcome.kernel.clone(),
        accelerator: outcome.accelerator.word().into(),
        directory: format!("lab/{}/run", outcome.kernel),
        runs: done.len(),
    };
    context.directory.append("lab-cells", &cells)?;
    let mut environment = Environment::default();
    environment.extend(&format!("guest.{}", outcome.kernel), &record.environment);
    context.directory.add_environment(&environment)?;
    Ok(done)
}

/// What the study says, or more where images would else lie in the slow folder that is shared with the guest: its file
/// system in memory takes most of it (see the lab's guest), and a gibibyte is for the programs.
fn memory(spec: &StudySpec, wanted: &[RunId]) -> Bytes {
    let images: BTreeSet<_> = wanted.iter().map(|id| id.on).collect();
    let needed = memory_needed(spec, &images.into_iter().collect::<Vec<_>>());
    let most = Bytes(memory_available().unwrap_or(0) / 2);
    spec.guest_memory.max(Bytes(needed / 2 * 3 + (1 << 30)).min(most))
}

/// A zoned drive and the conventional one beside it, where a cell asks for them.
fn drives(spec: &StudySpec, wanted: &[RunId]) -> Result<Vec<Drive>, Failure> {
    match wanted.iter().any(|id| spec.file_system[id.on.fs].is_zoned()) {
        true => {
            Ok(super::zoned::emulated(spec.size).iter().map(|text| Drive::parse(text)).collect::<Result<_, _>>()?)
        }
        false => Ok(Vec::new()),
    }
}

fn folder(run: &Path, kernel: &str) -> Result<PathBuf, Failure> {
    let share = run.join("lab").join(kernel);
    fs::create_dir_all(&share).map_err(|error| failed("make directory", &share, &error))?;
    share.canonicalize().map_err(|error| failed("find", &share, &error))
}

/// The guest's record, if it is whole and of the study that was asked for.
fn checked(path: &Path, study: &str) -> Result<Record, Failure> {
    let record = Record::open(path)?;
    let problem = if record.plan.kind != super::KIND || record.plan.settings.get("study").is_none_or(|is| is != study) {
        "holds another study than the one it was given"
    } else if record.is_partial() {
        "is not complete"
    } else {
        return Ok(record);
    };
    Err(Failure::new(ExitCode::RunFailed, format!("the guest's record {} {problem}", path.display())))
}

fn take_over(record: &Record, context: &mut RunContext<'_>) -> Result<BTreeSet<RunId>, Failure> {
    let before = super::conduct::done_in(context.directory.earlier_events());
    for event in
        record.events.iter().filter(|event| ["image", "run", "failed-run", "measurement"].contains(&&*event.kind))
    {
        let id = event.data.get("id").and_then(|id| serde_json::from_value(id.clone()).ok());
        if id.is_none_or(|id: RunId| !before.contains(&id)) {
            context.directory.append(&event.kind, &event.data)?;
        }
    }
    Ok(super::conduct::done_in(&record.events))
}

fn failed(operation: &str, path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(ExitCode::RunFailed, format!("{operation} {}: {}", path.display(), errno_words(error)))
}

/// Checks that the kernels which the study names are set up.
pub fn check(spec: &StudySpec) -> Result<(), Failure> {
    let (_, groups) = split(spec, runs(spec));
    for name in groups.keys() {
        kernel::choose(Some(name.as_str()).filter(|name| !name.is_empty()))?;
    }
    Ok(())
}
