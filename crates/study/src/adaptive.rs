//! Measuring until it is decided: all cells at first, then those whose answers are open, look by look. Every look is paid for
//! ([`Sequential`]); which runs are next follows from the record alone, so that an interrupted study goes on where it was.

use crate::matrix::{self, RunId, repetitions_of, runs};
use crate::matrix_run::RunEvent;
use crate::questions::{CellId, Question, error_each, questions};
use crate::results::{Cell, FailedRun, judged_and_others};
use crate::spec::StudySpec;
use crate::verdicts::{self, Answer, Censored};
use senesce_core::{Failure, Measurement};
use senesce_runs::decided::direction;
use senesce_stats::arm::LEAST_VALUES;
use senesce_stats::sequential::{Goal, Sequential, Step};
use senesce_stats::{Direction, Ratio, Rule, Untestable};
use std::collections::{BTreeMap, BTreeSet};

/// Repetitions beyond which nothing of interest is decided.
const MOST: f64 = 400.0;

/// Repetitions that the time allows, by what one of every cell is estimated to take.
///
/// # Errors
/// As for the steps of the study.
pub fn most_repetitions(spec: &StudySpec) -> Result<u32, Failure> {
    let seconds = matrix::seconds_of(&StudySpec { repetitions: 1, ..spec.clone() })?;
    let allowed = (spec.most_seconds() / seconds.max(1e-3)).floor();
    Ok(allowed.clamp(LEAST_VALUES as f64, MOST) as u32)
}

/// The runs to do next; none: everything is decided, or the time is over.
pub fn next_runs(spec: &StudySpec, events: &[RunEvent], failed: &[FailedRun]) -> Vec<RunId> {
    let mut replay = Replay::new(spec, events, failed);
    match replay.play() {
        Some(missing) => missing,
        None => replay.failed.into_iter().collect(),
    }
}

/// The answers so far.
pub fn answers(spec: &StudySpec, events: &[RunEvent], failed: &[FailedRun]) -> Vec<Answer> {
    let mut replay = Replay::new(spec, events, failed);
    replay.play();
    let cells = replay.cells(spec.repetitions);
    let decisions = replay.course.decisions();
    let answers = replay.questions.iter().zip(decisions).filter_map(|(question, decision)| {
        let what = replay.metrics.get(&question.sample.workload)?;
        let ratio = verdicts::ratio(spec, &cells, &replay.censored, *question, &what.metric);
        Some(Answer::new(spec, *question, what, ratio, decision))
    });
    answers.collect()
}

/// A study played through again from its record.
struct Replay<'a> {
    spec: &'a StudySpec,
    events: &'a [RunEvent],
    done: BTreeSet<RunId>,
    failed: BTreeSet<RunId>,
    censored: Censored,
    questions: Vec<Question>,
    /// The metric of each workload that has a result.
    metrics: BTreeMap<usize, Measurement>,
    course: Sequential,
}

impl<'a> Replay<'a> {
    fn new(spec: &'a StudySpec, events: &'a [RunEvent], failed: &[FailedRun]) -> Self {
        let questions = questions(spec);
        let mut metrics = BTreeMap::new();
        for event in events {
            if let Some(first) = event.metrics.first() {
                metrics.entry(event.id.workload).or_insert_with(|| first.clone());
            }
        }
        let rule = |question: &Question| {
            let better = metrics.get(&question.sample.workload).and_then(|what: &Measurement| direction(what.better));
            Rule::new(better.unwrap_or(Direction::HigherIsBetter))
        };
        let error = error_each(spec) * questions.len() as f64;
        let rules = questions.iter().map(rule).collect();
        let course = Sequential::new(rules, spec.repetitions as usize, Goal::Verdict, error);
        let done = events.iter().map(|event| event.id).collect();
        let censored = verdicts::censored(failed);
        let failed = failed.iter().map(|failed| failed.id).collect();
        Self { spec, events, done, failed, censored, questions, metrics, course }
    }

    /// Looks at what there is to be looked at; the runs that the next look lacks, `None` when no look is left.
    fn play(&mut self) -> Option<Vec<RunId>> {
        let (mut step, mut have) = (self.course.start(), 0);
        while let Step::Measure(wanted) = step {
            let (size, last) = self.affordable(have, wanted as u32);
            let missing = self.missing(size);
            if !missing.is_empty() {
                return Some(missing);
            }
            let ratios = self.ratios(size);
            step = self.course.look(&ratios, last);
            if last {
                break;
            }
            have = size;
        }
        None
    }

    /// The size of the next look, and whether it is the last for which there is time. The first is always taken.
    fn affordable(&self, have: u32, wanted: u32) -> (u32, bool) {
        if have == 0 {
            return (wanted, false);
        }
        let left = self.spec.most_seconds() - self.within(have).map(|event| event.seconds).sum::<f64>();
        let size = have.saturating_add((left / self.seconds_of_a_repetition(have)).max(0.0) as u32);
        if size < wanted { (size, true) } else { (wanted, false) }
    }

    /// What one more repetition of all open cells takes, by what the repetitions so far took.
    fn seconds_of_a_repetition(&self, have: u32) -> f64 {
        let open = self.open_cells();
        let seconds: f64 =
            self.within(have).filter(|event| open.contains(&cell_of(event.id))).map(|one| one.seconds).sum();
        (seconds / f64::from(have)).max(1e-3)
    }

    fn open_cells(&self) -> BTreeSet<CellId> {
        let ends = |index: usize| [self.questions[index].sample, self.questions[index].reference];
        self.course.open().into_iter().flat_map(ends).collect()
    }

