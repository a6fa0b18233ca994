//! Simulated studies.

use super::*;
use crate::matrix_run::RunEvent;
use crate::results::FailedRun;
use rand::Rng;
use senesce_core::Seed;
use senesce_core::analysis::Better;

const STUDY: &str = r#"
name = "t"
size = "512M"
until_decided = true
max_time = "1h"
repetitions = 200
file_system = [{ kind = "ext4" }, { kind = "xfs" }, { kind = "btrfs" }]
state = [{ kind = "fresh" }]
workload = [{ personality = "webserver", scale = 0.1 }]
"#;

fn spec() -> StudySpec {
    StudySpec::parse("t", STUDY).unwrap()
}

/// Approximates a standard normal number by twelve uniform ones.
fn normal(rng: &mut impl Rng) -> f64 {
    (0..12).map(|_| rng.next_u64() as f64 / u64::MAX as f64).sum::<f64>() - 6.0
}

fn done(id: RunId, value: f64, seconds: f64) -> PastEvent {
    let metrics = vec![Measurement::new("throughput", "1/s", Better::Higher, value).unwrap()];
    PastEvent::Run(RunEvent { id, metrics, overhead_seconds: 0.0, seconds, guest: None })
}

fn failed(id: RunId, seconds: f64) -> PastEvent {
    PastEvent::Failed(FailedRun { id, reason: "sh job: it failed with exit code 1".into() }, seconds)
}

fn execute(spec: &StudySpec, past: &mut Vec<PastEvent>, mut run: impl FnMut(RunId) -> PastEvent) {
    let mut given_up: Vec<RunId> = Vec::new();
    loop {
        let due = due_analyses(spec, past);
        past.extend(due.into_iter().map(PastEvent::Look));
        let mut next = next_runs(spec, past);
        next.retain(|id| !given_up.contains(id));
        if next.is_empty() {
            return;
        }
        for id in next {
            let one = run(id);
            given_up.extend(matches!(one, PastEvent::Failed(..)).then_some(id));
            past.push(one);
        }
    }
}

/// Plays the whole study on a simulated machine: throughput by file system at a variation of 5 %, `seconds` a run.
fn played(centres: [f64; 3], seconds: f64, seed: u64) -> (Vec<PastEvent>, Vec<Answer>) {
    let (spec, mut rng, mut past) = (spec(), Seed(seed).stream("noise"), Vec::new());
    execute(&spec, &mut past, |id| done(id, centres[id.on.fs] * (0.05 * normal(&mut rng)).exp(), seconds));
    let answers = answers(&spec, &past);
    (past, answers)
}

fn count(past: &[PastEvent], fs: usize) -> usize {
    past_events::runs(past).filter(|run| run.id.on.fs == fs).count()
}

fn spent(past: &[PastEvent]) -> f64 {
    past.iter().filter_map(PastEvent::tried).map(|(_, seconds)| seconds).sum()
}

fn answer(answers: &[Answer], a: usize, b: usize) -> &Answer {
    let is_it = |answer: &&Answer| (answer.question.sample.fs, answer.question.reference.fs) == (a, b);
    answers.iter().find(is_it).unwrap()
}

fn word(answers: &[Answer], a: usize, b: usize) -> &'static str {
    answer(answers, a, b).decision.verdict.word()
}

#[test]
fn ten_percent_difference_is_found_and_never_called_equal() {
    let mut found = 0;
    for seed in 0..40 {
        let (past, answers) = played([1.0, 0.9, 0.8], 1.0, seed);
        let words = [word(&answers, 0, 1), word(&answers, 0, 2), word(&answers, 1, 2)];
        assert!(!words.contains(&"equivalent") && !words.contains(&"worse"), "{words:?}");
        found += usize::from(words == ["better"; 3]);
        assert!(past_events::runs(&past).count() < 3 * 100);
    }
    assert!(found >= 38, "{found} of 40");
}

#[test]
fn only_open_cells_get_more_repetitions() {
    let (past, answers) = played([1.0, 1.0, 0.5], 1.0, 7);
    assert_eq!((word(&answers, 0, 2), count(&past, 2)), ("better", 5));
    let (first, second) = (count(&past, 0), count(&past, 1));
    assert!(first > 20 && first == second, "{first} {second}");
}

