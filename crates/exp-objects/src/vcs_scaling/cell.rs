//! One system with one number of files or one file size, on a fresh file system.

use super::{Spec, VcsScaling, find_program};
use senesce_core::failure::failed;
use senesce_core::heartbeat::watched;
use senesce_core::{Bytes, Failure};
use senesce_objstore::error::StoreError;
use senesce_objstore::store::sync_file_system;
use senesce_objstore::vcs::files::{self, SMALL_BYTES};
use senesce_objstore::vcs::{Outcome, ProcessResult, Repository, Step, System, run};
use senesce_runner::Context;
use senesce_volume::open;
use serde::{Deserialize, Serialize};
use std::fs;
use std::time::Instant;

/// Data to store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum CellKind {
    /// This number of files of 1 KiB.
    ManyFiles(u64),
    /// One file of this number of bytes.
    FileSize(u64),
}

impl CellKind {
    pub(crate) fn bytes(self) -> u64 {
        match self {
            Self::ManyFiles(count) => count * SMALL_BYTES,
            Self::FileSize(size) => size,
        }
    }

    pub(crate) fn text(self) -> String {
        match self {
            Self::ManyFiles(count) => format!("{count} files"),
            Self::FileSize(size) => format!("a file of {}", Bytes(size)),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Cell {
    pub system: System,
    pub kind: CellKind,
    pub repeat: u64,
}

/// A program that is not installed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Skipped {
    pub system: String,
    pub program: String,
    pub package: String,
}

impl Skipped {
    pub(crate) fn text(&self) -> String {
        format!("{} is skipped: {} is not installed (apt-get install {})", self.system, self.program, self.package)
    }
}

/// Total time of the commands of a step.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct StepTime {
    pub step: String,
    pub seconds: f64,
    pub user_seconds: f64,
    pub system_seconds: f64,
    pub peak_bytes: u64,
    /// Time of a sync afterwards, for data that the system left in the page cache. Not part of `seconds`.
    pub sync_seconds: f64,
}

/// A measured cell.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct MeasuredCell {
    pub system: String,
    pub kind: CellKind,
    pub repeat: u64,
    pub steps: Vec<StepTime>,
    /// Bytes on disk of tree and repository, by step.
    pub sizes: Vec<(String, u64)>,
    /// Whether the restored second version equals the tree; `null` if the cell ended before.
    pub verified: Option<bool>,
    /// The error that ended the cell early, or the difference.
    pub problem: Option<String>,
    /// The kind of early end.
    #[serde(default)]
    pub ended: Option<CellEnd>,
}

/// Kinds of an early end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum CellEnd {
    /// A commit was rejected by its system.
    Rejected,
    /// Another command failed, or the restored version differs.
    Failed,
    /// Ended by the machine: time limit, signal or no space.
    Cut,
}

impl MeasuredCell {
    pub(crate) fn step(&self, name: &str) -> Option<&StepTime> {
        self.steps.iter().find(|step| step.step == name)
    }

    pub(crate) fn size(&self, name: &str) -> Option<u64> {
        self.sizes.iter().find(|(step, _)| step == name).map(|(_, bytes)| *bytes)
    }
}

const TREE: &str = "tree";

impl Cell {
    pub(crate) fn text(&self) -> String {
        format!("{}, {}, round {}", self.system.name(), self.kind.text(), self.repeat + 1)
    }

    pub(super) fn measure(&self, spec: &Spec, context: &mut Context<'_, VcsScaling>) -> Result<MeasuredCell, Failure> {
        let target = open(&spec.target, &spec.options(context)?)?;
        context.add_environment(&target.environment())?;
        let root = target.mount_point();
        let place = Repository {
            work: root.join("work"),
            tree: TREE.into(),
            home: root.join("home"),
            restored: root.join("restored"),
            senesce: find_program("senesce").unwrap_or_default(),
        };
        let mut measured = MeasuredCell {
            system: self.system.name().into(),
            kind: self.kind,
            repeat: self.repeat,
            steps: Vec::new(),
            sizes: Vec::new(),
            verified: None,
            problem: None,
            ended: None,
        };
        let outcome = self.steps(spec, context, &place, &mut measured);
        match outcome {
            Ok(()) => {}
            // Running out of space is a result of this cell, not the end of the run.
            Err(Stop::Problem(problem, ended)) => (measured.problem, measured.ended) = (Some(problem), Some(ended)),
            Err(Stop::Failure(failure)) => return Err(failure),
        }
        if measured.ended == Some(CellEnd::Rejected) {
            measured.verified = self.survives(spec, context, &place)?;
        }
        target.close()?;
        Ok(measured)
    }

