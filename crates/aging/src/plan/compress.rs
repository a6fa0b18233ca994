//! Compression: each age class is executed in part, and the ages stay exact in virtual time.
//!
//! An age class needs only enough operations for a stationary layout, and as many creates as it has survivors. The repetition
//! in between is omitted: the plan represents more operations than it executes, and a file is as old as the operation that its
//! birth represents. The churn after which a layout is stationary is measured (`reproduce compressed-aging`), not predicted.

use super::build::fill_share;
use super::schedule::{AgeBin, Span, first_birth};
use super::{Limit, PlanSpec};
use crate::error::AgingError;
use serde::{Deserialize, Serialize};

/// The executed share of each age class.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Compression {
    /// Maximum number of times that the live files are replaced in each age class; at least the files of the class that stay.
    pub turnovers: f64,
}

impl Compression {
    /// Limits the pairs of each span, where `stay` files of the span's class stay.
    pub(super) fn shorten(&self, spans: &mut [Span], stay: &[u64], files: u64) -> Result<(), AgingError> {
        let ceiling = self.turnovers * files as f64;
        if !(ceiling >= 1.0 && ceiling.is_finite()) {
            let words = format!("{} turnovers for each age class are out of range for {files} files", self.turnovers);
            return Err(AgingError::Plan(words));
        }
        for (span, stay) in spans.iter_mut().zip(stay) {
            let needed = stay - fill_share(*stay, span);
            let enough = needed.max(ceiling as u64);
            if span.played > enough {
                span.played = enough;
                // Births are assigned by the executed start of their class, which rounding does not move.
                span.leading_deletes = 0;
            }
        }
        Ok(())
    }
}

/// Refuses a compressed plan with an end other than the bound, where its ages are exact.
pub(super) fn check(spec: &PlanSpec) -> Result<(), AgingError> {
    if spec.compression.is_some() && !spec.profile.changes.is_empty() {
        return Err(AgingError::Plan(format!(
            "--compress: an equal layout is not proven for compressed agings with changes; remove the changes \
             from profile {}, or execute it in full",
            spec.profile.name
        )));
    }
    match (spec.compression, spec.limit) {
        (None, _) | (Some(_), Limit::Bound) => Ok(()),
        _ => Err(AgingError::Plan("--compress executes the plan to its end: use it or a limit".into())),
    }
}

/// Maps executed operations to the operations that they represent.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Timeline {
    /// Starts of stretches, ascending: executed and represented operations, linear in between; the last point is the end of the
    /// plan.
    points: Vec<(u64, u64)>,
    classes: Vec<u64>,
}

impl Timeline {
    pub(crate) fn even(operations: u64) -> Self {
        Self { points: vec![(0, 0), (operations, operations)], classes: Vec::new() }
    }

    pub(crate) fn new(spans: &[Span], operations: u64) -> Self {
        if spans.iter().all(|span| span.played == span.pairs) {
            return Self::even(operations);
        }
        let (mut points, mut played) = (Vec::with_capacity(spans.len() + 1), 0);
        for span in spans {
            points.push((played, span.start));
            played += span.fill + 2 * span.played;
        }
        let classes = points.iter().map(|(played, _)| *played).collect();
        points.push((played, operations));
        Self { points, classes }
    }

    pub(crate) fn played(&self) -> u64 {
        self.points.last().map_or(0, |(played, _)| *played)
    }

    pub(crate) fn operations_represented(&self) -> u64 {
        self.points.last().map_or(0, |(_, operations)| *operations)
    }

    /// Returns the first birth of each age bin (oldest first) when `played` operations are executed.
    pub(crate) fn starts(&self, bins: &[AgeBin], played: u64) -> Vec<u64> {
        if self.classes.is_empty() {
            return bins.iter().map(|bin| first_birth(bin.begin, played)).collect();
        }
        if played >= self.played() {
            return self.classes.clone();
        }
        let now = between(&self.points, played, |point| *point);
        bins.iter()
            .map(|bin| between(&self.points, first_birth(bin.begin, now), |(played, all)| (*all, *played)))
            .collect()
    }
}

