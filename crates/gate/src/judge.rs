//! The verdict on each metric, from agings of both sides and from shams.
//!
//! A sham repeats an aging of the reference after a file was created and deleted: allocation is chaotic, so its layout differs by
//! noise only. The variance of one aging is that between seeds, or that of shams if that is larger. Agings are paired by seed only
//! if, in the reference, noise is less than half of the variance between seeds: otherwise pairs gain nothing.

use crate::aged::Aged;
use crate::metric::Metric;
use crate::run::CompletedAgings;
use senesce_core::analysis::Better;
use senesce_stats::ratio::RESOLUTION;
use senesce_stats::{Interval, Ratio, Unit, pearson, standard_deviation};
use serde::{Deserialize, Serialize};

/// Probability that a gate of equal sides fails, over all primary metrics and analyses.
pub(crate) const ALARM: f64 = 0.002;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Verdict {
    /// The whole interval is beyond the minimum effect.
    Worse,
    Better,
    /// The whole interval is within the minimum effect.
    Equivalent,
    /// The layouts and the values of every pair are the same.
    Identical,
    /// The interval holds the minimum effect.
    Undecided,
    /// A value is missing, or not above zero.
    NotTestable,
}

impl Verdict {
    pub(crate) const ALL: [Self; 6] =
        [Self::Worse, Self::Better, Self::Equivalent, Self::Identical, Self::Undecided, Self::NotTestable];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Worse => "worse",
            Self::Better => "better",
            Self::Equivalent => "equivalent",
            Self::Identical => "identical",
            Self::Undecided => "undecided",
            Self::NotTestable => "not testable",
        }
    }
}

/// The verdict on a metric.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct MetricVerdict {
    pub metric: &'static str,
    pub primary: bool,
    #[serde(skip)]
    pub better: Better,
    pub verdict: Verdict,
    /// Geometric means of both sides.
    pub reference: Option<f64>,
    pub variant: Option<f64>,
    /// Variant over reference.
    pub ratio: Option<Interval>,
    pub paired: bool,
    /// Standard deviation of one aging by shams, as a logarithm.
    pub sham_deviation: Option<f64>,
    /// Correlation of both sides within seeds.
    pub correlation: Option<f64>,
    /// Why it is not testable.
    #[serde(skip)]
    pub obstacle: Option<&'static str>,
}

impl MetricVerdict {
    /// Returns the verdict, with the reason if it is not testable: `not testable: 0 on both sides`.
    pub(crate) fn text(&self) -> String {
        match self.obstacle {
            Some(obstacle) => format!("{}: {obstacle}", self.verdict.word()),
            None => self.verdict.word().into(),
        }
    }

    /// Returns whether the interval contains a worsening of more than `effect` (a fraction).
    pub(crate) fn may_be_worse_by(&self, effect: f64) -> bool {
        self.ratio.map_or(self.verdict == Verdict::Undecided, |ratio| match self.better {
            Better::Lower => ratio.high > 1.0 + effect,
            Better::Higher => ratio.low < 1.0 - effect,
            Better::Neither => false,
        })
    }
}

/// Judges a metric with two-sided intervals that miss the ratio with probability `error`.
pub(crate) fn judge(metric: &Metric, agings: &CompletedAgings, minimum_effect: f64, error: f64) -> MetricVerdict {
    let logs = Logs::of(metric, agings);
    let is_identical = is_identical(metric, agings);
    let none = MetricVerdict {
        metric: metric.name,
        primary: metric.primary,
        better: metric.better,
        verdict: Verdict::NotTestable,
        reference: None,
        variant: None,
        ratio: None,
        paired: false,
        sham_deviation: None,
        correlation: None,
        obstacle: None,
    };
    let untestable = || MetricVerdict { obstacle: Some(obstacle(metric, agings)), ..none.clone() };
    let Some(logs) = logs else {
        return if is_identical { MetricVerdict { verdict: Verdict::Identical, ..none } } else { untestable() };
    };
    let (sham, paired) = (logs.sham_variance(), logs.is_paired());
    let Some(ratio) = logs.ratio(paired) else { return untestable() };
    let interval = ratio.interval(error);
    MetricVerdict {
        verdict: match is_identical {
            true => Verdict::Identical,
            false => verdict(&interval, metric.better, minimum_effect),
        },
        reference: mean(&logs.reference).map(f64::exp),
        variant: mean(&logs.variant).map(f64::exp),
        ratio: Some(interval),
        paired,
        sham_deviation: sham.map(f64::sqrt),
        correlation: pearson(&logs.reference, &logs.variant).map(|found| found.value),
        ..none
    }
}

