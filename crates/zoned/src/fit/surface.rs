//! Constants from values that scatter. Where commands wait for each other, two runs of models that hardly differ are as far apart as any
//! two runs, so that derivatives from pairs of runs, and the search by them, end where scatter leads. A surface through many runs
//! around a place, each with other constants and another seed, takes all of them for each derivative (Box and Wilson, On the
//! Experimental Attainment of Optimum Conditions, 1951).

use super::block::in_parallel;
use super::least_squares::{STEPS, Solution, common, deviations, inverse, solve, step};
use super::search::{Datum, STEP, Search};
use crate::sim::model::Model;
use rand_pcg::rand_core::Rng;
use std::collections::{BTreeMap, BTreeSet};

/// How many runs for each number that a surface has.
const RUNS: usize = 8;
/// How far constants are moved, as logarithms: less than where surfaces bend, and more than where nothing shows.
const WIDTH: (f64, f64) = (0.03, 0.15);
/// The most surfaces, one where the one before ended.
const SURFACES: u32 = 3;

/// So many runs for each constant of other blocks.
const SCREENED: usize = 4;
/// Steps of a search before surfaces: where values scatter they need not lead all the way.
const FIRST_STEPS: usize = 3;

/// How one value depends on the constants around a place.
struct Surface {
    /// There, and how certain that is.
    at: f64,
    uncertain: f64,
    /// Derivatives upwards and downwards, each nearer to 0 by its standard error: what cannot be told from scatter counts as none.
    ways: [Vec<f64>; 2],
    /// The mean of both, as it is.
    both: Vec<f64>,
}

/// All values around a place.
struct Around {
    /// Residuals there.
    at: Vec<f64>,
    /// Mean derivatives, one column per constant.
    mean: Vec<Vec<f64>>,
    /// The same as far as they hold both ways.
    both_ways: Vec<Vec<f64>>,
}

