//! Sequential measurement: all cells at first, then those with open answers. Interim analyses are corrected for
//! ([`Sequential`]) and recorded, and a later retry does not change them. The record alone determines the next runs, so
//! that an interrupted study continues at the same point.

use crate::matrix::{self, RunId, repetitions_of, runs};
use crate::past_events::{self, PastEvent};
use crate::questions::{CellId, Question, error_each, questions};
use crate::results::{Cell, primary_and_other_cells};
use crate::spec::StudySpec;
use crate::verdicts::{self, Answer};
use senesce_core::{Failure, Measurement};
use senesce_runs::decided::direction;
use senesce_stats::arm::LEAST_VALUES;
use senesce_stats::sequential::{Goal, Sequential, Step};
use senesce_stats::{Decision, Direction, Ratio, Rule, Untestable, Verdict};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Limit of repetitions: beyond it no difference of interest is decided.
pub(crate) const MOST: u32 = 400;

/// An interim analysis of a study that runs until decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterimAnalysis {
    /// Repetitions of every open cell on each image that it uses.
    pub repetitions: u32,
    /// Whether it is the last because the time is over.
    pub last: bool,
    /// Cells that are measured no further, because all their runs failed since the previous analysis.
    pub dead: Vec<CellId>,
}

/// Repetitions that fit into the time limit, by the estimated duration of one repetition of all cells.
pub(crate) fn most_repetitions(spec: &StudySpec) -> Result<u32, Failure> {
    let seconds = matrix::seconds_of(&StudySpec { repetitions: 1, ..spec.clone() })?;
    let allowed = (spec.most_seconds() / seconds.max(1e-3)).floor();
    Ok(allowed.clamp(LEAST_VALUES as f64, f64::from(MOST)) as u32)
}

/// Analyses whose values are complete and which the record does not have yet.
pub(crate) fn due_analyses(spec: &StudySpec, past: &[PastEvent]) -> Vec<InterimAnalysis> {
    let mut replay = Replay::new(spec, past);
    replay.play();
    replay.due
}

/// Returns the runs to do next; empty if everything is decided or the time is over. Failed runs are retried after all
/// analyses.
pub(crate) fn next_runs(spec: &StudySpec, past: &[PastEvent]) -> Vec<RunId> {
    let mut replay = Replay::new(spec, past);
    match replay.play() {
        Some(missing) => missing,
        None if replay.has_time() => past_events::failed(past).into_iter().map(|failed| failed.id).collect(),
        None => Vec::new(),
    }
}

pub(crate) fn answers(spec: &StudySpec, past: &[PastEvent]) -> Vec<Answer> {
    let mut replay = Replay::new(spec, past);
    replay.play();
    let (cells, censored) = (replay.cells(past, spec.repetitions), verdicts::censored(&past_events::failed(past)));
    let decisions = replay.course.decisions();
    let answers = replay.questions.iter().zip(decisions).filter_map(|(question, decision)| {
        let what = replay.metrics.get(&question.sample.workload)?;
        let ratio = verdicts::ratio(spec, &cells, &censored, *question, &what.metric);
        let (ratio, decision) = withhold_late_values(ratio, decision);
        Some(Answer::new(spec, &cells, *question, what, ratio, decision))
    });
    answers.collect()
}

/// Withholds a verdict from later values if a cell was not testable in any analysis.
fn withhold_late_values(ratio: Result<Ratio, Untestable>, decision: Decision) -> (Result<Ratio, Untestable>, Decision) {
    match (&decision.verdict, &ratio) {
        (Verdict::NotTestable { .. }, Ok(_)) => {
            let why = Untestable::Other("its values came after the last interim analysis".into());
            (Err(why.clone()), Decision { verdict: Verdict::NotTestable { why }, ..decision })
        }
        _ => (ratio, decision),
    }
}

struct Replay<'a> {
    spec: &'a StudySpec,
    past: &'a [PastEvent],
    questions: Vec<Question>,
    metrics: BTreeMap<usize, Measurement>,
    course: Sequential,
    last: Option<InterimAnalysis>,
    seen: usize,
    due: Vec<InterimAnalysis>,
}