/// Maps a position between stretches linearly; `sides` returns the known side first.
fn between(points: &[(u64, u64)], place: u64, sides: impl Fn(&(u64, u64)) -> (u64, u64)) -> u64 {
    let after = points.partition_point(|point| sides(point).0 <= place).clamp(1, points.len() - 1);
    let ((from, there), (to, end)) = (sides(&points[after - 1]), sides(&points[after]));
    let (way, length) = (u128::from(place.saturating_sub(from)), u128::from((to - from).max(1)));
    there + (u128::from(end - there) * way / length) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::AgingPlan;
    use crate::plan::Truncate;
    use crate::profile::Profile;
    use proptest::prelude::*;
    use senesce_core::{Bytes, Seed};
    use std::sync::Arc;

    fn plan(profile: &str, mib: u64, turnovers: Option<f64>) -> Arc<AgingPlan> {
        let profile = Profile::builtin(profile).unwrap();
        let base = PlanSpec::new(profile, Bytes::mib(mib), Seed(3));
        let compression = turnovers.map(|turnovers| Compression { turnovers });
        Arc::new(AgingPlan::new(&PlanSpec { truncate: Truncate::Drop, compression, ..base }).unwrap())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn ages_sizes_and_depths_stay_exact_in_virtual_time(
            profile in prop::sample::select(vec!["agrawal", "wang_os", "wang_lanl", "meyer", "grundman"]),
            turnovers in 0.05f64..6.0,
        ) {
            let (full, short) = (plan(profile, 200, None), plan(profile, 200, Some(turnovers)));
            let (whole, part) = (full.summary(), short.summary());
            prop_assert_eq!(part.virtual_t, whole.t_end);
            prop_assert!(part.t_end <= whole.t_end && !part.below_bound);
            let mut planner = short.operations();
            let middle = short.len() / 2;
            planner.skip_to(middle);
            prop_assert_eq!(planner.tally().ages.iter().sum::<u64>(), planner.files_live());
            planner.skip_to(short.len());
            prop_assert_eq!(planner.operations_done(), part.t_end);
            let (measures, bound) = (planner.measures(), part.rounding_bound());
            prop_assert!(measures.rmse.age <= bound && measures.rmse.size <= bound && measures.rmse.depth <= bound);
            let mut all = full.operations();
            all.skip_to(full.len());
            prop_assert_eq!(measures.ages.files, all.measures().ages.files);
        }
    }

    #[test]
    fn no_class_exceeds_the_maximum_or_has_fewer_than_its_survivors() {
        let short = plan("agrawal", 400, Some(2.0));
        let ceiling = 2 * short.fill;
        for segment in &short.segments {
            let pairs: u64 = segment.deletes.iter().sum();
            let stay: u64 = segment.stay.iter().sum();
            assert!(pairs <= ceiling.max(stay), "{pairs} pairs for {stay}");
        }
        assert!(short.summary().saved_factor() > 4.0);
        let long = plan("agrawal", 400, Some(1e6));
        assert_eq!(long.summary().saved_factor(), 1.0);
        assert_eq!(long.segments, plan("agrawal", 400, None).segments);
    }

    #[test]
    fn limits_and_invalid_numbers_are_refused() {
        let spec = |turnovers, limit| PlanSpec {
            limit,
            compression: Some(Compression { turnovers }),
            ..PlanSpec::new(Profile::builtin("agrawal").unwrap(), Bytes::mib(100), Seed(1))
        };
        let refused = |turnovers, limit| {
            AgingPlan::new(&PlanSpec { truncate: Truncate::Drop, ..spec(turnovers, limit) }).unwrap_err().to_string()
        };
        assert!(refused(4.0, Limit::Overwrites(3.0)).contains("--compress"));
        for turnovers in [0.0, f64::NAN, f64::INFINITY, -1.0] {
            assert!(refused(turnovers, Limit::Bound).contains("turnovers"), "{turnovers}");
        }
        let plan = plan("agrawal", 100, Some(2.0));
        assert!(plan.operations().replan(Limit::Operations(1 << 40)).is_err());
    }

    #[test]
    fn positions_are_mapped_in_both_directions() {
        let points = [(0, 0), (10, 10), (20, 110), (30, 120)];
        for (played, all) in [(0, 0), (10, 10), (15, 60), (25, 115), (30, 120)] {
            assert_eq!(between(&points, played, |point| *point), all);
            assert_eq!(between(&points, all, |(played, all)| (*all, *played)), played);
        }
    }
}
