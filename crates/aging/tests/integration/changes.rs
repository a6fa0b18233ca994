//! Tests changes of files between create and delete: they leave the plan as it is, and are executed as planned.

use crate::common::*;
use proptest::prelude::*;
use senesce_aging::execute::{PlanExecutor, PlanTarget};
use senesce_aging::profile::{ChangeRow, SizeRow};
use senesce_aging::{
    AgingError, AgingPlan, Change, ChangeCounts, ChangeKind, Clock, Compression, Data, DirectoryTarget, ExecuteOptions,
    File, FileComparison, Limit, Operation, OperationKind, PlanSpec, Planner, Profile, Truncate, reconcile,
};
use senesce_core::{Bytes, Seed};
use std::collections::HashMap;
use std::sync::Arc;

pub(crate) fn row(bytes: u64, rates: [f64; 5]) -> ChangeRow {
    let [appends, truncations, overwrites, renames, punches] = rates;
    ChangeRow { bytes: Bytes(bytes), appends, truncations, overwrites, renames, punches }
}

pub(crate) fn spec(changes: Vec<ChangeRow>, seed: u64) -> PlanSpec {
    let profile = Profile { changes, ..Profile::builtin("agrawal").unwrap() };
    let spec = PlanSpec::new(profile, Bytes::mib(24), Seed(seed));
    PlanSpec { truncate: Truncate::Drop, limit: Limit::Operations(4000), clock: Clock::NONE, ..spec }
}

pub(crate) fn plan(spec: &PlanSpec) -> Arc<AgingPlan> {
    Arc::new(AgingPlan::new(spec).unwrap())
}

fn all_kinds(seed: u64) -> Arc<AgingPlan> {
    plan(&spec(vec![row(1 << 30, [0.2; 5])], seed))
}

#[derive(Default)]
struct Model {
    files: HashMap<u64, File>,
    bytes: u64,
    freed: u64,
    counts: ChangeCounts,
    changes: HashMap<u64, u32>,
}

fn blocks(size: u64) -> u64 {
    size.next_multiple_of(4096)
}

impl Model {
    fn operate(&mut self, operation: &Operation) {
        let file = operation.file;
        match operation.kind {
            OperationKind::Create => {
                assert!(!file.renamed && self.files.insert(file.birth, file).is_none());
                self.bytes += blocks(file.size);
            }
            OperationKind::Delete => {
                assert_eq!(self.files.remove(&file.birth), Some(file));
                self.bytes -= blocks(file.size);
                self.freed += blocks(file.size);
            }
        }
    }

    fn change(&mut self, change: &Change) {
        let after = change.file;
        let before = self.files.insert(after.birth, after).expect("only an existing file is changed");
        assert_eq!(before.directory, after.directory);
        assert_eq!(before, change.before());
        assert_eq!(before.renamed != after.renamed, change.kind == ChangeKind::Rename);
        *self.changes.entry(after.birth).or_default() += 1;
        match change.kind {
            ChangeKind::Append { from } => assert!(before.size == from && from < after.size && from % 4096 == 0),
            ChangeKind::Truncate { from } => {
                assert!(before.size == from && from > after.size);
                self.freed += blocks(from) - blocks(after.size);
            }
            ChangeKind::Overwrite { from, bytes } | ChangeKind::Punch { from, bytes } => {
                assert!(before == after && from % 4096 == 0 && bytes > 0 && from + bytes <= after.size);
            }
            ChangeKind::Rename => assert_eq!(before.size, after.size),
        }
        self.bytes = self.bytes + blocks(after.size) - blocks(before.size);
        self.counts.count(change);
    }
}