impl Search<'_> {
    /// The constants that explain best what was measured; by surfaces, if any value scatters.
    pub fn solve(&mut self, start: &[f64]) -> Option<Solution> {
        let scattering = self.scattering();
        if scattering.is_empty() {
            return solve(self, start, STEPS);
        }
        let solution = solve(self, start, FIRST_STEPS)?;
        match self.on_surfaces(&solution, start, &scattering) {
            Some(found) => Some(found),
            None => solve(self, &solution.x, STEPS),
        }
    }

    /// Of constants of other blocks, each with its standard deviation: the derivatives of the residuals.
    pub fn left_open(&mut self, solution: &Solution, others: &[(String, f64)]) -> Vec<(Vec<f64>, f64)> {
        let (scattering, all) = (self.scattering(), self.all());
        let quiet = all.difference(&scattering).copied().collect();
        let mut open = Vec::new();
        for (key, deviation) in others {
            if let Some(column) = self.other_column(solution, key, &quiet) {
                open.push((key.as_str(), column, *deviation));
            }
        }
        // Pairs of runs tell less of values that scatter, but more than nothing.
        if !scattering.is_empty() && self.screen(solution, &mut open, &scattering).is_none() {
            for (key, column, _) in &mut open {
                if let Some(whole) = self.other_column(solution, key, &all) {
                    *column = whole;
                }
            }
        }
        open.into_iter().map(|(_, column, deviation)| (column, deviation)).collect()
    }

    /// Derivatives of values that scatter by constants of other blocks: all are moved at once, up or down as a coin falls.
    fn screen(
        &mut self,
        solution: &Solution,
        others: &mut [(&str, Vec<f64>, f64)],
        scattering: &BTreeSet<usize>,
    ) -> Option<()> {
        let mut stream = self.seed.stream("others");
        let start = self.constants_at(&solution.x)?;
        let sample = |_| {
            let mut constants = start.clone();
            let by = others.iter().map(|(key, _, _)| {
                let way = if stream.next_u64() >> 63 == 0 { STEP } else { -STEP };
                let before = constants.get(key)?;
                Some((constants.set(key, before * way.exp()).ok()? / before).ln())
            });
            let by: Vec<f64> = by.collect::<Option<_>>()?;
            Some((constants.model().ok()?, std::iter::once(1.0).chain(by).collect()))
        };
        let samples: Vec<(Model, Vec<f64>)> = (0..SCREENED * (others.len() + 1)).filter_map(sample).collect();
        let runs = self.runs_of(&samples, scattering, "others");
        let mut row = 0;
        for (index, place) in self.places.iter().enumerate() {
            for part in 0..place.values.len() {
                if let Some(runs) = runs.get(&index) {
                    let seen: Vec<(&[f64], f64)> = seen(&samples, runs, part);
                    let line = Line::through(&seen)?;
                    (0..others.len()).for_each(|number| others[number].1[row] = line.cautious(number + 1));
                }
                row += 1;
            }
        }
        Some(())
    }

    /// Residuals of all samples by place; `None` where a sample cannot be run.
    fn runs_of(
        &self,
        samples: &[(Model, Vec<f64>)],
        which: &BTreeSet<usize>,
        name: &str,
    ) -> BTreeMap<usize, Vec<Option<Vec<f64>>>> {
        let (places, count): (Vec<usize>, usize) = (which.iter().copied().collect(), samples.len());
        let runs = in_parallel(places.len() * count, |index| {
            let place = &self.places[places[index / count]];
            let seed = self.seed.child(&place.probe.key).child(&format!("{name}/{}", index % count));
            place.residuals(&samples[index % count].0, seed).ok()
        });
        let mut runs = runs.into_iter();
        places.into_iter().map(|place| (place, runs.by_ref().take(count).collect())).collect()
    }

    fn on_surfaces(&mut self, from: &Solution, start: &[f64], scattering: &BTreeSet<usize>) -> Option<Solution> {
        let mut found: Option<Solution> = None;
        for round in 0..SURFACES {
            let Some(next) = self.on_surface(found.as_ref().unwrap_or(from), start, scattering, round) else {
                return found;
            };
            let is_settled = next.settled;
            found = Some(next);
            if is_settled {
                break;
            }
        }
        found
    }

    /// Where one surface around a solution leads.
    fn on_surface(
        &mut self,
        solution: &Solution,
        start: &[f64],
        scattering: &BTreeSet<usize>,
        round: u32,
    ) -> Option<Solution> {
        let widths: Vec<f64> =
            solution.deviation.iter().map(|deviation| (3.0 * deviation).clamp(WIDTH.0, WIDTH.1)).collect();
        let Around { at, mean, both_ways } = self.surfaces(&solution.x, &widths, round, scattering)?;
        let (step, _) = step(&mean, &at, &solution.x, start)?;
        let step: Vec<f64> =
            step.iter().zip(&widths).map(|(step, width)| step.clamp(-2.0 * width, 2.0 * width)).collect();
        let residuals: Vec<f64> = at
            .iter()
            .enumerate()
            .map(|(row, at)| at + step.iter().zip(&mean).map(|(step, column)| step * column[row]).sum::<f64>())
            .collect();
        let x = solution.x.iter().zip(&step).map(|(x, step)| x + step).collect();
        let settled = step.iter().zip(&widths).all(|(step, width)| step.abs() <= *width);
        let deviation = deviations(&both_ways, &residuals)?;
        Some(Solution { x, deviation, residuals, columns: both_ways, settled })
    }

    fn surfaces(&mut self, x: &[f64], widths: &[f64], round: u32, scattering: &BTreeSet<usize>) -> Option<Around> {
        let others: BTreeSet<usize> = self.all().difference(scattering).copied().collect();
        let at = self.residuals_of(x, &others)?;
        let mut mean = self.both_slopes(x, &at, &others);
        let mut both = mean.clone();
        let mut at = at;
        let samples = self.samples(x, widths, round);
        let samples: Vec<(Model, Vec<f64>)> = samples.into_iter().map(|(model, by)| (model, both_ways(&by))).collect();
        let runs = self.runs_of(&samples, scattering, &format!("surface {round}"));
        let mut row = 0;
        for (index, place) in self.places.iter_mut().enumerate() {
            let Some(runs) = runs.get(&index) else {
                row += place.values.len();
                continue;
            };
            for (part, value) in place.values.iter_mut().enumerate() {
                let seen = seen(&samples, runs, part);
                let surface = Surface::through(&seen)?;
                let scale = value.now_known_to(surface.uncertain);
                at[row] = surface.at * scale;
                let [up, down] = surface.ways;
                let told = common(vec![up], &[down]).remove(0);
                for key in 0..x.len() {
                    mean[key][row] = surface.both[key] * scale;
                    both[key][row] = told[key] * scale;
                }
                row += 1;
            }
        }
        Some(Around { at, mean, both_ways: both })
    }

    /// Models around a place, and by how much their constants differ from those there.
    fn samples(&self, x: &[f64], widths: &[f64], round: u32) -> Vec<(Model, Vec<f64>)> {
        let mut stream = self.seed.stream(&format!("surface {round}"));
        let mut even = || 2.0 * (stream.next_u64() >> 11) as f64 / (1u64 << 53) as f64 - 1.0;
        let Some((_, base)) = self.model(x) else { return Vec::new() };
        let count = RUNS * (2 * x.len() + 1);
        let sample = |_| {
            let there: Vec<f64> = x.iter().zip(widths).map(|(x, width)| x + width * even()).collect();
            let (model, set) = self.model(&there)?;
            Some((model, set.iter().zip(&base).map(|(set, base)| set - base).collect()))
        };
        (0..count).filter_map(sample).collect()
    }
}

