//! Error rates of equivalence tests at their margin.

use crate::noise::{Shape, generator, normal, share};
use senesce_stats::equivalence::{Margin, within_factor, within_margin};
use senesce_stats::{Arm, Mean, Ratio};

#[test]
fn equality_is_proven_for_equals_and_rarely_at_the_margin() {
    let mut rng = generator(51);
    let mut proven = |centre: f64, variation: f64, count: usize| {
        share(2000, || {
            let [ours, theirs] = [centre, 1.0].map(|centre| {
                Arm::single(&Shape::Lognormal.sample(centre, variation, count, &mut rng), Mean::Geometric).unwrap()
            });
            within_factor(&Ratio::of(&ours, &theirs), 1.1).is_proven(0.05)
        })
    };
    let at_margin = proven(1.1, 0.05, 8);
    assert!((0.03..=0.06).contains(&at_margin), "{at_margin}");
    let equal = proven(1.0, 0.05, 8);
    assert!(equal > 0.9, "{equal}");
}

#[test]
fn margin_in_deviations_keeps_its_level() {
    let mut rng = generator(52);
    let mut proven = |difference: f64, count: usize, deviations: f64| {
        share(2500, || {
            let ours: Vec<f64> = (0..count).map(|_| 10.0 + difference + normal(&mut rng)).collect();
            let theirs: Vec<f64> = (0..count).map(|_| 10.0 + normal(&mut rng)).collect();
            let margin = Margin { deviations, ..Margin::default() };
            within_margin(&ours, &theirs, margin).unwrap().is_proven(0.05)
        })
    };
    for count in [8, 12] {
        let at_margin = proven(2.0, count, 2.0);
        assert!(at_margin <= 0.065, "{count}: {at_margin}");
    }
    let equal = proven(0.0, 8, 2.0);
    assert!(equal > 0.7, "{equal}");
}