fn rates() -> impl Strategy<Value = [f64; 5]> {
    let sum = prop_oneof![0.0f64..1.0, 1.0f64..12.0];
    (proptest::array::uniform5(0.0f64..1.0), sum).prop_map(|(shares, sum)| {
        let total: f64 = shares.iter().sum::<f64>().max(1e-9);
        shares.map(|share| share / total * sum)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn changes_keep_births_sizes_depths_and_ages(small in rates(), large in rates(), seed in any::<u64>()) {
        let changed = spec(vec![row(16 << 10, small), row(1 << 20, large)], seed);
        let (with, without) = (plan(&changed), plan(&spec(Vec::new(), seed)));
        prop_assert_eq!(with.len(), without.len());
        let (mut one, mut other, mut model) = (with.operations(), without.operations(), Model::default());
        let (mut least, mut most) = (f64::INFINITY, 0.0f64);
        let capacity = changed.capacity.0 as f64;
        while let Some(operation) = one.next() {
            let plain = other.next().unwrap();
            prop_assert_eq!((operation.kind, operation.file.birth, operation.file.directory), (plain.kind, plain.file.birth, plain.file.directory));
            model.operate(&operation);
            one.changes().iter().for_each(|change| model.change(change));
            let fullness = model.bytes as f64 / capacity;
            prop_assert!((fullness - one.fullness()).abs() < 1e-12, "{} {}", fullness, one.fullness());
            prop_assert!((fullness - other.fullness()).abs() <= 0.01, "{} {}", fullness, other.fullness());
            if one.operations_done() >= with.summary().files {
                (least, most) = (least.min(fullness), most.max(fullness));
            }
        }
        prop_assert_eq!(one.pending_changes(), 0);
        prop_assert_eq!(model.counts, one.changes_done());
        let (reached, plain) = (one.measures(), other.measures());
        prop_assert!((reached.fullness.min - least).abs() < 1e-12 && (reached.fullness.max - most).abs() < 1e-12);
        prop_assert_eq!((&reached.ages, &reached.sizes, &reached.depths), (&plain.ages, &plain.sizes, &plain.depths));
        let sizes = |planner: &Planner| planner.namespace().files().map(|live| (live.file.birth, live.file.size)).collect::<Vec<_>>();
        prop_assert_eq!(sizes(&one), sizes(&other));
        for live in one.namespace().files() {
            prop_assert_eq!(model.files.remove(&live.file.birth), Some(live.file));
            prop_assert_eq!(live.path.ends_with(".r"), live.file.renamed);
        }
        prop_assert!(model.files.is_empty());
        let again = ended(&with);
        prop_assert_eq!(again.namespace_sha256(), one.namespace_sha256());
        prop_assert_eq!(again.changes_done(), one.changes_done());
    }

    #[test]
    fn clock_counts_bytes_freed_by_truncations(rates in rates(), percent in 2.0f64..40.0, seed in any::<u64>()) {
        let clock = Clock { commit_share: format!("{percent}%").parse().unwrap(), sync_every: 0 };
        let spec = PlanSpec { clock, ..spec(vec![row(1 << 30, rates)], seed) };
        let plan = plan(&spec);
        let between = clock.bytes_between(spec.capacity, plan.summary().fullness).unwrap().0;
        let (mut planner, mut model, mut since, mut step) = (plan.operations(), Model::default(), 0, 0);
        while let Some(operation) = planner.next() {
            let before = model.freed;
            model.operate(&operation);
            planner.changes().iter().for_each(|change| model.change(change));
            step = step.max(model.freed - before);
            prop_assert!(model.freed - since <= between + step, "{} bytes freed without a commit", model.freed - since);
            since = if planner.commit_follows() { model.freed } else { since };
        }
        prop_assert!(planner.commits() > 0);
    }
}

#[test]
fn number_of_changed_files_follows_the_rates() {
    let changes = vec![row(64 << 10, [0.1, 0.2, 0.0, 0.3, 0.1]), row(1 << 40, [0.0, 0.0, 0.5, 0.0, 0.0])];
    let profile = Profile { changes, ..Profile::builtin("agrawal").unwrap() };
    let plan = plan(&PlanSpec { limit: Limit::Overwrites(8.0), ..PlanSpec::new(profile, Bytes::gib(1), Seed(3)) });
    let (mut planner, mut small, mut seen) = (plan.operations(), [0u64; 2], [ChangeCounts::default(); 2]);
    let mut planned = HashMap::new();
    let without = AgingPlan::new(&PlanSpec { profile: Profile::builtin("agrawal").unwrap(), ..plan.spec().clone() });
    for operation in Arc::new(without.unwrap()).operations().filter(|operation| operation.kind == OperationKind::Create)
    {
        let class = usize::from(operation.file.size > 64 << 10);
        small[class] += u64::from(operation.file.size > 0);
        planned.insert(operation.file.birth, class);
    }
    while planner.next().is_some() {
        planner.changes().iter().for_each(|change| seen[planned[&change.file.birth]].count(change));
    }
    // Files deleted before their change is due are not changed: few, because it is due early.
    let near = |count: u64, rate: f64, class: usize| {
        let expected = rate * small[class] as f64;
        assert!((0.85 * expected..=1.02 * expected + 20.0).contains(&(count as f64)), "{count} instead of {expected}");
    };
    near(seen[0].appends, 0.1, 0);
    near(seen[0].truncations, 0.2, 0);
    near(seen[0].renames, 0.3, 0);
    near(seen[0].punches, 0.1, 0);
    near(seen[1].overwrites, 0.5, 1);
    assert_eq!((seen[0].overwrites, seen[1].all()), (0, seen[1].overwrites));
}

#[test]
fn file_is_changed_as_often_as_its_rates() {
    let rates = [1.5, 0.8, 0.6, 0.5, 0.3];
    let base = spec(vec![row(1 << 30, rates)], 4);
    let profile = Profile { sizes: vec![SizeRow { bytes: Bytes::kib(256), weight: 1.0 }], ..base.profile.clone() };
    let plan = plan(&PlanSpec { profile, capacity: Bytes::mib(256), ..base });
    let (mut planner, mut model) = (plan.operations(), Model::default());
    while let Some(operation) = planner.next() {
        model.operate(&operation);
        planner.changes().iter().for_each(|change| model.change(change));
    }
    // Of 3.7 changes each file has 3 or 4, but one that was cut to nothing cannot be overwritten.
    let of_live: Vec<u32> = model.files.keys().map(|birth| model.changes.get(birth).copied().unwrap_or(0)).collect();
    assert_eq!(of_live.iter().max(), Some(&4));
    let mean = f64::from(of_live.iter().sum::<u32>()) / of_live.len() as f64;
    assert!((3.3..=3.7).contains(&mean), "{mean}");
    let done = planner.changes_done();
    let counts =
        [done.appends, done.truncations, done.overwrites, done.renames, done.punches].map(|count| count as f64);
    for (count, rate) in counts.iter().zip(rates) {
        let share = count / counts.iter().sum::<f64>() - rate / 3.7;
        assert!(share.abs() < 0.05, "{counts:?}");
    }
    assert!(model.files.values().any(|file| file.renamed) && model.files.values().any(|file| !file.renamed));
}

/// Recorded before files could be changed several times.
#[test]
fn digest_of_a_plan_with_at_most_one_change_per_file_is_stable() {
    let plan = plan(&spec(vec![row(1 << 30, [0.25, 0.25, 0.25, 0.25, 0.0])], 1));
    assert_eq!(ended(&plan).namespace_sha256(), "5aadf05a45fbc1f796d4e324af980c7dff7e87c9c2f1cc5b7d10c311cb3620b7");
    let expected = ChangeCounts {
        punches: 0,
        bytes_punched: 0,
        appends: 476,
        truncations: 509,
        overwrites: 510,
        renames: 479,
        bytes_appended: 6_159_464,
        bytes_truncated: 7_967_056,
        bytes_overwritten: 18_532_072,
    };
    assert_eq!(ended(&plan).changes_done(), expected);
}

#[test]
fn changes_are_on_the_file_system_for_any_number_of_threads() {
    [0.2, 1.5].into_iter().for_each(|rate| are_on_the_file_system(&plan(&spec(vec![row(1 << 30, [rate; 5])], 1))));
}

fn are_on_the_file_system(plan: &Arc<AgingPlan>) {
    let expected = ended(plan);
    let done = expected.changes_done();
    let kinds = [done.appends, done.truncations, done.overwrites, done.renames, done.punches];
    assert!(kinds.iter().all(|count| *count > 100), "{done:?}");
    for (threads, data) in [(1, Data::Write), (2, Data::Fallocate), (8, Data::Write)] {
        let ((room, target), mut planner) = (claimed(), plan.operations());
        let backend = DirectoryTarget::new(plan.clone(), &target, data);
        let options = ExecuteOptions { threads, window: 64, ..ExecuteOptions::default() };
        let outcome = finished(&mut planner, &backend, &options);
        assert_eq!(outcome.changes, done, "the counts at the file system match the plan");
        assert_eq!(planner.namespace_sha256(), expected.namespace_sha256());
        is_good(&planner, &room, data);
    }
}

#[test]
fn aging_with_changes_ends_the_same_after_a_kill() {
    for (cut, ahead, data, rate) in
        [(400, 30, Data::Write, 0.2), (2500, 64, Data::Fallocate, 0.2), (2500, 64, Data::Write, 1.5)]
    {
        let plan = plan(&spec(vec![row(1 << 30, [rate; 5])], 3));
        let (room, target) = claimed();
        let mut before = plan.operations();
        let completed = play(&mut before, &target, data, 1, cut);
        assert!(before.pending_changes() > 0, "nothing was in progress: the test shows nothing");
        is_good(&before, &room, data);
        // As after a kill: operations and changes beyond the record.
        let backend = DirectoryTarget::new(plan.clone(), &target, data);
        let (mut hand, mut further) = (backend.hand(1).unwrap(), before.clone());
        for _ in 0..ahead {
            hand.apply(&further.next().unwrap(), false).unwrap();
            further.changes().iter().for_each(|change| hand.change(change).unwrap());
        }
        assert!(!found(&before, &room, data).is_good());
        let mut resumed = reached(&plan, completed);
        reconcile(&resumed, &backend, None, FileComparison::Content).unwrap();
        is_good(&resumed, &room, data);
        play(&mut resumed, &target, data, 2, u64::MAX);
        is_good(&resumed, &room, data);
        let whole = ended(&plan);
        assert_eq!(resumed.namespace_sha256(), whole.namespace_sha256());
    }
}

#[test]
fn punch_that_a_kill_cut_short_is_repeated() {
    let plan = plan(&spec(vec![row(1 << 30, [0.0, 0.0, 0.0, 0.0, 1.0])], 3));
    let (room, target) = claimed();
    let mut before = plan.operations();
    let completed = play(&mut before, &target, Data::Write, 1, 1000);
    let backend = DirectoryTarget::new(plan.clone(), &target, Data::Write);
    let (mut hand, mut further) = (backend.hand(1).unwrap(), before.clone());
    hand.apply(&further.next().unwrap(), false).unwrap();
    while further.changes().is_empty() {
        hand.apply(&further.next().unwrap(), false).unwrap();
    }
    let Change { kind: ChangeKind::Punch { from, bytes }, file } = further.changes()[0] else { panic!("not a punch") };
    let path = room.path().join(further.plan().directories().path(file.directory)).join(file.name());
    let opened = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    let hole = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&opened, hole, from, bytes).unwrap();
    assert_eq!(found(&further, &room, Data::Write).wrong_content, 1);
    let mut resumed = reached(&plan, completed);
    reconcile(&resumed, &backend, None, FileComparison::Content).unwrap();
    play(&mut resumed, &target, Data::Write, 2, u64::MAX);
    is_good(&resumed, &room, Data::Write);
}

#[test]
fn verification_finds_a_missing_change() {
    let (room, planner) = played(&all_kinds(5), Data::Fallocate);
    let renamed = planner.namespace().files().find(|live| live.file.renamed).unwrap();
    let path = room.path().join(&renamed.path);
    std::fs::rename(&path, path.with_extension("")).unwrap();
    let report = found(&planner, &room, Data::Fallocate);
    assert_eq!((report.missing, report.strangers, report.wrong_size), (1, 1, 0), "{report:?}");
}

#[test]
fn concurrently_growing_files_are_complete_whenever_the_run_stops() {
    for data in [Data::Write, Data::Fallocate] {
        let plan = all_kinds(7);
        let (room, target) = claimed();
        let backend = DirectoryTarget::new(plan.clone(), &target, data).writers(8);
        let options = ExecuteOptions { window: 64, ..ExecuteOptions::default() };
        let mut planner = plan.operations();
        for until in [700, u64::MAX] {
            execute_until(&mut planner, &backend, &options, until).result.unwrap();
            is_good(&planner, &room, data);
        }
        assert_eq!(planner.operations_done(), plan.len());
    }
}

#[test]
fn several_files_are_open_at_once_and_a_delete_waits_for_its_own() {
    let plan = plan(&spec(Vec::new(), 9));
    let (room, target) = claimed();
    let backend = DirectoryTarget::new(plan.clone(), &target, Data::Fallocate).writers(4);
    backend.prepare().unwrap();
    let mut hand = backend.hand(1).unwrap();
    let file = |birth, size| File { birth, size, directory: 0, renamed: false, padding: 0 };
    let size = |file: &File| std::fs::metadata(room.path().join(file.name())).unwrap().len();
    let files = [file(1, 1 << 20), file(2, 1 << 20), file(3, 200_000), file(4, 10)];
    for file in &files {
        hand.create(file, false).unwrap();
    }
    assert_eq!(files.each_ref().map(size), [0; 4]);
    hand.create(&file(5, 1 << 20), false).unwrap();
    assert_eq!(files.each_ref().map(size), [65536, 65536, 65536, 10], "one piece each, until one is complete");
    hand.delete(&files[2]).unwrap();
    assert_eq!(size(&files[0]), 4 * 65536, "the others grew while the file to delete was completed");
    hand.finish().unwrap();
    assert_eq!(size(&files[1]), 1 << 20);
}

#[test]
fn compressed_plan_with_changes_is_refused() {
    let changed = spec(vec![row(4096, [0.1, 0.0, 0.0, 0.0, 0.0])], 1);
    let compressed =
        PlanSpec { limit: Limit::Bound, compression: Some(Compression { turnovers: 1.0 }), ..changed.clone() };
    let error = AgingPlan::new(&compressed).unwrap_err().to_string();
    assert!(error.contains("--compress") && error.contains("changes"), "{error}");
    let exceeding = Profile { changes: vec![row(4096, [50.0, 50.0, 0.1, 0.0, 0.0])], ..changed.profile.clone() };
    match AgingPlan::new(&PlanSpec { profile: exceeding, ..changed }).unwrap_err() {
        AgingError::Profile { problem, .. } => assert!(problem.contains("100.100"), "{problem}"),
        other => panic!("{other}"),
    }
}

#[test]
fn profile_with_changes_round_trips_and_one_without_keeps_its_hash() {
    let profile = Profile {
        changes: vec![row(4096, [0.1, 0.2, 0.3, 0.2, 0.2]), row(1 << 20, [0.0; 5])],
        ..Profile::builtin("meyer").unwrap()
    };
    assert_eq!(Profile::parse("again", &profile.to_toml()).unwrap(), profile);
    let without = serde_json::to_string(&Profile::builtin("meyer").unwrap()).unwrap();
    assert!(!without.contains("changes"), "{without}");
}
