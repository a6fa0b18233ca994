//! The events of a study in recorded order.

use crate::adaptive::InterimAnalysis;
use crate::matrix::RunId;
use crate::matrix_run::{Event, RunEvent};
use crate::results::FailedRun;
use crate::spec::StudySpec;
use senesce_runner::{AnyEvent, Recorded, Run};
use std::collections::BTreeMap;

#[derive(Debug, Clone)]
pub(crate) enum PastEvent {
    Run(RunEvent),
    /// A run failed, with its duration in seconds.
    Failed(FailedRun, f64),
    Look(InterimAnalysis),
}

impl PastEvent {
    pub(crate) fn tried(&self) -> Option<(RunId, f64)> {
        match self {
            Self::Run(run) => Some((run.id, run.seconds)),
            Self::Failed(failed, seconds) => Some((failed.id, *seconds)),
            Self::Look(_) => None,
        }
    }
}

/// Returns the events of a record that belong to `spec`.
pub(crate) fn of<R: Run<Event = Event, Step = RunId>>(spec: &StudySpec, recorded: &Recorded<R>) -> Vec<PastEvent> {
    let held = recorded.moments().filter_map(|moment| match moment {
        AnyEvent::Own(Event::Run(run)) if spec.holds(run.id) => Some(PastEvent::Run(run.clone())),
        AnyEvent::Own(Event::Look(look)) if look.repetitions <= spec.repetitions => Some(PastEvent::Look(look.clone())),
        AnyEvent::Failed { step: id, reason, seconds } if spec.holds(id) => {
            Some(PastEvent::Failed(FailedRun { id, reason: reason.into() }, seconds))
        }
        _ => None,
    });
    held.collect()
}

pub(crate) fn runs(past: &[PastEvent]) -> impl Iterator<Item = &RunEvent> {
    past.iter().filter_map(|one| match one {
        PastEvent::Run(run) => Some(run),
        _ => None,
    })
}

pub(crate) fn failed(past: &[PastEvent]) -> Vec<FailedRun> {
    let mut failed: BTreeMap<RunId, &FailedRun> = BTreeMap::new();
    for one in past {
        match one {
            PastEvent::Failed(run, _) => {
                failed.insert(run.id, run);
            }
            PastEvent::Run(run) => {
                failed.remove(&run.id);
            }
            PastEvent::Look(_) => {}
        }
    }
    failed.into_values().cloned().collect()
}
