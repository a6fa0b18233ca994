//! Compression: each age class is played in part, and the ages stay exact in virtual time.
//!
//! A class of age needs no more operations than bring its layout to rest, and as many creates as it has survivors. What is left
//! out is the repetition in between: the plan stands for more operations than it plays, and a file is as old as the operation
//! that its birth stands for. How much churn brings a file system to rest is measured (`reproduce compressed-aging`), not known
//! beforehand.

use super::build::fill_share;
use super::schedule::{AgeBin, Span, first_birth};
use super::{Limit, PlanSpec};
use crate::error::AgingError;
use serde::{Deserialize, Serialize};

/// How much of each age class is played.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Compression {
    /// At most this many times the live files are replaced in each age class; never less than the files of the class that stay.
    pub turnovers: f64,
}

impl Compression {
    /// Shortens the pairs of each span to the same ceiling, where `stay` files of the span's class stay.
    pub(super) fn shorten(&self, spans: &mut [Span], stay: &[u64], files: u64) -> Result<(), AgingError> {
        let ceiling = self.turnovers * files as f64;
        if !(ceiling >= 1.0 && ceiling.is_finite()) {
            let words =
                format!("{} turnovers of {files} files for each age class are no number of them", self.turnovers);
            return Err(AgingError::Plan(words));
        }
        for (span, stay) in spans.iter_mut().zip(stay) {
            let needed = stay - fill_share(*stay, span);
            let enough = needed.max(ceiling as u64);
            if span.played > enough {
                span.played = enough;
                // Births are told apart by where their class begins in what is played, which no rounding has moved.
                span.leading_deletes = 0;
            }
        }
        Ok(())
    }
}

/// Refuses a compressed plan that is to end elsewhere than where its ages are exact.
pub(super) fn check(spec: &PlanSpec) -> Result<(), AgingError> {
    if spec.compression.is_some() && !spec.profile.changes.is_empty() {
        return Err(AgingError::Plan(format!(
            "--compress: that a compressed aging leaves an equal layout is not measured with changes; take the changes out of profile \
             {}, or play it in full",
            spec.profile.name
        )));
    }
    match (spec.compression, spec.limit) {
        (None, _) | (Some(_), Limit::Bound) => Ok(()),
        _ => Err(AgingError::Plan("--compress plays to the end of the plan: take it or a limit".into())),
    }
}

/// Where the operations that are played lie among those that they stand for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Timeline {
    /// Beginnings of stretches, ascending: operations played and operations stood for. Between two the one goes evenly with the
    /// other; the last is the end of the plan.
    points: Vec<(u64, u64)>,
    /// First operation played of each age class, oldest first; none where all is played.
    classes: Vec<u64>,
}

impl Timeline {
    /// All of `operations` are played.
    pub fn even(operations: u64) -> Self {
        Self { points: vec![(0, 0), (operations, operations)], classes: Vec::new() }
    }

    /// That of spans which stand for `operations`.
    pub fn new(spans: &[Span], operations: u64) -> Self {
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

    pub fn played(&self) -> u64 {
        self.points.last().map_or(0, |(played, _)| *played)
    }

    pub fn stood_for(&self) -> u64 {
        self.points.last().map_or(0, |(_, operations)| *operations)
    }

    /// First birth of each age bin (oldest first) when so many operations are played.
    pub fn starts(&self, bins: &[AgeBin], played: u64) -> Vec<u64> {
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

/// The other side of a place in stretches that go evenly; `sides` puts the known side first.
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
    fn no_class_is_played_beyond_the_ceiling_or_below_its_survivors() {
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
    fn a_limit_or_no_number_is_refused() {
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
    fn places_are_found_on_both_sides() {
        let points = [(0, 0), (10, 10), (20, 110), (30, 120)];
        for (played, all) in [(0, 0), (10, 10), (15, 60), (25, 115), (30, 120)] {
            assert_eq!(between(&points, played, |point| *point), all);
            assert_eq!(between(&points, all, |(played, all)| (*all, *played)), played);
        }
    }
}
