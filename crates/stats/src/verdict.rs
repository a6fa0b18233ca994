//! Verdicts from intervals. A verdict can be checked against the printed interval: one interval decides both about a difference
//! and about equivalence (two one-sided tests, Schuirmann 1987, each at the level of one end).

use crate::arm::{Unit, Untestable};
use crate::ratio::{Interval, RESOLUTION, Ratio};
use serde::{Deserialize, Serialize};

/// Probability of any wrong statement in a family.
pub const FAMILY_ERROR: f64 = 0.05;

/// Differences up to this are irrelevant, as a fraction. Runs of the same program differ by such amounts for unrelated reasons,
/// such as link order and environment (Mytkowicz et al. 2009: several percent) or the drive (Maricq et al. 2018).
pub const MARGIN: f64 = 0.02;

/// Number of units per side above which values are too noisy for a verdict. Reports then suggest quieter measurements.
pub const PRACTICAL_UNITS: u64 = 100;

/// Detectable ratio above which values are too noisy for a verdict.
pub const PRACTICAL_RATIO: f64 = 2.0;

/// Which direction of a metric is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// Throughput, layout score.
    HigherIsBetter,
    /// Time, latency, extents per file.
    LowerIsBetter,
}

/// Result of comparing a metric with its reference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The interval excludes 1, and the estimate is better by at least the margin.
    Better,
    /// The interval excludes 1, and the estimate is worse by at least the margin.
    Worse,
    /// The whole interval is inside the margin.
    Equivalent,
    /// Both sides have the same layouts, so that their values are the same.
    Identical,
    /// None of the other verdicts.
    Undecided {
        /// The smallest ratio, above 1 (or its inverse), that this run would have found with probability 0.8.
        detectable: f64,
        /// Units (repetitions, images, rounds) per side that would decide; `None` if no number would.
        repetitions_needed: Option<u64>,
    },
    /// A ratio does not exist.
    NotTestable {
        /// Reason.
        why: Untestable,
    },
}

impl Verdict {
    /// Returns the name in machine-readable output.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Equivalent => "equivalent",
            Self::Identical => "identical",
            Self::Undecided { .. } => "undecided",
            Self::NotTestable { .. } => "not-testable",
        }
    }

    /// Returns whether one side is better.
    pub fn is_difference(&self) -> bool {
        matches!(self, Self::Better | Self::Worse)
    }

    /// Returns whether the verdict is undecided, and a decision needs more than [`PRACTICAL_UNITS`], or only a ratio
    /// above [`PRACTICAL_RATIO`] would have been found.
    pub fn is_too_noisy(&self) -> bool {
        match self {
            Self::Undecided { detectable, repetitions_needed } => {
                *detectable > PRACTICAL_RATIO || repetitions_needed.is_some_and(|needed| needed > PRACTICAL_UNITS)
            }
            _ => false,
        }
    }
}

/// Decision rule of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rule {
    /// Which direction is better.
    pub direction: Direction,
    /// Differences up to this are irrelevant, as a fraction above 0. The margin is from 1 / (1 + margin) to 1 + margin.
    pub margin: f64,
}

impl Rule {
    /// Creates a rule with the default [`MARGIN`].
    pub fn new(direction: Direction) -> Self {
        Self { direction, margin: MARGIN }
    }
}

/// A verdict with its basis.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// Ratio to the reference; `None` if not testable.
    pub interval: Option<Interval>,
    /// Unit of the interval; [`Unit::Repetition`] holds for one image only.
    pub unit: Option<Unit>,
    /// Result, from the whole interval and the margin of the rule.
    pub verdict: Verdict,
}

impl Decision {
    /// Decides sides with the same layouts: their ratio is exactly 1, also that of zeros.
    pub fn identical() -> Self {
        let interval = Interval::around(0.0, RESOLUTION, 0.0);
        Self { interval: Some(interval), unit: Some(Unit::Image), verdict: Verdict::Identical }
    }

    /// Returns the text for reports. [`Decision::text_at`] also names the margin.
    pub fn text(&self) -> String {
        self.text_with("")
    }

    /// Returns the text for reports that names the `margin` (a fraction) of its rule.
    pub fn text_at(&self, margin: f64) -> String {
        self.text_with(&at_margin(margin))
    }

    /// Returns the text for a table whose title names the margin: `undecided: 3.2 % detectable, 24 repetitions needed`.
    pub fn short_text(&self) -> String {
        let Verdict::Undecided { detectable, repetitions_needed } = &self.verdict else { return self.text() };
        let units = self.units();
        let found = match self.verdict.is_too_noisy() {
            true => "too noisy".to_string(),
            false => format!("{:.1} % detectable", (detectable - 1.0) * 100.0),
        };
        let needed = match repetitions_needed {
            Some(needed) if *needed > PRACTICAL_UNITS => format!("more than {PRACTICAL_UNITS} {units} needed"),
            Some(needed) => format!("{needed} {units} needed"),
            None => format!("no number of {units} is enough"),
        };
        format!("undecided: {found}, {needed}")
    }

