//! The answers of a study: every question under every main metric, with simultaneous intervals.

use crate::command::SAID;
use crate::command::process::NO_END;
use crate::questions::{CellId, Question, error_each, questions};
use crate::results::{Cell, FailedRun};
use crate::spec::{StateKind, StudySpec};
use senesce_core::{Measurement, number_of};
use senesce_runs::decided::direction;
use senesce_stats::pairwise::{Class, OrderChange, Pair, Pairwise, grouped, probability_of_change};
use senesce_stats::{Arm, Decision, Direction, Mean, Ratio, Rule, Untestable, decide};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone)]
pub struct Answer {
    pub question: Question,
    pub what: Measurement,
    pub ratio: Option<Ratio>,
    pub decision: Decision,
    /// Whether it holds only for single images of states that another aging would make differently.
    pub one_image: bool,
}

#[derive(Debug, Clone)]
pub struct Order {
    pub workload: usize,
    pub state: usize,
    pub metric: String,
    pub systems: Vec<usize>,
    pub pairwise: Pairwise,
}

#[derive(Debug, Clone)]
pub struct Change {
    pub before: Question,
    pub after: Question,
    pub metric: String,
    pub change: OrderChange,
    /// Probability that the order differs; `None` if a ratio is missing.
    pub probability: Option<f64>,
}

/// Cells with censored runs: those that failed because of their speed.
pub(crate) type CensoredCells = BTreeMap<CellId, CensoredRuns>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct CensoredRuns {
    /// Runs out of space: a workload that grows fills the volume sooner if it is faster.
    no_space: usize,
    no_end: usize,
}

impl CensoredRuns {
    /// Finds the counter of a failed run by our own words only: a user's program may report another device.
    fn counter(&mut self, reason: &str) -> Option<&mut usize> {
        match reason.split(SAID).next()? {
            ours if ours.contains("(ENOSPC)") => Some(&mut self.no_space),
            ours if ours.contains(NO_END) => Some(&mut self.no_end),
            _ => None,
        }
    }

    fn text(self) -> String {
        let no_space = format!(
            "{} of a cell ran out of space, so only the slower runs remain: make the images larger or the \
             workload smaller",
            number_of(self.no_space, "run")
        );
        let no_end = format!(
            "{} of a cell did not end within the timeout, so only the faster runs remain: raise the timeout or \
             make the workload smaller",
            number_of(self.no_end, "run")
        );
        match (self.no_space, self.no_end) {
            (_, 0) => no_space,
            (0, _) => no_end,
            _ => format!("{no_space}; {no_end}"),
        }
    }
}

pub(crate) fn censored(failed: &[FailedRun]) -> CensoredCells {
    let mut found = CensoredCells::new();
    for one in failed {
        let id = CellId { workload: one.id.workload, fs: one.id.on.fs, state: one.id.on.state };
        let mut lost = found.get(&id).copied().unwrap_or_default();
        if let Some(count) = lost.counter(&one.reason) {
            *count += 1;
            found.insert(id, lost);
        }
    }
    found
}

pub(crate) fn judge_all(spec: &StudySpec, cells: &[Cell], censored: &CensoredCells) -> Vec<Answer> {
    let error = error_each(spec);
    let mut answers = Vec::new();
    for question in questions(spec) {
        for what in metrics(cells, question.sample.workload) {
            let Some(direction) = direction(what.better) else { continue };
            let ratio = ratio(spec, cells, censored, question, &what.metric);
            let decision = decide(&ratio, Rule::new(direction), error);
            answers.push(Answer::new(spec, cells, question, what, ratio, decision));
        }
    }
    answers
}

fn metrics(cells: &[Cell], workload: usize) -> Vec<&Measurement> {
    let mut seen = BTreeSet::new();
    let of = cells.iter().filter(|cell| cell.id.workload == workload).map(|cell| &cell.what);
    let mut found: Vec<&Measurement> = of.filter(|what| seen.insert(what.metric.clone())).collect();
    found.sort_by_key(|what| (crate::subject::modelled_by(&what.metric).is_some(), what.metric.clone()));
    found
}

pub(crate) fn ratio(
    spec: &StudySpec,
    cells: &[Cell],
    censored: &CensoredCells,
    question: Question,
    metric: &str,
) -> Result<Ratio, Untestable> {
    if let Some(lost) = [question.sample, question.reference].iter().find_map(|id| censored.get(id)) {
        return Err(Untestable::Other(lost.text()));
    }
    let find = |id: CellId| find(cells, id, metric);
    let missing = |id: CellId| {
        let (fs, state, workload) = spec.names((id.fs, id.state, id.workload));
        Untestable::Other(format!("{fs} / {state} / {workload} has no result"))
    };
    let sample = find(question.sample).ok_or_else(|| missing(question.sample))?;
    let reference = find(question.reference).ok_or_else(|| missing(question.reference))?;
    comparable(sample, reference)?;
    let ratio = Ratio::of(&Arm::of(&sample.groups, Mean::Geometric)?, &Arm::of(&reference.groups, Mean::Geometric)?);
    let unit = if sample.groups.len() > 1 { Arm::of(&sample.groups, Mean::Geometric)?.unit } else { ratio.unit };
    // A reproducible state has one image, and only its repetitions vary.
    let alike = reference.groups.len() == 1 && !varies(spec, question.reference.state);
    Ok(if alike { Ratio { unit, ..ratio } } else { ratio })
}

