//! A comparison that measures until it is decided: in rounds of one run of each side, in random order, so that changes
//! of the machine affect both alike. Interim analyses are corrected for ([`Sequential`]).

use super::kept::{AnalysisParameters, RoundTimes};
use super::round_progress::RoundProgress;
use super::{Comparison, Options, Row, comparable, groups_of, margin, rows, settings, share, with_gate};
use crate::decided::direction;
use crate::measurements;
use rand::Rng;
use senesce_core::resume::{continue_with, same_command};
use senesce_core::{ExitCode, Failure, Measurement, Plan, Record, Seed, number_of};
use senesce_runner::Registry;
use senesce_runner::{Conduct, State};
use senesce_stats::arm::LEAST_VALUES;
use senesce_stats::sequential::{Goal, Sequential, Step};
use senesce_stats::verdict::FAMILY_ERROR;
use senesce_stats::{Gate, Mean, Ratio, Rule, Unit, Untestable, Verdict};
use senesce_volume::TargetSpec;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Limit of rounds: beyond it no difference of interest is decided.
const MOST: f64 = 1000.0;

/// Runs two plans in turn until every primary metric is decided, or `max_time` is over. The runs are in `directory`,
/// and a repeated call continues them.
pub fn compare_until_decided(
    registry: &Registry,
    [reference, sample]: [&Plan; 2],
    options: &Options,
    directory: &Path,
    max_time: Duration,
    how: &Conduct<'_>,
) -> Result<Comparison, Failure> {
    let mut times = RoundTimes::read(directory)?;
    let asked = AnalysisParameters::of(max_time, options.fail_on_regression);
    asked.check(directory, &times)?;
    let goal = options.fail_on_regression.map_or(Goal::Verdict, Goal::Gate);
    let margin = margin::of_plans([reference, sample]);
    let mut course = Rounds::new(goal, margin);
    let mut last: Option<[Record; 2]> = None;
    let mut order = reference.seed.stream("compare/order");
    while course.wants(times.of(course.rounds()), max_time) {
        let number = course.rounds();
        let begun = Instant::now();
        let mut both = [None, None];
        let first = (order.next_u64() & 1) as usize;
        for side in [first, 1 - first] {
            let (plan, name) = [(reference, "reference"), (sample, "sample")][side];
            let out = directory.join(run_name(name, number));
            let seed = reference.seed.child(&format!("compare/round/{number}"));
            let erase = word_for(plan, [reference, sample], how);
            let progress = RoundProgress { words: format!("round {}, {name}", number + 1), shown: how.progress };
            both[side] = Some(run_once(registry, plan, erase, seed, &out, &progress.within(how))?);
        }
        let [Some(reference), Some(sample)] = both else { break };
        asked.keep(directory)?;
        times.add(number, begun.elapsed(), directory)?;
        course.add(measurements::of(registry, &reference)?, measurements::of(registry, &sample)?);
        last = Some([reference, sample]);
    }
    let Some([base, first]) = last else { return Err(Failure::usage("--max-time leaves no time for a single round")) };
    let mut caveats = comparable(&[&first, &base], options)?;
    caveats.push(format!("measured here: {}, one run of each side in turn", number_of(course.rounds(), "round")));
    caveats.extend(same_images([reference, sample]));
    let rows = course.rows(options);
    caveats.extend(stopped(&rows, goal).filter(|_| times.of(course.rounds()) >= max_time));
    caveats.extend(share::caveat(&rows, options.fail_on_regression));
    Ok(Comparison {
        sample: runs_in(directory, "sample", course.rounds()),
        reference: runs_in(directory, "reference", course.rounds()),
        environment: base.environment.differences(&first.environment),
        settings: settings::differences(&base.plan, &first.plan),
        rows,
        caveats,
        margin,
        shares_runs: false,
        options: options.clone(),
    })
}

