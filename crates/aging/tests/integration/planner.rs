//! Checks the guarantees of the planner only from the stream of operations.

use crate::common::ended;
use proptest::prelude::*;
use senesce_aging::plan::DEFAULT_FULLNESS;
use senesce_aging::profile::{AgeRow, DepthRow, SizeRow};
use senesce_aging::{AgingPlan, Churn, File, Limit, OperationKind, PlanSpec, Profile, Truncate};
use senesce_core::{Bytes, Seed};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::Arc;

#[derive(Default)]
struct ObservedPlan {
    operations: u64,
    live: HashMap<u64, File>,
    created: HashMap<u64, u64>,
    bytes_created: u64,
    fullness_min: f64,
    fullness_max: f64,
}

fn allocated(file: &File) -> u64 {
    file.size.next_multiple_of(4096)
}

fn watch(plan: &Arc<AgingPlan>) -> ObservedPlan {
    let capacity = plan.spec().capacity.0 as f64;
    let fill = plan.summary().files;
    let mut seen = ObservedPlan { fullness_min: f64::INFINITY, ..ObservedPlan::default() };
    let mut bytes = 0;
    for operation in plan.operations() {
        let file = operation.file;
        match operation.kind {
            OperationKind::Create => {
                assert_eq!(file.birth, seen.operations);
                assert!(seen.live.insert(file.birth, file).is_none());
                *seen.created.entry(file.size).or_default() += 1;
                bytes += allocated(&file);
                seen.bytes_created += allocated(&file);
            }
            OperationKind::Delete => {
                assert_eq!(seen.live.remove(&file.birth), Some(file));
                bytes -= allocated(&file);
            }
        }
        seen.operations += 1;
        if seen.operations >= fill {
            seen.fullness_min = seen.fullness_min.min(bytes as f64 / capacity);
            seen.fullness_max = seen.fullness_max.max(bytes as f64 / capacity);
        }
    }
    seen
}

/// Index of the profile's bin for each live file's age: age T - birth, right edges included.
fn age_bin(profile: &Profile, operations: u64, birth: u64) -> usize {
    let last = profile.ages.last().unwrap().edge;
    let age = (operations - birth) as f64 / operations as f64 * last;
    profile.ages.iter().position(|row| age <= row.edge * (1.0 + 1e-12)).unwrap()
}

fn shares(weights: impl Iterator<Item = f64> + Clone) -> Vec<f64> {
    let total: f64 = weights.clone().sum();
    weights.map(|weight| weight / total).collect()
}

fn rmse(counts: &[f64], shares: &[f64]) -> f64 {
    let total: f64 = counts.iter().sum();
    let square: f64 = counts.iter().zip(shares).map(|(count, share)| (count / total - share).powi(2)).sum();
    (square / shares.len() as f64).sqrt()
}