    fn steps(
        &self,
        spec: &Spec,
        context: &Context<'_, VcsScaling>,
        place: &Repository,
        measured: &mut MeasuredCell,
    ) -> Result<(), Stop> {
        for folder in [&place.work, &place.home, &place.restored] {
            fs::create_dir(folder).map_err(failed("make directory", folder))?;
        }
        let tree = place.work.join(TREE);
        // The same data for every system.
        let mut random = context.seed.stream(&format!("vcs-scaling/{}/{}", self.kind.text(), self.repeat));
        let timed = |step: Step, name: &str, measured: &mut MeasuredCell| {
            self.timed(step, name, spec, context, place).map(|time| measured.steps.extend(time))
        };
        timed(Step::Init, "init", measured)?;
        let begun = Instant::now();
        match self.kind {
            CellKind::ManyFiles(count) => files::generate_many(&tree, count, &mut random)?,
            CellKind::FileSize(size) => {
                fs::create_dir(&tree).map_err(failed("make directory", &tree))?;
                files::generate_large(&tree.join("large_file"), size, &mut random)?;
            }
        }
        measured.steps.push(StepTime::plain("generate", begun.elapsed().as_secs_f64()));
        timed(Step::FirstCommit, "commit1", measured)?;
        measured.sizes.push(("commit1".into(), files::disk_usage(&place.work)?));
        timed(Step::Status, "status1", measured)?;
        files::edit(&tree, &mut random)?;
        timed(Step::Status, "status2", measured)?;
        timed(Step::SecondCommit, "commit2", measured)?;
        measured.sizes.push(("commit2".into(), files::disk_usage(&place.work)?));
        if matches!(self.kind, CellKind::FileSize(_)) {
            timed(Step::Gc, "gc", measured)?;
            measured.sizes.push(("gc".into(), files::disk_usage(&place.work)?));
        }
        timed(Step::Restore, "restore", measured)?;
        let difference = files::difference(&tree, &place.restored_tree(self.system))?;
        measured.verified = Some(difference.is_none());
        difference.map_or(Ok(()), |message| {
            Err(Stop::Problem(format!("the restored version differs from the tree: {message}"), CellEnd::Failed))
        })
    }

    /// Returns whether a commit holds the data although its system reported an error; `None` if nothing could be
    /// restored.
    fn survives(
        &self,
        spec: &Spec,
        context: &Context<'_, VcsScaling>,
        place: &Repository,
    ) -> Result<Option<bool>, Failure> {
        let found = self.timed(Step::Restore, "restore", spec, context, place).and_then(|_| {
            let restored = place.restored_tree(self.system);
            let exists = restored.is_dir();
            Ok(if exists { Some(files::difference(&place.work.join(TREE), &restored)?.is_none()) } else { None })
        });
        match found {
            Ok(found) => Ok(found),
            Err(Stop::Problem(..)) => Ok(None),
            Err(Stop::Failure(failure)) => Err(failure),
        }
    }

    fn timed(
        &self,
        step: Step,
        name: &str,
        spec: &Spec,
        context: &Context<'_, VcsScaling>,
        place: &Repository,
    ) -> Result<Option<StepTime>, Stop> {
        let commands = self.system.commands(step, place);
        if commands.is_empty() {
            return Ok(None);
        }
        let mut sum = StepTime::plain(name, 0.0);
        for mut command in commands {
            context.check_interrupt()?;
            let (ran, lost) = watched(|| run(&mut command, spec.time_limit.0, context.interrupt));
            let ran = ran?;
            context.check_interrupt()?;
            lost.map_or(Ok(()), |lost| Err(Stop::Failure(lost.into())))?;
            sum.add(&ran);
            if let Some(problem) = problem(&ran) {
                let program = command.get_program().to_string_lossy().into_owned();
                return Err(Stop::Problem(format!("{name}: {program} {problem}"), ended(step, &ran.outcome)));
            }
        }
        let begun = Instant::now();
        sync_file_system(&place.work)?;
        sum.sync_seconds = begun.elapsed().as_secs_f64();
        Ok(Some(sum))
    }
}

impl StepTime {
    fn plain(step: &str, seconds: f64) -> Self {
        let (user_seconds, system_seconds) = (0.0, 0.0);
        Self { step: step.into(), seconds, user_seconds, system_seconds, peak_bytes: 0, sync_seconds: 0.0 }
    }

    fn add(&mut self, ran: &ProcessResult) {
        self.seconds += ran.seconds;
        self.user_seconds += ran.user_seconds;
        self.system_seconds += ran.system_seconds;
        self.peak_bytes = self.peak_bytes.max(ran.peak_bytes);
    }
}

fn problem(ran: &ProcessResult) -> Option<String> {
    match &ran.outcome {
        Outcome::Done => None,
        Outcome::Failed(status, output) => Some(format!("ended with status {status}: {output}")),
        Outcome::Killed(signal) => Some(format!("was ended by signal {signal}")),
        Outcome::TimedOut => Some(format!("was ended after {:.0} s, the time limit", ran.seconds)),
    }
}

/// Classifies a failed command. A full file system is recognized by the program's message.
fn ended(step: Step, outcome: &Outcome) -> CellEnd {
    let is_commit = matches!(step, Step::FirstCommit | Step::SecondCommit);
    match outcome {
        Outcome::Failed(_, output) if output.contains("No space left on device") => CellEnd::Cut,
        Outcome::Failed(..) if is_commit => CellEnd::Rejected,
        Outcome::Failed(..) | Outcome::Done => CellEnd::Failed,
        Outcome::Killed(_) | Outcome::TimedOut => CellEnd::Cut,
    }
}

/// An early end of a cell, as its result or as the end of the run.
enum Stop {
    Problem(String, CellEnd),
    Failure(Failure),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        if error.is_full() { Self::Problem(error.to_string(), CellEnd::Cut) } else { Self::Failure(error.into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_commits_refused_by_their_system_are_rejected() {
        let failed = |message: &str| Outcome::Failed(255, message.into());
        assert_eq!(ended(Step::FirstCommit, &failed("abort: up to 2 GiB")), CellEnd::Rejected);
        assert_eq!(ended(Step::FirstCommit, &failed("write: No space left on device")), CellEnd::Cut);
        assert_eq!(ended(Step::SecondCommit, &Outcome::TimedOut), CellEnd::Cut);
        assert_eq!(ended(Step::Gc, &failed("no")), CellEnd::Failed);
    }
}
