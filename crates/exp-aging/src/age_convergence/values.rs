//! Values for the claims about convergence.

use super::{ExecutedProfile, Pace, PlayedOut};
use senesce_aging::plan::BLOCK;
use senesce_aging::profile::AgeRow;
use senesce_aging::{AgingPlan, Data};
use senesce_core::analysis::Better;
use senesce_core::{Bytes, Finite, Measurement};

pub(crate) fn allowance(plan: &AgingPlan) -> f64 {
    let summary = plan.summary();
    let cut = summary.truncated.iter().map(|truncated| truncated.bytes).chain(summary.empty_sizes.iter().copied());
    let cut: Vec<Bytes> = cut.collect();
    let live = plan.spec().profile.sizes.iter().filter(|row| row.weight > 0.0 && !cut.contains(&row.bytes));
    let largest = live.map(|row| row.bytes.round_up(BLOCK).0).max().unwrap_or(0);
    (largest as f64 / plan.spec().capacity.0 as f64).max(0.01)
}

pub(crate) fn measurements(planned: &PlayedOut) -> Vec<Measurement> {
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
    let others = [
        ("size", "fill", planned.rmse_size_fill),
        ("depth", "fill", planned.rmse_depth_fill),
        ("size", "throughout", planned.rmse_size_greatest),
        ("depth", "throughout", planned.rmse_depth_greatest),
    ];
    for (histogram, phase, error) in others {
        if let Some(error) = error {
            add("RMSE", "%", &[("histogram", histogram), ("phase", phase)], error * 100.0);
        }
    }
    let (files, worst) = (planned.files as f64, errors.iter().map(|(_, error)| *error).fold(0.0, f64::max));
    add("error over rounding", "", &[], worst * files / 0.5);
    if let Some(least) =
        super::named(&planned.profile).ok().and_then(|profile| smallest_error(&profile.ages, planned.files))
    {
        add("RMSE by rounding", "%", &[("histogram", "age")], least * 100.0);
    }
    add("operations", "", &[], planned.t_end as f64);
    if let Some(met) = planned.ages_met {
        add("operations until the ages are met", "", &[], met as f64);
    }
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

/// Returns the minimum error of the ages with this number of files: the largest remainders are rounded up.
fn smallest_error(ages: &[AgeRow], files: u64) -> Option<f64> {
    let total: f64 = ages.iter().map(|row| row.weight).sum();
    if files == 0 || total <= 0.0 {
        return None;
    }
    let exact: Vec<f64> = ages.iter().map(|row| row.weight / total * files as f64).collect();
    let mut remainders: Vec<f64> = exact.iter().map(|count| count.fract()).collect();
    remainders.sort_by(|a, b| b.total_cmp(a));
    let up = remainders.iter().sum::<f64>().round() as usize;
    let squares =
        remainders.iter().enumerate().map(|(at, part)| if at < up { (1.0 - part).powi(2) } else { part.powi(2) });
    Some((squares.sum::<f64>() / ages.len() as f64).sqrt() / files as f64)
}

/// The rate of a short aging, which is repeated on each file system.
pub(crate) const RATE: &str = "aging rate";

/// The rate of a profile that is executed once in full, at another size.
pub(crate) const RATE_IN_FULL: &str = "aging rate in full";

/// Returns the rate of an execution in memory, as [`RATE`] or [`RATE_IN_FULL`], because both may use one profile.
pub(crate) fn rate(metric: &str, executed: &ExecutedProfile, pace: &Pace) -> Option<Measurement> {
    let rate = Finite::per(executed.operations as f64, executed.seconds).ok()?;
    let one = Measurement::new(metric, "operations/s", Better::Higher, rate.get()).ok()?;
    let data = if pace.data == Data::Write { "write" } else { "fallocate" };
    let conditions = [("fs", pace.fs.name()), ("data", data), ("medium", "memory"), ("profile", &*executed.profile)];
    let one = conditions.into_iter().fold(one, |one, (name, word)| one.under(name, word));
    let threads = format!("{}{}", pace.threads, if pace.again { " again" } else { "" });
    Some(Measurement { repetition: pace.repeat, ..one.under("threads", threads) })
}

#[cfg(test)]
mod tests {
    use super::super::AgeConvergence;
    use super::*;
    use senesce_claims::{ClaimSet, Facts, decide};
    use senesce_core::{Finding, Level, Verdict};
    use senesce_runner::Run;

    fn planned() -> PlayedOut {
        PlayedOut {
            profile: "agrawal".into(),
            files: 7000,
            t_bound: 500_000.0,
            t_end: 500_100,
            overwrites: 31.0,
            overwrites_churn_by_bins: None,
            overwrites_as_the_tool: None,
            truncated_bins: 0,
            operations_that_differ: 0,
            rmse_age: 4e-5,
            rmse_size: 6e-5,
            rmse_depth: 4e-5,
            rmse_size_fill: Some(6e-5),
            rmse_depth_fill: Some(4e-5),
            rmse_size_greatest: Some(9e-5),
            rmse_depth_greatest: Some(9e-5),
            ages_met: Some(500_100),
            created_size_tv: 0.0,
            fullness_error: 0.01,
            fullness_allowance: 0.01,
            fullness_min: 0.79,
            fullness_max: 0.8,
            plan_cpu_seconds: 0.02,
            course: Vec::new(),
        }
    }

    const PUBLISHED_PROFILES: [&str; 5] = ["agrawal", "meyer", "douceur", "wang_os", "wang_lanl"];

    fn finding(claim: &str, planned: &[PlayedOut]) -> Finding {
        let set = ClaimSet::parse(AgeConvergence::CLAIMS, AgeConvergence::PUBLISHED).unwrap();
        let values: Vec<Measurement> = planned.iter().flat_map(measurements).collect();
        let findings = decide(&set, &values, &Facts::of(Level::Quick));
        findings.into_iter().find(|finding| finding.id == claim).unwrap()
    }

    /// Returns the verdict if every published profile has this result.
    fn verdict(claim: &str, planned: &PlayedOut) -> Verdict {
        let of = |name: &str| PlayedOut { profile: name.into(), ..planned.clone() };
        finding(claim, &PUBLISHED_PROFILES.map(of)).verdict
    }

    #[test]
    fn smallest_error_is_that_of_the_best_rounding() {
        let ages = [3.0, 3.0, 4.0].map(|weight| AgeRow { edge: 1.0, weight });
        // 5 files: 1.5, 1.5 and 2 become 2, 1 and 2.
        let error = smallest_error(&ages, 5).unwrap();
        assert!((error - (0.5f64 / 3.0).sqrt() / 5.0).abs() < 1e-12, "{error}");
        assert_eq!(smallest_error(&ages, 10), Some(0.0));
        assert_eq!(smallest_error(&ages, 0), None);
    }

    /// Uses a published error that is smaller than whole files of Meyer allow at 1 GB.
    #[test]
    fn error_below_rounding_is_impossible_and_not_refuted() {
        let with = |files| {
            let one = |name: &str| PlayedOut { profile: name.into(), files, rmse_age: 3e-4, ..planned() };
            finding("rmse", &PUBLISHED_PROFILES.map(one))
        };
        let few = with(700);
        assert_eq!(few.verdict, Verdict::NotTestable, "{few:?}");
        assert!(few.reason.starts_with("impossible as stated") && few.note.contains("meyer"), "{few:?}");
        assert_eq!(with(1_000_000).verdict, Verdict::NotSupported);
    }

    #[test]
    fn ages_met_before_or_after_the_bound_contradict_it() {
        let claim = "converges-at-the-bound";
        assert_eq!(verdict(claim, &planned()), Verdict::Supported);
        assert_eq!(verdict(claim, &PlayedOut { ages_met: Some(550_110), ..planned() }), Verdict::NotSupported);
        assert_eq!(verdict(claim, &PlayedOut { ages_met: Some(400_000), ..planned() }), Verdict::NotSupported);
        let uniform = PlayedOut { profile: "uniform".into(), ages_met: Some(400_000), ..planned() };
        let published = PUBLISHED_PROFILES.map(|name| PlayedOut { profile: name.into(), ..planned() });
        assert_eq!(finding(claim, &[&published[..], &[uniform]].concat()).verdict, Verdict::Supported);
        assert_eq!(finding(claim, &published[..4]).verdict, Verdict::Undecided, "all five are needed");
    }

    #[test]
    fn size_and_depth_errors_count_throughout_the_plan() {
        let claim = "sizes-and-depths-follow";
        assert_eq!(verdict(claim, &planned()), Verdict::Supported);
        for (error, wanted) in [(0.00253, Verdict::Undecided), (0.02, Verdict::NotSupported)] {
            assert_eq!(verdict(claim, &PlayedOut { rmse_depth_greatest: Some(error), ..planned() }), wanted);
            assert_eq!(verdict(claim, &PlayedOut { rmse_size_greatest: Some(error), ..planned() }), wanted);
        }
    }

    #[test]
    fn values_missing_in_earlier_records_have_no_measurement() {
        let mut event = serde_json::to_value(planned()).unwrap();
        let stated = event.as_object_mut().unwrap();
        for name in ["rmse_size_fill", "rmse_depth_fill", "rmse_size_greatest", "rmse_depth_greatest", "ages_met"] {
            assert!(stated.remove(name).is_some(), "{name}");
        }
        let earlier: PlayedOut = serde_json::from_value(event).unwrap();
        assert_eq!((earlier.ages_met, earlier.rmse_size_greatest), (None, None));
        let found = measurements(&earlier);
        let is_of_the_way = |one: &Measurement| {
            one.metric == "operations until the ages are met"
                || one.condition.get("phase").is_some_and(|phase| phase != "end")
        };
        assert!(!found.iter().any(is_of_the_way));
        assert_eq!(measurements(&planned()).iter().filter(|one| is_of_the_way(one)).count(), 5);
        let table = super::super::table(&[earlier], &[]);
        assert_eq!(table.rows[0][9..11], [serde_json::Value::Null, serde_json::Value::Null]);
    }

    #[test]
    fn fill_has_an_error_for_each_histogram() {
        let found = measurements(&PlayedOut { rmse_size_fill: Some(0.001), rmse_depth_fill: Some(0.0), ..planned() });
        let of = |histogram: &str| {
            let is = |one: &&Measurement| one.condition.get("phase").is_some_and(|phase| phase == "fill");
            found.iter().filter(is).find(|one| one.condition["histogram"] == histogram).unwrap().value.get()
        };
        assert_eq!((of("size"), of("depth")), (0.1, 0.0));
    }
}
