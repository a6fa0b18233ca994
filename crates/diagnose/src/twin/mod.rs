//! The twin: a sparse image with the metadata of a file system and none of its data. The real kernel creates files on
//! it until none fits, and the real tools defragment it, while the original is only read.
//!
//! A twin contains names and sizes of files, so it is readable for its owner only (mode 0600). It is mounted through a
//! server that stores writes in a separate scratch file and drops blocks of zeros: data of a twin are zeros, so they
//! take no space, and every trial begins with the same twin.

mod chain;
mod fewest;
mod fill;
mod make;
mod remedy;
mod sink;
mod trial;

pub(crate) use fill::FillResult;
pub use fill::{EnospcCall, Probe, ends_by};
pub use make::{TwinFacts, make};
pub use trial::Trial;

use crate::error::PrognosisError;
use crate::estimate::{self, CostedLayout, Options, Remedy, WorstFile};
use crate::headroom::{CreatableFiles, NewFiles, SIZES, User};
use crate::plan::Step;
use senesce_core::interrupt::Interrupt;
use senesce_core::{Failure, Progress};
use senesce_devmodel::DeviceModel;
use senesce_volume::FileSystem;
use senesce_volume::file_system::Defragmenter;
use serde::Serialize;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

#[derive(Debug, Clone)]
pub struct TrialRequest {
    pub create: bool,
    pub passes: u32,
    pub command: Vec<String>,
}

impl Default for TrialRequest {
    fn default() -> Self {
        Self { create: true, passes: 3, command: Vec::new() }
    }
}

/// The plan, carried out on a twin.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ExecutedPlan {
    /// The share of the gain that was expected of its files before the trial.
    pub aimed_share: f64,
    /// Files that were moved.
    pub files: u64,
    /// Bytes that were written.
    pub bytes_written: u64,
    /// Seconds of a full read afterwards.
    pub seconds_after: f64,
    /// Its gain over that of the first pass of the tool over everything.
    pub share_of_gain: f64,
    /// Its bytes over those of that pass.
    pub share_of_bytes: f64,
}

/// The effect of the tool that defragments.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToolEffect {
    /// The tool.
    pub tool: String,
    /// Seconds of a full read after its last pass; none: it moved nothing or was killed.
    pub seconds_after: Option<f64>,
    /// In words.
    pub verdict: String,
}

impl ToolEffect {
    fn of(tool: Defragmenter, remedy: &Remedy) -> Self {
        Self {
            tool: tool.command[0].into(),
            seconds_after: Some(remedy.seconds_after),
            verdict: remedy.verdict.clone(),
        }
    }

    fn none(tool: Defragmenter, verdict: String) -> Self {
        Self { tool: tool.command[0].into(), seconds_after: None, verdict }
    }
}

/// A part of the trial that has no result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FailedPart {
    /// The part.
    pub part: Part,
    /// Exit status of its command.
    pub status: Option<i32>,
    /// Number of the signal that ended its command.
    pub signal: Option<i32>,
    /// In words.
    pub reason: String,
}

/// A part of the trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// Creating files until none fits.
    Creations,
    /// The tool that defragments.
    Remedy,
    /// The command of the user.
    Command,
}

impl std::fmt::Display for FailedPart {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let part = match self.part {
            Part::Creations => "creating files",
            Part::Remedy => "the remedy",
            Part::Command => "the command",
        };
        write!(formatter, "{part} failed on the twin: {}", self.reason)
    }
}

/// Verdict on a tool without a result on the twin.
pub(crate) const FAILED: &str = "failed on the twin";

fn verdict_on_tool<'a>(shown: Option<&'a ToolEffect>, failed: &[FailedPart]) -> Option<&'a str> {
    let has_failed = failed.iter().any(|failed| failed.part == Part::Remedy);
    shown.map(|shown| shown.verdict.as_str()).or(has_failed.then_some(FAILED))
}

