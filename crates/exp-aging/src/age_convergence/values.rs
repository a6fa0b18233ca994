//! The values that claims about convergence are decided on.

use super::{Executed, Pace, PlayedOut};
use senesce_aging::plan::BLOCK;
use senesce_aging::{AgingPlan, Data};
use senesce_core::analysis::Better;
use senesce_core::{Bytes, Finite, Measurement};

/// How far fullness may be from its target: 1 %, or the largest file over the size.
pub fn allowance(plan: &AgingPlan) -> f64 {
    let summary = plan.summary();
    let cut = summary.truncated.iter().map(|truncated| truncated.bytes).chain(summary.empty_sizes.iter().copied());
    let cut: Vec<Bytes> = cut.collect();
    let live = plan.spec().profile.sizes.iter().filter(|row| row.weight > 0.0 && !cut.contains(&row.bytes));
    let largest = live.map(|row| row.bytes.round_up(BLOCK).0).max().unwrap_or(0);
    (largest as f64 / plan.spec().capacity.0 as f64).max(0.01)
}

/// The values that claims are decided on.
pub fn measurements(planned: &PlayedOut) -> Vec<Measurement> {
    let mut found = Vec::new();
    let mut add = |metric: &str, unit: &str, conditions: &[(&str, &str)], value: f64| {
        let under = |one: Measurement, (name, word): &(&str, &str)| one.under(name, *word);
        let one = Measurement::new(metric, unit, Better::Lower, value).ok();
        found.extend(one.map(|one| conditions.iter().fold(one.under("profile", &*planned.profile), under)));
    };
    add("overwrites until convergence", "", &[("churn", "profile")], planned.overwrites);
    if let Some(bins) = planned.overwrites_churn_by_bins {
        add("overwrites until convergence", "", &[("churn", "bins")], bins);
    }
    if let Some(tool) = planned.overwrites_as_the_tool {
        add("overwrites at the size and fullness of the tool", "", &[("churn", "bins")], tool);
    }
    add("operations that differ", "", &[], planned.operations_that_differ as f64);
    let errors = [("age", planned.rmse_age), ("size", planned.rmse_size), ("depth", planned.rmse_depth)];
    for (histogram, error) in errors {
        add("RMSE", "%", &[("histogram", histogram), ("phase", "end")], error * 100.0);
    }
    for histogram in ["size", "depth"] {
        add("RMSE", "%", &[("histogram", histogram), ("phase", "fill")], planned.rmse_fill * 100.0);
    }
    let (files, worst) = (planned.files as f64, errors.iter().map(|(_, error)| *error).fold(0.0, f64::max));
    add("error over rounding", "", &[], worst * files / 0.5);
    add("operations", "", &[], planned.t_end as f64);
    add("least operations", "", &[], planned.t_bound);
    add("operations per file", "", &[], planned.t_end as f64 / files);
    add("fullness error", "%", &[], planned.fullness_error * 100.0);
    add("fullness error over allowance", "", &[], planned.fullness_error / planned.fullness_allowance);
    if planned.t_end >= 100_000 {
        add("variation of created sizes", "", &[], planned.created_size_tv);
    }
    add("planner rate", "operations/s", &[], planned.t_end as f64 / planned.plan_cpu_seconds.max(1e-9));
    found
}

/// The rate of a short aging, which is repeated on each file system.
pub const RATE: &str = "aging rate";

/// The rate of a profile that is played once in full, at another size.
pub const RATE_IN_FULL: &str = "aging rate in full";

/// How fast a plan was played in memory, as [`RATE`] or [`RATE_IN_FULL`]: both may be of one profile.
pub fn rate(metric: &str, executed: &Executed, pace: &Pace) -> Option<Measurement> {
    let rate = Finite::per(executed.operations as f64, executed.seconds).ok()?;
    let one = Measurement::new(metric, "operations/s", Better::Higher, rate.get()).ok()?;
    let data = if pace.data == Data::Write { "write" } else { "fallocate" };
    let conditions = [("fs", pace.fs.name()), ("data", data), ("medium", "memory"), ("profile", &*executed.profile)];
    let one = conditions.into_iter().fold(one, |one, (name, word)| one.under(name, word));
    Some(Measurement { repetition: pace.repeat, ..one.under("threads", pace.threads.to_string()) })
}
