//! Fits constants to values that scatter. If commands queue for each other, runs of nearly equal models differ as much
//! as any two runs. Derivatives from pairs of runs are then dominated by noise. A response surface through many runs
//! around a point uses all of them for each derivative (Box and Wilson, On the Experimental Attainment of Optimum
//! Conditions, 1951).

use super::block::in_parallel;
use super::least_squares::{STEPS, Solution, common, covariance, excess, nearer, solve, step};
use super::line::{Line, Observation};
use super::search::{Datum, Search};
use crate::sim::model::Model;
use rand_pcg::rand_core::Rng;
use std::collections::{BTreeMap, BTreeSet};

/// Seeds at the centre itself, which estimate the values there. Fewer if an approximate result is enough.
const SEEDS: usize = 32;
const FEW_SEEDS: usize = 12;
/// Runs per parameter of a surface: if seeds add the same offset for all constants, and if they do not.
const RUNS: (usize, usize) = (2, 8);
/// Seeds have a common offset if runs with the same seed scatter less than this share of the scatter between seeds.
const ALIKE: f64 = 0.5;
/// Distance by which constants are moved, as logarithms: less than where surfaces bend, more than where nothing shows.
const WIDTH: (f64, f64) = (0.03, 0.15);
/// Upward and downward derivatives differ if they are this number of standard errors apart.
const BENT: f64 = 2.0;
/// A surface this many times wider than the remaining uncertainty may be bent.
const WIDE: f64 = 2.0;
/// Maximum recomputations of a step with the derivatives of its own direction.
const TURNS: usize = 4;
/// Maximum number of surfaces, each where the previous one ended.
const SURFACES: u32 = 6;
/// A step below this, as a logarithm, is the last one.
const SHORT: f64 = 3e-3;
/// Steps of the search before surfaces; an approximate start is enough.
const FIRST_STEPS: usize = 3;

pub(super) struct Sample {
    pub model: Model,
    /// Offsets of its constants from the centre.
    pub by: Vec<f64>,
    pub seed: usize,
}

/// Residuals of each sample by probe; `None` if a sample cannot run.
pub(super) type Runs = BTreeMap<usize, Vec<Option<Vec<f64>>>>;

struct Surface {
    at: f64,
    uncertain: f64,
    /// Scatter of runs at the centre.
    own: f64,
    scatter: f64,
    /// Derivatives valid in both directions, moved towards 0 by their standard errors: 0 if indistinguishable from
    /// scatter.
    stated: Vec<f64>,
    /// Upward and downward derivatives; both are the mean if they do not differ significantly.
    ways: [Vec<f64>; 2],
}

struct LocalSurface {
    at: Vec<f64>,
    /// Upward and downward derivatives, one column per constant.
    ways: [Vec<Vec<f64>>; 2],
    /// Derivatives valid in both directions.
    both_ways: Vec<Vec<f64>>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum SearchAccuracy {
    /// Another search follows: an approximate result is enough.
    Near,
    Full,
}

impl Search<'_> {
    /// Finds the constants that fit best; uses surfaces if any value scatters.
    pub(crate) fn solve(&mut self, start: &[f64], care: SearchAccuracy) -> Option<Solution> {
        let scattering = self.scattering();
        if scattering.is_empty() {
            return solve(self, start, STEPS);
        }
        let solution = solve(self, start, FIRST_STEPS)?;
        match self.on_surfaces(&solution.x, &solution.deviation(), &scattering, care) {
            Some(found) => Some(found),
            None => solve(self, &solution.x, STEPS),
        }
    }

    /// Solves like [`Self::solve`], starting at constants found before with these deviations.
    pub(crate) fn solve_again(&mut self, start: &[f64], deviation: &[f64]) -> Option<Solution> {
        let scattering = self.scattering();
        if scattering.is_empty() {
            return solve(self, start, STEPS);
        }
        match self.on_surfaces(start, deviation, &scattering, SearchAccuracy::Full) {
            Some(found) => Some(found),
            None => self.solve(start, SearchAccuracy::Full),
        }
    }

    pub(crate) fn runs_of(&self, samples: &[Sample], which: &BTreeSet<usize>, name: &str) -> Runs {
        let (places, count): (Vec<usize>, usize) = (which.iter().copied().collect(), samples.len());
        let runs = in_parallel(places.len() * count, |index| {
            let (place, sample) = (&self.places[places[index / count]], &samples[index % count]);
            let seed = self.seed.child(&place.probe.key).child(&format!("{name}/{}", sample.seed));
            place.residuals(&sample.model, seed).ok()
        });
        let mut runs = runs.into_iter();
        places.into_iter().map(|place| (place, runs.by_ref().take(count).collect())).collect()
    }

