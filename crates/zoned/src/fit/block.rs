//! Constants that are found together from the probes that show them.

use super::constants::Constants;
use super::least_squares::Solution;
use super::probe::{Probe, Values};
use super::search::{Search, seen};
use crate::error::ZonedError;
use crate::sim::model::Model;
use senesce_core::Seed;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

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
    /// Standard deviation of one of them, relative.
    pub deviation: f64,
    /// How many there are.
    pub count: u32,
}

/// What was measured: probe and value.
pub type Observations = BTreeMap<(String, String), Observed>;

/// Puts repetitions of each value together.
pub fn observations<'a>(measured: impl Iterator<Item = (&'a str, &'a Values)>) -> Observations {
    let mut all: BTreeMap<(String, String), Vec<f64>> = BTreeMap::new();
    for (probe, values) in measured {
        values.iter().for_each(|(name, value)| all.entry((probe.into(), name.clone())).or_default().push(*value));
    }
    all.into_iter().map(|(key, values)| (key, observed(&values))).collect()
}

fn observed(values: &[f64]) -> Observed {
    let (mean, deviation) = spread(values);
    Observed { mean, deviation, count: values.len() as u32 }
}

/// The mean, and the relative standard deviation of one.
pub(super) fn spread(values: &[f64]) -> (f64, f64) {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value / mean - 1.0).powi(2)).sum();
    (mean, if values.len() > 1 { (squares / (count - 1.0)).sqrt() } else { 0.0 })
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
    let mut search = Search::new(asked.clone(), probes, observations, start.clone(), seed);
    let x: Vec<f64> = asked.iter().map(|key| start.get(key).map_or(0.0, f64::ln)).collect();
    search.look_at_scatter(&x);
    let solution = search.solve(&x);
    let silent = search.silent();
    let Some(mut solution) = solution else {
        let words = format!("{}: the start model cannot run what was measured", block.name);
        return Err(search.error.unwrap_or(ZonedError::Usage(words)));
    };
    let is_open = |(key, deviation): &&(String, f64)| *deviation > CERTAIN && !asked.contains(&key.as_str());
    let open = search.left_open(&solution, &others.iter().filter(is_open).cloned().collect::<Vec<_>>());
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