#[test]
fn time_limit_ends_study_with_current_answers() {
    let (past, answers) = played([1.0, 1.0, 0.5], 100.0, 7);
    assert!((3000.0..=3600.0).contains(&spent(&past)), "{}", spent(&past));
    assert_eq!(word(&answers, 0, 1), "undecided");
    assert_eq!(word(&answers, 0, 2), "better");
}

/// Simulates cells that differ by little and vary much, so that they are never decided.
fn wavering(id: RunId) -> PastEvent {
    done(id, 100.0 * (1.0 + 0.2 * f64::from(id.repetition % 3)), 1.0)
}

/// Plays a study in which runs of the second file system fail from a repetition on, after the given seconds; returns
/// the tries of each.
fn failing_from(repetition: u32, seconds: f64) -> [usize; 3] {
    let (spec, mut past) = (spec(), Vec::new());
    execute(&spec, &mut past, |id| match id.on.fs == 1 && id.repetition >= repetition {
        true => failed(id, seconds),
        false => wavering(id),
    });
    let again = next_runs(&spec, &past);
    assert!(spent(&past) < spec.most_seconds() + 1.0 || again.is_empty(), "no retry after {} s", spent(&past));
    let mut tried = [0; 3];
    past.iter().filter_map(PastEvent::tried).for_each(|(id, _)| tried[id.on.fs] += 1);
    tried
}

#[test]
fn failed_runs_count_against_the_time_limit() {
    // The first analysis takes 5 of each: 10 s for successes and 4000 s for failures, and the hour is over.
    assert_eq!(failing_from(0, 800.0), [5, 5, 5]);
}

#[test]
fn cell_without_success_in_an_analysis_is_given_up() {
    let tried = failing_from(1, 1.0);
    assert_eq!(tried[1], 5 + 2, "at the second analysis, where all additional runs failed: {tried:?}");
    assert!(tried[0] > 100, "the other two continue: {tried:?}");
}

#[test]
fn failed_runs_are_retried_at_the_end() {
    let (spec, mut past) = (spec(), Vec::new());
    execute(&spec, &mut past, |id| failed(id, 1.0));
    let (mut first, mut again) = (runs(&StudySpec { repetitions: 5, ..spec.clone() }), next_runs(&spec, &past));
    first.sort();
    again.sort();
    assert_eq!((again.len(), again), (15, first), "only failed runs are left");
}

/// Simulates a study in which the second file system fails, 100 s a run, and the other two are decided after several
/// analyses.
fn with_a_dead_cell(seed: u64) -> (Vec<PastEvent>, impl FnMut(RunId) -> PastEvent) {
    let (mut past, mut rng) = (Vec::new(), Seed(seed).stream("noise"));
    let mut value = move |id: RunId| [100.0, 50.0, 96.0][id.on.fs] * (0.04 * normal(&mut rng)).exp();
    execute(&spec(), &mut past, |id| if id.on.fs == 1 { failed(id, 100.0) } else { done(id, value(id), 1.0) });
    (past, move |id| done(id, value(id), 1.0))
}

#[test]
fn cell_with_timeouts_gets_no_verdict_from_fast_runs() {
    let (spec, mut past) = (spec(), Vec::new());
    // Every fourth run of the second file system hangs; the others are twice as fast as any other file system.
    execute(&spec, &mut past, |id| match (id.on.fs, id.repetition % 4) {
        (1, 3) => {
            let reason = "sh job: it did not end within 60 s and was ended; raise its timeout if it needs longer";
            PastEvent::Failed(FailedRun { id, reason: reason.into() }, 60.0)
        }
        (fs, repetition) => done(id, [100.0, 200.0, 50.0][fs] + f64::from(repetition % 3), 1.0),
    });
    let said = answers(&spec, &past);
    assert_eq!([word(&said, 0, 1), word(&said, 1, 2), word(&said, 0, 2)], ["not-testable", "not-testable", "better"]);
}