/// Returns a caveat if rows are still open at the end of the time.
fn stopped(rows: &[Row], goal: Goal) -> Option<String> {
    let is_open = |row: &&Row| match (goal, row.judged()) {
        (_, None) => row.described.is_none(),
        (Goal::Gate(_), Some(_)) => row.gate == Some(Gate::Undecided),
        (Goal::Verdict, Some(decision)) => {
            matches!(decision.verdict, Verdict::Undecided { .. } | Verdict::NotTestable { .. })
        }
    };
    let open = rows.iter().filter(is_open).count();
    (open > 0).then(|| format!("stopped by --max-time: {} without a verdict", number_of(open, "metric")))
}

/// Returns a caveat for plans with a seed of their own, which the seed of a round does not change.
fn same_images(plans: [&Plan; 2]) -> Option<String> {
    let kind = &plans.into_iter().find(|plan| plan.spec.contains_key("seed"))?.kind;
    Some(format!(
        "{kind} draws from the seed in its plan: all rounds repeat its images, and the result holds for these only"
    ))
}

pub(super) fn run_name(side: &str, round: usize) -> String {
    format!("{side}-{round:04}")
}

fn runs_in(directory: &Path, side: &str, rounds: usize) -> Vec<PathBuf> {
    (0..rounds).map(|round| directory.join(run_name(side, round))).collect()
}

fn word_for(plan: &Plan, both: [&Plan; 2], how: &Conduct<'_>) -> Option<String> {
    let target = |plan: &Plan| plan.spec.get("target")?.as_str()?.parse::<TargetSpec>().ok()?.path().map(PathBuf::from);
    let Some(own) = target(plan) else { return how.erase.clone() };
    let all: Vec<PathBuf> = both.into_iter().filter_map(target).collect();
    let all: Vec<&Path> = all.iter().map(PathBuf::as_path).collect();
    senesce_volume::guard::word_for(how.erase.as_deref(), &own, &all).map(str::to_string)
}

/// Runs a plan once. Rounds repeat it, so a benchmark in it has one repetition.
fn run_once(
    registry: &Registry,
    plan: &Plan,
    erase: Option<String>,
    seed: Seed,
    out: &Path,
    how: &Conduct<'_>,
) -> Result<Record, Failure> {
    let mut plan = Plan { seed, ..plan.clone() };
    let repetitions = plan.spec.get_mut("how").and_then(|how| how.get_mut("reps"));
    if let Some(repetitions) = repetitions {
        *repetitions = toml::Value::Integer(1);
    }
    let how = Conduct {
        out: Some(out.into()),
        runs: how.runs.clone(),
        again: false,
        erase,
        scale: plan.scale,
        only: None,
        progress: how.progress,
        interrupt: how.interrupt,
        peers: None,
    };
    let outcome = registry.kind(&plan)?.carry(&plan, &how)?;
    match outcome.state {
        State::Interrupted => Err(Failure::new(
            ExitCode::Interrupted,
            format!("interrupted; the rounds so far are kept\nhint: {}", continue_with(&same_command(None))),
        )),
        State::Failed(_) => Err(Failure::new(
            ExitCode::RunFailed,
            format!("a run of the comparison failed; see its record {}", outcome.path.display()),
        )),
        State::Done | State::WasDone => Ok(Record::open(&outcome.path)?),
    }
}

pub(crate) struct Rounds {
    goal: Goal,
    margin: f64,
    reference: Vec<Vec<Measurement>>,
    sample: Vec<Vec<Measurement>>,
    looks: Option<InterimAnalyses>,
    is_over: bool,
}

struct InterimAnalyses {
    sequential: Sequential,
    judged: Vec<Measurement>,
    next: usize,
}

impl Rounds {
    pub(crate) fn new(goal: Goal, margin: f64) -> Self {
        Self { goal, margin, reference: Vec::new(), sample: Vec::new(), looks: None, is_over: false }
    }

    pub(crate) fn rounds(&self) -> usize {
        self.reference.len()
    }

    pub(crate) fn add(&mut self, reference: Vec<Measurement>, sample: Vec<Measurement>) {
        self.reference.push(reference);
        self.sample.push(sample);
    }