/// Returns whether the layouts and the values of every pair are equal. A tree without files, such as that of a program that
/// deletes all of them, has zeros.
fn is_identical(metric: &Metric, agings: &CompletedAgings) -> bool {
    let is_equal = |(one, other): (&Aged, &Aged)| {
        let values = (metric.value)(one).zip((metric.value)(other));
        values.is_some_and(|(one, other)| one == other)
    };
    agings.are_identical() && agings.pairs().all(is_equal)
}

/// Why the values have no ratio.
fn obstacle(metric: &Metric, agings: &CompletedAgings) -> &'static str {
    let values: Vec<_> = agings.pairs().map(|(one, other)| [one, other].map(metric.value)).collect();
    let is_zero = |value: &Option<f64>| *value == Some(0.0);
    match values.as_slice() {
        [] | [_] => "fewer than two pairs",
        all if all.iter().flatten().any(Option::is_none) => "a value is missing",
        all if all.iter().flatten().all(is_zero) => "0 on both sides",
        all if all.iter().flatten().any(is_zero) => "a value is 0",
        _ => "a value of a sham is missing or 0",
    }
}

fn verdict(interval: &Interval, better: Better, effect: f64) -> Verdict {
    let (low, high) = (1.0 - effect, 1.0 + effect);
    let (is_above, is_below) = (interval.low > high, interval.high < low);
    match (is_above, is_below, better) {
        (true, _, Better::Lower) | (_, true, Better::Higher) => Verdict::Worse,
        (true, ..) | (_, true, _) => Verdict::Better,
        _ if interval.low > low && interval.high < high => Verdict::Equivalent,
        _ => Verdict::Undecided,
    }
}

/// Logarithms of a metric: both sides of each seed, and shams with the plain agings that they repeat.
struct Logs {
    reference: Vec<f64>,
    variant: Vec<f64>,
    shams: Vec<(f64, f64)>,
}

impl Logs {
    /// Returns the logarithms; `None` if a value is missing or not above zero, or fewer than two seeds have both sides.
    fn of(metric: &Metric, agings: &CompletedAgings) -> Option<Self> {
        let log = |aged| (metric.value)(aged).filter(|value| value.is_finite() && *value > 0.0).map(f64::ln);
        let pairs: Vec<(f64, f64)> =
            agings.pairs().map(|(one, other)| Some((log(one)?, log(other)?))).collect::<Option<_>>()?;
        let shams = agings.shams().map(|(plain, sham)| Some((log(plain)?, log(sham)?))).collect::<Option<_>>()?;
        let (reference, variant) = pairs.into_iter().unzip();
        let logs = Self { reference, variant, shams };
        (logs.reference.len() > 1).then_some(logs)
    }

    /// Returns the variance of one aging without other causes than noise.
    fn sham_variance(&self) -> Option<f64> {
        let squares: Vec<f64> = self.shams.iter().map(|(plain, sham)| (sham - plain).powi(2) / 2.0).collect();
        mean(&squares)
    }

    fn is_paired(&self) -> bool {
        let of_seeds = standard_deviation(&self.reference).map(|deviation| deviation * deviation);
        self.sham_variance().zip(of_seeds).is_some_and(|(noise, of_seeds)| noise < of_seeds / 2.0)
    }