    fn text_with(&self, at: &str) -> String {
        match &self.verdict {
            Verdict::Undecided { repetitions_needed, .. } if self.verdict.is_too_noisy() => {
                self.too_noisy_text(*repetitions_needed, at)
            }
            Verdict::Undecided { detectable, repetitions_needed } => {
                let units = self.units();
                let needed = match repetitions_needed {
                    Some(needed) => format!("{needed} {units} per side would decide{at}"),
                    None => format!("no number of {units} would decide{at}"),
                };
                format!("undecided: a change of {:.1} % could have been found; {needed}", (detectable - 1.0) * 100.0)
            }
            Verdict::NotTestable { why } => format!("not testable here: {why}"),
            verdict => verdict.word().into(),
        }
    }

    fn too_noisy_text(&self, needed: Option<u64>, at: &str) -> String {
        let units = self.units();
        let needed = match needed {
            Some(needed) if needed > PRACTICAL_UNITS => {
                format!("it needs more than {PRACTICAL_UNITS} {units} per side")
            }
            Some(needed) => format!("it needs {needed} {units} per side"),
            None => format!("no number of {units} is enough"),
        };
        // A quiet machine does not change the layout of an image.
        let remedy = if self.unit == Some(Unit::Image) { "" } else { "; use a quieter machine, or a modelled metric" };
        format!("undecided: these runs are too noisy to decide{at} ({needed}){remedy}")
    }

    fn units(&self) -> &'static str {
        self.unit.unwrap_or(Unit::Repetition).plural()
    }
}

/// Returns " at the margin of 2 %"; `margin` is a fraction.
pub fn at_margin(margin: f64) -> String {
    format!(" at the margin of {} %", (margin * 1e4).round() / 1e2)
}

/// Decides one ratio by the interval that is wrong with probability `error`.
pub fn decide(ratio: &Result<Ratio, Untestable>, rule: Rule, error: f64) -> Decision {
    match ratio {
        Ok(ratio) => {
            let interval = ratio.interval(error);
            let verdict = read(&interval, rule).unwrap_or_else(|| Verdict::Undecided {
                detectable: ratio.detectable(error, rule.margin),
                repetitions_needed: ratio.repetitions_needed(error, rule.margin),
            });
            Decision { interval: Some(interval), unit: Some(ratio.unit), verdict }
        }
        Err(why) => Decision { interval: None, unit: None, verdict: Verdict::NotTestable { why: why.clone() } },
    }
}

/// Decides all ratios of a family so that any of them is wrong with probability at most `error` ([`FAMILY_ERROR`]), by
/// simultaneous intervals (Bonferroni, over the testable ones). Holm's test would find slightly more (in a study of 36 pairs, 94
/// instead of 91 % of differences), but has no matching intervals.
pub fn decide_all(family: &[(Result<Ratio, Untestable>, Rule)], error: f64) -> Vec<Decision> {
    let testable = family.iter().filter(|(ratio, _)| ratio.is_ok()).count().max(1);
    family.iter().map(|(ratio, rule)| decide(ratio, *rule, error / testable as f64)).collect()
}

