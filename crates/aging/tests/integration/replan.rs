//! Tests new limits for a run that has started.

use crate::common::*;
use senesce_aging::profile::SizeRow;
use senesce_aging::{AgingPlan, Limit, PlanSpec, Planner, Profile, Truncate};
use senesce_core::{Bytes, Seed};
use std::collections::BTreeMap;
use std::sync::Arc;

const CAPACITY: Bytes = Bytes::mib(64);

fn plan() -> Arc<AgingPlan> {
    let size = |kib, weight| SizeRow { bytes: Bytes::kib(kib), weight };
    let sizes = vec![size(4, 6.0), size(100, 3.0), size(1024, 1.0)];
    let profile = Profile { sizes, ..Profile::builtin("agrawal").unwrap() };
    Arc::new(AgingPlan::new(&PlanSpec::new(profile, CAPACITY, Seed(3))).unwrap())
}

fn by_size(planner: &Planner) -> BTreeMap<u64, u64> {
    let mut files = BTreeMap::new();
    for live in planner.namespace().files() {
        *files.entry(live.file.size).or_default() += 1;
    }
    files
}

#[test]
fn new_overwrites_during_the_fill_respect_planned_files_per_size() {
    let plan = plan();
    let (files, fill) = (plan.summary().files, plan.summary().bytes_live.0 as f64);
    let full = by_size(&reached(&plan, files));
    for position in [files / 4, files / 2] {
        let planner = reached(&plan, position);
        for tens_of_kib in -40..=40i32 {
            let overwrites = (fill + f64::from(tens_of_kib) * 10_240.0) / CAPACITY.0 as f64;
            for limit in [Limit::Overwrites(overwrites), Limit::AtMost { overwrites, operations: 1 << 40 }] {
                let mut next = planner.replan(limit).unwrap();
                next.skip_to(u64::MAX);
                let (summary, measured) = (next.plan().summary(), next.measures());
                assert_eq!(next.operations_done(), summary.t_end, "{position}, {limit:?}");
                assert_eq!((measured.creates, measured.deletes), (summary.creates, summary.deletes), "{limit:?}");
                assert!((measured.overwrites - summary.overwrites).abs() < 1e-9, "{limit:?}");
                let live = by_size(&next);
                let fits = live.iter().all(|(size, count)| full.get(size).is_some_and(|most| count <= most));
                assert!(fits && (summary.t_end < files || live == full), "{position}, {limit:?}: {live:?} of {full:?}");
            }
        }
    }
}

#[test]
fn overwrites_beyond_any_plan_are_refused_for_a_started_run() {
    let plan = plan();
    for position in [100, plan.len() / 2] {
        let planner = reached(&plan, position);
        for overwrites in [f64::NAN, f64::INFINITY, 1e30, 0.0, -1.0, f64::NEG_INFINITY] {
            for limit in [Limit::Overwrites(overwrites), Limit::AtMost { overwrites, operations: 1 << 40 }] {
                let words = planner.replan(limit).map(|next| next.plan().len()).unwrap_err().to_string();
                assert!(words.contains("overwrites cannot be planned; give a number above 0 and below"), "{words}");
                let fresh = AgingPlan::new(&PlanSpec { limit, ..plan.spec().clone() }).unwrap_err().to_string();
                assert_eq!(fresh, words);
            }
        }
    }
}

#[test]
fn limit_of_confidence_is_met_by_the_files_alive_at_the_end() {
    for (name, p) in [("dabre", 0.99), ("agrawal", 0.95), ("grundman", 0.99)] {
        let base = PlanSpec::new(Profile::builtin(name).unwrap(), Bytes::mib(128), Seed(42));
        let base = PlanSpec { truncate: Truncate::Drop, ..base };
        let plan = Arc::new(AgingPlan::new(&PlanSpec { limit: Limit::Confidence(p), ..base.clone() }).unwrap());
        let found = ended(&plan).measures().chi_square;
        assert!(found.minimum_p() >= p, "{name}: {} of {p}", found.minimum_p());
        let whole = Arc::new(AgingPlan::new(&base).unwrap());
        assert!(plan.len() < whole.len(), "{name}");
        let anew = reached(&whole, whole.summary().files + 10).replan(Limit::Confidence(p)).unwrap();
        let mut end = anew.clone();
        end.skip_to(u64::MAX);
        assert!(end.measures().chi_square.age.p >= p, "{name}, planned again: {}", end.measures().chi_square.age.p);
    }
}