    fn ratio(&self, paired: bool) -> Option<Ratio> {
        let count = self.reference.len();
        let floor = self.sham_variance().unwrap_or(0.0);
        let square = |values: &[f64]| standard_deviation(values).map(|deviation| deviation * deviation);
        let spread = match paired {
            true => {
                let differences: Vec<f64> =
                    self.variant.iter().zip(&self.reference).map(|(one, other)| one - other).collect();
                [square(&differences)?.max(2.0 * floor), 0.0]
            }
            false => [((square(&self.reference)? + square(&self.variant)?) / 2.0).max(floor); 2],
        };
        let log_ratio = mean(&self.variant)? - mean(&self.reference)?;
        let (units, unit) = ([count; 2], Unit::Image);
        Some(Ratio { log_ratio, spread, units, unit, floor: None, resolution: RESOLUTION })
    }
}

fn mean(values: &[f64]) -> Option<f64> {
    senesce_stats::mean(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::METRICS;
    use crate::run::tests::{agings, gate};
    use crate::run::{GateAnswer, answer, judge_all};
    use senesce_core::Seed;

    /// Returns a sum of uniform numbers with the given standard deviation.
    fn noise(rng: &mut impl FnMut() -> f64, deviation: f64) -> f64 {
        deviation * ((0..12).map(|_| rng()).sum::<f64>() - 6.0)
    }

    fn uniform(name: &str) -> impl FnMut() -> f64 + use<> {
        use rand::Rng;
        let mut rng = Seed(7).stream(name);
        move || (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn answers(name: &str, change: f64, deviation: f64, count: u32) -> Vec<GateAnswer> {
        let mut rng = uniform(name);
        let mut value = |side: usize| {
            let change: f64 = if side == 1 { change } else { 1.0 };
            1000.0 * change * noise(&mut rng, deviation).exp()
        };
        (0..count).map(|_| answer(&judge_all(&gate(8), &agings(8, &mut |step| value(step.side))), 0)).collect()
    }

    #[test]
    fn equal_sides_do_not_fail() {
        for deviation in [0.001, 0.02, 0.1] {
            let failed = answers("null", 1.0, deviation, 1000).iter().filter(|one| **one == GateAnswer::Worse).count();
            assert!(failed <= 5, "{failed} of 1000 at {deviation}");
        }
    }

    #[test]
    fn changes_are_found() {
        let found = |change, deviation| {
            let all = answers("change", change, deviation, 100);
            all.iter().filter(|one| **one == GateAnswer::Worse).count()
        };
        assert!(found(1.25, 0.03) >= 99);
        assert!(found(1.08, 0.015) >= 80);
        assert_eq!(found(0.8, 0.03), 0, "fewer is better");
    }

    #[test]
    fn equal_layouts_are_identical_regardless_of_shams() {
        let values = |step: crate::run::GateStep| 1000.0 + f64::from(step.seed) * if step.sham { 300.0 } else { 1.0 };
        let mut same = agings(4, &mut |step| values(step));
        assert!(!same.are_identical(), "without digests");
        same.set_digests(|step| format!("{}", step.seed));
        assert!(
            judge_all(&gate(8), &same)
                .iter()
                .all(|one| [Verdict::Identical, Verdict::NotTestable].contains(&one.verdict))
        );
        assert_eq!(answer(&judge_all(&gate(8), &same), 0), GateAnswer::NotWorse);
        same.set_digests(|step| format!("{} {}", step.seed, step.side));
        assert!(!same.are_identical());
        let mut empty = agings(4, &mut |_| 0.0);
        assert_eq!(answer(&judge_all(&gate(8), &empty), 0), GateAnswer::NoVerdict);
        empty.set_digests(|step| format!("{}", step.seed));
        assert_eq!(answer(&judge_all(&gate(8), &empty), 0), GateAnswer::NotWorse);
    }

    #[test]
    fn work_that_differs_on_equal_layouts_is_not_identical() {
        let mut all = agings(4, &mut |step| 1000.0 * (1.0 + step.side as f64));
        all.set_digests(|step| format!("{}", step.seed));
        let judged = judge_all(&gate(8), &all);
        let verdict = |name: &str| judged.iter().find(|one| one.metric == name).unwrap().verdict;
        assert_eq!(verdict("extents of a slow append"), Verdict::Worse);
    }

    #[test]
    fn missing_value_is_not_testable() {
        let judged = judge_all(&gate(4), &agings(4, &mut |_| 0.0));
        assert_eq!(answer(&judged, 0), GateAnswer::NoVerdict);
        assert_eq!(answer(&[], 0), GateAnswer::NoVerdict);
        assert_eq!(answer(&judge_all(&gate(4), &agings(0, &mut |_| 1.0)), 0), GateAnswer::NoVerdict);
        let worse = judge_all(&gate(4), &agings(4, &mut |step| 1000.0 * (1.0 + step.side as f64)));
        assert_eq!([answer(&worse, 0), answer(&worse, 1)], [GateAnswer::Worse, GateAnswer::NoVerdict]);
    }

    #[test]
    fn primary_metric_missing_on_both_sides_gives_no_verdict() {
        let mut all = agings(4, &mut |_| 1000.0);
        all.set_digests(|step| format!("{}", step.seed));
        assert_eq!(answer(&judge_all(&gate(4), &all), 0), GateAnswer::NotWorse);
        all.change_all(|aged| aged.free_extents = None);
        let judged = judge_all(&gate(4), &all);
        let open: Vec<_> = judged.iter().filter(|one| one.primary && one.verdict == Verdict::NotTestable).collect();
        assert_eq!(open.iter().map(|one| one.metric).collect::<Vec<_>>(), ["free extents"]);
        assert_eq!(answer(&judged, 0), GateAnswer::NoVerdict);
        assert!(crate::words::sentence(&gate(4), &judged, 0).contains("free extents"));
    }

    #[test]
    fn metric_that_is_not_testable_has_a_reason() {
        let reason = |name: &str, pairs: u32, value: &mut dyn FnMut(crate::run::GateStep) -> f64| {
            let judged = judge_all(&gate(4), &agings(pairs, value));
            judged.iter().find(|one| one.metric == name).unwrap().obstacle
        };
        assert_eq!(reason("flushes per operation", 4, &mut |_| 1.0), Some("0 on both sides"));
        assert_eq!(reason("commits per operation", 4, &mut |_| 1.0), Some("a value is missing"));
        assert_eq!(reason("disk read (s)", 4, &mut |step| step.side as f64), Some("a value is 0"));
        assert_eq!(reason("disk read (s)", 1, &mut |_| 1.0), Some("fewer than two pairs"));
        assert_eq!(reason("disk read (s)", 4, &mut |_| 1.0), None);
    }

    #[test]
    fn direction_decides_between_worse_and_better() {
        let interval = |low, high| Interval { value: low, low, high, confidence: 0.99 };
        for (low, high, better, expected) in [
            (1.04, 1.2, Better::Lower, Verdict::Worse),
            (1.04, 1.2, Better::Higher, Verdict::Better),
            (0.8, 0.96, Better::Higher, Verdict::Worse),
            (0.98, 1.02, Better::Lower, Verdict::Equivalent),
            (0.98, 1.04, Better::Lower, Verdict::Undecided),
        ] {
            assert_eq!(verdict(&interval(low, high), better, 0.03), expected);
        }
    }

    #[test]
    fn seeds_are_paired_unless_shams_are_noisy() {
        let seeds = |step: &crate::run::GateStep| 1000.0 * (1.0 + f64::from(step.seed));
        let quiet = judge(&METRICS[0], &agings(4, &mut |step| seeds(&step)), 0.03, 0.001);
        assert!(quiet.paired && quiet.verdict == Verdict::Equivalent, "{quiet:?}");
        let noisy = |step: crate::run::GateStep| seeds(&step) * if step.sham { 3.0 } else { 1.0 };
        let noisy = judge(&METRICS[0], &agings(4, &mut |step| noisy(step)), 0.03, 0.001);
        assert!(!noisy.paired && noisy.verdict == Verdict::Undecided, "{noisy:?}");
    }
}
