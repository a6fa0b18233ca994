//! Constants that are found together from the probes that show them.

use super::constants::Constants;
use super::least_squares::{Problem, Solution, common, solve};
use super::probe::{Probe, Values};
use crate::error::ZonedError;
use crate::sim::model::Model;
use senesce_core::Seed;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Steps for derivatives, as logarithms.
const STEP: f64 = 0.04;
/// No value is known better than this, relative: means and rates, and quantiles, which are read from a histogram of three digits.
const LEAST: (f64, f64) = (5e-4, 2e-3);
/// A constant that is more certain than this, relative, leaves nothing open to others.
const CERTAIN: f64 = 5e-3;
/// A constant that is less certain than this, relative, is not determined.
pub const DETERMINED: f64 = 0.25;

/// Constants that are found together.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// What it is about.
    pub name: String,
    /// Names of its constants.
    pub constants: Vec<String>,
    /// What shows them.
    pub probes: Vec<Probe>,
}

/// A value with what repetitions say about it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observed {
    /// The mean.
    pub mean: f64,
    /// Standard deviation of its difference from one run of a model that is right, relative: that run scatters as a repetition does.
    pub deviation: f64,
}

/// What was measured: probe and value.
pub type Observations = BTreeMap<(String, String), Observed>;

/// Puts repetitions of each value together.
pub fn observations<'a>(measured: impl Iterator<Item = (&'a str, &'a Values)>) -> Observations {
    let mut all: BTreeMap<(String, String), Vec<f64>> = BTreeMap::new();
    for (probe, values) in measured {
        values.iter().for_each(|(name, value)| all.entry((probe.into(), name.clone())).or_default().push(*value));
    }
    all.into_iter().map(|(key, values)| (key.clone(), observed(&key.1, &values))).collect()
}

fn observed(name: &str, values: &[f64]) -> Observed {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value / mean - 1.0).powi(2)).sum();
    let least = if name.contains(".p") { LEAST.1 } else { LEAST.0 };
    let deviation = if values.len() > 1 { (squares / (count - 1.0) * (1.0 + 1.0 / count)).sqrt() } else { 0.0 };
    Observed { mean, deviation: deviation.max(least) }
}

/// A constant that was asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// Its name.
    pub key: String,
    /// Before.
    pub start: f64,
    /// Now.
    pub value: f64,
    /// Relative standard deviation; `None`: no value depends on it, and it stays as it was.
    pub deviation: Option<f64>,
}

impl Found {
    /// Whether the values tell it.
    pub fn is_determined(&self) -> bool {
        self.deviation.is_some_and(|deviation| deviation <= DETERMINED)
    }
}

/// Finds the constants of a block on top of `model`. `others` are constants of other blocks with their relative standard
/// deviations: what they leave open is part of the uncertainty here.
///
/// # Errors
/// When there are fewer values than constants, or when the model cannot run what was measured.
pub fn fit(
    model: &Model,
    block: &Block,
    observations: &Observations,
    others: &[(String, f64)],
    seed: Seed,
) -> Result<Vec<Found>, ZonedError> {
    let start = Constants::of(model)?;
    let (asked, absent): (Vec<&str>, Vec<&str>) =
        block.constants.iter().map(String::as_str).partition(|key| start.get(key).is_some_and(|value| value > 0.0));
    let probes: Vec<&Probe> = block.probes.iter().filter(|probe| !seen(probe, observations).is_empty()).collect();
    let count: usize = probes.iter().map(|probe| seen(probe, observations).len()).sum();
    if count < asked.len() {
        return Err(ZonedError::Usage(format!(
            "{}: {count} measured values cannot tell {} constants ({}); measure more points, or leave these constants as they are",
            block.name,
            asked.len(),
            asked.join(", ")
        )));
    }
    let mut search =
        Search { keys: asked.clone(), probes, observations, constants: start.clone(), seed, known: None, error: None };
    let x: Vec<f64> = asked.iter().map(|key| start.get(key).map_or(0.0, f64::ln)).collect();
    let solution = solve(&mut search, &x);
    let silent = search.silent();
    let Some(mut solution) = solution else {
        let words = format!("{}: the start model cannot run what was measured", block.name);
        return Err(search.error.unwrap_or(ZonedError::Usage(words)));
    };
    let open = others.iter().filter(|(key, deviation)| *deviation > CERTAIN && !asked.contains(&key.as_str()));
    let open: Vec<(Vec<f64>, f64)> =
        open.filter_map(|(key, deviation)| Some((search.other_column(&solution, key)?, *deviation))).collect();
    solution.widen(&open);
    let mut found = told(&start, &asked, &solution, &silent)?;
    found.extend(
        absent.into_iter().filter_map(|key| {
            start.get(key).map(|value| Found { key: key.into(), start: value, value, deviation: None })
        }),
    );
    Ok(found)
}

