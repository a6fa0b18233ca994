//! Follows a plan: the distance of its histograms from the profile, and when its ages are met.

use super::AgeConvergence;
use senesce_aging::measure::Rmse;
use senesce_aging::{AgingPlan, Limit, PlanSpec, Planner};
use senesce_core::Failure;
use senesce_runner::Context;
use std::sync::Arc;

#[derive(Debug, Clone, Copy)]
pub(crate) struct PlanProgress {
    pub operations: u64,
    pub overwrites: f64,
    pub rmse: Rmse,
}

impl PlanProgress {
    pub(crate) fn of(planner: &Planner) -> Self {
        let rmse = planner.measures().rmse;
        Self { operations: planner.operations_done(), overwrites: planner.overwrites(), rmse }
    }
}

pub(crate) fn maximum_error(way: &[PlanProgress], error: fn(&Rmse) -> f64) -> f64 {
    way.iter().map(|point| error(&point.rmse)).fold(0.0, f64::max)
}

/// Number of longer plans to try if the ages are not met at the end; the longest is twice as long.
const LONGER_PLANS: u64 = 10;

/// Operations after which the ages are first as close to the profile as whole files allow. If that never happens, the
/// operations of the first longer plan that ends so, or twice those of the plan.
pub(crate) fn operations_until_met(
    plan: &AgingPlan,
    way: &[PlanProgress],
    context: &Context<'_, AgeConvergence>,
) -> Result<u64, Failure> {
    let bound = plan.summary().rounding_bound() + 1e-12;
    let mut operations = plan.len();
    if let Some(met) = first_met(way, bound) {
        return Ok(met);
    }
    for longer in 1..=LONGER_PLANS {
        context.check_interrupt()?;
        operations = plan.len() + plan.len() * longer / LONGER_PLANS;
        let spec = PlanSpec { limit: Limit::Operations(operations), ..plan.spec().clone() };
        let mut planner = Arc::new(AgingPlan::new(&spec)?).operations();
        planner.skip_to(u64::MAX);
        if planner.measures().rmse.age <= bound {
            break;
        }
    }
    Ok(operations)
}

fn first_met(way: &[PlanProgress], bound: f64) -> Option<u64> {
    way.iter().find(|point| point.rmse.age <= bound).map(|point| point.operations)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_match_and_maximum_error_count() {
        let point =
            |operations, age, depth| PlanProgress { operations, overwrites: 0.0, rmse: Rmse { age, size: 0.0, depth } };
        let way = [point(100, 0.3, 0.0), point(200, 0.01, 0.002), point(300, 0.02, 0.001), point(400, 0.0, 0.0)];
        assert_eq!(first_met(&way, 0.01), Some(200));
        assert_eq!(first_met(&way, 0.001), Some(400));
        assert_eq!(first_met(&way[..3], 0.001), None);
        assert_eq!(maximum_error(&way, |rmse| rmse.depth), 0.002);
    }
}