    fn on_surfaces(
        &mut self,
        from: &[f64],
        deviation: &[f64],
        scattering: &BTreeSet<usize>,
        care: SearchAccuracy,
    ) -> Option<Solution> {
        let (mut x, mut deviation) = (from.to_vec(), deviation.to_vec());
        let mut found: Option<Solution> = None;
        for round in 0..SURFACES {
            let Some(next) = self.on_surface(&x, &deviation, scattering, round, care) else {
                return found;
            };
            (x, deviation) = (next.x.clone(), next.deviation());
            let is_settled = next.settled;
            found = Some(next);
            if is_settled {
                break;
            }
        }
        found
    }

    fn on_surface(
        &mut self,
        from: &[f64],
        deviation: &[f64],
        scattering: &BTreeSet<usize>,
        round: u32,
        care: SearchAccuracy,
    ) -> Option<Solution> {
        let widths: Vec<f64> = deviation.iter().map(|deviation| (3.0 * deviation).clamp(WIDTH.0, WIDTH.1)).collect();
        let LocalSurface { at, ways, both_ways } = self.surfaces(from, &widths, round, scattering, care)?;
        let (step, columns) = bent_step(&ways, &at, from, &self.start, &widths)?;
        let residuals: Vec<f64> = at
            .iter()
            .enumerate()
            .map(|(row, at)| at + step.iter().zip(&columns).map(|(step, column)| step * column[row]).sum::<f64>())
            .collect();
        let x = from.iter().zip(&step).map(|(x, step)| x + step).collect();
        let covariance = covariance(&both_ways, &residuals)?;
        let mut solution = Solution { x, covariance, residuals, columns: both_ways, settled: true };
        // Only steps well above the noise are evidence; a model that is far off does not lengthen the noise.
        let noise = 3.0 / excess(&solution.columns, &solution.residuals).sqrt();
        solution.settled =
            solution.deviation().into_iter().zip(&widths).zip(&step).all(|((deviation, width), step)| {
                let is_wide = *width > WIDE * (3.0 * deviation).max(WIDTH.0);
                let enough = if is_wide { deviation } else { noise * deviation };
                step.abs() <= enough.max(SHORT).min(*width)
            });
        Some(solution)
    }

    fn surfaces(
        &mut self,
        x: &[f64],
        widths: &[f64],
        round: u32,
        scattering: &BTreeSet<usize>,
        care: SearchAccuracy,
    ) -> Option<LocalSurface> {
        let others: BTreeSet<usize> = self.all().difference(scattering).copied().collect();
        let mut at = self.residuals_of(x, &others)?;
        let mut ways = self.slopes_of(x, &at, &others);
        let mut both_ways = common(ways[0].clone(), &ways[1]);
        let laid = self.lay(x, widths, round, scattering, care)?;
        let mut row = 0;
        for (index, place) in self.places.iter_mut().enumerate() {
            let surfaces = laid.get(&index).map_or(&[][..], Vec::as_slice);
            for (value, surface) in place.values.iter_mut().zip(surfaces) {
                let scale = value.now_known_to(surface);
                at[row] = surface.at * scale;
                for key in 0..x.len() {
                    ways.iter_mut().zip(&surface.ways).for_each(|(way, stated)| way[key][row] = stated[key] * scale);
                    both_ways[key][row] = surface.stated[key] * scale;
                }
                row += 1;
            }
            row += place.values.len() - surfaces.len();
        }
        Some(LocalSurface { at, ways, both_ways })
    }