impl<'a> Replay<'a> {
    fn new(spec: &'a StudySpec, past: &'a [PastEvent]) -> Self {
        let questions = questions(spec);
        let mut metrics = BTreeMap::new();
        for run in past_events::runs(past) {
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

    /// Performs the recorded analyses, then those that are due. Returns the missing runs of the next one, `None` after
    /// the last.
    fn play(&mut self) -> Option<Vec<RunId>> {
        let (past, mut step) = (self.past, self.course.start());
        for (index, one) in past.iter().enumerate() {
            if let PastEvent::Look(look) = one {
                step = self.take(look.clone(), index);
            }
        }
        while let Some((repetitions, last)) = self.next_analysis(step) {
            let missing = self.missing(repetitions);
            if !missing.is_empty() {
                return Some(missing);
            }
            let look = InterimAnalysis { repetitions, last, dead: self.dead_at(repetitions) };
            self.due.push(look.clone());
            step = self.take(look, past.len());
        }
        None
    }

    fn take(&mut self, look: InterimAnalysis, seen: usize) -> Step {
        let ratios = self.ratios(&self.past[..seen], look.repetitions);
        let step = self.course.analyse(&ratios, look.last);
        (self.last, self.seen) = (Some(look), seen);
        step
    }

    fn next_analysis(&self, step: Step) -> Option<(u32, bool)> {
        if self.last.as_ref().is_some_and(|look| look.last) {
            return None;
        }
        if self.course.has_analyses() && self.is_revived() {
            return Some((self.have(), false));
        }
        match step {
            Step::Measure(wanted) if !self.open_cells().is_empty() => Some(self.affordable(wanted as u32)),
            _ => None,
        }
    }

    fn have(&self) -> u32 {
        self.last.as_ref().map_or(0, |look| look.repetitions)
    }

    fn dead(&self) -> &[CellId] {
        self.last.as_ref().map_or(&[], |look| &look.dead)
    }

    fn is_revived(&self) -> bool {
        past_events::runs(&self.past[self.seen..]).any(|run| self.dead().contains(&cell_of(run.id)))
    }

    /// Returns the size of the next analysis, and whether it is the last within the time limit. The first is always
    /// done.
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

    /// Returns the seconds of one more repetition of all open cells, by the last tries so far.
    fn seconds_of_a_repetition(&self, have: u32) -> f64 {
        let open = self.open_cells();
        let last: BTreeMap<RunId, f64> = self.tries(have).filter(|(id, _)| open.contains(&cell_of(*id))).collect();
        (last.into_values().sum::<f64>() / f64::from(have)).max(1e-3)
    }

    /// Returns the tries of the first `size` repetitions before the last analysis and their seconds, failures included.
    fn tries(&self, size: u32) -> impl Iterator<Item = (RunId, f64)> {
        let tried = self.past[..self.seen].iter().filter_map(PastEvent::tried);
        tried.filter(move |(id, _)| self.is_within(*id, size))
    }

    fn has_time(&self) -> bool {
        let spent: f64 = self.past.iter().filter_map(PastEvent::tried).map(|(_, seconds)| seconds).sum();
        spent < self.spec.most_seconds()
    }

    /// Returns the cells that an analysis at `repetitions` gives up: earlier ones, and open ones without a successful
    /// run since the last analysis.
    fn dead_at(&self, repetitions: u32) -> Vec<CellId> {
        let have = self.have();
        let is_newer = |id: RunId| self.is_within(id, repetitions) && !self.is_within(id, have);
        let newer = past_events::runs(self.past).filter(|run| is_newer(run.id));
        let again = past_events::runs(&self.past[self.seen..]);
        let living: BTreeSet<CellId> = newer.chain(again).map(|run| cell_of(run.id)).collect();
        let asked = if repetitions > have { self.open_cells() } else { BTreeSet::new() };
        let asked: BTreeSet<CellId> = asked.into_iter().chain(self.dead().iter().copied()).collect();
        asked.into_iter().filter(|cell| !living.contains(cell)).collect()
    }

    fn open_cells(&self) -> BTreeSet<CellId> {
        let ends = |index: usize| [self.questions[index].sample, self.questions[index].reference];
        let asked = self.course.open().into_iter().map(ends);
        asked.filter(|ends| !ends.iter().any(|end| self.dead().contains(end))).flatten().collect()
    }

    fn missing(&self, size: u32) -> Vec<RunId> {
        let open = self.open_cells();
        let tried: BTreeSet<RunId> = self.past.iter().filter_map(PastEvent::tried).map(|(id, _)| id).collect();
        let all = runs(&StudySpec { repetitions: size, ..self.spec.clone() });
        all.into_iter().filter(|id| open.contains(&cell_of(*id)) && !tried.contains(id)).collect()
    }

    fn is_within(&self, id: RunId, size: u32) -> bool {
        id.repetition < repetitions_of(self.spec, id.on.state, size)
    }

    fn cells(&self, past: &[PastEvent], size: u32) -> Vec<Cell> {
        let within = past_events::runs(past).filter(|run| self.is_within(run.id, size));
        primary_and_other_cells(&within.cloned().collect::<Vec<_>>(), &BTreeSet::new()).0
    }

    fn ratios(&self, past: &[PastEvent], size: u32) -> Vec<Result<Ratio, Untestable>> {
        let (cells, censored) = (self.cells(past, size), verdicts::censored(&past_events::failed(past)));
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
