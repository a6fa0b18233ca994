//! Error rates of equivalence tests at their margin.

use crate::noise::{generator, normal, share};
use senesce_stats::equivalence::{Margin, within_margin};

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
