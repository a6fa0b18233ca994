//! The events of a study in recorded order.

use crate::adaptive::Look;
use crate::matrix::RunId;
use crate::matrix_run::{Event, RunEvent};
use crate::results::FailedRun;
use crate::spec::StudySpec;
use senesce_runner::{Moment, Recorded, Run};
use std::collections::BTreeMap;

#[derive(Debug, Clone)]
pub(crate) enum Past {
    Run(RunEvent),
    /// A run failed, with its duration in seconds.
    Failed(FailedRun, f64),
    Look(Look),
}

impl Past {
    pub(crate) fn tried(&self) -> Option<(RunId, f64)> {
        match self {
            Self::Run(run) => Some((run.id, run.seconds)),
            Self::Failed(failed, seconds) => Some((failed.id, *seconds)),
            Self::Look(_) => None,
        }
    }
}

/// Returns the events of a record that belong to `spec`.
pub(crate) fn of<R: Run<Event = Event, Step = RunId>>(spec: &StudySpec, recorded: &Recorded<R>) -> Vec<Past> {
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

pub(crate) fn runs(past: &[Past]) -> impl Iterator<Item = &RunEvent> {
    past.iter().filter_map(|one| match one {
        Past::Run(run) => Some(run),
        _ => None,
    })
}

pub(crate) fn failed(past: &[Past]) -> Vec<FailedRun> {
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
