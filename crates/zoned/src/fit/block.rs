//! Constants that are fitted together to the same probes.

use super::constants::Constants;
use super::least_squares::Solution;
use super::probe::{Probe, Values};
use super::search::{Search, measured_metrics};
use super::surface::SearchAccuracy;
use crate::error::ZonedError;
use crate::sim::model::Model;
use senesce_core::Seed;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Relative standard deviation below which a constant no longer adds uncertainty to others.
const CERTAIN: f64 = 5e-3;
/// Relative standard deviation above which a constant is not determined.
pub const DETERMINED: f64 = 0.25;

/// Smaller correlations are not reported.
const LEAST_CORRELATION: f64 = 0.01;

#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    pub name: String,
    pub constants: Vec<String>,
    pub probes: Vec<Probe>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ObservedValue {
    pub mean: f64,
    pub deviation: f64,
    pub count: u32,
}

pub type Observations = BTreeMap<(String, String), ObservedValue>;

/// Groups the repetitions of each value.
pub fn observations<'a>(measured: impl Iterator<Item = (&'a str, &'a Values)>) -> Observations {
    let mut all: BTreeMap<(String, String), Vec<f64>> = BTreeMap::new();
    for (probe, values) in measured {
        values.iter().for_each(|(name, value)| all.entry((probe.into(), name.clone())).or_default().push(*value));
    }
    all.into_iter().map(|(key, values)| (key, observed(&values))).collect()
}

fn observed(values: &[f64]) -> ObservedValue {
    let (mean, deviation) = spread(values);
    ObservedValue { mean, deviation, count: values.len() as u32 }
}

/// Returns the mean, and the relative standard deviation of a single value.
pub(super) fn spread(values: &[f64]) -> (f64, f64) {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value / mean - 1.0).powi(2)).sum();
    (mean, if values.len() > 1 { (squares / (count - 1.0)).sqrt() } else { 0.0 })
}

#[derive(Debug, Clone, PartialEq)]
pub struct FittedConstant {
    pub key: String,
    pub start: f64,
    pub value: f64,
    /// Relative standard deviation; `None`: no value depends on the constant, and it was not changed.
    pub deviation: Option<f64>,
    pub correlations: BTreeMap<String, f64>,
}

impl FittedConstant {
    pub fn is_determined(&self) -> bool {
        self.deviation.is_some_and(|deviation| deviation <= DETERMINED)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct FittedBlock {
    pub constants: Vec<FittedConstant>,
    /// Whether the search converged; if not, its last step was still long.
    pub settled: bool,
}

/// Uncertainty of constants fitted so far, in all blocks.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FittedUncertainty {
    deviations: BTreeMap<String, f64>,
    correlations: BTreeMap<(String, String), f64>,
}

impl FittedUncertainty {
    /// Adds a constant, or updates it. Correlations below 0.01 may be missing.
    pub fn add(&mut self, key: &str, deviation: f64, correlations: &BTreeMap<String, f64>) {
        self.deviations.insert(key.into(), deviation);
        for (other, correlation) in correlations {
            self.correlations.insert((key.into(), other.clone()), *correlation);
        }
    }

    pub(super) fn correlation(&self, one: &str, other: &str) -> f64 {
        let of = |a: &str, b: &str| self.correlations.get(&(a.to_string(), b.to_string())).copied();
        if one == other { 1.0 } else { of(one, other).or_else(|| of(other, one)).unwrap_or(0.0) }
    }
}

#[derive(Debug, Clone, Copy)]
pub enum Pass<'a> {
    /// Further passes follow, so an approximate result is enough.
    First,
    /// The last pass. Adds the uncertainty from constants of other blocks; the block's own constants start near their
    /// final values.
    Last(&'a FittedUncertainty),
}

/// Fits the constants of a block; all others keep their values in `model`.
pub fn fit(
    model: &Model,
    block: &Block,
    observations: &Observations,
    pass: Pass<'_>,
    seed: Seed,
) -> Result<FittedBlock, ZonedError> {
    let start = Constants::of(model)?;
    let (asked, absent): (Vec<&str>, Vec<&str>) =
        block.constants.iter().map(String::as_str).partition(|key| start.get(key).is_some_and(|value| value > 0.0));
    let probes: Vec<&Probe> =
        block.probes.iter().filter(|probe| !measured_metrics(probe, observations).is_empty()).collect();
    let count: usize = probes.iter().map(|probe| measured_metrics(probe, observations).len()).sum();
    if count < asked.len() {
        return Err(ZonedError::Usage(format!(
            "{}: {count} measured values cannot determine {} constants ({}); measure more points, or keep these constants",
            block.name,
            asked.len(),
            asked.join(", ")
        )));
    }
    let mut search = Search::new(asked.clone(), probes, observations, start.clone(), seed);
    search.estimate_scatter();
    let Some(solution) = solution(&mut search, &asked, pass) else {
        let words = format!("{}: the start model cannot run the measured commands", block.name);
        return Err(search.error.unwrap_or(ZonedError::Usage(words)));
    };
    let mut constants = stated(&start, &asked, &solution, &search.silent())?;
    constants.extend(absent.into_iter().filter_map(|key| Some(kept(key, start.get(key)?))));
    Ok(FittedBlock { constants, settled: solution.settled })
}

fn solution(search: &mut Search<'_>, asked: &[&str], pass: Pass<'_>) -> Option<Solution> {
    let start = search.start.clone();
    let Pass::Last(known) = pass else { return search.solve(&start, SearchAccuracy::Near) };
    let before: Option<Vec<f64>> = asked.iter().map(|key| known.deviations.get(*key).copied()).collect();
    let mut solution = match before {
        Some(deviation) => search.solve_again(&start, &deviation)?,
        None => search.solve(&start, SearchAccuracy::Full)?,
    };
    let is_open = |(key, deviation): &(&String, &f64)| **deviation > CERTAIN && !asked.contains(&key.as_str());
    let others: Vec<(&str, f64)> =
        known.deviations.iter().filter(is_open).map(|(key, deviation)| (key.as_str(), *deviation)).collect();
    if !others.is_empty() {
        let open = search.left_open(&solution, known, &others);
        solution.widen(&open);
    }
    Some(solution)
}

fn kept(key: &str, value: f64) -> FittedConstant {
    FittedConstant { key: key.into(), start: value, value, deviation: None, correlations: BTreeMap::new() }
}

fn stated(
    start: &Constants,
    asked: &[&str],
    solution: &Solution,
    silent: &[bool],
) -> Result<Vec<FittedConstant>, ZonedError> {
    let mut constants = start.clone();
    let deviation = solution.deviation();
    let mut found = Vec::new();
    for (index, key) in asked.iter().enumerate() {
        let before = start.get(key).unwrap_or(0.0);
        if silent[index] {
            found.push(kept(key, before));
            continue;
        }
        let correlation = |other: usize| {
            let together = solution.correlation(index, other)?;
            (together.abs() >= LEAST_CORRELATION).then(|| (asked[other].to_string(), together))
        };
        found.push(FittedConstant {
            key: (*key).into(),
            start: before,
            value: constants.set(key, solution.x[index].exp())?,
            deviation: Some(deviation[index]),
            correlations: (index + 1..asked.len()).filter(|other| !silent[*other]).filter_map(correlation).collect(),
        });
    }
    Ok(found)
}

/// Runs `work` for the numbers below `count` on all processors; results are in order.
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
