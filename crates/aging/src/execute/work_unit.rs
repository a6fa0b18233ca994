//! The unit of progress.

use super::Data;
use crate::plan::Summary;
use senesce_core::Bytes;

/// The unit in which the progress of an execution follows its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkUnit {
    /// Number of operations in all.
    Operations(u64),
    /// If files are written, their bytes: the deletes after the fill, half of its operations, take little time.
    Written { capacity: Bytes, created: Bytes },
}

const MIB: f64 = (1 << 20) as f64;

impl WorkUnit {
    /// Returns the unit for a plan of `operations`.
    pub fn of(data: Data, plan: &Summary, operations: u64) -> Self {
        match data {
            Data::Write => Self::Written { capacity: plan.capacity, created: plan.bytes_created },
            Data::Fallocate | Data::Sparse => Self::Operations(operations),
        }
    }

    /// Returns the number of units in all, and their name.
    pub fn total(self) -> (u64, &'static str) {
        match self {
            Self::Operations(operations) => (operations, "operations"),
            Self::Written { created, .. } => ((created.0 as f64 / MIB).ceil() as u64, "MiB"),
        }
    }

    /// Returns the number of units that are done after some operations, which created `overwrites` times the capacity.
    pub fn done(self, operations: u64, overwrites: f64) -> u64 {
        match self {
            Self::Operations(_) => operations,
            Self::Written { capacity, .. } => ((overwrites * capacity.0 as f64 / MIB) as u64).min(self.total().0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AgingPlan, Limit, PlanSpec, Profile};
    use senesce_core::Seed;
    use std::sync::Arc;

    #[test]
    fn share_of_the_fill_is_that_of_written_bytes() {
        let profile = Profile::builtin("agrawal").unwrap();
        let spec = PlanSpec { limit: Limit::Overwrites(4.0), ..PlanSpec::new(profile, Bytes::gib(1), Seed(1)) };
        let plan = Arc::new(AgingPlan::new(&spec).unwrap());
        let mut planner = plan.operations();
        planner.skip_to(plan.summary().files);
        let share = |data| {
            let unit = WorkUnit::of(data, plan.summary(), plan.len());
            unit.done(planner.operations_done(), planner.overwrites()) as f64 / unit.total().0 as f64
        };
        let written = planner.fullness() / plan.summary().overwrites;
        assert!((share(Data::Write) - written).abs() < 0.01, "{} is not {written}", share(Data::Write));
        assert!(written > 1.5 * share(Data::Sparse), "operations would overestimate the time left");
        planner.skip_to(plan.len());
        let unit = WorkUnit::of(Data::Write, plan.summary(), plan.len());
        let (done, total) = (unit.done(plan.len(), planner.overwrites()), unit.total().0);
        assert!(done <= total && done as f64 > 0.98 * total as f64, "{done} of {total}");
    }
}