    pub(crate) fn wants(&mut self, elapsed: Duration, max_time: Duration) -> bool {
        let rounds = self.rounds();
        let is_late = elapsed >= max_time;
        if self.is_over || rounds < LEAST_VALUES {
            return !(self.is_over || is_late && rounds > 0);
        }
        if self.looks.is_none() {
            let allowed = rounds as f64 * max_time.as_secs_f64() / elapsed.as_secs_f64().max(1e-9);
            self.looks = Some(self.begin(allowed.clamp(rounds as f64, MOST) as usize));
        }
        let judged = self.looks.as_ref().map_or(&[][..], |looks| &looks.judged);
        let ratios: Vec<Result<Ratio, Untestable>> = judged.iter().map(|what| self.ratio(what)).collect();
        let Some(looks) = &mut self.looks else { return false };
        if rounds >= looks.next || is_late {
            match looks.sequential.analyse(&ratios, is_late) {
                Step::Measure(next) if !is_late => looks.next = next,
                _ => self.is_over = true,
            }
        }
        !self.is_over
    }

    fn begin(&self, most: usize) -> InterimAnalyses {
        let rows = self.described(&Options::default());
        let judged: Vec<Measurement> =
            rows.into_iter().filter(|row| row.described.is_none()).map(|row| row.what).collect();
        let rule = |direction| Rule { direction, margin: self.margin };
        let rules = judged.iter().filter_map(|what| direction(what.better)).map(rule).collect();
        let sequential = Sequential::new(rules, most, self.goal, FAMILY_ERROR);
        let next = match sequential.start() {
            Step::Measure(next) => next,
            Step::Done => 0,
        };
        InterimAnalyses { sequential, judged, next }
    }

    fn described(&self, options: &Options) -> Vec<Row> {
        // One program measured all rounds, so each metric has one direction.
        let groups = |runs: &[Vec<Measurement>]| groups_of(runs.iter().cloned().enumerate()).unwrap_or_default();
        rows(&groups(&self.sample), &groups(&self.reference), options, self.margin)
    }

    fn ratio(&self, what: &Measurement) -> Result<Ratio, Untestable> {
        let sides = self.sample.iter().zip(&self.reference);
        let pairs: Vec<(f64, f64)> =
            sides.filter_map(|(ours, theirs)| Some((mean_of(what, ours)?, mean_of(what, theirs)?))).collect();
        Ratio::paired(&pairs, Mean::Geometric, Unit::Round)
    }

    pub(crate) fn rows(&self, options: &Options) -> Vec<Row> {
        let mut rows = self.described(options);
        let Some(looks) = &self.looks else { return rows };
        for (what, decision) in looks.judged.iter().zip(looks.sequential.decisions()) {
            let is_it = |row: &&mut Row| {
                (&row.what.metric, &row.what.unit, &row.what.condition) == (&what.metric, &what.unit, &what.condition)
            };
            if let Some(row) = rows.iter_mut().find(is_it) {
                row.decision = Some(decision);
                with_gate(row, options);
            }
        }
        rows
    }
}

