//! Error rates of verdicts, and their stated power.

use crate::noise::{NoiseShape, generator, normal, share, uniform};
use rand::Rng;
use senesce_stats::gate::{Gate, gate};
use senesce_stats::verdict::{FAMILY_ERROR, MARGIN};
use senesce_stats::{Arm, Direction, Floor, Mean, Ratio, Rule, Untestable, Verdict, decide, decide_all};

const RULE: Rule = Rule { direction: Direction::HigherIsBetter, margin: MARGIN };

fn compared(centre: f64, variation: f64, count: usize, rng: &mut impl Rng) -> Result<Ratio, Untestable> {
    let [ours, theirs] = [centre, 1.0]
        .map(|centre| Arm::single(&NoiseShape::Lognormal.sample(centre, variation, count, rng), Mean::Geometric));
    Ok(Ratio::of(&ours?, &theirs?))
}

/// Share of comparisons of equal sides, with `metrics` of independent noise, in which any is better or worse.
fn false_alarms(metrics: usize, comparisons: usize, seed: u8) -> f64 {
    let mut rng = generator(seed);
    share(comparisons, || {
        let family: Vec<_> = (0..metrics)
            .map(|_| {
                let variation = 0.01 * 30f64.powf(uniform(&mut rng));
                let count = 5 + (10.0 * uniform(&mut rng)) as usize;
                (compared(1.0, variation, count, &mut rng), RULE)
            })
            .collect();
        decide_all(&family, FAMILY_ERROR).iter().any(|decision| decision.verdict.is_difference())
    })
}

#[test]
fn false_differences_are_at_most_five_percent() {
    for (metrics, comparisons) in [(1, 400), (3, 400), (30, 200)] {
        let alarms = false_alarms(metrics, comparisons, 21);
        assert!(alarms <= 0.05, "{metrics} metrics: {alarms}");
    }
}

#[test]
#[ignore = "long: a minute; 20,000 comparisons for each size of the family"]
fn false_alarms_at_length() {
    for metrics in [1, 3, 9, 30, 160] {
        let alarms = false_alarms(metrics, 20_000, 22);
        println!("{metrics} metrics: {alarms:.4}");
        assert!(alarms <= 0.05, "{metrics} metrics: {alarms}");
    }
}

/// Share of comparisons of two equal runs, three metrics each, in which any is better or worse.
fn alarms_between_runs(floor: Option<Floor>, seed: u8) -> f64 {
    let mut rng = generator(seed);
    share(300, || {
        let family: Vec<_> = (0..3)
            .map(|_| {
                let [ours, theirs] = [0; 2].map(|_| {
                    let run = 1.0 + 0.01 * normal(&mut rng);
                    Arm::single(&NoiseShape::Lognormal.sample(run, 0.01, 5, &mut rng), Mean::Geometric).unwrap()
                });
                let ratio = Ratio::of(&ours, &theirs);
                (Ok(floor.map_or(ratio, |floor| ratio.with_floor(floor))), RULE)
            })
            .collect();
        decide_all(&family, FAMILY_ERROR).iter().any(|decision| decision.verdict.is_difference())
    })
}

#[test]
fn runs_with_day_to_day_variation_need_a_floor() {
    assert!(alarms_between_runs(None, 28) > 0.3);
    // Runs that vary by 1 % differ by less than 2.8 % in 95 of 100 pairs.
    let alarms = alarms_between_runs(Some(Floor::assumed(0.028)), 28);
    assert!(alarms <= 0.05, "{alarms}");
}

#[test]
fn three_repetitions_are_too_few_for_a_verdict() {
    let decision = decide(&compared(0.5, 0.01, 3, &mut generator(23)), RULE, 0.05);
    assert_eq!(decision.verdict, Verdict::NotTestable { why: Untestable::TooFew { have: 3, need: 5 } });
}

#[test]
fn loss_of_ten_percent_in_equal_noise_is_never_equivalent_and_rarely_passes() {
    let mut rng = generator(24);
    let (mut equivalent, mut better, mut passed) = (0, 0, 0);
    for _ in 0..2000 {
        let ratio = compared(0.9, 0.1, 5, &mut rng);
        let decision = decide(&ratio, RULE, FAMILY_ERROR);
        equivalent += u32::from(decision.verdict == Verdict::Equivalent);
        better += u32::from(decision.verdict == Verdict::Better);
        passed += u32::from(gate(&decision.interval.unwrap(), RULE.direction, 0.05) == Gate::Pass);
    }
    assert_eq!(equivalent, 0);
    assert!(better <= 2 && passed <= 20, "better {better}, passed {passed} of 2000");
}

#[test]
fn equal_sides_rarely_fail_the_gate() {
    let mut rng = generator(25);
    let failed = share(1000, || {
        let interval = compared(1.0, 0.1, 5, &mut rng).unwrap().interval(FAMILY_ERROR);
        gate(&interval, RULE.direction, 0.05) == Gate::Fail
    });
    assert!(failed <= 0.025, "{failed}");
}

#[test]
fn detectable_difference_is_found_in_four_of_five() {
    let mut rng = generator(26);
    // If five values must suffice for a 36th of the error, their degrees of freedom are fewer than assumed: seven in ten.
    let one_of_36 = FAMILY_ERROR / 36.0;
    for (count, variation, error, least) in
        [(5, 0.05, 0.05, 0.76), (5, 0.1, one_of_36, 0.68), (12, 0.05, one_of_36, 0.76), (40, 0.02, 0.05, 0.76)]
    {
        let centre = Ratio::assumed(variation, count).detectable(error, MARGIN);
        let found = share(1000, || {
            decide(&compared(centre, variation, count, &mut rng), RULE, error).verdict == Verdict::Better
        });
        assert!((least..=0.85).contains(&found), "{count} values at {variation}: {centre} found in {found}");
    }
}

#[test]
fn needed_repetitions_suffice() {
    let mut rng = generator(27);
    for variation in [0.01, 0.03] {
        let needed = Ratio::assumed(variation, 5).repetitions_needed(0.05, MARGIN).unwrap() as usize;
        let needed = needed.max(5);
        let equal = share(600, || {
            decide(&compared(1.0, variation, needed, &mut rng), RULE, 0.05).verdict == Verdict::Equivalent
        });
        let twice = share(600, || {
            decide(&compared(1.0 + 2.0 * MARGIN, variation, needed, &mut rng), RULE, 0.05).verdict == Verdict::Better
        });
        assert!(equal >= 0.76 && twice >= 0.76, "{needed} at {variation}: equal {equal}, twice {twice}");
    }
}
