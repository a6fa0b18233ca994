//! Tests divided plans: the same operations for any assignment of parts, exact parts, and totals that are sums.

use crate::common::*;
use proptest::prelude::*;
use senesce_aging::execute::SingleRankPace;
use senesce_aging::parts::{PlacedOperation, part_capacity, part_name, part_of_name, part_seed, whole_sha256};
use senesce_aging::{
    AgingPlan, Clock, Data, DirectoryTarget, ExecuteOptions, Interleaved, Limit, PlanSpec, Planner, Profile, Stop,
    Summary, Tally, Truncate, execute_parts, verify, verify_top,
};
use senesce_core::interrupt::Interrupt;
use senesce_core::{Bytes, Seed};
use std::ops::ControlFlow;
use std::sync::Arc;

fn plan(part: u32, parts: u32, capacity: Bytes, limit: Limit) -> Arc<AgingPlan> {
    let profile = Profile::builtin("agrawal").unwrap();
    let seed = part_seed(Seed(11), part, parts);
    let spec = PlanSpec::new(profile, part_capacity(capacity, parts), seed);
    Arc::new(AgingPlan::new(&PlanSpec { truncate: Truncate::Drop, limit, clock: Clock::NONE, ..spec }).unwrap())
}

fn planners(own: impl Iterator<Item = u32>, parts: u32, capacity: Bytes, limit: Limit) -> Vec<(u32, Planner)> {
    own.map(|part| (part, plan(part, parts, capacity, limit).operations())).collect()
}

fn interleaved(planners: &mut [(u32, Planner)], parts: u32, from: u64, len: u64) -> Interleaved<'_> {
    Interleaved::new(parts, planners.iter_mut().map(|(part, planner)| (*part, planner)).collect(), from, len)
}

fn played(rank: u32, ranks: u32, parts: u32, from: u64, round: u64) -> Vec<(u64, u32, PlacedOperation)> {
    let limit = Limit::Operations(600);
    let mut planners = planners((0..parts).filter(|part| part % ranks == rank), parts, Bytes::mib(64), limit);
    for (part, planner) in &mut planners {
        planner.skip_to(Interleaved::operations_of(*part, parts, from));
    }
    let own: Vec<u32> = planners.iter().map(|(part, _)| *part).collect();
    let len = plan(0, parts, Bytes::mib(64), limit).len() * u64::from(parts);
    let mut all = interleaved(&mut planners, parts, from, len);
    let mut list = Vec::new();
    while all.position() < len {
        let end = (all.position() + round).min(len);
        while let Some(placed) = all.next_below(end) {
            assert!(placed.position < end);
            list.push((placed.position, own[placed.own], placed));
        }
        assert_eq!(all.position(), end);
    }
    list
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10))]

    #[test]
    fn any_number_of_ranks_gives_the_operations_of_one(parts in 1u32..7, ranks in 1u32..9, from in 0u64..900, round in 1u64..500) {
        let all = |ranks| {
            let mut all: Vec<_> = (0..ranks).flat_map(|rank| played(rank, ranks, parts, from, round)).collect();
            all.sort_by_key(|(position, ..)| *position);
            all.into_iter().map(|(position, part, placed)| (position, part, placed.operation)).collect::<Vec<_>>()
        };
        let one = all(1);
        prop_assert_eq!(&one, &all(ranks));
        // Every position once, in its part's turn.
        let end = plan(0, parts, Bytes::mib(64), Limit::Operations(600)).len() * u64::from(parts);
        prop_assert_eq!(one.iter().map(|(position, ..)| *position).collect::<Vec<_>>(), (from..end).collect::<Vec<_>>());
        prop_assert!(one.iter().all(|(position, part, _)| position % u64::from(parts) == u64::from(*part)));
    }

    #[test]
    fn every_part_is_exact_and_totals_are_sums(parts in 2u32..5, mib in 60u64..90) {
        let capacity = Bytes::mib(mib * u64::from(parts));
        let mut total = Tally::default();
        let mut summaries = Vec::new();
        for (_, mut planner) in planners(0..parts, parts, capacity, Limit::Bound) {
            planner.skip_to(u64::MAX);
            let rmse = planner.measures().rmse;
            let bound = 0.5 / planner.plan().summary().files as f64;
            prop_assert!(rmse.age.max(rmse.size).max(rmse.depth) <= bound);
            total.add(&planner.tally());
            summaries.push(planner.plan().summary().clone());
        }
        let whole = Summary::of_parts(&summaries).unwrap();
        let measures = plan(0, parts, capacity, Limit::Bound).measures(parts, &total);
        prop_assert_eq!((whole.parts, whole.t_end, whole.creates), (parts, measures.operations, measures.creates));
        prop_assert_eq!(whole.files, measures.files_live);
        prop_assert!((whole.overwrites - measures.overwrites).abs() < 1e-9);
        let worst = measures.rmse.age.max(measures.rmse.size).max(measures.rmse.depth);
        prop_assert!(worst <= 0.5 / summaries[0].files as f64, "{:?}", measures.rmse);
        prop_assert!(measures.fullness.min <= measures.fullness.end && measures.fullness.end <= measures.fullness.max);
    }
}

