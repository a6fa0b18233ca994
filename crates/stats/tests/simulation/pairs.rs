//! Pairs in a whole study of 4 file systems, 2 states and 3 workloads.

use crate::noise::{NoiseShape, generator, share};
use rand::Rng;
use senesce_stats::pairwise::pairwise;
use senesce_stats::verdict::FAMILY_ERROR;
use senesce_stats::{Arm, Direction, Mean, OrderChange, Ratio, Rule, flip, pairs_of};

const SYSTEMS: usize = 4;
const CELLS: usize = 2 * 3;
const ERROR_EACH: f64 = FAMILY_ERROR / (CELLS * SYSTEMS * (SYSTEMS - 1) / 2) as f64;

fn rule() -> Rule {
    Rule::new(Direction::HigherIsBetter)
}

fn arms(centres: [f64; SYSTEMS], variations: [f64; SYSTEMS], count: usize, rng: &mut impl Rng) -> Vec<Arm> {
    let of = |(centre, variation): (f64, f64)| {
        Arm::single(&NoiseShape::Lognormal.sample(centre, variation, count, rng), Mean::Geometric).unwrap()
    };
    centres.into_iter().zip(variations).map(of).collect()
}

/// Whether a study of equal systems finds any difference.
fn false_alarm(variations: [f64; SYSTEMS], count: usize, rng: &mut impl Rng) -> bool {
    (0..CELLS).any(|_| {
        let arms = arms([1.0; SYSTEMS], variations, count, rng);
        let found = pairwise(SYSTEMS, |a, b| Ok(Ratio::of(&arms[a], &arms[b])), rule(), ERROR_EACH);
        found.pairs.iter().any(|pair| pair.decision.verdict.is_difference())
    })
}

/// Share of found differences in pairs with the last system, whose centre is `centre`.
fn power(centre: f64, count: usize, studies: usize, rng: &mut impl Rng) -> f64 {
    let mut found = 0;
    for _ in 0..studies * CELLS {
        let arms = arms([1.0, 1.0, 1.0, centre], [0.05; SYSTEMS], count, rng);
        let judged = pairwise(SYSTEMS, |a, b| Ok(Ratio::of(&arms[a], &arms[b])), rule(), ERROR_EACH);
        found += (0..SYSTEMS - 1).filter(|other| judged.differs(*other, SYSTEMS - 1)).count();
    }
    found as f64 / (studies * CELLS * (SYSTEMS - 1)) as f64
}

#[test]
fn study_of_equal_systems_rarely_finds_differences() {
    assert_eq!(pairs_of(SYSTEMS) * CELLS, 36);
    let mut rng = generator(41);
    for (variations, count) in [([0.05; 4], 14), ([0.02, 0.05, 0.1, 0.2], 14), ([0.05, 0.05, 0.2, 0.2], 5)] {
        let alarms = share(80, || false_alarm(variations, count, &mut rng));
        assert!(alarms <= 0.05 + 0.025, "{variations:?} with {count}: {alarms}");
    }
}

#[test]
fn fourteen_repetitions_find_ten_percent_in_nine_of_ten() {
    let mut rng = generator(42);
    for centre in [0.9, 1.1] {
        let found = power(centre, 14, 30, &mut rng);
        assert!(found >= 0.88, "{centre}: {found}");
    }
    let planned = Ratio::assumed(0.05, 5).repetitions_to_find(0.1, ERROR_EACH, 0.02, 0.9);
    assert!(planned.is_some_and(|units| (13..=14).contains(&units)), "{planned:?}");
}

#[test]
#[ignore = "long: two minutes; thousands of whole studies"]
fn whole_studies_at_length() {
    let mut rng = generator(43);
    for variations in [[0.05; 4], [0.02, 0.05, 0.1, 0.2], [0.05, 0.05, 0.05, 0.2], [0.3; 4]] {
        for count in [5, 8, 14] {
            let alarms = share(4000, || false_alarm(variations, count, &mut rng));
            println!("{variations:?} with {count}: {alarms:.4}");
            // With five values the estimated degrees of freedom are least precise: 5.5 % if spreads differ tenfold. Plus two
            // standard errors.
            let limit = if count == 5 { 0.055 } else { 0.05 } + 0.007;
            assert!(alarms <= limit, "{variations:?} with {count}: {alarms}");
        }
    }
    for count in [10, 12, 13, 14, 15] {
        let [less, more] = [0.9, 1.1].map(|centre| power(centre, count, 500, &mut rng));
        println!("{count} repetitions: 0.9 found in {less:.3}, 1.1 in {more:.3}");
        assert!(count < 14 || less.min(more) >= 0.9);
    }
}

#[test]
fn probability_of_an_order_change_is_calibrated() {
    let mut rng = generator(44);
    let (mut said, mut changed, mut sure) = (0.0, 0.0, 0);
    let trials = 1500;
    for _ in 0..trials {
        // Differences from a flat distribution, as the posterior assumes.
        let truth = [0; 2].map(|_| 0.2 * (crate::noise::uniform(&mut rng) - 0.5));
        let ratios = truth.map(|log_ratio| {
            let arms = arms([log_ratio.exp(), 1.0, 1.0, 1.0], [0.05; SYSTEMS], 5, &mut rng);
            Ratio::of(&arms[0], &arms[1])
        });
        let found = flip(&ratios[0], &ratios[1], rule(), 0.05);
        let is_changed = truth[0] * truth[1] < 0.0;
        if (0.05..0.3).contains(&found.probability) {
            said += found.probability;
            changed += f64::from(is_changed);
        }
        sure += usize::from(found.change == OrderChange::Changes && !is_changed);
    }
    assert!((said - changed).abs() < 0.2 * said, "said {said}, changed {changed}");
    assert!(sure <= trials / 50, "{sure}");
}
