//! Measuring until it is decided: all cells at first, then those whose answers are open, look by look. Every look is paid for
//! ([`Sequential`]), recorded, and stays what it was, whatever is tried again later; which runs are next follows from the
//! record alone, so that an interrupted study goes on where it was.

use crate::matrix::{self, RunId, repetitions_of, runs};
use crate::past::{self, Past};
use crate::questions::{CellId, Question, error_each, questions};
use crate::results::{Cell, judged_and_others};
use crate::spec::StudySpec;
use crate::verdicts::{self, Answer};
use senesce_core::{Failure, Measurement};
use senesce_runs::decided::direction;
use senesce_stats::arm::LEAST_VALUES;
use senesce_stats::sequential::{Goal, Sequential, Step};
use senesce_stats::{Decision, Direction, Ratio, Rule, Untestable, Verdict};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Repetitions beyond which nothing of interest is decided.
pub const MOST: u32 = 400;

/// A look at the values of a study that goes on until it is decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Look {
    /// Repetitions of every open cell that it looked at, on each image.
    pub repetitions: u32,
    /// Whether it is the last because there is no time for another.
    pub last: bool,
    /// Cells that are measured no further, because all their runs failed since the look before.
    pub dead: Vec<CellId>,
}

/// Repetitions that the time allows, by what one of every cell is estimated to take.
pub fn most_repetitions(spec: &StudySpec) -> Result<u32, Failure> {
    let seconds = matrix::seconds_of(&StudySpec { repetitions: 1, ..spec.clone() })?;
    let allowed = (spec.most_seconds() / seconds.max(1e-3)).floor();
    Ok(allowed.clamp(LEAST_VALUES as f64, f64::from(MOST)) as u32)
}

/// The looks that are due: all that they look at is there, and the record does not have them yet.
pub fn due_looks(spec: &StudySpec, past: &[Past]) -> Vec<Look> {
    let mut replay = Replay::new(spec, past);
    replay.play();
    replay.due
}

/// The runs to do next; none: everything is decided, or the time is over. What failed is tried again when all looks are taken.
pub fn next_runs(spec: &StudySpec, past: &[Past]) -> Vec<RunId> {
    let mut replay = Replay::new(spec, past);
    match replay.play() {
        Some(missing) => missing,
        None if replay.has_time() => past::failed(past).into_iter().map(|failed| failed.id).collect(),
        None => Vec::new(),
    }
}

pub fn answers(spec: &StudySpec, past: &[Past]) -> Vec<Answer> {
    let mut replay = Replay::new(spec, past);
    replay.play();
    let (cells, censored) = (replay.cells(past, spec.repetitions), verdicts::censored(&past::failed(past)));
    let decisions = replay.course.decisions();
    let answers = replay.questions.iter().zip(decisions).filter_map(|(question, decision)| {
        let what = replay.metrics.get(&question.sample.workload)?;
        let ratio = verdicts::ratio(spec, &cells, &censored, *question, &what.metric);
        let (ratio, decision) = said_of_late_values(ratio, decision);
        Some(Answer::new(spec, &cells, *question, what, ratio, decision))
    });
    answers.collect()
}

/// What could not be tested at any look has no verdict, though its values came since.
fn said_of_late_values(ratio: Result<Ratio, Untestable>, decision: Decision) -> (Result<Ratio, Untestable>, Decision) {
    match (&decision.verdict, &ratio) {
        (Verdict::NotTestable { .. }, Ok(_)) => {
            let why = Untestable::Other("its values came after the last look that was taken".into());
            (Err(why.clone()), Decision { verdict: Verdict::NotTestable { why }, ..decision })
        }
        _ => (ratio, decision),
    }
}

/// A study played through again from its record.
struct Replay<'a> {
    spec: &'a StudySpec,
    past: &'a [Past],
    questions: Vec<Question>,
    metrics: BTreeMap<usize, Measurement>,
    course: Sequential,
    /// The last look that was taken, and how much of the past there was.
    last: Option<Look>,
    seen: usize,
    due: Vec<Look>,
}

impl<'a> Replay<'a> {
    fn new(spec: &'a StudySpec, past: &'a [Past]) -> Self {
        let questions = questions(spec);
        let mut metrics = BTreeMap::new();
        for run in past::runs(past) {
            if let Some(first) = run.metrics.first() {
                metrics.entry(run.id.workload).or_insert_with(|| first.clone());
            }
        }
        let rule = |question: &Question| {
            let better = metrics.get(&question.sample.workload).and_then(|what: &Measurement| direction(what.better));
            Rule::new(better.unwrap_or(Direction::HigherIsBetter))
        };
        let error = error_each(spec) * questions.len() as f64;
        let rules = questions.iter().map(rule).collect();
        let course = Sequential::new(rules, spec.repetitions as usize, Goal::Verdict, error);
        Self { spec, past, questions, metrics, course, last: None, seen: 0, due: Vec::new() }
    }

    /// Takes the looks of the record, then those that are due; the runs that the next one lacks, `None` when no look is left.
    fn play(&mut self) -> Option<Vec<RunId>> {
        let (past, mut step) = (self.past, self.course.start());
        for (index, one) in past.iter().enumerate() {
            if let Past::Look(look) = one {
                step = self.take(look.clone(), index);
            }
        }
        while let Some((repetitions, last)) = self.next_look(step) {
            let missing = self.missing(repetitions);
            if !missing.is_empty() {
                return Some(missing);
            }
            let look = Look { repetitions, last, dead: self.dead_at(repetitions) };
            self.due.push(look.clone());
            step = self.take(look, past.len());
        }
        None
    }

