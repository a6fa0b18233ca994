//! Tests the steps of docs/aging-theory.md.

use proptest::prelude::*;
use senesce_aging::profile::{AgeRow, DepthRow, SizeRow};
use senesce_aging::{AgingPlan, Clock, Compression, Limit, OperationKind, PlanSpec, Profile};
use senesce_core::{Bytes, Seed};
use std::sync::Arc;

fn profiles() -> impl Strategy<Value = Profile> {
    let ages = prop::collection::vec((0.05f64..1.0, 0.02f64..1.0), 1..7);
    let sizes = prop::collection::vec(0.1f64..1.0, 1..4);
    (ages, sizes).prop_map(|(ages, sizes)| {
        let mut edge = 0.0;
        let age = |(width, weight): (f64, f64)| {
            edge += width;
            AgeRow { edge, weight }
        };
        Profile {
            name: "drawn".into(),
            source: "test".into(),
            fullness: None,
            ages: ages.into_iter().map(age).collect(),
            sizes: (0..).zip(sizes).map(|(power, weight)| SizeRow { bytes: Bytes(4096 << power), weight }).collect(),
            depths: vec![DepthRow { depth: 1, weight: 1.0, subdirectories: 3 }],
            locality: None,
            name_bytes: None,
            burst: None,
            changes: Vec::new(),
        }
    })
}

fn spec(profile: &Profile) -> PlanSpec {
    PlanSpec { fullness: Some(0.7), ..PlanSpec::new(profile.clone(), Bytes::mib(6), Seed(5)) }
}

fn plan(spec: &PlanSpec) -> Arc<AgingPlan> {
    Arc::new(AgingPlan::new(spec).unwrap())
}

/// Live files of each age, size and depth at the end, and the rounding of whole files.
fn end(plan: &Arc<AgingPlan>) -> ([Vec<u64>; 3], f64) {
    let mut planner = plan.operations();
    planner.skip_to(plan.len());
    let measures = planner.measures();
    let rmse = measures.rmse;
    ([measures.ages.files, measures.sizes.files, measures.depths.files], rmse.age.max(rmse.size).max(rmse.depth))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn creates_and_deletes_are_equal_after_the_fill(profile in profiles()) {
        let plan = plan(&spec(&profile));
        let fill = plan.summary().files;
        let (mut creates, mut deletes) = (0, 0);
        for (place, operation) in (0..).zip(plan.operations()) {
            match operation.kind {
                OperationKind::Create => creates += 1,
                OperationKind::Delete => deletes += 1,
            }
            prop_assert!(place >= fill || deletes == 0);
        }
        prop_assert_eq!(creates - fill, deletes);
    }

    #[test]
    fn ages_are_exact_at_the_bound(profile in profiles()) {
        let plan = plan(&spec(&profile));
        let (_, worst) = end(&plan);
        prop_assert!(worst <= plan.summary().rounding_bound() + 1e-12, "{} of {}", worst, plan.summary().rounding_bound());
        prop_assert!(plan.summary().t_end as f64 <= 1.02 * plan.summary().t_bound + 2.0);
    }

    #[test]
    fn fewer_operations_do_not_reach_the_ages(profile in profiles(), part in 0.3f64..0.9) {
        let whole = plan(&spec(&profile));
        let (files, bound) = (whole.summary().files, whole.summary().t_bound);
        let fewer = (bound * part) as u64;
        let (last, total) = (profile.ages[profile.ages.len() - 1].edge, profile.ages.iter().map(|row| row.weight).sum::<f64>());
        let left = |index: usize| if index == 0 { 0.0 } else { profile.ages[index - 1].edge };
        let needed = |index: usize| 2.0 * files as f64 * profile.ages[index].weight / total / ((profile.ages[index].edge - left(index)) / last);
        let young = profile.ages.len() - 1;
        let binding = (0..young).max_by(|a, b| needed(*a).total_cmp(&needed(*b)));
        let oldest = 1.0 - left(young) / last;
        // The bound comes from a younger bin, the fill stays in the oldest, and a tenth of the bin's files are more than
        // rounding.
        prop_assume!(binding.is_some_and(|bin| needed(bin) >= bound * 0.999 && profile.ages[bin].weight / total * files as f64 > 20.0));
        prop_assume!(fewer as f64 * oldest > files as f64);
        let short = plan(&PlanSpec { limit: Limit::Operations(fewer), ..spec(&profile) });
        let (ages, _) = end(&short);
        let off = profile.ages.iter().zip(&ages[0]).map(|(row, count)| (row.weight / total * files as f64 - *count as f64).abs());
        prop_assert!(off.fold(0.0, f64::max) >= 1.0, "{fewer} of {bound} operations reach {ages:?}");
    }

    #[test]
    fn commits_bound_freed_bytes(profile in profiles(), percent in 2.0f64..60.0) {
        let clock = Clock { commit_share: format!("{percent}%").parse().unwrap(), sync_every: 0 };
        let spec = PlanSpec { clock, ..spec(&profile) };
        let plan = plan(&spec);
        let between = clock.bytes_between(spec.capacity, 0.7).unwrap().0;
        let (mut planner, mut freed, mut largest) = (plan.operations(), 0, 0);
        while let Some(operation) = planner.next() {
            let bytes = operation.file.size.next_multiple_of(4096);
            largest = largest.max(bytes);
            freed += if operation.kind == OperationKind::Delete { bytes } else { 0 };
            prop_assert!(freed <= between + largest);
            freed = if planner.commit_follows() { 0 } else { freed };
        }
    }

    #[test]
    fn compression_keeps_the_profile(profile in profiles(), turnovers in 0.1f64..3.0) {
        let full = plan(&spec(&profile));
        let short = plan(&PlanSpec { compression: Some(Compression { turnovers }), ..spec(&profile) });
        prop_assert_eq!(short.summary().virtual_t, full.len());
        prop_assert!(short.len() <= full.len());
        let (kept, worst) = end(&short);
        prop_assert_eq!(kept, end(&full).0);
        prop_assert!(worst <= short.summary().rounding_bound() + 1e-12);
    }
}
