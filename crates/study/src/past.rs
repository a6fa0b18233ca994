//! What happened in a study, in the order of its record.

use crate::adaptive::Look;
use crate::matrix::RunId;
use crate::matrix_run::{Event, RunEvent};
use crate::results::FailedRun;
use crate::spec::StudySpec;
use senesce_runner::{Moment, Recorded, Run};
use std::collections::BTreeMap;

#[derive(Debug, Clone)]
pub enum Past {
    Run(RunEvent),
    /// A run was tried and failed after so many seconds.
    Failed(FailedRun, f64),
    Look(Look),
}

impl Past {
    /// The run that was tried, and the seconds that it took.
    pub fn tried(&self) -> Option<(RunId, f64)> {
        match self {
            Self::Run(run) => Some((run.id, run.seconds)),
            Self::Failed(failed, seconds) => Some((failed.id, *seconds)),
            Self::Look(_) => None,
        }
    }
}

/// What a record holds of `spec`.
pub fn of<R: Run<Event = Event, Step = RunId>>(spec: &StudySpec, recorded: &Recorded<R>) -> Vec<Past> {
    let held = recorded.moments().filter_map(|moment| match moment {
        Moment::Own(Event::Run(run)) if spec.holds(run.id) => Some(Past::Run(run.clone())),
        Moment::Own(Event::Look(look)) if look.repetitions <= spec.repetitions => Some(Past::Look(look.clone())),
        Moment::Failed { step: id, reason, seconds } if spec.holds(id) => {
            Some(Past::Failed(FailedRun { id, reason: reason.into() }, seconds))
        }
        _ => None,
    });
    held.collect()
}

/// The runs that were done, in order.
pub fn runs(past: &[Past]) -> impl Iterator<Item = &RunEvent> {
    past.iter().filter_map(|one| match one {
        Past::Run(run) => Some(run),
        _ => None,
    })
}

/// The runs that failed when they were tried last, each with its last reason.
pub fn failed(past: &[Past]) -> Vec<FailedRun> {
    let mut failed: BTreeMap<RunId, &FailedRun> = BTreeMap::new();
    for one in past {
        match one {
            Past::Failed(run, _) => {
                failed.insert(run.id, run);
            }
            Past::Run(run) => {
                failed.remove(&run.id);
            }
            Past::Look(_) => {}
        }
    }
    failed.into_values().cloned().collect()
}