/// The results on the twin.
#[derive(Debug, Clone, Serialize)]
pub struct TrialResult {
    /// How it was made.
    pub made: TwinFacts,
    /// Seconds of one full read of the files at their addresses on the twin.
    pub now_seconds: f64,
    /// After an ideal defragmentation.
    pub ideal_seconds: f64,
    /// After copying out and back.
    pub rewritten_seconds: f64,
    /// The files that cost most because of their fragments, most first.
    pub worst: Vec<WorstFile>,
    /// Share of the directories and files on the twin that may not be opened.
    pub unseen_share: f64,
    /// The remedies, pass by pass.
    pub remedies: Vec<Remedy>,
    /// The effect of the tool that defragments; none: it was not tried.
    pub defragmenter: Option<ToolEffect>,
    /// The parts that have no result.
    pub failed: Vec<FailedPart>,
    /// The fewest files worth moving, by the effect of the tool's first pass on each.
    pub plan: Vec<Step>,
    /// The files that were moved when it was carried out, in the order of moving.
    pub plan_files: Vec<String>,
    /// The plan carried out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub executed: Option<ExecutedPlan>,
    /// Numbers of files that could be created.
    pub creatable: Vec<CreatableFiles>,
    /// The same with the remaining space.
    pub fills: Vec<FillResult>,
    /// Seconds that all of it took.
    pub elapsed_seconds: f64,
}

pub struct TrialSetup<'a> {
    pub twin: &'a Path,
    pub file_system: FileSystem,
    pub mount_options: String,
    pub options: &'a Options,
    pub model: &'a DeviceModel,
    pub progress: &'a dyn Progress,
    pub interrupt: &'a Interrupt,
}

impl TrialResult {
    /// Records a failure and lets the other parts continue; an interrupt ends all of them.
    fn note(&mut self, part: Part, done: Result<(), PrognosisError>) -> Result<(), PrognosisError> {
        match done {
            Ok(()) => Ok(()),
            Err(PrognosisError::Interrupted) => Err(PrognosisError::Interrupted),
            Err(error) => {
                if part == Part::Remedy && matches!(error, PrognosisError::Full { .. }) {
                    // A remedy that filled the volume makes the results of the passes before it invalid.
                    (self.remedies, self.defragmenter, self.plan) = (Vec::new(), None, Vec::new());
                }
                let ended = match &error {
                    PrognosisError::Ended { status, .. } => Some(*status),
                    _ => None,
                };
                self.failed.push(FailedPart {
                    part,
                    status: ended.and_then(|status| status.code()),
                    signal: ended.and_then(|status| status.signal()),
                    reason: Failure::from(error).chain(),
                });
                Ok(())
            }
        }
    }

    /// Returns the verdict on the tool that defragments; `None` if it was not tried.
    pub(crate) fn verdict_on_tool(&self) -> Option<&str> {
        verdict_on_tool(self.defragmenter.as_ref(), &self.failed)
    }

    /// Returns the number of full reads after which the tool that defragments has paid off, if it is worth it.
    pub(crate) fn tool_pays_after_reads(&self) -> Option<f64> {
        let after = self.defragmenter.as_ref()?.seconds_after?;
        self.remedies.iter().find(|remedy| remedy.seconds_after == after)?.pays_after_reads
    }

    pub fn has_failed(&self) -> bool {
        let nothing = self.remedies.is_empty() && self.creatable.is_empty();
        self.failed.iter().any(|failed| failed.part == Part::Command) || nothing && !self.failed.is_empty()
    }
}

