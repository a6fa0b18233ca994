//! Uncertainty due to constants of other blocks.

use super::block::{FittedUncertainty, in_parallel};
use super::least_squares::{Open, Solution};
use super::line::{Line, Observation};
use super::search::{STEP, Search};
use super::surface::Sample;
use rand_pcg::rand_core::Rng;
use std::collections::{BTreeMap, BTreeSet};

/// Runs for each constant, and number of seeds.
const RUNS: usize = 4;
const SEEDS: usize = 8;

/// Constants of other blocks: name, relative standard deviation.
type Others<'a> = [(&'a str, f64)];

impl Search<'_> {
    /// Derivatives of the residuals by constants of other blocks, with their covariance.
    pub(crate) fn left_open(&mut self, solution: &Solution, known: &FittedUncertainty, others: &Others<'_>) -> Open {
        let touched = self.touched(solution, others);
        let used: BTreeSet<usize> = touched.values().flatten().copied().collect();
        let others: Vec<(&str, f64)> = used.iter().map(|index| others[*index]).collect();
        let position: BTreeMap<usize, usize> = used.into_iter().zip(0..).collect();
        let touched: BTreeMap<usize, Vec<usize>> = touched
            .into_iter()
            .map(|(place, touching)| (place, touching.iter().map(|index| position[index]).collect()))
            .collect();
        let columns = self.columns_of(solution, &others, &touched);
        let covariance = |a: &(&str, f64), b: &(&str, f64)| known.correlation(a.0, b.0) * a.1 * b.1;
        let covariance = others.iter().map(|a| others.iter().map(|b| covariance(a, b)).collect()).collect();
        Open { columns, covariance }
    }

    /// Returns the constants that each probe depends on: those that change a run with the same seed. Most probes depend
    /// on few.
    fn touched(&self, solution: &Solution, others: &Others<'_>) -> BTreeMap<usize, Vec<usize>> {
        let all: Vec<usize> = (0..others.len()).collect();
        let found = in_parallel(self.places.len(), |place| {
            let before = self.with_others(solution, others, &[], place);
            let mut touching = Vec::new();
            self.narrow(solution, others, &all, place, &before, &mut touching);
            touching
        });
        found.into_iter().enumerate().filter(|(_, touching)| !touching.is_empty()).collect()
    }

    fn narrow(
        &self,
        solution: &Solution,
        others: &Others<'_>,
        moved: &[usize],
        place: usize,
        before: &Option<Vec<f64>>,
        touching: &mut Vec<usize>,
    ) {
        let there = self.with_others(solution, others, moved, place);
        match moved {
            _ if there.is_some() && there == *before => {}
            [] => {}
            [one] => touching.push(*one),
            _ => moved
                .chunks(moved.len().div_ceil(2))
                .for_each(|half| self.narrow(solution, others, half, place, before, touching)),
        }
    }

    /// Residuals of a probe with these constants moved upwards; `None`: the model is invalid.
    fn with_others(&self, solution: &Solution, others: &Others<'_>, moved: &[usize], place: usize) -> Option<Vec<f64>> {
        let mut constants = self.constants_at(&solution.x)?;
        for index in moved {
            let key = others[*index].0;
            constants.set(key, constants.get(key)? * STEP.exp()).ok()?;
        }
        let place = &self.places[place];
        place.residuals(&constants.model().ok()?, self.seed.child(&place.probe.key)).ok()
    }

    /// Derivatives of the residuals by these constants, one column each: all move at once, in random directions.
    fn columns_of(
        &self,
        solution: &Solution,
        others: &Others<'_>,
        touched: &BTreeMap<usize, Vec<usize>>,
    ) -> Vec<Vec<f64>> {
        let rows: usize = self.places.iter().map(|place| place.values.len()).sum();
        let mut columns = vec![vec![0.0; rows]; others.len()];
        let samples = self.moved_at_once(solution, others);
        let runs = self.runs_of(&samples, &touched.keys().copied().collect(), "others");
        let mut row = 0;
        for (index, place) in self.places.iter().enumerate() {
            for part in 0..place.values.len() {
                if let (Some(runs), Some(touching)) = (runs.get(&index), touched.get(&index)) {
                    let stated = stated(&samples, runs, part, touching);
                    stated.into_iter().zip(touching).for_each(|(slope, key)| columns[*key][row] = slope);
                }
                row += 1;
            }
        }
        columns
    }

    fn moved_at_once(&self, solution: &Solution, others: &Others<'_>) -> Vec<Sample> {
        let mut stream = self.seed.stream("others");
        let Some(start) = self.constants_at(&solution.x) else { return Vec::new() };
        let sample = |number: usize| {
            let mut constants = start.clone();
            let by = others.iter().map(|(key, _)| {
                let way = if stream.next_u64() >> 63 == 0 { STEP } else { -STEP };
                let before = constants.get(key)?;
                Some((constants.set(key, before * way.exp()).ok()? / before).ln())
            });
            let by: Vec<f64> = by.collect::<Option<_>>()?;
            Some(Sample { model: constants.model().ok()?, by, seed: number % SEEDS })
        };
        (0..RUNS * (others.len() + 1) + SEEDS).filter_map(sample).collect()
    }
}

/// Derivatives of one value by each constant, as far as they exceed the scatter.
fn stated(samples: &[Sample], runs: &[Option<Vec<f64>>], part: usize, touching: &[usize]) -> Vec<f64> {
    let by: Vec<Vec<f64>> = samples.iter().map(|one| touching.iter().map(|key| one.by[*key]).collect()).collect();
    let each = samples.iter().zip(&by).zip(runs);
    let seen: Vec<Observation<'_>> = each
        .filter_map(|((one, by), run)| Some(Observation { by, value: run.as_ref()?[part], seed: one.seed }))
        .collect();
    let line = Line::through(&seen);
    (0..touching.len()).map(|number| line.as_ref().map_or(0.0, |line| line.cautious(number))).collect()
}