    /// Fits surfaces for all scattering values.
    fn lay(
        &self,
        x: &[f64],
        widths: &[f64],
        round: u32,
        scattering: &BTreeSet<usize>,
        care: SearchAccuracy,
    ) -> Option<BTreeMap<usize, Vec<Surface>>> {
        let (name, numbers) = (format!("surface {round}"), 2 * x.len() + 1);
        let seeds = if care == SearchAccuracy::Full { SEEDS } else { FEW_SEEDS };
        let mut samples = self.samples(x, widths, &name, RUNS.0 * numbers, seeds);
        let mut runs = self.runs_of(&samples, scattering, &name);
        let mut laid = BTreeMap::new();
        for (place, runs) in &runs {
            laid.insert(*place, self.through(*place, &samples, runs)?);
        }
        let is_wild = |surfaces: &[Surface]| surfaces.iter().any(|one| one.scatter > ALIKE * one.own);
        let wild: BTreeSet<usize> =
            laid.iter().filter(|(_, surfaces)| is_wild(surfaces)).map(|(place, _)| *place).collect();
        if wild.is_empty() {
            return Some(laid);
        }
        if care == SearchAccuracy::Full {
            let more = self.samples_around(x, widths, &format!("{name}, more"), (RUNS.1 - RUNS.0) * numbers, None);
            let more_runs = self.runs_of(&more, &wild, &name);
            more_runs.into_iter().for_each(|(place, more)| runs.entry(place).or_default().extend(more));
            samples.extend(more);
        }
        // Runs with the same seed have nothing in common here.
        samples.iter_mut().enumerate().for_each(|(number, sample)| sample.seed = number);
        for place in wild {
            laid.insert(place, self.through(place, &samples, &runs[&place])?);
        }
        Some(laid)
    }

    fn through(&self, place: usize, samples: &[Sample], runs: &[Option<Vec<f64>>]) -> Option<Vec<Surface>> {
        let ways: Vec<Vec<f64>> = samples.iter().map(|sample| split_by_sign(&sample.by)).collect();
        let of = |part: usize| {
            let each = samples.iter().zip(&ways).zip(runs);
            let seen: Vec<Observation<'_>> = each
                .filter_map(|((sample, by), run)| {
                    Some(Observation { by, value: run.as_ref()?[part], seed: sample.seed })
                })
                .collect();
            Surface::through(&seen)
        };
        (0..self.places[place].values.len()).map(of).collect()
    }

    /// Returns a sample of each seed at the centre, then `count` models around it with the seeds in turn.
    fn samples(&self, x: &[f64], widths: &[f64], name: &str, count: usize, seeds: usize) -> Vec<Sample> {
        let there = self.model(x).map(|(model, _)| model);
        let mut samples: Vec<Sample> = (0..seeds)
            .filter_map(|seed| Some(Sample { model: there.clone()?, by: vec![0.0; x.len()], seed }))
            .collect();
        samples.extend(self.samples_around(x, widths, name, count, Some(seeds)));
        samples
    }

    /// Models around a centre, with `seeds` seeds in turn, or one new seed each.
    fn samples_around(&self, x: &[f64], widths: &[f64], name: &str, count: usize, seeds: Option<usize>) -> Vec<Sample> {
        let mut stream = self.seed.stream(name);
        let mut even = || 2.0 * (stream.next_u64() >> 11) as f64 / (1u64 << 53) as f64 - 1.0;
        let Some((_, base)) = self.model(x) else { return Vec::new() };
        let sample = |number: usize| {
            let there: Vec<f64> = x.iter().zip(widths).map(|(x, width)| x + width * even()).collect();
            let (model, set) = self.model(&there)?;
            let by = set.iter().zip(&base).map(|(set, base)| set - base).collect();
            Some(Sample { model, by, seed: seeds.map_or(SEEDS + number, |seeds| number % seeds) })
        };
        (0..count).filter_map(sample).collect()
    }
}

impl Datum<'_> {
    /// Updates the uncertainty of the model's value; returns the factor that converts residuals to the new unit.
    fn now_known_to(&mut self, surface: &Surface) -> f64 {
        let before = self.deviation;
        self.know(surface.own * before);
        self.deviation = self.known_to.hypot(surface.uncertain * before);
        before / self.deviation
    }
}

fn split_by_sign(by: &[f64]) -> Vec<f64> {
    let ways = [1.0, -1.0].map(|way| by.iter().map(move |part| if part * way > 0.0 { *part } else { 0.0 }));
    ways.into_iter().flatten().collect()
}