impl TrialSetup<'_> {
    /// Runs the requested parts. `target` names the original in commands. A failed part is recorded in `failed`.
    pub fn run(&self, target: &str, made: TwinFacts, wanted: &TrialRequest) -> Result<TrialResult, PrognosisError> {
        let begun = std::time::Instant::now();
        let before = self.within(|trial| CostedLayout::of(trial.directory(), self.model, self.options))?;
        let mut tried = TrialResult {
            made,
            now_seconds: before.costs[0].seconds,
            ideal_seconds: before.costs[1].seconds,
            rewritten_seconds: before.costs[2].seconds,
            worst: estimate::worst(&before),
            unseen_share: estimate::denied_share(&before.summary),
            remedies: Vec::new(),
            defragmenter: None,
            failed: Vec::new(),
            plan: Vec::new(),
            plan_files: Vec::new(),
            executed: None,
            creatable: Vec::new(),
            fills: Vec::new(),
            elapsed_seconds: 0.0,
        };
        if wanted.create {
            let done = self.create(&mut tried);
            tried.note(Part::Creations, done)?;
        }
        if wanted.passes > 0 {
            let done = remedy::try_tool(self, target, &before, wanted.passes, &mut tried);
            tried.note(Part::Remedy, done)?;
        }
        if !wanted.command.is_empty() {
            let done = remedy::try_command(self, &before, &wanted.command, &mut tried);
            tried.note(Part::Command, done)?;
        }
        tried.elapsed_seconds = begun.elapsed().as_secs_f64();
        Ok(tried)
    }

    fn create(&self, tried: &mut TrialResult) -> Result<(), PrognosisError> {
        let users: &[User] = match self.file_system.entry().keeps_space_for_root {
            true => &[User::User, User::Root],
            false => &[User::Root],
        };
        let trials = SIZES.into_iter().flat_map(|size| users.iter().map(move |user| (size, *user)));
        let trials: Vec<(u64, User)> = trials.collect();
        self.progress.phase("create files on the twin until none fits", trials.len() as u64, "sizes");
        for (done, (size, user)) in trials.into_iter().enumerate() {
            self.check()?;
            let new = NewFiles { size, name_bytes: self.options.name_length };
            let filled = self.within(|trial| fill::fill(trial.directory(), new, user))?;
            let one = |user| CreatableFiles {
                size,
                files: filled.files,
                low: filled.files,
                high: filled.files,
                ends_by: filled.ends_by,
                ends_by_after_sync: (filled.ends_by_after_sync != filled.ends_by).then_some(filled.ends_by_after_sync),
                user,
            };
            if users.len() == 1 {
                tried.creatable.push(one(User::User));
            }
            tried.creatable.push(one(user));
            tried.fills.push(filled);
            self.progress.position(done as u64 + 1, "");
        }
        Ok(())
    }

    /// Mounts the twin for one trial, with the options of the original, and runs `work` on it.
    fn within<T>(&self, work: impl FnOnce(&mut Trial) -> Result<T, PrognosisError>) -> Result<T, PrognosisError> {
        let mut trial = Trial::begin(self.twin, self.file_system, &self.mount_options)?;
        let done = work(&mut trial).map_err(|error| trial.explain(error))?;
        trial.end()?;
        Ok(done)
    }

    pub(crate) fn check(&self) -> Result<(), PrognosisError> {
        match self.interrupt.requested() {
            true => Err(PrognosisError::Interrupted),
            false => Ok(()),
        }
    }
}

pub fn fill(directory: &Path, new: NewFiles, user: User) -> Result<FillResult, PrognosisError> {
    fill::fill(directory, new, user)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_that_could_not_run_has_failed_on_the_twin() {
        let failed = |part| [FailedPart { part, status: None, signal: None, reason: "missing".into() }];
        assert_eq!(verdict_on_tool(None, &failed(Part::Remedy)), Some(FAILED));
        assert_eq!(verdict_on_tool(None, &failed(Part::Creations)), None);
        let shown = ToolEffect { tool: "e4defrag".into(), seconds_after: None, verdict: "it moved nothing".into() };
        assert_eq!(verdict_on_tool(Some(&shown), &failed(Part::Remedy)), Some("it moved nothing"));
    }
}