fn check(plan: &Arc<AgingPlan>) -> ObservedPlan {
    let (profile, summary) = (&plan.spec().profile, plan.summary());
    let seen = watch(plan);
    let k = summary.files as f64;
    assert_eq!(seen.operations, summary.t_end);
    assert_eq!(seen.live.len() as u64, summary.files);
    assert_eq!(seen.bytes_created, summary.bytes_created.0);

    let sizes = shares(profile.sizes.iter().map(|row| row.weight));
    let depths = shares(profile.depths.iter().map(|row| row.weight));
    let ages = shares(profile.ages.iter().map(|row| row.weight));
    let mut by_size = vec![vec![0.0; sizes.len()]; ages.len()];
    let mut by_depth = vec![vec![0.0; depths.len()]; ages.len()];
    for file in seen.live.values() {
        let age = age_bin(profile, seen.operations, file.birth);
        let size = profile.sizes.iter().position(|row| file.size <= row.bytes.0).unwrap();
        let level = plan.directories().level_of(file.directory);
        let depth = profile.depths.iter().position(|row| row.depth == level).unwrap();
        by_size[age][size] += 1.0;
        by_depth[age][depth] += 1.0;
    }
    let column = |table: &[Vec<f64>], index: usize| table.iter().map(|row| row[index]).sum::<f64>();
    let size_counts: Vec<f64> = (0..sizes.len()).map(|index| column(&by_size, index)).collect();
    let depth_counts: Vec<f64> = (0..depths.len()).map(|index| column(&by_depth, index)).collect();
    let age_counts: Vec<f64> = by_size.iter().map(|row| row.iter().sum()).collect();
    let bound = 0.5 / k + 1e-12;
    assert!(rmse(&size_counts, &sizes) <= bound, "sizes {} K", rmse(&size_counts, &sizes) * k);
    assert!(rmse(&depth_counts, &depths) <= bound, "depths {} K", rmse(&depth_counts, &depths) * k);
    assert!(rmse(&age_counts, &ages) <= bound, "ages {} K {age_counts:?}", rmse(&age_counts, &ages) * k);
    for (age, share) in ages.iter().enumerate() {
        for (counts, shares) in [(&by_size[age], &sizes), (&by_depth[age], &depths)] {
            for (count, other) in counts.iter().zip(shares) {
                let off = count - k * share * other;
                assert!(off.abs() <= 2.0, "age bin {age}: {count} files, {off} from the share");
            }
        }
    }
    let largest = profile.sizes.iter().zip(&size_counts).rfind(|(_, count)| **count > 0.0).unwrap().0;
    let room = (largest.bytes.round_up(4096).0 as f64 / summary.capacity.0 as f64).max(0.01) + 1e-9;
    assert!(seen.fullness_min >= summary.fullness - room, "{} {room}", seen.fullness_min);
    assert!(seen.fullness_max <= summary.fullness + room, "{} {room}", seen.fullness_max);
    if seen.operations >= 100_000 && plan.spec().churn == Churn::Profile && !plan.spec().spread_sizes {
        let creates: u64 = seen.created.values().sum();
        let of = |row: &SizeRow| seen.created.get(&row.bytes.0).copied().unwrap_or(0) as f64 / creates as f64;
        let distance: f64 = profile.sizes.iter().zip(&sizes).map(|(row, share)| (of(row) - share).abs()).sum();
        assert!(distance / 2.0 <= 0.01, "created sizes {}", distance / 2.0);
    }
    seen
}

fn builtin(name: &str) -> PlanSpec {
    PlanSpec { truncate: Truncate::Drop, ..PlanSpec::new(Profile::builtin(name).unwrap(), Bytes::gib(1), Seed(42)) }
}

fn plan(spec: &PlanSpec) -> Arc<AgingPlan> {
    Arc::new(AgingPlan::new(spec).unwrap())
}

#[test]
fn builtin_profiles_that_fit_meet_every_guarantee_at_the_bound() {
    for name in ["agrawal", "meyer", "wang_os", "wang_lanl"] {
        let plan = plan(&builtin(name));
        let summary = plan.summary();
        assert!(summary.t_end as f64 <= 1.02 * summary.t_bound && summary.t_end as f64 >= summary.t_bound.floor());
        check(&plan);
    }
}