fn told(start: &Constants, asked: &[&str], solution: &Solution, silent: &[bool]) -> Result<Vec<Found>, ZonedError> {
    let mut constants = start.clone();
    let mut found = Vec::new();
    for (index, key) in asked.iter().enumerate() {
        let before = start.get(key).unwrap_or(0.0);
        let (value, deviation) = match silent[index] {
            true => (before, None),
            false => (constants.set(key, solution.x[index].exp())?, Some(solution.deviation[index])),
        };
        found.push(Found { key: (*key).into(), start: before, value, deviation });
    }
    Ok(found)
}

fn seen<'a>(probe: &'a Probe, observations: &Observations) -> Vec<&'a str> {
    let is_there = |name: &&String| observations.contains_key(&(probe.key.clone(), (*name).clone()));
    probe.kept.iter().filter(is_there).map(String::as_str).collect()
}

struct Search<'a> {
    keys: Vec<&'a str>,
    probes: Vec<&'a Probe>,
    observations: &'a Observations,
    constants: Constants,
    seed: Seed,
    /// Which probes each constant moves, once that is known: the others need not be run again for its derivative.
    known: Option<Vec<BTreeSet<usize>>>,
    error: Option<ZonedError>,
}

impl Search<'_> {
    fn model(&self, x: &[f64]) -> Option<(Model, Vec<f64>)> {
        let mut constants = self.constants.clone();
        let set: Option<Vec<f64>> =
            self.keys.iter().zip(x).map(|(key, x)| constants.set(key, x.exp()).ok().map(f64::ln)).collect();
        Some((constants.model().ok()?, set?))
    }

    /// Residuals of these probes; `None` for others and for those that the model cannot run.
    fn run(&mut self, model: &Model, which: &BTreeSet<usize>) -> Vec<Option<Vec<f64>>> {
        let (probes, observations, seed) = (&self.probes, self.observations, self.seed);
        let results = in_parallel(probes.len(), |index| {
            which.contains(&index).then(|| {
                let probe = probes[index];
                let values = probe.model(model, seed.child(&probe.key))?;
                let residual = |name: &str| {
                    let observed = observations[&(probe.key.clone(), name.to_string())];
                    // What is missing in the model's run is as wrong as can be.
                    let modelled = values.get(name).copied().unwrap_or(observed.mean * 10.0);
                    (modelled / observed.mean).ln() / observed.deviation
                };
                Ok(seen(probe, observations).into_iter().map(residual).collect::<Vec<f64>>())
            })
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

    fn all(&self) -> BTreeSet<usize> {
        (0..self.probes.len()).collect()
    }

    /// Which constants move nothing.
    fn silent(&self) -> Vec<bool> {
        let known = self.known.as_ref();
        (0..self.keys.len()).map(|index| known.is_some_and(|moved| moved[index].is_empty())).collect()
    }
}

impl Problem for Search<'_> {
    fn residuals(&mut self, x: &[f64]) -> Option<Vec<f64>> {
        let (model, _) = self.model(x)?;
        let all = self.all();
        let residuals: Option<Vec<Vec<f64>>> = self.run(&model, &all).into_iter().collect();
        Some(residuals?.concat())
    }

    fn derivatives(&mut self, x: &[f64], at: &[f64]) -> Vec<Vec<f64>> {
        self.slopes(x, at, 1.0)
    }

    fn derivatives_both_ways(&mut self, x: &[f64], at: &[f64]) -> Vec<Vec<f64>> {
        let forward = self.slopes(x, at, 1.0);
        common(forward, &self.slopes(x, at, -1.0))
    }
}

impl Search<'_> {
    fn slopes(&mut self, x: &[f64], at: &[f64], way: f64) -> Vec<Vec<f64>> {
        let known = self.known.take();
        let (mut columns, mut moved) = (Vec::new(), Vec::new());
        let base: Option<Vec<f64>> = self.model(x).map(|(_, set)| set);
        for index in 0..self.keys.len() {
            let which = known.as_ref().map_or_else(|| self.all(), |known| known[index].clone());
            // Where no model lies that way, the other way tells.
            let column = self.column(x, at, base.as_deref(), (index, way), &which);
            let column = column.or_else(|| self.column(x, at, base.as_deref(), (index, -way), &which));
            let (column, changed) = column.unwrap_or_default();
            columns.push(if column.is_empty() { vec![0.0; at.len()] } else { column });
            moved.push(changed);
        }
        self.known = Some(known.unwrap_or(moved));
        columns
    }

    /// One constant's derivatives, upwards or downwards, and which probes it moves. A whole number is moved by at least 1.
    fn column(
        &mut self,
        x: &[f64],
        at: &[f64],
        base: Option<&[f64]>,
        (index, way): (usize, f64),
        which: &BTreeSet<usize>,
    ) -> Option<(Vec<f64>, BTreeSet<usize>)> {
        let mut there = x.to_vec();
        there[index] += way * STEP;
        let (mut model, mut set) = self.model(&there)?;
        if set[index] == base?[index] {
            there[index] = (x[index].exp() + way).max(1.0).ln();
            (model, set) = self.model(&there)?;
        }
        let length = set[index] - base?[index];
        if length == 0.0 {
            return None;
        }
        Some(self.difference(&model, at, length, which))
    }

    /// Derivatives by a constant of another block.
    fn other_column(&mut self, solution: &Solution, key: &str) -> Option<Vec<f64>> {
        let mut constants = self.constants.clone();
        for (own, x) in self.keys.iter().zip(&solution.x) {
            constants.set(own, x.exp()).ok()?;
        }
        let before = constants.get(key).filter(|value| *value > 0.0)?;
        let length = (constants.set(key, before * STEP.exp()).ok()? / before).ln();
        let model = constants.model().ok().filter(|_| length > 0.0)?;
        let all = self.all();
        Some(self.difference(&model, &solution.residuals, length, &all).0)
    }

    /// By how much the residuals of a model differ from `at`, over `length`, and of which probes.
    fn difference(
        &mut self,
        model: &Model,
        at: &[f64],
        length: f64,
        which: &BTreeSet<usize>,
    ) -> (Vec<f64>, BTreeSet<usize>) {
        let residuals = self.run(model, which);
        let (mut column, mut changed, mut place) = (Vec::new(), BTreeSet::new(), 0);
        for (number, probe) in self.probes.iter().enumerate() {
            let count = seen(probe, self.observations).len();
            let old = &at[place..place + count];
            place += count;
            match &residuals[number] {
                Some(new) => {
                    if new != old {
                        changed.insert(number);
                    }
                    column.extend(new.iter().zip(old).map(|(new, old)| (new - old) / length));
                }
                None => column.extend(std::iter::repeat_n(0.0, count)),
            }
        }
        (column, changed)
    }
}

/// `work` on the numbers below `count`, on all processors, in order.
pub fn in_parallel<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, T)>> = Mutex::new(Vec::with_capacity(count));
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(count.max(1));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count {
                        return;
                    }
                    let result = work(index);
                    done.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push((index, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}
