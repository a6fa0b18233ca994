//! A measurement for a fit: a job, or single commands in sequence.

use super::singles;
use crate::device::ZonedDevice;
use crate::error::ZonedError;
use crate::job::{ActorResult, Job, JobResult, Latency};
use crate::run::{RunOptions, open_sim, run_sim};
use crate::session::Session;
use crate::sim::model::Model;
use senesce_core::interrupt::Interrupt;
use senesce_core::{Seed, Silent};
use std::collections::BTreeMap;

/// Values by name. `0.mean` is the mean latency (us) of the first actor, `0.p95` a percentile of it, `1.iops` the rate
/// (1/s) of the second actor. `0.low` is the share of latencies nearer to the 5th than to the 95th percentile. Other
/// names are the mean latencies (us) of [`singles`].
pub type Values = BTreeMap<String, f64>;

#[derive(Debug, Clone, PartialEq)]
pub enum Work {
    Job(Box<Job>),
    Singles { zone: u32, rounds: u32, block_bytes: u32 },
}

/// A job or sequence, and the values to keep.
#[derive(Debug, Clone, PartialEq)]
pub struct Probe {
    pub key: String,
    pub work: Work,
    pub kept: Vec<String>,
    /// Runs per measurement, which is their mean. More than 1 if values scatter and drive time is cheap.
    pub runs: u32,
}

impl Probe {
    /// Creates a probe; `kept` contains names of values, separated by blanks.
    pub(crate) fn new(key: impl Into<String>, work: Work, kept: &str) -> Self {
        Self { key: key.into(), work, kept: kept.split_whitespace().map(str::to_string).collect(), runs: 1 }
    }

    pub fn model(&self, model: &Model, seed: Seed) -> Result<Values, ZonedError> {
        let interrupt = Interrupt::new();
        match &self.work {
            Work::Job(job) => {
                let result = run_sim(model, job, &RunOptions { seed, progress: &Silent, interrupt: &interrupt })?;
                self.of_job(&result)
            }
            Work::Singles { zone, rounds, block_bytes } => {
                let job = Job { lbaf: Some(*block_bytes), ..Job::of(Vec::new()) };
                self.of_singles(&mut open_sim(model, &job, seed)?, *zone, *rounds, &interrupt)
            }
        }
    }

    /// Returns the job; `None` for single commands.
    pub fn job(&self) -> Option<&Job> {
        match &self.work {
            Work::Job(job) => Some(job),
            Work::Singles { .. } => None,
        }
    }

    pub fn measure(&self, session: &mut Session, seed: Seed, interrupt: &Interrupt) -> Result<Values, ZonedError> {
        self.averaged(seed, |seed| self.measure_once(session, seed, interrupt))
    }

    /// Returns the mean of all runs of a measurement, each with its own seed.
    pub fn averaged(
        &self,
        seed: Seed,
        mut run: impl FnMut(Seed) -> Result<Values, ZonedError>,
    ) -> Result<Values, ZonedError> {
        let seed_of = |number| if number == 0 { seed } else { seed.child(&format!("run {number}")) };
        let all = (0..self.runs).map(|number| run(seed_of(number))).collect::<Result<Vec<_>, _>>()?;
        Ok(mean(&all))
    }

    fn measure_once(&self, session: &mut Session, seed: Seed, interrupt: &Interrupt) -> Result<Values, ZonedError> {
        match &self.work {
            Work::Job(job) => self.of_job(&session.run(job, &RunOptions { seed, progress: &Silent, interrupt })?),
            Work::Singles { zone, rounds, block_bytes } => {
                let mut device = session.open(*block_bytes, seed)?;
                self.of_singles(&mut *device, *zone, *rounds, interrupt)
            }
        }
    }

    fn of_singles(
        &self,
        device: &mut dyn ZonedDevice,
        zone: u32,
        rounds: u32,
        interrupt: &Interrupt,
    ) -> Result<Values, ZonedError> {
        let timed = singles::run(device, zone, rounds, interrupt)?;
        let means = timed.iter().map(|(name, latency)| (name.to_string(), latency.mean_us()));
        Ok(means.filter(|(name, _)| self.kept.contains(name)).collect())
    }

    fn of_job(&self, result: &JobResult) -> Result<Values, ZonedError> {
        if let Some(actor) = result.actors.iter().find(|actor| actor.tally.error_count() > 0) {
            return Err(self.refused(actor));
        }
        let values = self.kept.iter().filter_map(|name| Some((name.clone(), value(result, name)?)));
        Ok(values.collect())
    }

    fn refused(&self, actor: &ActorResult) -> ZonedError {
        let zone = actor.tally.lost.first().map_or(String::new(), |(zone, _)| format!(" in zone {zone}"));
        let kinds: Vec<&str> = actor.tally.errors.keys().map(String::as_str).collect();
        ZonedError::Job {
            place: format!("point {}", self.key),
            problem: format!("the drive refused commands of {}{zone}: {}", actor.name, kinds.join(", ")),
            remedy:
                "earlier measurements are kept; check that no other program uses the drive, inspect its zones with \
                             `senesce zoned list DEVICE`, and repeat the command"
                    .into(),
        }
    }
}

fn mean(runs: &[Values]) -> Values {
    let of = |name: &String| Some(runs.iter().map(|run| run.get(name)).sum::<Option<f64>>()? / runs.len() as f64);
    runs.iter().take(1).flat_map(BTreeMap::keys).filter_map(|name| Some((name.clone(), of(name)?))).collect()
}

/// Returns a value by name; `None` if it is not a positive number.
fn value(result: &JobResult, name: &str) -> Option<f64> {
    let (actor, what) = name.split_once('.')?;
    let actor = result.actors.get(actor.parse::<usize>().ok()?)?;
    let value = match what {
        "iops" => actor.iops(),
        "mean" => actor.latency().mean_us(),
        "low" => low(&actor.latency()),
        _ => actor.latency().quantile_us(what.strip_prefix('p')?.parse::<f64>().ok()? / 100.0),
    };
    (value.is_finite() && value > 0.0).then_some(value)
}

/// Returns the share of the shorter mode of bimodal latencies: those nearer to the 5th than to the 95th percentile.
fn low(latency: &Latency) -> f64 {
    let middle = (latency.quantile_us(0.05) + latency.quantile_us(0.95)) / 2.0;
    latency.histogram.count_between(0, (middle * 1000.0) as u64) as f64 / latency.count().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_share_does_not_depend_on_the_median() {
        let share = |short: u64| {
            let mut latency = Latency::new();
            (0..1000).for_each(|number| latency.record(if number < short { 67_000 } else { 79_000 }));
            low(&latency)
        };
        assert_eq!([100, 480, 520, 900].map(share), [0.1, 0.48, 0.52, 0.9]);
    }

    #[test]
    fn several_runs_are_averaged() {
        let mut probe = Probe::new("reads", Work::Singles { zone: 0, rounds: 1, block_bytes: 4096 }, "0.mean");
        probe.runs = 3;
        let (mut times, mut seeds) = (0.0, Vec::new());
        let run = |seed: Seed| {
            (times, _) = (times + 1.0, seeds.push(seed));
            Ok(Values::from([("0.mean".into(), times)]))
        };
        assert_eq!(probe.averaged(Seed(1), run).unwrap()["0.mean"], 2.0);
        assert!(seeds[0] == Seed(1) && seeds[1] != seeds[2] && seeds[0] != seeds[1]);
    }
}
