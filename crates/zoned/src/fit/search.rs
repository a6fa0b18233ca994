//! Residuals of a model against the measurements, and their derivatives.

use super::block::{Observations, ObservedValue, in_parallel, spread};
use super::constants::Constants;
use super::least_squares::{Problem, common};
use super::probe::Probe;
use crate::error::ZonedError;
use crate::sim::model::Model;
use senesce_core::Seed;
use std::collections::BTreeSet;

/// Step for derivatives, as a logarithm: wide, because runs with different constants scatter like independent runs.
pub(super) const STEP: f64 = 0.1;
/// Minimum relative uncertainty: of means and rates, and of quantiles, which come from a histogram of three digits.
const LEAST: (f64, f64) = (2e-4, 1e-3);
/// Number of seeds that estimate the scatter of the model's values.
const SCATTERED: u64 = 6;

pub(super) fn measured_metrics<'a>(probe: &'a Probe, observations: &Observations) -> Vec<&'a str> {
    let is_there = |name: &&String| observations.contains_key(&(probe.key.clone(), (*name).clone()));
    probe.kept.iter().filter(is_there).map(String::as_str).collect()
}

/// A measured value, and the relative standard deviation of its difference from one run of the true model.
pub(super) struct Datum<'a> {
    name: &'a str,
    measured: f64,
    observed: ObservedValue,
    runs: u32,
    /// The same for the mean of the measurement only.
    pub known_to: f64,
    pub deviation: f64,
}

impl Datum<'_> {
    /// Sets the relative scatter of one model run. Repetitions may agree by chance, so the uncertainty is never smaller
    /// than this.
    pub(crate) fn know(&mut self, own: f64) {
        let least = self.least();
        let own = own / f64::from(self.runs).sqrt();
        let measured = self.observed.deviation.max(own).powi(2) / f64::from(self.observed.count.max(1));
        self.known_to = (measured + least.powi(2)).sqrt();
    }

    fn least(&self) -> f64 {
        if self.name.contains(".p") { LEAST.1 } else { LEAST.0 }
    }
}

pub(super) struct SearchPoint<'a> {
    pub probe: &'a Probe,
    pub values: Vec<Datum<'a>>,
    scatters: bool,
}

impl SearchPoint<'_> {
    pub(crate) fn residuals(&self, model: &Model, seed: Seed) -> Result<Vec<f64>, ZonedError> {
        let values = self.probe.model(model, seed)?;
        let residual = |value: &Datum<'_>| {
            // A value missing in the model's run counts as a large error.
            let modelled = values.get(value.name).copied().unwrap_or(value.measured * 10.0);
            (modelled / value.measured).ln() / value.deviation
        };
        Ok(self.values.iter().map(residual).collect())
    }
}

pub(super) struct Search<'a> {
    keys: Vec<&'a str>,
    pub places: Vec<SearchPoint<'a>>,
    constants: Constants,
    pub start: Vec<f64>,
    pub seed: Seed,
    /// The probes that each constant affects, if known: other probes need no new run for its derivative.
    known: Option<Vec<BTreeSet<usize>>>,
    pub error: Option<ZonedError>,
}

/// One list per probe; `None` for probes that did not run.
type Residuals = Vec<Option<Vec<f64>>>;

