//! Checks temporal locality only from the stream of operations.

use crate::common::*;
use senesce_aging::plan::PlannedLocality;
use senesce_aging::{AgingPlan, Limit, OperationKind, PlanSpec, Profile, Truncate};
use senesce_core::{Bytes, Seed};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

fn plan(name: &str, locality: Option<f64>, limit: Limit) -> Arc<AgingPlan> {
    let spec = PlanSpec::new(Profile::builtin(name).unwrap(), Bytes::mib(512), Seed(7));
    Arc::new(AgingPlan::new(&PlanSpec { truncate: Truncate::Drop, locality, limit, ..spec }).unwrap())
}

/// Locality of the live files, and the number of files in each directory.
fn watch(plan: &Arc<AgingPlan>) -> (f64, HashMap<u32, u64>) {
    let mut live = BTreeMap::new();
    for operation in plan.operations() {
        match operation.kind {
            OperationKind::Create => live.insert(operation.file.birth, operation.file.directory),
            OperationKind::Delete => live.remove(&operation.file.birth),
        };
    }
    let order: Vec<u32> = live.into_values().collect();
    let mut files: HashMap<u32, u64> = HashMap::new();
    order.iter().for_each(|directory| *files.entry(*directory).or_default() += 1);
    let all = order.len() as f64;
    let chance = files.values().map(|files| (files * (files - 1)) as f64).sum::<f64>() / (all * (all - 1.0));
    let share = order.windows(2).filter(|pair| pair[0] == pair[1]).count() as f64 / (all - 1.0);
    ((share - chance) / (1.0 - chance), files)
}

#[test]
fn locality_of_live_files_matches_the_request() {
    for name in ["agrawal", "meyer", "douceur", "dabre", "grundman", "pramod"] {
        for limit in [Limit::Overwrites(2.0), Limit::Operations(1000)] {
            for asked in [0.0, 0.25, 0.5, 0.75, 1.0] {
                let plan = plan(name, Some(asked), limit);
                let planned = plan.summary().locality.unwrap();
                let (reached, files) = watch(&plan);
                let wanted = asked.min(planned.most);
                // At 0 births are at chance only on average. Near the maximum, a directory that was left early costs a pair. The
                // last directory has no other to go to.
                let rounding = 1.0 / files.len() as f64 + 8.0 / plan.summary().files as f64;
                let tolerance = if asked == 0.0 || wanted > 0.9 * planned.most { 0.03 } else { rounding };
                let note = format!("{name} {limit:?}: asked {asked}, most {}, reached {reached}", planned.most);
                assert!((reached - wanted).abs() <= tolerance, "{note}");
                assert!((ended(&plan).measures().locality.unwrap() - reached).abs() < 1e-9, "{note}");
            }
        }
    }
}

#[test]
fn locality_keeps_histograms_and_spreads_files_evenly() {
    let (without, with) = (plan("agrawal", None, Limit::Bound), plan("agrawal", Some(0.6), Limit::Bound));
    let (plain, local) = (ended(&without).measures(), ended(&with).measures());
    assert_eq!((&plain.ages, &plain.sizes, &plain.depths), (&local.ages, &local.sizes, &local.depths));
    assert_eq!(plain.locality, None);
    let (_, files) = watch(&with);
    for depth in 0..with.directories().levels() {
        let (first, width) = with.directories().level(depth);
        let counts = (first..first + width).map(|directory| files.get(&directory).copied().unwrap_or(0));
        let (least, most) = (counts.clone().min().unwrap(), counts.max().unwrap());
        assert!(most - least <= 1, "depth {depth}: {least} to {most}");
    }
}

#[test]
fn locality_that_the_directories_do_not_allow_is_reported() {
    let limited = |asked, most| PlannedLocality { asked, most }.limited();
    assert!(limited(0.6, 0.4).is_some_and(|words| words.contains("0.40")));
    assert_eq!((limited(0.6, 0.9), limited(0.6, 0.5999)), (None, None));
    let few = PlanSpec::new(Profile::builtin("agrawal").unwrap(), Bytes::mib(64), Seed(7));
    let few = AgingPlan::new(&PlanSpec { truncate: Truncate::Drop, locality: Some(1.0), ..few }).unwrap();
    assert!(few.summary().locality.unwrap().limited().is_some());
}

#[test]
fn single_directory_has_no_locality() {
    let plan = plan("wang_os", Some(0.6), Limit::Overwrites(1.0));
    assert_eq!(plan.summary().locality, None);
    let none = Arc::new(AgingPlan::new(&PlanSpec { locality: None, ..plan.spec().clone() }).unwrap());
    assert!(plan.operations().eq(none.operations()));
}

#[test]
fn zero_locality_keeps_the_operations() {
    let plan = |locality| plan("meyer", locality, Limit::Overwrites(1.0));
    assert!(plan(Some(0.0)).operations().eq(plan(None).operations()));
}

#[test]
fn locality_holds_after_a_new_limit() {
    let planner = {
        let mut planner = plan("agrawal", Some(0.6), Limit::Overwrites(1.0)).operations();
        planner.skip_to(5000);
        planner
    };
    let mut end = planner.replan(Limit::Overwrites(3.0)).unwrap();
    end.skip_to(u64::MAX);
    let reached = end.measures().locality.unwrap();
    assert!((reached - 0.6).abs() < 0.02, "{reached}");
}
