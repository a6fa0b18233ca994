//! False alarms of change points and trends.

use crate::noise::{generator, normal, share, uniform};
use rand_pcg::Pcg64;
use senesce_stats::change_points::{FALSE_ALARM, change_points};
use senesce_stats::trend;

type Draw = fn(&mut Pcg64) -> f64;

/// Normal, heavy-tailed without a mean (Cauchy), skewed, and with many ties.
const NOISE: [(&str, Draw); 4] = [
    ("normal", |rng| normal(rng)),
    ("Cauchy", |rng| normal(rng) / normal(rng)),
    ("lognormal", |rng| (0.8 * normal(rng)).exp()),
    ("ties", |rng| (4.0 * uniform(rng)).floor()),
];

fn alarms(draw: Draw, count: usize, trials: usize, error: f64, rng: &mut Pcg64) -> f64 {
    share(trials, || {
        let series: Vec<f64> = (0..count).map(|_| draw(rng)).collect();
        !change_points(&series, error).unwrap().is_empty()
    })
}

#[test]
fn series_without_a_change_has_no_change_point() {
    let mut rng = generator(61);
    for (name, draw) in NOISE {
        for count in [10, 30, 100] {
            let found = alarms(draw, count, 1000, FALSE_ALARM, &mut rng);
            assert!(found <= 0.016, "{name}, {count} values: {found}");
        }
    }
}

#[test]
#[ignore = "long: a minute; 20,000 series of each kind and length"]
fn false_alarms_of_change_points_at_length() {
    let mut rng = generator(62);
    for (name, draw) in NOISE {
        for count in [8, 12, 20, 50, 200, 1000] {
            let trials = if count > 100 { 4000 } else { 20_000 };
            for error in [0.01, 0.05] {
                let found = alarms(draw, count, trials, error, &mut rng);
                println!("{name}, {count} values at {error}: {found:.4}");
                assert!(found <= error + 2.0 * (error / trials as f64).sqrt(), "{name}, {count} values: {found}");
            }
        }
    }
}

#[test]
fn steps_of_two_deviations_are_found_near_their_position() {
    let mut rng = generator(63);
    let found = share(300, || {
        let series: Vec<f64> = (0..60).map(|k| normal(&mut rng) + if k < 40 { 0.0 } else { 2.0 }).collect();
        let points = change_points(&series, FALSE_ALARM).unwrap();
        points.len() == 1 && points[0].index.abs_diff(40) <= 3
    });
    assert!(found >= 0.85, "{found}");
}

#[test]
fn trends_are_rarely_found_in_noise_and_found_if_present() {
    let mut rng = generator(64);
    for (name, draw) in NOISE {
        for count in [8, 25] {
            let seen = share(1000, || {
                let series: Vec<f64> = (0..count).map(|_| 100.0 + draw(&mut rng)).collect();
                trend(&series).is_some_and(|trend| trend.p < 0.05)
            });
            assert!(seen <= 0.065, "{name}, {count} values: {seen}");
        }
    }
    let seen = share(300, || {
        let series: Vec<f64> = (0..12).map(|k| 100.0 + f64::from(k) + normal(&mut rng)).collect();
        trend(&series).is_some_and(|trend| trend.text(0.01, 0.02).is_some())
    });
    assert!(seen > 0.95, "{seen}");
}
