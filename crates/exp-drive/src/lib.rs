//! Published experiments on the inside of drives: dies, cleaning and copies.

pub mod aged_image_copy;
pub mod fragment_size_distance;
pub mod ssd_alignment;
pub mod ssd_die_collision;
pub mod write_amplification;

use senesce_core::{Better, Failure, Measurement};
use senesce_runner::{Reproducible, experiment};

#[rustfmt::skip]
pub const EXPERIMENTS: &[&dyn Reproducible] = &[
    experiment::<ssd_die_collision::DieCollision>(),
    experiment::<ssd_alignment::SsdAlignment>(),
    experiment::<write_amplification::WriteAmplification>(),
    experiment::<fragment_size_distance::FragmentSizeDistance>(),
    experiment::<aged_image_copy::AgedImageCopy>(),
];

fn measured(
    metric: &str,
    unit: &str,
    better: Better,
    value: f64,
    conditions: &[(&str, &str)],
) -> Result<Measurement, Failure> {
    let one = Measurement::new(metric, unit, better, value)?.modelled();
    Ok(conditions.iter().fold(one, |one, (name, word)| one.under(name, *word)))
}

fn values<'a>(all: &'a [&'a Measurement], metric: &'a str) -> impl Iterator<Item = &'a Measurement> {
    all.iter().copied().filter(move |one| one.metric == metric)
}

fn word<'a>(one: &'a Measurement, condition: &str) -> &'a str {
    one.condition.get(condition).map_or("", String::as_str)
}

fn number(one: &Measurement, condition: &str) -> Option<f64> {
    word(one, condition).parse().ok()
}

/// Returns points (number of a condition, value) of the selected values, ordered by condition.
fn points(all: &[&Measurement], metric: &str, along: &str, keep: impl Fn(&Measurement) -> bool) -> Vec<(f64, f64)> {
    let chosen = values(all, metric).filter(|one| keep(one));
    let mut points: Vec<(f64, f64)> = chosen.filter_map(|one| Some((number(one, along)?, one.value.get()))).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}
