//! The course of a run: its specification, and where it was given new limits.

use super::events::Replanned;
use super::spec::{AgeSpec, Limits};
use senesce_aging::{Interleaved, Planner};
use senesce_core::Failure;
use senesce_core::record::Event;
use serde::{Deserialize, Serialize};

/// A specification with the new limits of later parts of the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Course {
    /// What was asked first.
    pub spec: AgeSpec,
    /// Later limits, in order.
    pub replans: Vec<Replanned>,
}

impl Course {
    /// A course without later limits.
    pub fn new(spec: AgeSpec) -> Self {
        Self { spec, replans: Vec::new() }
    }

    /// The course that the events of a run tell: the last specification and the limits after it.
    pub fn of(events: &[Event]) -> Option<Self> {
        let at = events.iter().rposition(|event| event.kind == "spec")?;
        let spec = AgeSpec::deserialize(&events[at].data).ok()?;
        let later = events[at..].iter().filter(|event| event.kind == "replanned");
        Some(Self { spec, replans: later.filter_map(|event| Replanned::deserialize(&event.data).ok()).collect() })
    }

    /// The limits that hold now.
    pub fn limits(&self) -> &Limits {
        self.replans.last().map_or(&self.spec.limits, |replan| &replan.limits)
    }

    /// A planner of the present plan of one part that has done what was done before the last new limits.
    pub fn planner(&self, part: u32) -> Result<Planner, Failure> {
        let parts = self.spec.parts;
        let mut planner = self.spec.planner(part)?;
        for replan in &self.replans {
            planner.skip_to(Interleaved::operations_of(part, parts, replan.operation));
            let reached = planner.clone();
            planner = replan.limits.plan(parts, &|limit| reached.replan(limit))?;
        }
        Ok(planner)
    }

    /// A planner of one part that has done what lies below a position of all parts.
    pub fn planner_at(&self, part: u32, position: u64) -> Result<Planner, Failure> {
        let mut planner = self.planner(part)?;
        planner.skip_to(Interleaved::operations_of(part, self.spec.parts, position));
        Ok(planner)
    }
}