impl Datum<'_> {
    /// The model's value is known to so many of the standard deviations that residuals are told in. What they must be multiplied with
    /// to be told in those of now.
    fn now_known_to(&mut self, uncertain: f64) -> f64 {
        let before = self.deviation;
        self.deviation = self.known_to.hypot(uncertain * before);
        before / self.deviation
    }
}

/// 1, and distances upwards and downwards.
fn both_ways(by: &[f64]) -> Vec<f64> {
    let ways = [1.0, -1.0].map(|way| by.iter().map(move |part| if part * way > 0.0 { *part } else { 0.0 }));
    std::iter::once(1.0).chain(ways.into_iter().flatten()).collect()
}

/// What one value was in each sample that could be run.
fn seen<'a>(samples: &'a [(Model, Vec<f64>)], runs: &[Option<Vec<f64>>], part: usize) -> Vec<(&'a [f64], f64)> {
    samples.iter().zip(runs).filter_map(|((_, by), run)| Some((&by[..], run.as_ref()?[part]))).collect()
}

/// A linear form by least squares, and the standard error of each of its numbers.
struct Line {
    numbers: Vec<f64>,
    errors: Vec<f64>,
}

impl Line {
    /// Through the values at such places; `None` of too few.
    fn through(seen: &[(&[f64], f64)]) -> Option<Self> {
        let size = seen.first()?.0.len();
        let free = seen.len().checked_sub(size).filter(|free| *free > 0)?;
        let sum = |of: &dyn Fn(&[f64], f64) -> f64| seen.iter().map(|(row, value)| of(row, *value)).sum::<f64>();
        let matrix = (0..size).map(|a| (0..size).map(|b| sum(&|row, _| row[a] * row[b])).collect()).collect();
        let inverse = inverse(matrix)?;
        let right: Vec<f64> = (0..size).map(|a| sum(&|row, value| row[a] * value)).collect();
        let dot = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
        let numbers: Vec<f64> = inverse.iter().map(|row| dot(row, &right)).collect();
        let scatter = (sum(&|row, value| (value - dot(row, &numbers)).powi(2)) / free as f64).sqrt();
        let errors = (0..size).map(|index| scatter * inverse[index][index].max(0.0).sqrt()).collect();
        Some(Self { numbers, errors })
    }

    /// Nearer to 0 by its standard error: what cannot be told from scatter counts as none.
    fn cautious(&self, index: usize) -> f64 {
        (self.numbers[index].abs() - self.errors[index]).max(0.0) * self.numbers[index].signum()
    }
}

impl Surface {
    fn through(seen: &[(&[f64], f64)]) -> Option<Self> {
        let line = Line::through(seen)?;
        let keys = line.numbers.len() / 2;
        Some(Self {
            at: line.numbers[0],
            uncertain: line.errors[0],
            ways: [1, keys + 1].map(|first| (first..first + keys).map(|index| line.cautious(index)).collect()),
            both: (1..=keys).map(|key| (line.numbers[key] + line.numbers[keys + key]) / 2.0).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_core::Seed;

    /// 5 + 300 a, of `b` the upward part alone, with noise of one.
    fn noisy(count: usize) -> Vec<(Vec<f64>, f64)> {
        let mut stream = Seed(3).stream("test");
        let mut even = move || 2.0 * (stream.next_u64() >> 11) as f64 / (1u64 << 53) as f64 - 1.0;
        let one = |_| {
            let by = [0.1 * even(), 0.1 * even(), 0.1 * even()];
            let noise = 1.7 * even();
            (both_ways(&by), 5.0 + 300.0 * by[0] + 300.0 * by[1].max(0.0) + noise)
        };
        (0..count).map(one).collect()
    }

    #[test]
    fn a_surface_tells_more_than_the_scatter_of_one_value() {
        let runs = noisy(200);
        let seen: Vec<(&[f64], f64)> = runs.iter().map(|(row, value)| (&row[..], *value)).collect();
        let surface = Surface::through(&seen).unwrap();
        assert!(surface.uncertain < 0.4 && (surface.at - 5.0).abs() < 3.0 * surface.uncertain, "{}", surface.at);
        let [up, down] = &surface.ways;
        assert!((260.0..310.0).contains(&up[0]) && (260.0..310.0).contains(&down[0]), "{up:?} {down:?}");
        // What holds one way alone, and what nothing depends on, is told in no direction.
        let held = common(vec![up.clone()], std::slice::from_ref(down)).remove(0);
        assert!(held[1].abs() < 20.0 && held[2].abs() < 20.0, "{held:?}");
    }

    #[test]
    fn fewer_runs_than_numbers_are_no_surface() {
        let runs = noisy(7);
        let seen: Vec<(&[f64], f64)> = runs.iter().map(|(row, value)| (&row[..], *value)).collect();
        assert!(Surface::through(&seen).is_none());
    }
}
