//! Regression gate: does a metric lose more than a limit?

use crate::ratio::Interval;
use crate::verdict::{Decision, Direction};
use serde::{Deserialize, Serialize};

/// Result of the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Gate {
    /// The bad end of every interval is below the limit: a larger loss is excluded.
    Pass,
    /// The whole interval of some metric is beyond the limit.
    Fail,
    /// Some interval contains the limit, or does not exist.
    Undecided,
}

/// Decides the gate of one metric: its ratio to the reference may lose `limit` (a fraction of the reference).
pub fn gate(interval: &Interval, direction: Direction, limit: f64) -> Gate {
    let (best_loss, worst_loss) = match direction {
        Direction::HigherIsBetter => (1.0 - interval.high, 1.0 - interval.low),
        Direction::LowerIsBetter => (interval.low - 1.0, interval.high - 1.0),
    };
    if worst_loss < limit {
        Gate::Pass
    } else if best_loss > limit {
        Gate::Fail
    } else {
        Gate::Undecided
    }
}

/// Combines the gates of several metrics, decided together by [`crate::verdict::decide_all`]: fails if any fails,
/// passes if all pass. Undecided without metrics or with one that is not testable.
pub fn gate_all(metrics: &[(Decision, Direction)], limit: f64) -> Gate {
    let one = |(decision, direction): &(Decision, Direction)| match &decision.interval {
        Some(interval) => gate(interval, *direction, limit),
        None => Gate::Undecided,
    };
    let all: Vec<Gate> = metrics.iter().map(one).collect();
    if all.contains(&Gate::Fail) {
        Gate::Fail
    } else if all.is_empty() || all.contains(&Gate::Undecided) {
        Gate::Undecided
    } else {
        Gate::Pass
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arm::Untestable;
    use crate::verdict::Verdict;

    fn interval(low: f64, high: f64) -> Interval {
        Interval { value: (low * high).sqrt(), low, high, confidence: 0.95 }
    }

    #[test]
    fn interval_ends_decide() {
        use Direction::{HigherIsBetter, LowerIsBetter};
        for (low, high, direction, expected) in [
            (0.96, 1.01, HigherIsBetter, Gate::Pass),
            (0.94, 1.01, HigherIsBetter, Gate::Undecided),
            (0.80, 0.94, HigherIsBetter, Gate::Fail),
            (0.80, 0.94, LowerIsBetter, Gate::Pass),
            (1.01, 1.04, LowerIsBetter, Gate::Pass),
            (1.06, 1.10, LowerIsBetter, Gate::Fail),
            (0.11, 1.09, HigherIsBetter, Gate::Undecided),
        ] {
            assert_eq!(gate(&interval(low, high), direction, 0.05), expected, "{low} to {high}");
        }
        assert_eq!(gate(&interval(0.9, 1.1), HigherIsBetter, f64::NAN), Gate::Undecided);
    }

    #[test]
    fn any_failure_fails_and_zero_metrics_never_pass() {
        let metric = |low, high| {
            let decision = Decision { interval: Some(interval(low, high)), unit: None, verdict: Verdict::Worse };
            (decision, Direction::HigherIsBetter)
        };
        let none =
            Decision { interval: None, unit: None, verdict: Verdict::NotTestable { why: Untestable::NotFinite } };
        let none = (none, Direction::HigherIsBetter);
        let (good, bad, wide) = (metric(0.97, 1.02), metric(0.8, 0.9), metric(0.5, 1.5));
        assert_eq!(gate_all(&[good.clone(), bad, wide.clone()], 0.05), Gate::Fail);
        assert_eq!(gate_all(&[good.clone(), wide], 0.05), Gate::Undecided);
        assert_eq!(gate_all(&[good.clone(), none], 0.05), Gate::Undecided);
        assert_eq!(gate_all(&[], 0.05), Gate::Undecided);
        assert_eq!(gate_all(&[good.clone(), good], 0.05), Gate::Pass);
    }
}