    fn missing(&self, size: u32) -> Vec<RunId> {
        let open = self.open_cells();
        let all = runs(&StudySpec { repetitions: size, ..self.spec.clone() });
        let left = all.into_iter().filter(|id| open.contains(&cell_of(*id)));
        left.filter(|id| !self.done.contains(id) && !self.failed.contains(id)).collect()
    }

    /// The runs of the first `size` repetitions.
    fn within(&self, size: u32) -> impl Iterator<Item = &'a RunEvent> + use<'a, '_> {
        let is_within =
            move |event: &&RunEvent| event.id.repetition < repetitions_of(self.spec, event.id.on.state, size);
        self.events.iter().filter(is_within)
    }

    fn cells(&self, size: u32) -> Vec<Cell> {
        judged_and_others(&self.within(size).cloned().collect::<Vec<_>>(), &BTreeSet::new()).0
    }

    fn ratios(&self, size: u32) -> Vec<Result<Ratio, Untestable>> {
        let cells = self.cells(size);
        let of = |question: &Question| match self.metrics.get(&question.sample.workload) {
            Some(what) => verdicts::ratio(self.spec, &cells, &self.censored, *question, &what.metric),
            None => Err(Untestable::Other("no run of the workload succeeded".into())),
        };
        self.questions.iter().map(of).collect()
    }
}

fn cell_of(id: RunId) -> CellId {
    CellId { workload: id.workload, fs: id.on.fs, state: id.on.state }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::Rng;
    use senesce_core::Seed;
    use senesce_core::analysis::Better;

    const STUDY: &str = r#"
name = "t"
size = "512M"
until_decided = true
max_time = "1h"
repetitions = 200
[[file_system]]
kind = "ext4"
[[file_system]]
kind = "xfs"
[[file_system]]
kind = "btrfs"
[[state]]
kind = "fresh"
[[workload]]
personality = "webserver"
scale = 0.1
"#;

    /// A standard normal number, from twelve uniform ones.
    fn normal(rng: &mut impl Rng) -> f64 {
        (0..12).map(|_| rng.next_u64() as f64 / u64::MAX as f64).sum::<f64>() - 6.0
    }

    /// Plays the whole study on made-up machines: throughput by file system at a variation of 5 %, `seconds` a run.
    fn played(centres: [f64; 3], seconds: f64, seed: u64) -> (Vec<RunEvent>, Vec<Answer>) {
        let spec = StudySpec::parse("t", STUDY).unwrap();
        let mut rng = Seed(seed).stream("noise");
        let mut events: Vec<RunEvent> = Vec::new();
        loop {
            let next = next_runs(&spec, &events, &[]);
            if next.is_empty() {
                return (events.clone(), answers(&spec, &events, &[]));
            }
            events.extend(next.into_iter().map(|id| {
                let value = centres[id.on.fs] * (0.05 * normal(&mut rng)).exp();
                let metrics = vec![Measurement::new("throughput", "1/s", Better::Higher, value).unwrap()];
                RunEvent { id, metrics, overhead_seconds: 0.0, seconds, guest: None }
            }));
        }
    }

    fn word(answers: &[Answer], a: usize, b: usize) -> &'static str {
        let is_it = |answer: &&Answer| (answer.question.sample.fs, answer.question.reference.fs) == (a, b);
        answers.iter().find(is_it).unwrap().decision.verdict.word()
    }

    #[test]
    fn a_tenth_is_found_and_never_called_equal() {
        let mut found = 0;
        for seed in 0..40 {
            let (events, answers) = played([1.0, 0.9, 0.8], 1.0, seed);
            let words = [word(&answers, 0, 1), word(&answers, 0, 2), word(&answers, 1, 2)];
            assert!(!words.contains(&"equivalent") && !words.contains(&"worse"), "{words:?}");
            found += usize::from(words == ["better"; 3]);
            assert!(events.len() < 3 * 100, "{}", events.len());
        }
        assert!(found >= 38, "{found} of 40");
    }

    #[test]
    fn repetitions_go_where_the_answer_is_open() {
        let (events, answers) = played([1.0, 1.0, 0.5], 1.0, 7);
        let count = |fs| events.iter().filter(|event| event.id.on.fs == fs).count();
        assert_eq!((word(&answers, 0, 2), count(2)), ("better", 5));
        assert!(count(0) > 20 && count(0) == count(1), "{} {}", count(0), count(1));
    }

    #[test]
    fn the_time_ends_it_with_what_is_known() {
        let (events, answers) = played([1.0, 1.0, 0.5], 100.0, 7);
        let spent: f64 = events.iter().map(|event| event.seconds).sum();
        assert!((3000.0..=3600.0).contains(&spent), "{spent}");
        assert_eq!(word(&answers, 0, 1), "undecided");
        assert_eq!(word(&answers, 0, 2), "better");
    }

    #[test]
    fn what_failed_is_not_waited_for_and_is_done_again_at_the_end() {
        let spec = StudySpec::parse("t", STUDY).unwrap();
        let first = next_runs(&spec, &[], &[]);
        assert_eq!(first.len(), 15);
        let failed: Vec<FailedRun> = first.iter().map(|id| FailedRun { id: *id, reason: "no room".into() }).collect();
        let mut again = next_runs(&spec, &[], &failed);
        let mut first = first;
        again.sort();
        first.sort();
        assert_eq!(again, first, "nothing is left but what failed");
    }
}