impl Surface {
    fn through(seen: &[Observation<'_>]) -> Option<Self> {
        let bent = Line::through(seen)?;
        let keys = seen.first()?.by.len() / 2;
        let whole: Vec<Vec<f64>> =
            seen.iter().map(|one| one.by[..keys].iter().zip(&one.by[keys..]).map(|(a, b)| a + b).collect()).collect();
        let straight: Vec<Observation<'_>> =
            seen.iter().zip(&whole).map(|(one, by)| Observation { by, ..*one }).collect();
        let straight = Line::through(&straight)?;
        let there: Vec<f64> =
            seen.iter().filter(|one| one.by.iter().all(|part| *part == 0.0)).map(|one| one.value).collect();
        if there.len() < 2 {
            return None;
        }
        let is_bent: Vec<bool> = (0..keys).map(|key| bent.differ(key, keys + key, BENT)).collect();
        let stated = |key: usize| match is_bent[key] {
            true => nearer(bent.cautious(key), bent.cautious(keys + key)),
            false => straight.cautious(key),
        };
        let way = |first: usize| {
            (0..keys).map(|key| if is_bent[key] { bent.number(first + key) } else { straight.number(key) }).collect()
        };
        Some(Self {
            at: bent.at,
            uncertain: bent.uncertain,
            own: deviation(&there),
            scatter: bent.scatter,
            stated: (0..keys).map(stated).collect(),
            ways: [0, keys].map(way),
        })
    }
}

/// Returns the least-squares step if upward and downward derivatives differ, and the derivatives it used.
fn bent_step(
    ways: &[Vec<Vec<f64>>; 2],
    at: &[f64],
    from: &[f64],
    start: &[f64],
    widths: &[f64],
) -> Option<(Vec<f64>, Vec<Vec<f64>>)> {
    let mean = |(up, down): (&Vec<f64>, &Vec<f64>)| up.iter().zip(down).map(|(a, b)| (a + b) / 2.0).collect();
    let mut columns: Vec<Vec<f64>> = ways[0].iter().zip(&ways[1]).map(mean).collect();
    let within = |step: Vec<f64>| -> Vec<f64> {
        step.iter().zip(widths).map(|(step, width)| step.clamp(-2.0 * width, 2.0 * width)).collect()
    };
    let mut found = within(step(&columns, at, from, start)?.0);
    for _ in 0..TURNS {
        let way = |key: usize| usize::from(found[key] < 0.0);
        columns = (0..columns.len()).map(|key| ways[way(key)][key].clone()).collect();
        let next = within(step(&columns, at, from, start)?.0);
        let is_same = next.iter().zip(&found).all(|(a, b)| (*a < 0.0) == (*b < 0.0));
        found = next;
        if is_same {
            break;
        }
    }
    Some((found, columns))
}

fn deviation(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_core::Seed;

    /// Returns 5 + 300 a plus the positive part of `b`, with unit noise.
    fn noisy(count: usize) -> Vec<(Vec<f64>, f64)> {
        let mut stream = Seed(3).stream("test");
        let mut even = move || 2.0 * (stream.next_u64() >> 11) as f64 / (1u64 << 53) as f64 - 1.0;
        let one = |_| {
            let by = [0.1 * even(), 0.1 * even(), 0.1 * even()];
            let noise = 1.7 * even();
            (split_by_sign(&by), 5.0 + 300.0 * by[0] + 300.0 * by[1].max(0.0) + noise)
        };
        // Two runs at the centre.
        let there = [4.0, 6.0].map(|value| (vec![0.0; 6], value));
        there.into_iter().chain((0..count).map(one)).collect()
    }

    #[test]
    fn surface_is_more_precise_than_single_differences() {
        let runs = noisy(200);
        let seen: Vec<Observation<'_>> =
            runs.iter().enumerate().map(|(seed, (by, value))| Observation { by, value: *value, seed }).collect();
        let surface = Surface::through(&seen).unwrap();
        assert!((surface.own - 2f64.sqrt()).abs() < 1e-9, "{}", surface.own);
        assert!(Surface::through(&seen[1..]).is_none(), "a single run does not show the scatter");
        assert!(surface.uncertain < 0.4 && (surface.at - 5.0).abs() < 3.0 * surface.uncertain, "{}", surface.at);
        // Derivatives that hold in one direction only, or that nothing depends on, are 0.
        let stated = &surface.stated;
        assert!((280.0..310.0).contains(&stated[0]) && stated[1].abs() < 20.0 && stated[2].abs() < 20.0, "{stated:?}");
    }

    /// Uses a value that depends on a constant only downwards.
    #[test]
    fn step_uses_derivatives_of_its_direction() {
        let ways = [vec![vec![1.0, 0.0]], vec![vec![1.0, 50.0]]];
        let (step, columns) = bent_step(&ways, &[2.0, 5.0], &[0.0], &[0.0], &[0.5]).unwrap();
        assert!((step[0] + 0.1).abs() < 0.01 && columns[0][1] == 50.0, "{step:?}");
        let (step, columns) = bent_step(&ways, &[-0.4, 0.0], &[0.0], &[0.0], &[0.5]).unwrap();
        assert!((0.2..0.41).contains(&step[0]) && columns[0][1] == 0.0, "{step:?}");
    }
}
