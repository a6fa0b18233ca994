//! Verdicts on recorded runs, which a pipeline repeats with every change.
//!
//! Welch's interval with five units a side has four degrees of freedom if only one side varies. At the error that 300 comparisons of
//! equal sides need, it finds a third more in seven of ten comparisons. Student's interval with pooled variances has eight degrees, but
//! is wrong five times as often as it states if only one side varies. Each interval therefore has an error that it keeps, and the
//! wider one counts. It finds a third more in nine of ten (`tests/simulation/recorded.rs`).

use crate::arm::Untestable;
use crate::ratio::{Interval, Ratio};
use crate::verdict::{Decision, Rule, Verdict, read};

/// Probabilities of any wrong statement among all metrics of a comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Errors {
    /// If both sides vary alike (Student 1908).
    pub alike: f64,
    /// If each varies by itself (Welch 1947).
    pub any: f64,
}

/// The errors of comparisons of recorded runs. One false comparison in 300 is allowed where nothing differs. A third of that is
/// planned. Measured: 2 of 600 pairs of five agings, and 0.13 % of 200,000 random pairs (benches/results/compare.md).
pub const COMPARISON_ERRORS: Errors = Errors { alike: 0.001, any: 0.01 };

/// Share of the error that the leading metrics of a family have; the others have the rest.
pub(crate) const LEAD_SHARE: f64 = 0.8;

/// One metric of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Metric {
    /// The sample over the reference, measured independently.
    pub ratio: Result<Ratio, Untestable>,
    /// Direction and margin.
    pub rule: Rule,
    /// Whether it has a share of [`LEAD_SHARE`].
    pub is_lead: bool,
}

/// Judges all metrics of a comparison. The probabilities that any of them is wrong are at most `errors`: Bonferroni over those that can
/// be tested, weighted by [`LEAD_SHARE`] if some lead.
pub fn decide_recorded(family: &[Metric], errors: Errors) -> Vec<Decision> {
    let count = |is_lead| family.iter().filter(|one| one.ratio.is_ok() && one.is_lead == is_lead).count() as f64;
    let (leading, others) = (count(true), count(false));
    let share = |is_lead: bool| match is_lead {
        _ if leading == 0.0 || others == 0.0 => 1.0 / (leading + others),
        true => LEAD_SHARE / leading,
        false => (1.0 - LEAD_SHARE) / others,
    };
    family.iter().map(|one| decide(one, share(one.is_lead), errors)).collect()
}

fn decide(metric: &Metric, share: f64, errors: Errors) -> Decision {
    let ratio = match &metric.ratio {
        Ok(ratio) => ratio,
        Err(why) => return Decision { interval: None, unit: None, verdict: Verdict::NotTestable { why: why.clone() } },
    };
    let bounds = [(ratio.pooled(), errors.alike * share), (*ratio, errors.any * share)];
    let interval = widest(bounds.map(|(ratio, error)| ratio.interval(error)));
    let margin = metric.rule.margin;
    let verdict = read(&interval, metric.rule).unwrap_or_else(|| Verdict::Undecided {
        detectable: bounds.iter().map(|(ratio, error)| ratio.detectable(*error, margin)).fold(1.0, f64::max),
        repetitions_needed: bounds
            .iter()
            .map(|(ratio, error)| ratio.repetitions_needed(*error, margin))
            .try_fold(0, |most, needed| Some(needed?.max(most))),
    });
    Decision { interval: Some(interval), unit: Some(ratio.unit), verdict }
}

/// Returns the wider of two intervals around one estimate, with the confidence of the second, which holds for both.
fn widest([alike, any]: [Interval; 2]) -> Interval {
    let wider = if alike.high > any.high { alike } else { any };
    Interval { confidence: any.confidence, ..wider }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arm::{Arm, Mean};
    use crate::tests::close;
    use crate::verdict::Direction;

    const STEADY: [f64; 5] = [130.0, 130.5, 129.5, 130.2, 129.8];
    const NOISY: [f64; 5] = [100.0, 104.0, 96.0, 103.0, 97.0];

    fn metric(sample: &[f64], reference: &[f64], is_lead: bool) -> Metric {
        let arm = |values: &[f64]| Arm::of(&values.iter().map(|value| [*value]).collect::<Vec<_>>(), Mean::Geometric);
        let ratio = arm(sample).and_then(|ours| Ok(Ratio::of(&ours, &arm(reference)?)));
        Metric { ratio, rule: Rule::new(Direction::LowerIsBetter), is_lead }
    }

    fn interval(metric: &Metric, errors: Errors) -> Interval {
        decide_recorded(std::slice::from_ref(metric), errors)[0].interval.unwrap()
    }

    #[test]
    fn the_wider_of_both_intervals_counts() {
        let one = metric(&STEADY, &NOISY, false);
        let ratio = one.ratio.clone().unwrap();
        let (student, welch) = (ratio.pooled().interval(0.001), ratio.interval(0.01));
        close(ratio.pooled().dof(), 8.0, 1e-12);
        assert!(ratio.dof() < 4.2);
        assert_eq!(interval(&one, Errors { alike: 0.001, any: 0.01 }).high, student.high.max(welch.high));
        assert_eq!(interval(&one, Errors { alike: 0.001, any: 0.5 }).low, student.low);
        assert_eq!(interval(&one, Errors { alike: 0.5, any: 0.01 }), welch);
        assert_eq!(interval(&one, COMPARISON_ERRORS).confidence, 0.99);
    }

    #[test]
    fn leading_metric_gets_most_of_the_error_and_a_single_metric_all() {
        let confidence = |family: &[Metric]| -> Vec<f64> {
            let decided = decide_recorded(family, COMPARISON_ERRORS);
            decided.iter().map(|one| one.interval.map_or(0.0, |interval| interval.confidence)).collect()
        };
        let (lead, other) = (metric(&STEADY, &NOISY, true), metric(&STEADY, &NOISY, false));
        let refused = metric(&STEADY[..3], &NOISY, false);
        let shared = confidence(&[lead.clone(), other.clone(), other.clone(), refused.clone()]);
        for (found, expected) in shared.iter().zip([0.992, 0.999, 0.999, 0.0]) {
            close(*found, expected, 1e-12);
        }
        close(confidence(&[lead, refused])[0], 0.99, 1e-12);
        close(confidence(&[other.clone(), other])[0], 0.995, 1e-12);
        assert!(decide_recorded(&[], COMPARISON_ERRORS).is_empty());
    }

    #[test]
    fn an_undecided_metric_reports_what_the_wider_interval_finds() {
        let one = metric(&NOISY.map(|value| value * 1.05), &NOISY, false);
        let ratio = one.ratio.clone().unwrap();
        let found = &decide_recorded(&[one], COMPARISON_ERRORS)[0];
        let Verdict::Undecided { detectable, repetitions_needed } = found.verdict else { panic!("{found:?}") };
        close(detectable, ratio.pooled().detectable(0.001, 0.02).max(ratio.detectable(0.01, 0.02)), 1e-12);
        assert!(repetitions_needed >= ratio.repetitions_needed(0.01, 0.02));
    }
}