#[test]
fn undivided_plan_is_its_only_part() {
    assert_eq!((part_capacity(Bytes(12_345), 1), part_seed(Seed(5), 0, 1)), (Bytes(12_345), Seed(5)));
    assert_eq!(whole_sha256(&["abc".into()]), "abc");
    let one = plan(0, 1, Bytes::mib(64), Limit::Bound);
    assert_eq!(Summary::of_parts(&[one.summary().clone()]).unwrap(), *one.summary());
}

#[test]
fn parts_are_equal_whole_blocks_with_distinct_names_and_seeds() {
    assert_eq!(part_capacity(Bytes(4096 * 10 + 5), 3), Bytes(4096 * 3));
    assert_ne!(part_seed(Seed(5), 0, 2), part_seed(Seed(5), 1, 2));
    assert_eq!(part_of_name(part_name(37).as_bytes()), Some(37));
    for name in ["part-1", "part-+001", "part-00001", "d0"] {
        assert_eq!(part_of_name(name.as_bytes()), None, "{name}");
    }
    // printf 'part-0000 a\npart-0001 b\n' | sha256sum
    let digest = "de625f70b1d2b51890f8a9cb03bf99b1dd5864a4cac188c7f60ab67e9ea3102d";
    assert_eq!(whole_sha256(&["a".into(), "b".into()]), digest);
}

#[test]
fn threads_and_ranks_do_not_change_the_files_of_the_parts() {
    let (parts, capacity, limit) = (3, Bytes::mib(60), Limit::Operations(1500));
    for (ranks, threads) in [(1, 1), (1, 2), (2, 1), (3, 2), (5, 1)] {
        let (room, target) = claimed();
        let mut digests = vec![String::new(); parts as usize];
        for rank in 0..ranks {
            let mut planners = planners((0..parts).filter(|part| part % ranks == rank), parts, capacity, limit);
            let back_end = |(part, planner): &(u32, Planner)| {
                DirectoryTarget::new(planner.plan().clone(), &target, Data::Write).below(part_name(*part))
            };
            let backends: Vec<_> = planners.iter().map(back_end).collect();
            let options = ExecuteOptions { threads, window: 64, ..ExecuteOptions::default() };
            let mut all = interleaved(&mut planners, parts, 0, 4500);
            let go_on = &mut |_: &Interleaved<'_>, _| ControlFlow::Continue(());
            let outcome = execute_parts(&mut all, &backends, &options, &SingleRankPace, &Interrupt::new(), go_on);
            assert_eq!((outcome.result.unwrap(), outcome.completed), (Stop::Finished, 4500));
            for (part, planner) in &planners {
                let found = verify(planner, &room.path().join(part_name(*part)), Data::Write, None).unwrap();
                assert!(found.is_good() && found.files == planner.files_live(), "{found:?}");
                digests[*part as usize] = planner.namespace_sha256();
            }
        }
        assert!(verify_top(room.path(), parts).unwrap().is_good());
        let expected = planners(0..parts, parts, capacity, limit).into_iter().map(|(_, mut planner)| {
            planner.skip_to(u64::MAX);
            planner.namespace_sha256()
        });
        assert_eq!(digests, expected.collect::<Vec<_>>(), "{ranks} ranks, {threads} threads");
        std::fs::create_dir(room.path().join("part-0003")).unwrap();
        assert_eq!(verify_top(room.path(), parts).unwrap().strangers, 1);
        std::fs::create_dir(room.path().join("stray")).unwrap();
        assert_eq!(verify_top(room.path(), parts).unwrap().strangers, 2);
    }
}