/// Returns the verdict of an interval; `None` for undecided.
pub(crate) fn read(interval: &Interval, rule: Rule) -> Option<Verdict> {
    let (down, up) = (1.0 / (1.0 + rule.margin), 1.0 + rule.margin);
    if down < interval.low && interval.high < up {
        return Some(Verdict::Equivalent);
    }
    let above = interval.low > 1.0 && interval.value >= up;
    let below = interval.high < 1.0 && interval.value <= down;
    let is_better = above == (rule.direction == Direction::HigherIsBetter);
    (above || below).then_some(if is_better { Verdict::Better } else { Verdict::Worse })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arm::{Arm, Mean};

    fn decided(sample: &[f64], reference: &[f64], direction: Direction) -> Decision {
        let arm = |values: &[f64]| Arm::single(values, Mean::Geometric);
        let ratio = arm(sample).and_then(|ours| Ok(Ratio::of(&ours, &arm(reference)?)));
        decide(&ratio, Rule::new(direction), FAMILY_ERROR)
    }

    const BASE: [f64; 6] = [100.0, 101.0, 99.0, 100.5, 99.5, 100.0];
    const LESS: [f64; 6] = [90.0, 91.0, 89.0, 90.5, 89.5, 90.0];

    #[test]
    fn verdicts_follow_direction_interval_and_margin() {
        use Direction::{HigherIsBetter, LowerIsBetter};
        assert_eq!(decided(&LESS, &BASE, HigherIsBetter).verdict, Verdict::Worse);
        assert_eq!(decided(&LESS, &BASE, LowerIsBetter).verdict, Verdict::Better);
        assert_eq!(decided(&BASE, &LESS, HigherIsBetter).verdict, Verdict::Better);
        assert_eq!(decided(&BASE, &BASE, HigherIsBetter).verdict, Verdict::Equivalent);
    }

    #[test]
    fn three_repetitions_are_too_few() {
        let decision = decided(&LESS[..3], &BASE, Direction::HigherIsBetter);
        assert_eq!(decision.verdict.word(), "not-testable");
        assert!(decision.text().contains("too few: 3 of at least 5"), "{}", decision.text());
        assert_eq!(decision.interval, None);
    }

    #[test]
    fn undecided_verdict_reports_needed_repetitions() {
        let noisy = [100.0, 60.0, 130.0, 85.0, 110.0, 70.0];
        let decision = decided(&noisy, &BASE, Direction::HigherIsBetter);
        assert!(decision.verdict.is_too_noisy());
        let Verdict::Undecided { detectable, repetitions_needed: Some(needed) } = decision.verdict else {
            panic!("{decision:?}")
        };
        assert!(detectable > 1.3 && needed > 1000, "{detectable} {needed}");
    }

    #[test]
    fn more_than_a_hundred_units_or_a_doubling_is_too_noisy() {
        let undecided = |detectable, repetitions_needed| Verdict::Undecided { detectable, repetitions_needed };
        for (detectable, needed, expected) in [
            (1.05, Some(100), false),
            (1.05, Some(101), true),
            (1.05, None, false),
            (2.0, Some(100), false),
            (2.01, Some(100), true),
            (2.01, None, true),
        ] {
            assert_eq!(undecided(detectable, needed).is_too_noisy(), expected, "{detectable} {needed:?}");
        }
        assert!(!Verdict::Worse.is_too_noisy());
        let text = |needed| {
            let verdict = undecided(33.4, needed);
            Decision { interval: None, unit: Some(Unit::Run), verdict }.text_at(MARGIN)
        };
        for (needed, part) in
            [(Some(5691), "more than 100 runs per side"), (Some(7), "7 runs per side"), (None, "no number")]
        {
            let text = text(needed);
            assert!(text.contains(part) && text.contains("at the margin of 2 %"), "{text}");
            assert!(!text.contains("5691") && !text.contains("3240"), "{text}");
        }
    }

    #[test]
    fn short_text_has_the_change_and_the_number_that_decides() {
        let short = |verdict| Decision { interval: None, unit: None, verdict }.short_text();
        let undecided = |detectable, repetitions_needed| short(Verdict::Undecided { detectable, repetitions_needed });
        assert_eq!(undecided(1.032, Some(24)), "undecided: 3.2 % detectable, 24 repetitions needed");
        assert_eq!(undecided(1.1, None), "undecided: 10.0 % detectable, no number of repetitions is enough");
        assert_eq!(undecided(1.1, Some(5691)), "undecided: too noisy, more than 100 repetitions needed");
        assert_eq!(short(Verdict::Worse), "worse");
    }

    #[test]
    fn difference_inside_the_margin_is_equivalent_and_at_its_edge_undecided() {
        let rule = Rule::new(Direction::HigherIsBetter);
        let of = |low, value, high| read(&Interval { value, low, high, confidence: 0.95 }, rule);
        assert_eq!(of(1.002, 1.005, 1.008), Some(Verdict::Equivalent));
        assert_eq!(of(1.002, 1.015, 1.028), None);
        assert_eq!(of(1.002, 1.021, 1.04), Some(Verdict::Better));
        assert_eq!(of(0.9, 0.95, 0.999), Some(Verdict::Worse));
        assert_eq!(of(0.999, 1.03, 1.06), None);
        // A NaN margin decides nothing.
        let broken = Rule { margin: f64::NAN, ..rule };
        assert_eq!(read(&Interval { value: 0.5, low: 0.4, high: 0.6, confidence: 0.95 }, broken), None);
    }

    #[test]
    fn identical_sides_have_a_ratio_of_one() {
        let identical = Decision::identical();
        let interval = identical.interval.unwrap();
        assert!(interval.value == 1.0 && interval.low < 1.0 && interval.high < 1.0 + 2.0 * RESOLUTION);
        assert!(!identical.verdict.is_difference() && !identical.verdict.is_too_noisy());
    }

    #[test]
    fn comparisons_of_a_family_share_the_error_rate() {
        let arm = |values: &[f64]| Arm::single(values, Mean::Geometric);
        let ratio = Ok(Ratio::of(&arm(&LESS).unwrap(), &arm(&BASE).unwrap()));
        let refused = Err(Untestable::NotFinite);
        let rule = Rule::new(Direction::HigherIsBetter);
        let family = vec![(ratio.clone(), rule), (ratio, rule), (refused, rule)];
        let decisions = decide_all(&family, 0.05);
        assert_eq!(decisions[0].interval.unwrap().confidence, 0.975);
        assert_eq!(decisions[2].verdict, Verdict::NotTestable { why: Untestable::NotFinite });
        assert!(decide_all(&[], 0.05).is_empty());
    }

    #[test]
    fn verdicts_round_trip() {
        for verdict in [
            Verdict::Better,
            Verdict::Undecided { detectable: 1.08, repetitions_needed: None },
            Verdict::NotTestable { why: Untestable::TooFew { have: 1, need: 5 } },
        ] {
            let text = serde_json::to_string(&verdict).unwrap();
            assert_eq!(serde_json::from_str::<Verdict>(&text).unwrap(), verdict);
        }
    }
}
