//! The whole sequential procedure.

use crate::noise::{NoiseShape, generator};
use rand::Rng;
use senesce_stats::verdict::FAMILY_ERROR;
use senesce_stats::{Arm, Direction, Goal, Mean, Ratio, Rule, Sequential, Step};

/// Throughput, mean and p99 latency of a run in which every metric is worse by `loss`, measured until decided or `most`
/// repetitions; returns the verdicts and the number of repetitions.
fn run(loss: f64, variation: f64, most: usize, rng: &mut impl Rng) -> (Vec<&'static str>, usize) {
    let directions = [Direction::HigherIsBetter, Direction::LowerIsBetter, Direction::LowerIsBetter];
    let rules = directions.map(Rule::new).to_vec();
    let mut loop_of = Sequential::new(rules, most, Goal::Verdict, FAMILY_ERROR);
    let mut values: [[Vec<f64>; 2]; 3] = Default::default();
    let mut step = loop_of.start();
    while let Step::Measure(until) = step {
        for (metric, sides) in values.iter_mut().enumerate() {
            let centre = if metric == 0 { 1.0 - loss } else { 1.0 / (1.0 - loss) };
            for (side, centre) in sides.iter_mut().zip([centre, 1.0]) {
                let missing = until - side.len();
                side.extend(NoiseShape::Lognormal.sample(centre, variation, missing, rng));
            }
        }
        let ratio = |[ours, theirs]: &[Vec<f64>; 2]| {
            Ok(Ratio::of(&Arm::single(ours, Mean::Geometric)?, &Arm::single(theirs, Mean::Geometric)?))
        };
        step = loop_of.analyse(&values.each_ref().map(ratio), until == most);
    }
    let words = loop_of.decisions().iter().map(|decision| decision.verdict.word()).collect();
    (words, values[0][0].len())
}

/// Number of runs that found the loss in every metric; that called any metric equivalent, or better; mean repetitions.
fn tally(runs: usize, loss: f64, variation: f64, most: usize, seed: u8) -> (usize, usize, usize, f64) {
    let mut rng = generator(seed);
    let (mut found, mut equivalent, mut better, mut repetitions) = (0, 0, 0, 0);
    for _ in 0..runs {
        let (words, taken) = run(loss, variation, most, &mut rng);
        found += usize::from(words.iter().all(|word| *word == "worse"));
        equivalent += usize::from(words.contains(&"equivalent"));
        better += usize::from(words.contains(&"better"));
        repetitions += taken;
    }
    (found, equivalent, better, repetitions as f64 / runs as f64)
}

#[test]
fn loss_of_ten_percent_is_found_and_never_called_equivalent() {
    let (found, equivalent, better, repetitions) = tally(40, 0.1, 0.05, 200, 31);
    assert!(found >= 38 && equivalent == 0 && better == 0, "found {found}, equivalent {equivalent}, better {better}");
    assert!(repetitions < 30.0, "{repetitions}");
}

#[test]
fn interim_analyses_do_not_raise_the_false_alarm_rate() {
    let mut rng = generator(32);
    let alarms = (0..200).filter(|_| {
        let (words, _) = run(0.0, 0.05, 60, &mut rng);
        words.contains(&"worse") || words.contains(&"better")
    });
    let alarms = alarms.count();
    assert!(alarms <= 10, "{alarms} of 200");
}

#[test]
#[ignore = "long: a minute; thousands of whole loops"]
fn whole_loops_at_length() {
    for (loss, variation, most) in [(0.1, 0.05, 200), (0.1, 0.05, 1000), (0.1, 0.1, 200), (0.05, 0.05, 400)] {
        let (found, equivalent, better, repetitions) = tally(2000, loss, variation, most, 33);
        println!(
            "loss {loss} at {variation}, most {most}: found {found} of 2000, equivalent {equivalent}, better {better}, repetitions {repetitions:.1}"
        );
        assert!(found >= 1900 && equivalent == 0 && better == 0);
    }
    for most in [10, 30, 100, 1000] {
        let mut rng = generator(34);
        let mut alarms = 0;
        for _ in 0..2000 {
            let (words, _) = run(0.0, 0.05, most, &mut rng);
            alarms += usize::from(words.contains(&"worse") || words.contains(&"better"));
        }
        println!("like with like, most {most}: {alarms} of 2000");
        assert!(alarms <= 100, "{alarms} of 2000");
    }
}
