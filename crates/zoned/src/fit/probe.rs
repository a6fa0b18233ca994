//! One thing that is measured to learn constants from: a job, or single commands one after the other.

use super::singles;
use crate::device::ZonedDevice;
use crate::error::ZonedError;
use crate::job::{ActorResult, Job, JobResult};
use crate::run::{RunOptions, open_sim, run_sim};
use crate::session::Session;
use crate::sim::model::Model;
use senesce_core::interrupt::Interrupt;
use senesce_core::{Seed, Silent};
use std::collections::BTreeMap;

/// Measured or modelled numbers by name: `0.mean` is the mean latency (us) of the first actor, `1.iops` the rate (1/s) of the second,
/// others are the mean latencies (us) of [`singles`].
pub type Values = BTreeMap<String, f64>;

/// What is run.
#[derive(Debug, Clone, PartialEq)]
pub enum Work {
    /// A job.
    Job(Box<Job>),
    /// Single commands on one zone.
    Singles {
        /// The zone.
        zone: u32,
        /// How often.
        rounds: u32,
        /// Bytes per block of the format.
        block_bytes: u32,
    },
}

/// Something that is run, and what is kept of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Probe {
    /// Tells probes apart.
    pub key: String,
    /// What is run.
    pub work: Work,
    /// The names of the values that are kept.
    pub kept: Vec<String>,
}

impl Probe {
    /// A probe of which the values named are kept, separated by blanks.
    pub fn new(key: impl Into<String>, work: Work, kept: &str) -> Self {
        Self { key: key.into(), work, kept: kept.split_whitespace().map(str::to_string).collect() }
    }

    /// Runs it on a model.
    ///
    /// # Errors
    /// What the model's drive answered.
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

    /// The job that it runs; none: single commands.
    pub fn job(&self) -> Option<&Job> {
        match &self.work {
            Work::Job(job) => Some(job),
            Work::Singles { .. } => None,
        }
    }

    /// Runs it on a drive.
    ///
    /// # Errors
    /// What the guard or the drive said; also when zones were lost or commands refused, which no model tells.
    pub fn measure(&self, session: &mut Session, seed: Seed, interrupt: &Interrupt) -> Result<Values, ZonedError> {
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
            remedy: "nothing that was measured before is lost; see that no other program uses the drive, look at its zones with \
                     `senesce zones DEVICE list`, and give the same command again"
                .into(),
        }
    }
}

/// A value by name; `None` for what is no positive number.
fn value(result: &JobResult, name: &str) -> Option<f64> {
    let (actor, what) = name.split_once('.')?;
    let actor = result.actors.get(actor.parse::<usize>().ok()?)?;
    let value = match what {
        "iops" => actor.iops(),
        "mean" => actor.latency().mean_us(),
        "p50" => actor.latency().quantile_us(0.50),
        "p95" => actor.latency().quantile_us(0.95),
        _ => return None,
    };
    (value.is_finite() && value > 0.0).then_some(value)
}