fn find<'a>(cells: &'a [Cell], id: CellId, metric: &str) -> Option<&'a Cell> {
    cells.iter().find(|cell| cell.id == id && cell.what.metric == metric)
}

pub(crate) fn varies(spec: &StudySpec, state: usize) -> bool {
    !matches!(spec.state[state].kind, StateKind::Fresh | StateKind::Image)
}

fn comparable(sample: &Cell, reference: &Cell) -> Result<(), Untestable> {
    let refuse = |message: &str| Err(Untestable::Other(message.into()));
    if sample.what.is_timing() && (sample.emulated || reference.emulated) {
        return refuse("measured under emulation (TCG): times are the emulator's");
    }
    if sample.what.is_timing() && sample.in_guest != reference.in_guest {
        return refuse("one was measured in the guest and the other on this machine");
    }
    Ok(())
}

impl Answer {
    pub(crate) fn new(
        spec: &StudySpec,
        cells: &[Cell],
        question: Question,
        what: &Measurement,
        ratio: Result<Ratio, Untestable>,
        decision: Decision,
    ) -> Self {
        // Of several requested images all but one may have failed.
        let has_one = |id: CellId| find(cells, id, &what.metric).is_some_and(|cell| cell.groups.len() == 1);
        let alone = |id: CellId| varies(spec, id.state) && has_one(id);
        let one_image = alone(question.sample) || alone(question.reference);
        Self { question, what: what.clone(), ratio: ratio.ok(), decision, one_image }
    }
}

pub(crate) fn orders(answers: &[Answer]) -> Vec<Order> {
    let mut keys: Vec<(usize, usize, &str)> = Vec::new();
    let pairs = || answers.iter().filter(|answer| answer.question.is_pair());
    for answer in pairs() {
        let key = (answer.question.sample.workload, answer.question.sample.state, answer.what.metric.as_str());
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys.into_iter().map(|key| order(key, &pairs().collect::<Vec<_>>())).collect()
}

fn order((workload, state, metric): (usize, usize, &str), pairs: &[&Answer]) -> Order {
    let here = |answer: &&&Answer| {
        let id = answer.question.sample;
        id.workload == workload && id.state == state && answer.what.metric == metric
    };
    let of: Vec<&Answer> = pairs.iter().filter(here).copied().collect();
    let ends = of.iter().flat_map(|answer| [answer.question.sample.fs, answer.question.reference.fs]);
    let systems: Vec<usize> = ends.collect::<BTreeSet<_>>().into_iter().collect();
    let place = |fs: usize| systems.iter().position(|one| *one == fs).unwrap_or(0);
    let judged = of.iter().map(|answer| Pair {
        first: place(answer.question.sample.fs),
        second: place(answer.question.reference.fs),
        decision: answer.decision.clone(),
        value: answer.ratio.map(|ratio| ratio.value()),
    });
    let direction = of.first().and_then(|answer| direction(answer.what.better)).unwrap_or(Direction::HigherIsBetter);
    let pairwise = grouped(systems.len(), judged.collect(), direction);
    Order { workload, state, metric: metric.into(), systems, pairwise }
}

impl Order {
    pub(crate) fn text(&self, spec: &StudySpec) -> String {
        self.pairwise.text(&self.names(spec))
    }

    pub(crate) fn names<'a>(&self, spec: &'a StudySpec) -> Vec<&'a str> {
        self.systems.iter().map(|fs| spec.file_system[*fs].name.as_str()).collect()
    }

    pub(crate) fn groups<'a>(&self, spec: &'a StudySpec, class: &Class) -> Vec<Vec<&'a str>> {
        let names = self.names(spec);
        let groups = self.pairwise.groups(class).into_iter();
        groups.map(|group| group.into_iter().map(|place| names[place]).collect()).collect()
    }
}

pub(crate) fn changes(answers: &[Answer]) -> Vec<Change> {
    let pairs: Vec<&Answer> = answers.iter().filter(|answer| answer.question.is_pair()).collect();
    let same = |one: &Answer, other: &Answer| {
        let key = |answer: &Answer| {
            let Question { sample, reference } = answer.question;
            (sample.workload, sample.fs, reference.fs)
        };
        key(one) == key(other) && one.what.metric == other.what.metric
    };
    let mut found = Vec::new();
    for after in &pairs {
        let first = pairs.iter().filter(|other| same(after, other)).min_by_key(|other| other.question.sample.state);
        let Some(before) = first.filter(|before| before.question != after.question) else { continue };
        found.push(Change {
            before: before.question,
            after: after.question,
            metric: after.what.metric.clone(),
            change: OrderChange::of(&before.decision.verdict, &after.decision.verdict),
            probability: before.ratio.zip(after.ratio).map(|(one, other)| probability_of_change(&one, &other)),
        });
    }
    found
}

#[cfg(test)]
mod tests;
