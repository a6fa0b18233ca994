//! Coverage of intervals.

use crate::noise::{NoiseShape, generator, normal, share};
use senesce_stats::{Arm, Floor, Mean, Ratio, Unit, median_interval};

const SHAPES: [NoiseShape; 2] = [NoiseShape::Normal, NoiseShape::Lognormal];
const MEANS: [Mean; 2] = [Mean::Geometric, Mean::Arithmetic];

/// Share of 95 % intervals that contain the true ratio.
fn coverage(shape: NoiseShape, mean: Mean, variation: [f64; 2], sizes: [usize; 2], trials: usize, seed: u8) -> f64 {
    let mut rng = generator(seed);
    let truth = variation.map(|variation| shape.log_means(variation)[usize::from(mean == Mean::Arithmetic)]);
    let truth = (truth[0] - truth[1]).exp();
    share(trials, || {
        let [ours, theirs] =
            [0, 1].map(|side| Arm::single(&shape.sample(1.0, variation[side], sizes[side], &mut rng), mean).unwrap());
        Ratio::of(&ours, &theirs).interval(0.05).contains(truth)
    })
}

#[test]
fn ratios_are_covered() {
    for shape in SHAPES {
        for mean in MEANS {
            for (variation, sizes) in [([0.05, 0.05], [5, 5]), ([0.3, 0.3], [10, 10]), ([0.05, 0.3], [5, 8])] {
                let covered = coverage(shape, mean, variation, sizes, 2500, 3);
                assert!((0.925..=0.975).contains(&covered), "{shape:?} {mean:?} {variation:?} {sizes:?}: {covered}");
            }
        }
    }
}

#[test]
#[ignore = "long: two minutes; 40,000 trials for each of 168 cells"]
fn ratios_are_covered_everywhere() {
    let variations = [[0.01, 0.01], [0.05, 0.05], [0.3, 0.3], [0.02, 0.1], [0.05, 0.3], [0.3, 0.05]];
    let sizes = [[5, 5], [5, 8], [5, 20], [10, 10], [20, 5], [8, 12], [30, 30]];
    let (mut least, mut most) = (1.0f64, 0.0f64);
    for shape in SHAPES {
        for mean in MEANS {
            for variation in variations {
                for size in sizes {
                    let covered = coverage(shape, mean, variation, size, 40_000, 5);
                    (least, most) = (least.min(covered), most.max(covered));
                    assert!((0.93..=0.97).contains(&covered), "{shape:?} {mean:?} {variation:?} {size:?}: {covered}");
                }
            }
        }
    }
    println!("coverage {least:.4} to {most:.4}");
}

/// Images that differ by `between`, with repetitions that differ by `within`.
fn images(count: usize, repetitions: usize, between: f64, within: f64, rng: &mut impl rand::Rng) -> Vec<Vec<f64>> {
    (0..count)
        .map(|_| {
            let image = (between * normal(rng)).exp();
            NoiseShape::Lognormal.sample(image, within, repetitions, rng)
        })
        .collect()
}

#[test]
fn images_are_the_unit() {
    let mut rng = generator(7);
    for (ours, theirs, repetitions) in [(2, 2, 5), (3, 3, 3), (4, 4, 5), (8, 8, 1), (2, 8, 5), (3, 8, 5), (4, 8, 2)] {
        let covered = share(2500, || {
            let [ours, theirs] = [ours, theirs]
                .map(|count| Arm::of(&images(count, repetitions, 0.08, 0.03, &mut rng), Mean::Geometric).unwrap());
            Ratio::of(&ours, &theirs).interval(0.05).contains(1.0)
        });
        // Coverage with few images is higher than promised, never lower.
        assert!(covered >= 0.93, "{ours} and {theirs} images: {covered}");
    }
}

#[test]
fn repetitions_on_one_image_carry_a_caveat() {
    let mut rng = generator(8);
    let mut units = Vec::new();
    let covered = share(1000, || {
        let [ours, theirs] = [0; 2].map(|_| Arm::of(&images(1, 5, 0.08, 0.03, &mut rng), Mean::Geometric).unwrap());
        let ratio = Ratio::of(&ours, &theirs);
        units.push(ratio.unit);
        ratio.interval(0.05).contains(1.0)
    });
    assert!(covered < 0.5 && units.iter().all(|unit| *unit == Unit::Repetition), "{covered}");
}

#[test]
fn rounds_cancel_shared_effects() {
    let mut rng = generator(9);
    for mean in MEANS {
        let mut width = 0.0;
        let covered = share(2500, || {
            let pairs: Vec<(f64, f64)> = (0..8)
                .map(|_| {
                    let round = (0.2 * normal(&mut rng)).exp();
                    let [one, other] = [0; 2].map(|_| round * NoiseShape::Lognormal.draw(0.03, &mut rng));
                    (0.9 * one, other)
                })
                .collect();
            let interval = Ratio::paired(&pairs, mean, Unit::Round).unwrap().interval(0.05);
            width += (interval.high / interval.low).ln() / 2500.0;
            interval.contains(0.9)
        });
        assert!((0.93..=0.97).contains(&covered) && width < 0.12, "{mean:?}: {covered}, width {width}");
    }
}

#[test]
fn floor_is_needed_to_cover_runs_of_different_days() {
    let mut rng = generator(10);
    let (between, within) = (0.03, 0.03);
    let (mut with, mut without) = (0, 0);
    let trials = 1500;
    for _ in 0..trials {
        let run = |rng: &mut rand_pcg::Pcg64| images(1, 5, between, within, rng);
        let mean_of = |run: Vec<Vec<f64>>| Arm::of(&run, Mean::Geometric).unwrap();
        let means: Vec<f64> = (0..8).map(|_| mean_of(run(&mut rng)).log_mean.exp()).collect();
        let ratio = Ratio::of(&mean_of(run(&mut rng)), &mean_of(run(&mut rng)));
        with += usize::from(ratio.with_floor(Floor::of_runs(&means).unwrap()).interval(0.05).contains(1.0));
        without += usize::from(ratio.interval(0.05).contains(1.0));
    }
    let [with, without] = [with, without].map(|count| count as f64 / trials as f64);
    assert!(with >= 0.94 && without < 0.7, "with the floor {with}, without {without}");
}

#[test]
fn means_and_medians_are_covered() {
    let mut rng = generator(11);
    for count in [5, 7, 12, 25] {
        let truth = NoiseShape::Lognormal.log_means(0.3)[0].exp();
        let (mut mean, mut median) = (0, 0);
        for _ in 0..2500 {
            let sample = NoiseShape::Lognormal.sample(1.0, 0.3, count, &mut rng);
            mean += u32::from(Arm::single(&sample, Mean::Geometric).unwrap().interval(0.05).contains(truth));
            // The median of lognormal noise is its geometric mean.
            median += u32::from(median_interval(&sample, 0.05).unwrap().contains(truth));
        }
        let [mean, median] = [mean, median].map(|count| f64::from(count) / 2500.0);
        assert!((0.935..=0.965).contains(&mean), "mean of {count}: {mean}");
        assert!((0.925..=0.97).contains(&median), "median of {count}: {median}");
    }
}