impl<'a> Search<'a> {
    pub(crate) fn new(
        keys: Vec<&'a str>,
        probes: Vec<&'a Probe>,
        observations: &Observations,
        constants: Constants,
        seed: Seed,
    ) -> Self {
        let place = |probe: &'a Probe| {
            let value = |name: &'a str| {
                let observed = observations[&(probe.key.clone(), name.to_string())];
                let (measured, runs) = (observed.mean, probe.runs);
                Datum { name, measured, observed, runs, known_to: 0.0, deviation: 1.0 }
            };
            let values = measured_metrics(probe, observations).into_iter().map(value).collect();
            SearchPoint { probe, values, scatters: false }
        };
        let places = probes.into_iter().map(place).collect();
        let start = keys.iter().map(|key| constants.get(key).map_or(0.0, f64::ln)).collect();
        Self { keys, places, constants, start, seed, known: None, error: None }
    }

    /// Estimates scatter: of the measurement between repetitions, of the model between seeds.
    pub(crate) fn estimate_scatter(&mut self) {
        let Some((model, _)) = self.model(&self.start) else { return };
        let count = self.places.len() * SCATTERED as usize;
        let runs = in_parallel(count, |index| {
            let probe = self.places[index / SCATTERED as usize].probe;
            probe.model(&model, self.seed.child(&format!("{}/scatter {}", probe.key, index as u64 % SCATTERED))).ok()
        });
        for (place, runs) in self.places.iter_mut().zip(runs.chunks(SCATTERED as usize)) {
            for value in &mut place.values {
                let modelled: Vec<f64> =
                    runs.iter().flatten().filter_map(|values| values.get(value.name).copied()).collect();
                let own = spread(&modelled).1;
                value.know(own);
                value.deviation = value.known_to.hypot(own);
                place.scatters |= own > value.least();
            }
        }
    }

    pub(crate) fn model(&self, x: &[f64]) -> Option<(Model, Vec<f64>)> {
        let mut constants = self.constants.clone();
        let set: Option<Vec<f64>> =
            self.keys.iter().zip(x).map(|(key, x)| constants.set(key, x.exp()).ok().map(f64::ln)).collect();
        Some((constants.model().ok()?, set?))
    }

    fn run(&mut self, model: &Model, which: &BTreeSet<usize>) -> Residuals {
        let (places, seed) = (&self.places, self.seed);
        let results = in_parallel(places.len(), |index| {
            which.contains(&index).then(|| places[index].residuals(model, seed.child(&places[index].probe.key)))
        });
        let mut kept = Vec::new();
        for result in results {
            kept.push(match result {
                Some(Ok(residuals)) => Some(residuals),
                Some(Err(error)) => {
                    self.error = Some(error);
                    None
                }
                None => None,
            });
        }
        kept
    }

    /// Residuals of these probes, 0 for others.
    pub(crate) fn residuals_of(&mut self, x: &[f64], which: &BTreeSet<usize>) -> Option<Vec<f64>> {
        let (model, _) = self.model(x)?;
        let residuals = self.run(&model, which);
        if which.iter().any(|index| residuals[*index].is_none()) {
            return None;
        }
        Some(self.flat(&residuals))
    }

    pub(crate) fn scattering(&self) -> BTreeSet<usize> {
        (0..self.places.len()).filter(|index| self.places[*index].scatters).collect()
    }

    pub(crate) fn all(&self) -> BTreeSet<usize> {
        (0..self.places.len()).collect()
    }

    pub(crate) fn silent(&self) -> Vec<bool> {
        let known = self.known.as_ref();
        (0..self.keys.len()).map(|index| known.is_some_and(|moved| moved[index].is_empty())).collect()
    }

    fn split(&self, at: &[f64]) -> Residuals {
        let mut rest = at;
        let mut split = Vec::new();
        for place in &self.places {
            let (own, others) = rest.split_at(place.values.len());
            split.push(Some(own.to_vec()));
            rest = others;
        }
        split
    }

    /// Returns the model with one constant moved up or down, and the distance: at least 1 for whole numbers. `None`:
    /// invalid.
    fn moved(&self, x: &[f64], index: usize, way: f64) -> Option<(Model, f64)> {
        let (_, base) = self.model(x)?;
        let mut there = x.to_vec();
        there[index] += way * STEP;
        let (mut model, mut set) = self.model(&there)?;
        if set[index] == base[index] {
            there[index] = (x[index].exp() + way).max(1.0).ln();
            (model, set) = self.model(&there)?;
        }
        let length = set[index] - base[index];
        (length != 0.0).then_some((model, length))
    }

    /// Returns upward and downward derivatives by one constant at `x`, whose residuals are `at`.
    fn upward_and_downward(
        &mut self,
        x: &[f64],
        at: &Residuals,
        index: usize,
        which: &BTreeSet<usize>,
    ) -> [Option<Slopes>; 2] {
        [1.0, -1.0].map(|way| {
            let (model, length) = self.moved(x, index, way)?;
            let there = self.run(&model, which);
            Some(slopes(at, &there, length))
        })
    }

    pub(crate) fn constants_at(&self, x: &[f64]) -> Option<Constants> {
        let mut constants = self.constants.clone();
        for (key, x) in self.keys.iter().zip(x) {
            constants.set(key, x.exp()).ok()?;
        }
        Some(constants)
    }

    /// Returns upward and downward derivatives of these probes, 0 for others.
    pub(crate) fn slopes_of(&mut self, x: &[f64], at: &[f64], which: &BTreeSet<usize>) -> [Vec<Vec<f64>>; 2] {
        let at = self.split(at);
        let (mut upwards, mut downwards) = (Vec::new(), Vec::new());
        for index in 0..self.keys.len() {
            let moved = self.known.as_ref().map(|known| which.intersection(&known[index]).copied().collect());
            let ways = self.upward_and_downward(x, &at, index, moved.as_ref().unwrap_or(which));
            let [up, down] = ways.map(|slopes| slopes.map(|slopes| self.flat(&slopes)));
            // If one direction is invalid, the other one is used.
            upwards.push(up.clone().or_else(|| down.clone()).unwrap_or_default());
            downwards.push(down.or(up).unwrap_or_default());
        }
        [upwards, downwards]
    }

    fn flat(&self, slopes: &Slopes) -> Vec<f64> {
        let each = slopes.iter().zip(&self.places);
        each.flat_map(|(slope, place)| slope.clone().unwrap_or_else(|| vec![0.0; place.values.len()])).collect()
    }
}