    /// Looks at the first `seen` things that happened.
    fn take(&mut self, look: Look, seen: usize) -> Step {
        let ratios = self.ratios(&self.past[..seen], look.repetitions);
        let step = self.course.look(&ratios, look.last);
        (self.last, self.seen) = (Some(look), seen);
        step
    }

    /// Repetitions of the next look, and whether it is the last for which there is time.
    fn next_look(&self, step: Step) -> Option<(u32, bool)> {
        if self.last.as_ref().is_some_and(|look| look.last) {
            return None;
        }
        if self.course.has_looks() && self.is_revived() {
            return Some((self.have(), false));
        }
        match step {
            Step::Measure(wanted) if !self.open_cells().is_empty() => Some(self.affordable(wanted as u32)),
            _ => None,
        }
    }

    /// Repetitions of the last look.
    fn have(&self) -> u32 {
        self.last.as_ref().map_or(0, |look| look.repetitions)
    }

    fn dead(&self) -> &[CellId] {
        self.last.as_ref().map_or(&[], |look| &look.dead)
    }

    /// Whether a run of a dead cell was tried again since the last look, and done.
    fn is_revived(&self) -> bool {
        past::runs(&self.past[self.seen..]).any(|run| self.dead().contains(&cell_of(run.id)))
    }

    /// The size of the next look, and whether it is the last for which there is time. The first is always taken.
    fn affordable(&self, wanted: u32) -> (u32, bool) {
        let have = self.have();
        if have == 0 {
            return (wanted, false);
        }
        let spent: f64 = self.tries(have).map(|(_, seconds)| seconds).sum();
        let left = self.spec.most_seconds() - spent;
        let size = have.saturating_add((left / self.seconds_of_a_repetition(have)).max(0.0) as u32);
        if size < wanted { (size, true) } else { (wanted, false) }
    }

    /// What one more repetition of all open cells takes, by what the last tries so far took.
    fn seconds_of_a_repetition(&self, have: u32) -> f64 {
        let open = self.open_cells();
        let last: BTreeMap<RunId, f64> = self.tries(have).filter(|(id, _)| open.contains(&cell_of(*id))).collect();
        (last.into_values().sum::<f64>() / f64::from(have)).max(1e-3)
    }

    /// The tries of the first `size` repetitions before the last look, and what they took; those that failed took time as well.
    fn tries(&self, size: u32) -> impl Iterator<Item = (RunId, f64)> {
        let tried = self.past[..self.seen].iter().filter_map(Past::tried);
        tried.filter(move |(id, _)| self.is_within(*id, size))
    }

    fn has_time(&self) -> bool {
        let spent: f64 = self.past.iter().filter_map(Past::tried).map(|(_, seconds)| seconds).sum();
        spent < self.spec.most_seconds()
    }

    /// The cells that a look at `repetitions` gives up: open ones none of whose runs was done since the last look, and those of
    /// before.
    fn dead_at(&self, repetitions: u32) -> Vec<CellId> {
        let have = self.have();
        let is_newer = |id: RunId| self.is_within(id, repetitions) && !self.is_within(id, have);
        let newer = past::runs(self.past).filter(|run| is_newer(run.id));
        let again = past::runs(&self.past[self.seen..]);
        let living: BTreeSet<CellId> = newer.chain(again).map(|run| cell_of(run.id)).collect();
        let asked = if repetitions > have { self.open_cells() } else { BTreeSet::new() };
        let asked: BTreeSet<CellId> = asked.into_iter().chain(self.dead().iter().copied()).collect();
        asked.into_iter().filter(|cell| !living.contains(cell)).collect()
    }

    /// The cells of questions that are neither decided nor given up.
    fn open_cells(&self) -> BTreeSet<CellId> {
        let ends = |index: usize| [self.questions[index].sample, self.questions[index].reference];
        let asked = self.course.open().into_iter().map(ends);
        asked.filter(|ends| !ends.iter().any(|end| self.dead().contains(end))).flatten().collect()
    }

    /// The runs of a look that were not tried.
    fn missing(&self, size: u32) -> Vec<RunId> {
        let open = self.open_cells();
        let tried: BTreeSet<RunId> = self.past.iter().filter_map(Past::tried).map(|(id, _)| id).collect();
        let all = runs(&StudySpec { repetitions: size, ..self.spec.clone() });
        all.into_iter().filter(|id| open.contains(&cell_of(*id)) && !tried.contains(id)).collect()
    }

    fn is_within(&self, id: RunId, size: u32) -> bool {
        id.repetition < repetitions_of(self.spec, id.on.state, size)
    }

    fn cells(&self, past: &[Past], size: u32) -> Vec<Cell> {
        let within = past::runs(past).filter(|run| self.is_within(run.id, size));
        judged_and_others(&within.cloned().collect::<Vec<_>>(), &BTreeSet::new()).0
    }

    fn ratios(&self, past: &[Past], size: u32) -> Vec<Result<Ratio, Untestable>> {
        let (cells, censored) = (self.cells(past, size), verdicts::censored(&past::failed(past)));
        let of = |question: &Question| match self.metrics.get(&question.sample.workload) {
            Some(what) => verdicts::ratio(self.spec, &cells, &censored, *question, &what.metric),
            None => Err(Untestable::Other("no run of the workload succeeded".into())),
        };
        self.questions.iter().map(of).collect()
    }
}

fn cell_of(id: RunId) -> CellId {
    CellId { workload: id.workload, fs: id.on.fs, state: id.on.state }
}

#[cfg(test)]
mod tests;