#[test]
fn measures_match_an_independent_count() {
    for name in ["meyer", "dabre", "grundman", "pramod"] {
        let plan = plan(&builtin(name));
        let seen = watch(&plan);
        let planner = ended(&plan);
        let measured = planner.measures();
        let k = plan.summary().files as f64;
        assert_eq!(measured.files_live, seen.live.len() as u64);
        assert_eq!((measured.fullness.min, measured.fullness.max), (seen.fullness_min, seen.fullness_max));
        assert!(measured.rmse.age.max(measured.rmse.size).max(measured.rmse.depth) <= 0.5 / k + 1e-12, "{name}");
        assert!(measured.chi_square.minimum_p() > 0.99, "{name}");
        let mut lines: Vec<String> = planner
            .namespace()
            .files()
            .map(|live| {
                assert_eq!(seen.live[&live.file.birth], live.file);
                format!("{} {} {}\n", live.path, live.file.size, live.file.birth)
            })
            .collect();
        assert_eq!(lines.len(), seen.live.len());
        let stated = planner.namespace_sha256();
        lines.sort();
        let digest = Sha256::digest(lines.concat().as_bytes());
        assert_eq!(stated, digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    }
}

#[test]
fn staying_files_are_spread_evenly_over_the_directories_of_a_depth() {
    let plan = plan(&builtin("agrawal"));
    let seen = watch(&plan);
    let mut counts = vec![0u64; plan.directories().count() as usize];
    for file in seen.live.values() {
        counts[file.directory as usize] += 1;
    }
    for level in 1..plan.directories().levels() {
        let (first, width) = plan.directories().level(level);
        let of = &counts[first as usize..(first + width) as usize];
        assert!(of.iter().max().unwrap() - of.iter().min().unwrap() <= 1, "level {level}: {of:?}");
    }
}

#[test]
fn overwrites_are_exact_at_the_end() {
    // The largest file of the last profile is a quarter of the volume.
    for (name, times, tolerance) in [
        ("agrawal", 3.5, 1e-4),
        ("meyer", 20.0, 1e-4),
        ("wang_os", 0.5, 1e-4),
        ("pramod", 4.25, 1e-4),
        ("grundman", 1.0, 0.15),
    ] {
        let plan = plan(&PlanSpec { limit: Limit::Overwrites(times), ..builtin(name) });
        let off = watch(&plan).bytes_created as f64 / plan.spec().capacity.0 as f64 - times;
        assert!(off.abs() < tolerance, "{name}: {off}");
    }
}

#[test]
fn limits_below_the_bound_are_planned_as_closely_as_possible() {
    for operations in [1, 100, 7000, 9000, 20_001, 300_000] {
        let plan = plan(&PlanSpec { limit: Limit::Operations(operations), ..builtin("agrawal") });
        let seen = watch(&plan);
        assert!(seen.operations == operations || seen.operations + 1 == operations);
        assert!(plan.summary().below_bound);
    }
    let early = plan(&PlanSpec { limit: Limit::Confidence(0.05), ..builtin("agrawal") });
    assert!(early.summary().t_end < plan(&builtin("agrawal")).summary().t_end);
    let planner = ended(&early);
    assert!(planner.measures().chi_square.minimum_p() >= 0.05);
}

#[test]
fn operation_streams_match_golden_digests() {
    let golden = [
        ("agrawal", false, "d86332381c0229780d83e56f9b93de800519ae300a415f185e2edf7b7f1746e1"),
        ("meyer", true, "6bf60ec73f51802802e8fbe1478acc64727ad8490e91d1b6781a5cea58fac4a4"),
    ];
    for (name, spread_sizes, expected) in golden {
        let mut digest = Sha256::new();
        for operation in plan(&PlanSpec { spread_sizes, ..builtin(name) }).operations().take(30_000) {
            let file = operation.file;
            let kind = if operation.kind == OperationKind::Create { '+' } else { '-' };
            digest.update(format!("{kind} {} {} {}\n", file.birth, file.size, file.directory));
        }
        let digest: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(digest, expected, "{name}");
    }
}

#[test]
fn impossible_plans_are_refused_with_numbers() {
    let refused = |spec: &PlanSpec| AgingPlan::new(spec).unwrap_err().to_string();
    let too_large = refused(&PlanSpec { truncate: Truncate::Refuse, ..builtin("pramod") });
    assert!(too_large.contains("--truncate-sizes") && too_large.contains("32 GiB"), "{too_large}");
    let too_small = refused(&PlanSpec { capacity: Bytes::kib(2600), ..builtin("wang_lanl") });
    assert!(too_small.contains("the volume must have at least"), "{too_small}");
    for fullness in [0.0, 1.0, -0.5, f64::NAN] {
        assert!(refused(&PlanSpec { fullness: Some(fullness), ..builtin("meyer") }).contains("above 0 and below 1"));
    }
    assert!(refused(&PlanSpec { limit: Limit::Overwrites(-1.0), ..builtin("meyer") }).contains("above 0"));
}

#[test]
fn minimum_volume_in_a_refusal_is_large_enough() {
    let spec = PlanSpec { capacity: Bytes::kib(2600), ..builtin("wang_lanl") };
    let message = AgingPlan::new(&spec).unwrap_err().to_string();
    let least = message.split_whitespace().skip_while(|word| *word != "least").nth(1).unwrap();
    let larger = PlanSpec { capacity: Bytes(least.parse().unwrap()), ..spec };
    assert!(AgingPlan::new(&larger).is_ok());
}

prop_compose! {
    fn any_profile()(
        steps in prop::collection::vec((1u32..400, 0u32..1000), 1..20),
        depths in prop::collection::vec((0u32..100, 0u32..40), 1..12),
        ages in prop::collection::vec((1u32..50, 0u32..300), 1..10),
    ) -> Profile {
        let mut size = 0.0f64;
        let sizes = steps.iter().map(|(step, weight)| {
            size = (size * (1.0 + f64::from(*step) / 100.0)).max(size + f64::from(*step));
            SizeRow { bytes: Bytes(size as u64), weight: f64::from(*weight) }
        });
        let mut edge = 0.0f64;
        let ages = ages.iter().map(|(step, weight)| {
            edge += edge * f64::from(*step) / 10.0 + f64::from(*step);
            AgeRow { edge, weight: f64::from(*weight) }
        }).collect();
        let depths = depths.iter().enumerate().map(|(depth, (weight, subdirectories))| {
            DepthRow { depth: depth as u32, weight: f64::from(*weight), subdirectories: *subdirectories }
        }).collect();
        Profile { name: "any".into(), source: String::new(), fullness: None, locality: None, name_bytes: None, burst: None, sizes: sizes.collect(), depths, ages, changes: Vec::new() }
    }
}

fn volume(profile: &Profile, files: f64) -> Bytes {
    let share = shares(profile.sizes.iter().map(|row| row.weight));
    let mean: f64 =
        profile.sizes.iter().zip(&share).map(|(row, share)| share * row.bytes.round_up(4096).0 as f64).sum();
    Bytes((files * mean / DEFAULT_FULLNESS) as u64)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn any_profile_meets_every_guarantee(profile in any_profile(), files in 300.0f64..3000.0, seed in any::<u64>()) {
        prop_assume!(profile.validate().is_ok());
        let spec = PlanSpec::new(profile.clone(), volume(&profile, files), Seed(seed));
        let Ok(plan) = AgingPlan::new(&spec) else { return Err(TestCaseError::reject("does not fit")) };
        prop_assume!(plan.len() < 300_000);
        check(&Arc::new(plan));
    }

    #[test]
    fn maximum_of_overwrites_is_never_exceeded(
        profile in any_profile(), files in 300.0f64..3000.0, times in 0.02f64..6.0, operations in 2000u64..30_000,
    ) {
        prop_assume!(profile.validate().is_ok());
        let limit = Limit::AtMost { overwrites: times, operations };
        let spec = PlanSpec { limit, ..PlanSpec::new(profile.clone(), volume(&profile, files), Seed(7)) };
        let Ok(plan) = AgingPlan::new(&spec) else { return Err(TestCaseError::reject("does not fit")) };
        let plan = Arc::new(plan);
        prop_assert!(plan.summary().overwrites <= times && plan.len() <= operations);
        prop_assert_eq!(watch(&plan).bytes_created, plan.summary().bytes_created.0);
    }

    #[test]
    fn same_seed_gives_the_same_stream(profile in any_profile(), seed in any::<u64>()) {
        prop_assume!(profile.validate().is_ok());
        let spec = PlanSpec::new(profile.clone(), volume(&profile, 300.0), Seed(seed));
        let Ok(plan) = AgingPlan::new(&spec) else { return Err(TestCaseError::reject("does not fit")) };
        let plan = Arc::new(plan);
        let again = Arc::new(AgingPlan::new(&spec).unwrap());
        let other = Arc::new(AgingPlan::new(&PlanSpec { seed: Seed(seed ^ 1), ..spec }).unwrap());
        let first: Vec<_> = plan.operations().take(2000).collect();
        prop_assert_eq!(&first, &again.operations().take(2000).collect::<Vec<_>>());
        if profile.sizes.iter().filter(|row| row.weight > 0.0).count() > 3 {
            prop_assert_ne!(&first, &other.operations().take(2000).collect::<Vec<_>>());
        }
    }
}

#[test]
fn new_limit_continues_from_the_reached_state() {
    let cases = [
        ("agrawal", Limit::Bound, 250_000, Limit::Overwrites(40.0)),
        ("agrawal", Limit::Operations(3000), 3000, Limit::Operations(20_001)),
        ("agrawal", Limit::Operations(9000), 9000, Limit::Bound),
        ("meyer", Limit::Bound, 20_001, Limit::Bound),
        ("meyer", Limit::Bound, 777, Limit::Operations(900)),
        ("pramod", Limit::Overwrites(3.0), 30_001, Limit::Overwrites(8.0)),
        ("pramod", Limit::Overwrites(3.0), 30_001, Limit::AtMost { overwrites: 8.0, operations: u64::MAX }),
        ("wang_os", Limit::Overwrites(2.0), 12_345, Limit::Confidence(0.1)),
    ];
    for (name, first, position, then) in cases {
        let before = plan(&PlanSpec { limit: first, ..builtin(name) });
        let mut planner = before.operations();
        planner.skip_to(position);
        let mut live: HashMap<u64, File> =
            planner.namespace().files().map(|live| (live.file.birth, live.file)).collect();
        let mut next = planner.replan(then).unwrap();
        let again: Vec<_> = planner.replan(then).unwrap().take(1000).collect();
        assert_eq!(next.clone().take(1000).collect::<Vec<_>>(), again);
        for operation in next.by_ref() {
            match operation.kind {
                OperationKind::Create => assert!(live.insert(operation.file.birth, operation.file).is_none()),
                OperationKind::Delete => assert_eq!(live.remove(&operation.file.birth), Some(operation.file)),
            }
        }
        let summary = next.plan().summary().clone();
        let measured = next.measures();
        assert_eq!(next.operations_done(), summary.t_end);
        assert_eq!((measured.creates, measured.deletes), (summary.creates, summary.deletes));
        assert_eq!(live.len() as u64, next.files_live());
        let k = summary.files as f64;
        match then {
            Limit::Operations(most) => assert!(summary.t_end == most || summary.t_end + 1 == most, "{name}"),
            Limit::Overwrites(times) => {
                assert!((measured.overwrites - times).abs() < 0.01, "{name} {}", measured.overwrites)
            }
            Limit::AtMost { overwrites, .. } => {
                assert!(measured.overwrites <= overwrites && measured.overwrites > overwrites - 0.5, "{name}")
            }
            Limit::Bound => assert!(measured.rmse.age <= 0.5 / k + 1e-12, "{name} {}", measured.rmse.age * k),
            Limit::Confidence(p) => assert!(measured.chi_square.age.p >= p, "{name}"),
        }
        if summary.t_end > summary.files {
            assert!(measured.rmse.size <= 0.5 / k + 1e-12, "{name} {}", measured.rmse.size * k);
            assert!(measured.rmse.depth <= 1.0 / k, "{name} {}", measured.rmse.depth * k);
        }
    }
    let done = plan(&builtin("meyer"));
    let planner = ended(&done);
    assert!(planner.replan(Limit::Operations(5)).unwrap_err().to_string().contains("already"));
}