#[test]
fn retries_take_time_but_change_no_verdict() {
    let (mut past, _) = with_a_dead_cell(3);
    let spec = spec();
    let before = answers(&spec, &past);
    assert_eq!((word(&before, 0, 1), word(&before, 0, 2)), ("not-testable", "better"));
    let looks = past.iter().filter(|one| matches!(one, PastEvent::Look(_))).count();
    assert!(looks > 2 && count(&past, 0) > 5, "it is decided after several analyses: {looks}");
    // 500 s each time, until the hour is over.
    for _ in 0..10 {
        execute(&spec, &mut past, |id| failed(id, 100.0));
        let decision = |answers: &[Answer]| answer(answers, 0, 2).decision.clone();
        assert_eq!(decision(&answers(&spec, &past)), decision(&before), "after {} s", spent(&past));
    }
    assert!((3500.0..4200.0).contains(&spent(&past)), "{}", spent(&past));
    assert_eq!(past.iter().filter(|one| matches!(one, PastEvent::Look(_))).count(), looks, "no analysis is repeated");
}

#[test]
fn fixed_cell_gets_answers_and_others_keep_theirs() {
    let (mut past, mut mended) = with_a_dead_cell(3);
    let spec = spec();
    let before = answers(&spec, &past);
    let had = count(&past, 0);
    execute(&spec, &mut past, &mut mended);
    let after = answers(&spec, &past);
    assert_eq!((word(&after, 0, 1), word(&after, 1, 2)), ("better", "worse"));
    assert_eq!(answer(&after, 0, 2).decision, answer(&before, 0, 2).decision);
    assert_eq!((count(&past, 0), count(&past, 1)), (had, 5), "five values show a factor of two");
    assert!(next_runs(&spec, &past).is_empty());
}

#[test]
fn retried_run_does_not_change_earlier_analysis() {
    let (spec, mut past, mut rng) = (spec(), Vec::new(), Seed(5).stream("noise"));
    let mut value = |id: RunId| [100.0, 90.0, 50.0][id.on.fs] * (0.02 * normal(&mut rng)).exp();
    // One of the first five of the third fails, so that it is compared at the second analysis.
    let is_bad = |id: RunId| id.on.fs == 2 && id.repetition == 0;
    execute(&spec, &mut past, |id| if is_bad(id) { failed(id, 1.0) } else { done(id, value(id), 1.0) });
    let before = answers(&spec, &past);
    assert_eq!(word(&before, 0, 2), "better");
    execute(&spec, &mut past, |id| done(id, 5000.0, 1.0));
    assert!(past_events::failed(&past).is_empty() && count(&past, 2) == 7, "{}", count(&past, 2));
    let after = answers(&spec, &past);
    assert_eq!(answer(&after, 0, 2).decision, answer(&before, 0, 2).decision);
}

#[test]
fn values_after_last_analysis_get_no_verdict() {
    let spec = StudySpec { max_time: "30s".parse().ok(), ..spec() };
    let mut past = Vec::new();
    execute(&spec, &mut past, |id| if id.on.fs == 1 { failed(id, 0.1) } else { wavering(id) });
    let looks =
        |past: &[PastEvent]| past.iter().filter(|one| matches!(one, PastEvent::Look(look) if look.last)).count();
    assert_eq!((looks(&past), word(&answers(&spec, &past), 0, 2)), (1, "undecided"));
    execute(&spec, &mut past, |id| done(id, 100.0, 0.1));
    assert_eq!((count(&past, 1), looks(&past)), (5, 1));
    assert_eq!(word(&answers(&spec, &past), 0, 1), "not-testable");
}

#[test]
fn interrupted_study_continues_identically() {
    let (whole, said) = played([1.0, 0.97, 0.9], 5.0, 11);
    let spec = spec();
    for kept in (0..whole.len()).step_by(7) {
        let mut past = whole[..kept].to_vec();
        let value = |id: RunId| past_events::runs(&whole).find(|run| run.id == id).expect("the same runs").clone();
        execute(&spec, &mut past, |id| PastEvent::Run(value(id)));
        let decisions = |answers: &[Answer]| answers.iter().map(|one| one.decision.clone()).collect::<Vec<_>>();
        assert_eq!(decisions(&answers(&spec, &past)), decisions(&said), "interrupted after {kept}");
    }
}