/// Returns the geometric mean of a metric in one run; `None` without values, or with one without a logarithm.
fn mean_of(what: &Measurement, run: &[Measurement]) -> Option<f64> {
    let is_it =
        |one: &&Measurement| (&one.metric, &one.unit, &one.condition) == (&what.metric, &what.unit, &what.condition);
    let logs: Vec<f64> = run.iter().filter(is_it).map(|one| one.value.get().ln()).collect();
    senesce_stats::mean(&logs).map(f64::exp).filter(|mean| mean.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_core::analysis::Better;
    use senesce_stats::verdict::MARGIN;

    /// Approximates a standard normal number by twelve uniform ones.
    fn normal(rng: &mut impl Rng) -> f64 {
        (0..12).map(|_| rng.next_u64() as f64 / u64::MAX as f64).sum::<f64>() - 6.0
    }

    /// Measurements of a benchmark that is slower by `loss`, at a variation of 5 %, on a machine that is slower by
    /// `drift`.
    fn run(loss: f64, drift: f64, rng: &mut impl Rng) -> Vec<Measurement> {
        let mut one = |metric: &str, better: Better, factor: f64| {
            let value = 100.0 * factor * (0.05 * normal(rng)).exp();
            Measurement::new(metric, "x", better, value).unwrap().primary()
        };
        let speed = (1.0 - loss) * (1.0 - drift);
        vec![
            one("throughput", Better::Higher, speed),
            one("mean latency", Better::Lower, 1.0 / speed),
            one("p99 latency", Better::Lower, 1.0 / speed),
        ]
    }

    fn played(loss: f64, goal: Goal, most: u64, seed: u64) -> (Vec<Row>, usize) {
        played_at(MARGIN, loss, goal, most, seed)
    }

    fn played_at(margin: f64, loss: f64, goal: Goal, most: u64, seed: u64) -> (Vec<Row>, usize) {
        let mut rng = Seed(seed).stream("noise");
        let mut course = Rounds::new(goal, margin);
        while course.wants(Duration::from_secs(course.rounds() as u64), Duration::from_secs(most)) {
            // The machine slows down to half of its speed and recovers.
            let drift = 0.25 * (1.0 - (course.rounds() as f64 / 10.0).cos());
            course.add(run(0.0, drift, &mut rng), run(loss, drift, &mut rng));
        }
        let limit = match goal {
            Goal::Gate(limit) => Some(limit),
            Goal::Verdict => None,
        };
        (course.rows(&Options { fail_on_regression: limit, ..Options::default() }), course.rounds())
    }

    fn words(rows: &[Row]) -> Vec<&'static str> {
        rows.iter().filter_map(|row| Some(row.judged()?.verdict.word())).collect()
    }

    #[test]
    fn ten_percent_is_found_despite_drift_and_never_called_equal() {
        let mut found = 0;
        for seed in 0..40 {
            let (rows, rounds) = played(0.1, Goal::Verdict, 200, seed);
            let words = words(&rows);
            assert!(words.iter().all(|word| ["worse", "undecided"].contains(word)), "{words:?}");
            found += usize::from(words == ["worse"; 3]);
            assert!(rounds < 120, "{rounds}");
        }
        assert!(found >= 38, "{found} of 40");
    }

    #[test]
    fn equal_programs_rarely_get_a_verdict() {
        let alarms = (0..60).filter(|seed| {
            let (rows, _) = played(0.0, Goal::Verdict, 60, 1000 + seed);
            words(&rows).iter().any(|word| ["better", "worse"].contains(word))
        });
        let alarms = alarms.count();
        assert!(alarms <= 5, "{alarms} of 60");
    }

    #[test]
    fn loss_within_the_margin_of_the_plans_is_equivalent() {
        let (rows, _) = played_at(0.3, 0.1, Goal::Verdict, 200, 3);
        assert_eq!(words(&rows), ["equivalent"; 3]);
    }

    #[test]
    fn rounds_that_repeat_images_of_a_seed_give_a_caveat() {
        let plan = Plan::default_of("study", Seed(1));
        let mut seeded = plan.clone();
        seeded.spec.insert("seed".into(), toml::Value::Integer(42));
        assert_eq!(same_images([&plan, &plan]), None);
        for plans in [[&plan, &seeded], [&seeded, &plan]] {
            assert!(same_images(plans).is_some_and(|caveat| caveat.starts_with("study draws from the seed")));
        }
    }

    #[test]
    fn the_runs_of_all_rounds_are_named() {
        let runs = runs_in(Path::new("directory"), "sample", 2);
        assert_eq!(runs, ["directory/sample-0000", "directory/sample-0001"].map(PathBuf::from));
    }

    #[test]
    fn gate_or_time_limit_ends_the_rounds() {
        let (rows, _) = played(0.3, Goal::Gate(0.05), 200, 3);
        assert!(rows.iter().all(|row| row.gate == Some(Gate::Fail)), "{rows:?}");
        let (rows, rounds) = played(0.0, Goal::Verdict, 8, 3);
        assert_eq!((words(&rows), rounds), (vec!["undecided"; 3], 8));
        assert!(stopped(&rows, Goal::Verdict).is_some_and(|caveat| caveat.contains("3 metrics")));
        assert_eq!(stopped(&played(0.1, Goal::Verdict, 200, 3).0, Goal::Gate(0.05)), None, "no gate");
        let (rows, rounds) = played(0.5, Goal::Verdict, 3, 3);
        assert_eq!((words(&rows), rounds), (vec!["not-testable"; 3], 3));
    }
}