/// Derivatives by probe; `None` for those that did not run.
type Slopes = Vec<Option<Vec<f64>>>;

fn slopes(at: &Residuals, there: &Residuals, length: f64) -> Slopes {
    let each = at.iter().zip(there);
    each.map(|(at, there)| {
        let (Some(at), Some(there)) = (at, there) else { return None };
        Some(there.iter().zip(at).map(|(there, at)| (there - at) / length).collect())
    })
    .collect()
}

fn moves(slopes: &Slopes) -> BTreeSet<usize> {
    let moved = |slope: &Option<Vec<f64>>| slope.as_ref().is_some_and(|slope| slope.iter().any(|part| *part != 0.0));
    slopes.iter().enumerate().filter(|(_, slope)| moved(slope)).map(|(index, _)| index).collect()
}

impl Problem for Search<'_> {
    fn residuals(&mut self, x: &[f64]) -> Option<Vec<f64>> {
        self.residuals_of(x, &self.all())
    }

    /// Returns the mean of both directions; if one is invalid, the other one.
    fn derivatives(&mut self, x: &[f64], at: &[f64]) -> Vec<Vec<f64>> {
        let (known, at) = (self.known.take(), self.split(at));
        let (mut columns, mut moved) = (Vec::new(), Vec::new());
        for index in 0..self.keys.len() {
            let which = known.as_ref().map_or_else(|| self.all(), |known| known[index].clone());
            let ways: Vec<Slopes> = self.upward_and_downward(x, &at, index, &which).into_iter().flatten().collect();
            moved.push(ways.iter().flat_map(moves).collect::<BTreeSet<usize>>());
            let columns_of: Vec<Vec<f64>> = ways.iter().map(|slopes| self.flat(slopes)).collect();
            let count = columns_of.len().max(1) as f64;
            let length: usize = self.places.iter().map(|place| place.values.len()).sum();
            columns.push(
                (0..length).map(|row| columns_of.iter().map(|column| column[row]).sum::<f64>() / count).collect(),
            );
        }
        self.known = Some(known.unwrap_or(moved));
        columns
    }

    fn derivatives_both_ways(&mut self, x: &[f64], at: &[f64]) -> Vec<Vec<f64>> {
        let [upwards, downwards] = self.slopes_of(x, at, &self.all());
        common(upwards, &downwards)
    }
}
