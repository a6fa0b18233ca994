//! The error of a model on operating points.

use super::points::{Metric, Point, duration};
use crate::error::ZonedError;
use crate::job::{ActorResult, Job, Span};
use crate::run::{RunOptions, run_sim};
use crate::sim::model::Model;
use senesce_core::interrupt::Interrupt;
use senesce_core::{Seed, Silent};

#[derive(Debug, Clone)]
pub struct Compared {
    pub actor: usize,
    pub metric: Metric,
    pub measured: f64,
    pub modelled: f64,
    pub is_marked: bool,
}

impl Compared {
    /// Returns the signed relative error.
    pub fn error(&self) -> f64 {
        self.modelled / self.measured - 1.0
    }
}

pub(crate) fn timed(job: &Job) -> Job {
    let mut job = job.clone();
    let (ramp, time) = duration(&job);
    job.ramp = ramp;
    for actor in &mut job.actors {
        actor.time = Some(time);
        actor.start = Span::default();
    }
    job
}

pub fn compare(model: &Model, point: &Point, seed: Seed) -> Result<Vec<Compared>, ZonedError> {
    let job = timed(&point.job);
    let interrupt = Interrupt::new();
    let result = run_sim(model, &job, &RunOptions { seed, progress: &Silent, interrupt: &interrupt })?;
    let compared = point.values.iter().map(|value| {
        let actor = &result.actors[value.actor];
        let modelled = match value.metric {
            Metric::Iops => actor.iops(),
            Metric::Mean => actor.latency().mean_us(),
            Metric::P95 => actor.latency().quantile_us(0.95),
        };
        let is_marked = is_marked(actor, value.metric);
        Compared { actor: value.actor, metric: value.metric, measured: value.value, modelled, is_marked }
    });
    Ok(compared.collect())
}

fn is_marked(actor: &ActorResult, metric: Metric) -> bool {
    let (rates, latencies) = (&actor.rates_outside_model, &actor.latencies_outside_model);
    let marks = match metric {
        Metric::Iops => [None, rates.as_ref()],
        Metric::Mean => [latencies.as_ref(), rates.as_ref()],
        Metric::P95 => [latencies.as_ref(), None],
    };
    actor.outside_model.is_some() || marks.iter().any(Option::is_some)
}

/// Of absolute relative errors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    pub count: usize,
    pub median: f64,
    pub p90: f64,
    pub worst: f64,
}

impl Summary {
    /// Takes signed errors; `None` without errors.
    pub fn of(errors: impl Iterator<Item = f64>) -> Option<Self> {
        let mut errors: Vec<f64> = errors.map(f64::abs).collect();
        errors.sort_by(f64::total_cmp);
        let at = |share: f64| errors[((errors.len() as f64 * share).ceil() as usize).clamp(1, errors.len()) - 1];
        (!errors.is_empty()).then(|| Self { count: errors.len(), median: at(0.5), p90: at(0.9), worst: at(1.0) })
    }
}
