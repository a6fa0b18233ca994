//! The specification of a run and its later limits.

use super::events::{Event, Replanned};
use super::spec::{AgeSpec, Limits};
use senesce_aging::{Interleaved, Planner};
use senesce_core::Failure;
use serde::{Deserialize, Serialize};

/// A specification with the new limits of later parts of the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExtendedSpec {
    /// Specification at the start.
    pub spec: AgeSpec,
    /// Later limits, in order.
    pub replans: Vec<Replanned>,
}

impl ExtendedSpec {
    pub(crate) fn new(spec: AgeSpec) -> Self {
        Self { spec, replans: Vec::new() }
    }

    /// Returns the course of a run of `spec` after these events: the last specification and the limits after it, with
    /// the path of its target.
    pub(crate) fn of<'a>(spec: &AgeSpec, events: impl Iterator<Item = &'a Event>) -> Self {
        let mut course = Self::new(spec.clone());
        for event in events {
            match event {
                Event::Spec(spec) => course = Self::new((**spec).clone()),
                Event::Replanned(replanned) => course.replans.push(replanned.clone()),
                Event::TimeLimit(limit) => course.limits_mut().max_seconds = limit.max_seconds,
                _ => {}
            }
        }
        course.spec.located.clone_from(&spec.located);
        course
    }

    pub(crate) fn limits(&self) -> &Limits {
        self.replans.last().map_or(&self.spec.limits, |replan| &replan.limits)
    }

    fn limits_mut(&mut self) -> &mut Limits {
        match self.replans.last_mut() {
            Some(replan) => &mut replan.limits,
            None => &mut self.spec.limits,
        }
    }

    /// Returns whether both have the same plan. A time limit only ends its execution, so it is ignored, as is the path of
    /// the target.
    pub(crate) fn plans_as(&self, other: &Self) -> bool {
        self.without_time() == other.without_time()
    }

    fn without_time(&self) -> Self {
        let replan = |replan: &Replanned| Replanned { limits: replan.limits.without_time(), ..*replan };
        let spec = AgeSpec { limits: self.spec.limits.without_time(), located: None, ..self.spec.clone() };
        Self { spec, replans: self.replans.iter().map(replan).collect() }
    }

    pub(crate) fn planner(&self, part: u32) -> Result<Planner, Failure> {
        let parts = self.spec.parts;
        let mut planner = self.spec.planner(part)?;
        for replan in &self.replans {
            planner.skip_to(Interleaved::operations_of(part, parts, replan.operation));
            let reached = planner.clone();
            planner = replan.limits.plan(parts, &|limit| reached.replan(limit))?;
        }
        Ok(planner)
    }

    pub(crate) fn planner_at(&self, part: u32, position: u64) -> Result<Planner, Failure> {
        let mut planner = self.planner(part)?;
        planner.skip_to(Interleaved::operations_of(part, self.spec.parts, position));
        Ok(planner)
    }
}
