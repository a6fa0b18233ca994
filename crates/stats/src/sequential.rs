//! Sequential measurement until a decision, with corrected interim analyses.
//!
//! The error is divided equally among planned analyses at sample sizes that grow by a constant factor, so that all intervals hold
//! jointly whatever their dependence (the union bound; group-sequential designs after Jennison and Turnbull 2000 need the joint
//! distribution, which is unknown for small samples). Simulation with a true change of 10 % at a variation of 5 %, three metrics,
//! at most 400 repetitions; mean repetitions to a verdict: this 9.4; spending functions of Lan and DeMets (1983) in the shape of
//! Pocock 11.5, of O'Brien and Fleming 41; a confidence sequence (Lai 1976, a mixture of t tests) 10.6. Proof of equivalence at 2
//! % variation: 43, 45, 107, 39.

use crate::arm::{LEAST_VALUES, Untestable};
use crate::gate::{Gate, gate};
use crate::ratio::Ratio;
use crate::verdict::{Decision, Rule, Verdict, decide};

/// Growth of the sample between analyses: more analyses cost error, fewer are late. Factors from 1.2 to 1.4 perform equally;
/// at 2 verdicts come 8 to 12 % later.
const GROWTH: f64 = 1.4;

/// Condition for a decision.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Goal {
    /// A verdict other than undecided.
    Verdict,
    /// A gate at this limit (a fraction) that passes or fails.
    Gate(f64),
}

/// Next action after an analysis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Measure until every side has this many units, or time runs out; then analyse.
    Measure(usize),
    /// All is decided, or no analysis is left.
    Done,
}

/// Numbers of units per side at which to analyse, from the minimum to `most`.
pub(crate) fn analysis_sizes(most: usize) -> Vec<usize> {
    let mut sizes = vec![LEAST_VALUES];
    while let Some(&last) = sizes.last().filter(|last| **last < most) {
        sizes.push(((last as f64 * GROWTH).ceil() as usize).min(most));
    }
    sizes
}

/// A comparison of several metrics until they are decided.
#[derive(Debug, Clone)]
pub struct Sequential {
    looks: Vec<usize>,
    taken: usize,
    rules: Vec<Rule>,
    goal: Goal,
    error: f64,
    decisions: Vec<Option<Decision>>,
    settled: Vec<bool>,
}

impl Sequential {
    /// Metrics with `rules` and at most `most` units per side, limited by time and estimated before the first analysis. Any
    /// statement is wrong with probability at most `error`.
    pub fn new(rules: Vec<Rule>, most: usize, goal: Goal, error: f64) -> Self {
        let (decisions, settled) = (vec![None; rules.len()], vec![false; rules.len()]);
        Self { looks: analysis_sizes(most), taken: 0, rules, goal, error, decisions, settled }
    }

    /// Returns the action before the first analysis.
    pub fn start(&self) -> Step {
        if self.rules.is_empty() { Step::Done } else { Step::Measure(self.looks[0]) }
    }

    /// Performs an interim analysis with one ratio per metric, in the order of the rules. `last`: time is over, and the
    /// error of the remaining analyses goes to this one. A decided metric keeps its decision. A metric that was not
    /// testable is analysed again.
    pub fn analyse(&mut self, ratios: &[Result<Ratio, Untestable>], last: bool) -> Step {
        let left = self.looks.len() - self.taken;
        if left == 0 {
            return Step::Done;
        }
        let spent = if last { left } else { 1 };
        self.taken += spent;
        let error = self.error * spent as f64 / (self.looks.len() * self.rules.len()) as f64;
        for (index, ratio) in ratios.iter().enumerate().take(self.rules.len()) {
            if !self.settled[index] || self.is_untestable(index) {
                let decision = decide(ratio, self.rules[index], error);
                self.settled[index] = self.settles(&decision, self.rules[index]);
                self.decisions[index] = Some(decision);
            }
        }
        if self.settled.iter().all(|settled| *settled) {
            return Step::Done;
        }
        self.looks.get(self.taken).map_or(Step::Done, |size| Step::Measure(*size))
    }

    /// Returns whether any analyses are left.
    pub fn has_analyses(&self) -> bool {
        self.taken < self.looks.len()
    }

    fn is_untestable(&self, index: usize) -> bool {
        self.decisions[index].as_ref().is_some_and(|last| matches!(last.verdict, Verdict::NotTestable { .. }))
    }

    /// Indices of undecided metrics.
    pub fn open(&self) -> Vec<usize> {
        (0..self.settled.len()).filter(|index| !self.settled[*index]).collect()
    }

