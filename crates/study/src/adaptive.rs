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
        None if replay.has_time() => replay.failed.into_keys().collect(),
        None => Vec::new(),
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
        Some(Answer::new(spec, &cells, *question, what, ratio, decision))
    });
    answers.collect()
}

/// A study played through again from its record.
struct Replay<'a> {
    spec: &'a StudySpec,
    events: &'a [RunEvent],
    done: BTreeSet<RunId>,
    /// Runs that failed, and the seconds that they took.
    failed: BTreeMap<RunId, f64>,
    /// Cells of which no run of the last look succeeded: nothing more is asked of them.
    dead: BTreeSet<CellId>,
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
        let failed = failed.iter().map(|failed| (failed.id, failed.seconds)).collect();
        Self { spec, events, done, failed, dead: BTreeSet::new(), censored, questions, metrics, course }
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
            self.bury(have, size);
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
        let left = self.spec.most_seconds() - self.seconds(have, |_| true);
        let size = have.saturating_add((left / self.seconds_of_a_repetition(have)).max(0.0) as u32);
        if size < wanted { (size, true) } else { (wanted, false) }
    }

    /// What one more repetition of all open cells takes, by what the repetitions so far took.
    fn seconds_of_a_repetition(&self, have: u32) -> f64 {
        let open = self.open_cells();
        (self.seconds(have, |id| open.contains(&cell_of(id))) / f64::from(have)).max(1e-3)
    }

    /// What some runs of the first `size` repetitions took; those that failed took time as well.
    fn seconds(&self, size: u32, counts: impl Fn(RunId) -> bool) -> f64 {
        let done = self.events.iter().map(|event| (event.id, event.seconds));
        let failed = self.failed.iter().map(|(id, seconds)| (*id, *seconds));
        let of = done.chain(failed).filter(|(id, _)| self.is_within(*id, size) && counts(*id));
        of.map(|(_, seconds)| seconds).sum()
    }

    fn has_time(&self) -> bool {
        self.seconds(self.spec.repetitions, |_| true) < self.spec.most_seconds()
    }

    /// Gives up the open cells all of whose runs failed since the look at `have` repetitions.
    fn bury(&mut self, have: u32, size: u32) {
        if size > have {
            let is_newer = |id: RunId| self.is_within(id, size) && !self.is_within(id, have);
            let living: BTreeSet<CellId> =
                self.done.iter().filter(|id| is_newer(**id)).map(|id| cell_of(*id)).collect();
            let dead: Vec<CellId> = self.open_cells().into_iter().filter(|cell| !living.contains(cell)).collect();
            self.dead.extend(dead);
        }
    }

    /// The cells of questions that are neither decided nor given up.
    fn open_cells(&self) -> BTreeSet<CellId> {
        let ends = |index: usize| [self.questions[index].sample, self.questions[index].reference];
        let asked = self.course.open().into_iter().map(ends);
        asked.filter(|ends| !ends.iter().any(|end| self.dead.contains(end))).flatten().collect()
    }

    fn missing(&self, size: u32) -> Vec<RunId> {
        let open = self.open_cells();
        let all = runs(&StudySpec { repetitions: size, ..self.spec.clone() });
        let left = all.into_iter().filter(|id| open.contains(&cell_of(*id)));
        left.filter(|id| !self.done.contains(id) && !self.failed.contains_key(id)).collect()
    }

    /// The runs of the first `size` repetitions.
    fn within(&self, size: u32) -> impl Iterator<Item = &'a RunEvent> + use<'a, '_> {
        self.events.iter().filter(move |event| self.is_within(event.id, size))
    }

    fn is_within(&self, id: RunId, size: u32) -> bool {
        id.repetition < repetitions_of(self.spec, id.on.state, size)
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

    fn failed(id: RunId, seconds: f64) -> FailedRun {
        FailedRun { id, reason: "it did not end within its timeout".into(), seconds }
    }

    /// Plays a study in which runs of the second file system fail from a repetition on, after so many seconds; the runs of each.
    fn failing_from(repetition: u32, seconds: f64) -> [usize; 3] {
        let spec = StudySpec::parse("t", STUDY).unwrap();
        let (mut events, mut failures): (Vec<RunEvent>, Vec<FailedRun>) = Default::default();
        let mut tried = [0; 3];
        loop {
            let next = next_runs(&spec, &events, &failures);
            if next.iter().all(|id| failures.iter().any(|failed| failed.id == *id)) {
                let spent: f64 = events.iter().map(|event| event.seconds).sum::<f64>()
                    + failures.iter().map(|failed| failed.seconds).sum::<f64>();
                assert!(spent < spec.most_seconds() + 1.0 || next.is_empty(), "no retry after {spent} s");
                return tried;
            }
            for id in next {
                tried[id.on.fs] += 1;
                if id.on.fs == 1 && id.repetition >= repetition {
                    failures.push(failed(id, seconds));
                } else {
                    // Two that differ by little and vary much are never decided.
                    let value = 100.0 * (1.0 + 0.2 * f64::from(id.repetition % 3));
                    let metrics = vec![Measurement::new("throughput", "1/s", Better::Higher, value).unwrap()];
                    events.push(RunEvent { id, metrics, overhead_seconds: 0.0, seconds: 1.0, guest: None });
                }
            }
        }
    }

    #[test]
    fn runs_that_fail_take_their_time_of_the_whole() {
        // The first look takes 5 of each: 10 s of what succeeds and 4000 s of what does not, and the hour is over.
        assert_eq!(failing_from(0, 800.0), [5, 5, 5]);
    }

    #[test]
    fn a_cell_that_fails_throughout_a_look_is_given_up() {
        let tried = failing_from(1, 1.0);
        assert_eq!(tried[1], 5 + 2, "at the second look, where all that it adds failed: {tried:?}");
        assert!(tried[0] > 100, "the other two go on: {tried:?}");
    }

    #[test]
    fn what_failed_is_not_waited_for_and_is_done_again_at_the_end() {
        let spec = StudySpec::parse("t", STUDY).unwrap();
        let first = next_runs(&spec, &[], &[]);
        assert_eq!(first.len(), 15);
        let failed: Vec<FailedRun> = first.iter().map(|id| failed(*id, 1.0)).collect();
        let mut again = next_runs(&spec, &[], &failed);
        let mut first = first;
        again.sort();
        first.sort();
        assert_eq!(again, first, "nothing is left but what failed");
    }
}