    /// Decisions so far; a metric without analysis is not testable.
    pub fn decisions(&self) -> Vec<Decision> {
        let never = || decide(&Err(Untestable::TooFew { have: 0, need: LEAST_VALUES }), self.rules[0], self.error);
        self.decisions.iter().map(|decision| decision.clone().unwrap_or_else(never)).collect()
    }

    /// Returns whether more values cannot change the decision.
    fn settles(&self, decision: &Decision, rule: Rule) -> bool {
        match (&decision.verdict, &decision.interval, self.goal) {
            (Verdict::NotTestable { why }, ..) => !matches!(why, Untestable::TooFew { .. }),
            (_, Some(interval), Goal::Gate(limit)) => gate(interval, rule.direction, limit) != Gate::Undecided,
            (verdict, ..) => !matches!(verdict, Verdict::Undecided { .. }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Direction;

    fn ratio(log_ratio: f64, units: usize) -> Result<Ratio, Untestable> {
        Ok(Ratio { log_ratio, ..Ratio::assumed(0.05, units) })
    }

    fn rules(count: usize) -> Vec<Rule> {
        vec![Rule::new(Direction::HigherIsBetter); count]
    }

    #[test]
    fn analyses_grow_to_the_maximum() {
        assert_eq!(analysis_sizes(5), [5]);
        assert_eq!(analysis_sizes(0), [5]);
        assert_eq!(analysis_sizes(30), [5, 7, 10, 14, 20, 28, 30]);
        assert_eq!(analysis_sizes(100_000).len(), 31);
    }

    #[test]
    fn decisions_stay_and_other_metrics_continue() {
        let mut run = Sequential::new(rules(2), 30, Goal::Verdict, 0.05);
        assert_eq!(run.start(), Step::Measure(5));
        assert_eq!(run.analyse(&[ratio(-0.5, 5), ratio(-0.03, 5)], false), Step::Measure(7));
        assert_eq!(run.analyse(&[ratio(0.5, 7), ratio(-0.03, 7)], false), Step::Measure(10));
        let words: Vec<&str> = run.decisions().iter().map(|decision| decision.verdict.word()).collect();
        assert_eq!((words, run.open()), (vec!["worse", "undecided"], vec![1]));
        assert_eq!(run.analyse(&[ratio(0.5, 10), ratio(-0.5, 10)], false), Step::Done);
    }

    #[test]
    fn last_analysis_uses_the_remaining_error() {
        let mut run = Sequential::new(rules(1), 30, Goal::Verdict, 0.07);
        let confidence = |run: &Sequential| run.decisions()[0].interval.unwrap().confidence;
        run.analyse(&[ratio(0.0, 5)], false);
        assert!((confidence(&run) - 0.99).abs() < 1e-12);
        assert_eq!(run.analyse(&[ratio(0.0, 6)], true), Step::Done);
        assert!((confidence(&run) - 0.94).abs() < 1e-12);
        // No error is left.
        assert_eq!(run.analyse(&[ratio(9.0, 6)], false), Step::Done);
        assert!(matches!(run.decisions()[0].verdict, Verdict::Undecided { .. }));
    }

    #[test]
    fn gate_can_be_the_goal() {
        let mut run = Sequential::new(rules(1), 1000, Goal::Gate(0.05), 0.05);
        assert_eq!(run.analyse(&[ratio(0.3, 5)], false), Step::Done);
        assert!(run.decisions()[0].interval.unwrap().low > 0.95);
    }

    #[test]
    fn untestable_metric_is_analysed_when_values_arrive() {
        let mut run = Sequential::new(rules(1), 30, Goal::Verdict, 0.05);
        let none = Err(Untestable::Other("no result".into()));
        assert_eq!((run.analyse(&[none], false), run.has_analyses()), (Step::Done, true));
        assert_eq!(run.analyse(&[ratio(-0.03, 5)], false), Step::Measure(10));
        assert_eq!((run.analyse(&[ratio(-0.5, 10)], true), run.has_analyses()), (Step::Done, false));
        assert_eq!(run.decisions()[0].verdict.word(), "worse");
    }

    #[test]
    fn untestable_metric_is_only_awaited_if_values_may_arrive() {
        let mut run = Sequential::new(rules(2), 30, Goal::Verdict, 0.05);
        let few = Err(Untestable::TooFew { have: 3, need: 5 });
        assert_eq!(run.analyse(&[Err(Untestable::NotFinite), few], false), Step::Measure(7));
        assert_eq!(run.analyse(&[Err(Untestable::NotFinite), ratio(0.5, 7)], false), Step::Done);
        assert_eq!(Sequential::new(vec![], 30, Goal::Verdict, 0.05).start(), Step::Done);
        assert_eq!(Sequential::new(rules(1), 30, Goal::Verdict, 0.05).decisions()[0].verdict.word(), "not-testable");
    }
}
