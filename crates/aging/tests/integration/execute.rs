//! Executes plans on real directories: one namespace for any number of threads, repair after a kill, verification.

mod volumes;

use crate::common::*;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use senesce_aging::execute::{PlanExecutor, PlanTarget};
use senesce_aging::plan::file_name;
use senesce_aging::profile::ChangeRow;
use senesce_aging::{
    AgingError, AgingPlan, Clock, Data, DirectoryTarget, ExecuteOptions, File, FileComparison, Interleaved, Limit,
    NullTarget, PlanSpec, Planner, Profile, Shard, Stop, Truncate, clear, execute, execute_parts, reconcile, verify,
};
use senesce_core::interrupt::Interrupt;
use senesce_core::{Bytes, Seed};
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use volumes::{FullForOne, SmallVolume, THREADS, WINDOW, Witness, bytes_held};

/// Without a clock: every commit would write back data of other users of these tests' file system.
fn small_plan(seed: u64) -> Arc<AgingPlan> {
    let spec = PlanSpec::new(Profile::builtin("agrawal").unwrap(), Bytes::mib(24), Seed(seed));
    let spec = PlanSpec { truncate: Truncate::Drop, limit: Limit::Operations(3000), clock: Clock::NONE, ..spec };
    Arc::new(AgingPlan::new(&spec).unwrap())
}

#[test]
fn namespace_is_the_same_for_one_two_and_eight_threads() {
    let plan = small_plan(1);
    let expected = ended(&plan);
    for threads in [1, 2, 8] {
        let (room, target) = claimed();
        let mut planner = plan.operations();
        assert_eq!(play(&mut planner, &target, Data::Write, threads, u64::MAX), plan.len());
        assert_eq!(planner.namespace_sha256(), expected.namespace_sha256());
        let report = is_good(&planner, &room, Data::Write);
        assert_eq!(report.files, planner.files_live());
    }
}

#[test]
fn verification_finds_changed_files() {
    let plan = small_plan(2);
    let (room, target) = claimed();
    let mut planner = plan.operations();
    play(&mut planner, &target, Data::Write, 2, u64::MAX);
    let namespace = planner.namespace();
    let large: Vec<_> = namespace.files().filter(|live| live.file.size > 8000).take(3).collect();
    let path = |index: usize| room.path().join(&large[index].path);
    std::fs::remove_file(path(0)).unwrap();
    std::fs::File::options().append(true).open(path(1)).unwrap().set_len(5).unwrap();
    let mut bytes = std::fs::read(path(2)).unwrap();
    bytes[6000] ^= 1;
    std::fs::write(path(2), bytes).unwrap();
    std::fs::write(room.path().join("stranger"), "x").unwrap();
    let report = found(&planner, &room, Data::Write);
    assert_eq!((report.missing, report.wrong_size, report.wrong_content, report.strangers), (1, 1, 1, 1), "{report:?}");
    assert!(report.examples.iter().any(|line| line.contains(" byte 6000 ")), "{report:?}");
    std::fs::create_dir_all(room.path().join("stray/below")).unwrap();
    std::fs::create_dir(room.path().join("d00")).unwrap();
    std::fs::create_dir(room.path().join("lost+found")).unwrap();
    let report = found(&planner, &room, Data::Write);
    assert_eq!(report.strangers, 3, "directories count too, except the one of mkfs: {report:?}");
}

#[test]
fn replaced_file_is_unknown_and_missing() {
    let (room, planner) = played(&small_plan(10), Data::Sparse);
    let path = room.path().join(planner.namespace().files().find(|live| live.file.size > 0).unwrap().path);
    let counts = || {
        let report = found(&planner, &room, Data::Sparse);
        (report.missing, report.strangers, report.wrong_size)
    };
    std::fs::remove_file(&path).unwrap();
    assert_eq!(counts(), (1, 0, 0));
    // Opening the pipe would block, because it has no writer.
    mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).unwrap();
    assert_eq!(counts(), (1, 1, 0), "a pipe");
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/dev/null", &path).unwrap();
    assert_eq!(counts(), (1, 1, 0), "a link");
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert_eq!(counts(), (1, 1, 0), "a directory");
}

#[test]
fn missing_directory_is_reported_even_if_it_was_empty() {
    let plan = small_plan(11);
    let (room, target) = claimed();
    // Nothing is executed: all directories are empty.
    DirectoryTarget::new(plan.clone(), &target, Data::Sparse).prepare().unwrap();
    let report = || verify(&plan.operations(), room.path(), Data::Sparse, None).unwrap();
    assert!(report().is_good(), "{:?}", report());
    let last = last_directory(&plan, &room);
    std::fs::remove_dir(&last).unwrap();
    assert_eq!((report().is_good(), report().missing_directories), (false, 1), "{:?}", report());
    std::os::unix::fs::symlink(room.path(), &last).unwrap();
    assert_eq!((report().strangers, report().missing_directories), (1, 1), "a link does not count: {:?}", report());
}

fn last_directory(plan: &AgingPlan, room: &tempfile::TempDir) -> PathBuf {
    let tree = plan.directories();
    room.path().join(tree.path(tree.count() - 1).trim_end_matches('/'))
}

#[test]
fn content_behind_holes_of_an_empty_file_is_found() {
    let plan = small_plan(4);
    for data in [Data::Fallocate, Data::Sparse] {
        let (room, planner) = played(&plan, data);
        let before = is_good(&planner, &room, data);
        let live: u64 = planner.namespace().files().map(|live| live.file.size).sum();
        // Unwritten blocks in the page cache count as data for SEEK_DATA.
        assert!(before.bytes <= live / 10, "almost nothing had to be read of {live} bytes: {before:?}");
        let largest = planner.namespace().files().max_by_key(|live| live.file.size).unwrap();
        assert!(largest.file.size > 3 * 4096);
        let file = std::fs::File::options().write(true).open(room.path().join(&largest.path)).unwrap();
        file.write_all_at(b"x", largest.file.size - 1).unwrap();
        let report = found(&planner, &room, data);
        assert_eq!(report.wrong_content, 1, "{report:?}");
        assert!(report.bytes > 0 && report.bytes <= live / 10 + largest.file.size, "{report:?}");
    }
}

#[test]
fn directory_ahead_of_the_record_is_restored_and_ends_the_same() {
    for (cut, ahead, data) in [(40, 30, Data::Write), (700, 64, Data::Fallocate), (2500, 1, Data::Sparse)] {
        let plan = small_plan(3);
        let (room, target) = claimed();
        let mut before = plan.operations();
        let completed = play(&mut before, &target, data, 1, cut);
        // As after a kill: operations beyond the record, the last file incomplete.
        let backend = DirectoryTarget::new(plan.clone(), &target, data);
        let mut hand = backend.hand(1).unwrap();
        for operation in before.clone().take(ahead) {
            hand.apply(&operation, false).unwrap();
        }
        let victim =
            before.namespace().files().find(|live| live.file.size > 100 && room.path().join(&live.path).exists());
        let victim = std::fs::File::options().write(true).open(room.path().join(victim.unwrap().path)).unwrap();
        victim.set_len(50).unwrap();

        let mut resumed = reached(&plan, completed);
        let report =
            reconcile(&resumed, &DirectoryTarget::new(plan.clone(), &target, data), None, FileComparison::Content)
                .unwrap();
        assert_eq!(report.repaired, 1);
        is_good(&resumed, &room, data);
        play(&mut resumed, &target, data, 2, u64::MAX);
        is_good(&resumed, &room, data);
        let whole = ended(&plan);
        assert_eq!(resumed.namespace_sha256(), whole.namespace_sha256());
    }
}

#[test]
fn lost_content_of_the_right_size_is_found_by_reading() {
    let plan = small_plan(3);
    let (room, target) = claimed();
    let mut planner = plan.operations();
    play(&mut planner, &target, Data::Write, 1, 700);
    let backend = DirectoryTarget::new(plan.clone(), &target, Data::Write);
    // As after a failed write: the last block of a file is a hole.
    let victim = planner.namespace().files().max_by_key(|live| live.file.size).unwrap();
    let opened = std::fs::File::options().write(true).open(room.path().join(&victim.path)).unwrap();
    opened.set_len(victim.file.size - 1).unwrap();
    opened.set_len(victim.file.size).unwrap();
    assert_eq!(found(&planner, &room, Data::Write).wrong_content, 1);
    let repaired = |comparison| reconcile(&planner, &backend, None, comparison).unwrap().repaired;
    assert_eq!(repaired(FileComparison::Size), 0);
    assert_eq!(repaired(FileComparison::Content), 1);
    is_good(&planner, &room, Data::Write);
    assert_eq!(repaired(FileComparison::Content), 0);
    let mut compared = 0;
    let stopped = clear(&planner, &backend, None, FileComparison::Content, &mut |bytes| {
        compared += bytes;
        ControlFlow::Break(())
    });
    assert!(matches!(stopped, Err(AgingError::Interrupted)) && compared <= victim.file.size, "after one file");
}

#[test]
fn extra_files_are_removed_before_any_file_is_created() {
    let plan = small_plan(12);
    let (room, target) = claimed();
    let mut planner = plan.operations();
    play(&mut planner, &target, Data::Sparse, 1, 1000);
    let live = planner.namespace().files().min_by_key(|live| live.file.directory).unwrap();
    let (missing, stranger) = (room.path().join(&live.path), room.path().join(file_name(1 << 40)));
    std::fs::remove_file(&missing).unwrap();
    std::fs::write(&stranger, "as if it was made ahead of the record").unwrap();
    // The last directory cannot be listed, so the files to remove are unknown.
    let last = last_directory(&plan, &room);
    std::fs::rename(&last, room.path().join("aside")).unwrap();
    std::fs::write(&last, "in the way").unwrap();
    let backend = DirectoryTarget::new(plan.clone(), &target, Data::Sparse);
    reconcile(&planner, &backend, None, FileComparison::Content).unwrap_err();
    assert!(!stranger.exists() && !missing.exists(), "nothing is created before everything is listed");
    std::fs::remove_file(&last).unwrap();
    std::fs::rename(room.path().join("aside"), &last).unwrap();
    let done = reconcile(&planner, &backend, None, FileComparison::Content).unwrap();
    assert_eq!((done.removed, done.restored, done.repaired), (0, 1, 0));
    is_good(&planner, &room, Data::Sparse);
}

#[test]
fn shards_together_hold_every_file() {
    let plan = small_plan(4);
    let (room, target) = claimed();
    let mut total = 0;
    for index in 0..3 {
        let shard = Some(Shard { index, count: 3 });
        let mut planner = plan.operations();
        let backend = DirectoryTarget::new(plan.clone(), &target, Data::Sparse);
        finished(&mut planner, &backend, &ExecuteOptions { shard, threads: 2, ..ExecuteOptions::default() });
        let report = verify(&planner, room.path(), Data::Sparse, shard).unwrap();
        assert!(report.is_good(), "{report:?}");
        total += report.files;
    }
    let planner = ended(&plan);
    assert_eq!(total, planner.files_live());
}

#[test]
fn interrupt_leaves_planner_and_record_at_the_same_operation() {
    for threads in [1, 3] {
        let plan = small_plan(5);
        let mut planner = plan.operations();
        let interrupt = Interrupt::new();
        let mut observer = |_: &Planner, completed: u64| {
            if completed > 500 {
                interrupt.request();
            }
            ControlFlow::Continue(())
        };
        let options = ExecuteOptions { threads, window: 100, ..ExecuteOptions::default() };
        let outcome = execute(&mut planner, &NullTarget, &options, &interrupt, &mut observer);
        assert_eq!(outcome.result.unwrap(), Stop::Interrupted);
        assert_eq!(outcome.completed, planner.operations_done());
        assert!(outcome.completed > 500 && outcome.completed < 1000);
    }
}

#[test]
fn external_change_is_reported_with_operation_and_path() {
    let plan = small_plan(6);
    let (room, target) = claimed();
    let mut planner = plan.operations();
    let live = reached(&plan, 1).namespace().files().next().unwrap();
    assert_eq!(live.file, plan.operations().next().unwrap().file);
    let path = room.path().join(live.path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, "in the way").unwrap();
    let backend = DirectoryTarget::new(plan, &target, Data::Sparse);
    let options = ExecuteOptions { threads: 2, ..ExecuteOptions::default() };
    let outcome = execute_until(&mut planner, &backend, &options, u64::MAX);
    assert_eq!(outcome.completed, 0);
    match outcome.result.unwrap_err() {
        AgingError::Io(failure) => {
            assert_eq!((&*failure.operation, &failure.path), ("create", &path));
            assert_eq!(failure.kind(), std::io::ErrorKind::AlreadyExists);
        }
        other => panic!("{other}"),
    }
}

#[test]
fn threads_ahead_of_a_slow_one_need_no_more_space_than_the_plan() {
    run_ahead_of_a_slow_one(&small_plan(7));
}

#[test]
fn threads_ahead_with_changes_need_no_more_space_than_the_plan() {
    let plain = small_plan(7);
    for times in [1.0, 8.0] {
        let [appends, truncations, renames] = [0.5, 0.3, 0.2].map(|rate| times * rate);
        let row = ChangeRow { bytes: Bytes(1 << 30), appends, truncations, renames, overwrites: 0.0, punches: 0.0 };
        let profile = Profile { changes: vec![row], ..plain.spec().profile.clone() };
        run_ahead_of_a_slow_one(&Arc::new(AgingPlan::new(&PlanSpec { profile, ..plain.spec().clone() }).unwrap()));
    }
}

fn run_ahead_of_a_slow_one(plan: &Arc<AgingPlan>) {
    let volume = SmallVolume::new(plan);
    let options = ExecuteOptions { threads: THREADS, window: WINDOW, ..ExecuteOptions::default() };
    let mut planner = plan.operations();
    let outcome = finished(&mut planner, &&volume, &options);
    assert_eq!(outcome.completed, plan.len());
    assert_eq!(volume.used.into_inner(), bytes_held(plan).1);
    assert_eq!(outcome.changes, planner.changes_done());
    let planned: HashMap<u64, File> = planner.namespace().files().map(|live| (live.file.birth, live.file)).collect();
    assert_eq!(volume.files.into_inner().unwrap().1, planned);
    assert!(outcome.stalls > 0, "the volume was never full: the test shows nothing");
}

#[test]
fn other_shards_are_informed_only_of_completed_operations() {
    let plan = small_plan(8);
    let volume = SmallVolume::new(&plan);
    let witness = Witness { volume: &volume, asked: AtomicUsize::new(0) };
    let options = ExecuteOptions { threads: THREADS, window: WINDOW, ..ExecuteOptions::default() };
    let mut planner = plan.operations();
    let mut parts = Interleaved::whole(&mut planner);
    let outcome = execute_parts(&mut parts, &[&volume], &options, &witness, &Interrupt::new(), &mut |_, _| {
        ControlFlow::Continue(())
    });
    assert_eq!(outcome.result.unwrap(), Stop::Finished);
    assert_eq!(volume.used.load(Ordering::Relaxed), bytes_held(&plan).1);
    assert!(witness.asked.into_inner() > 0, "no shard was asked: the test shows nothing");
}

/// A thread commits and fails again; so does the one that executes the rest, until there is space.
#[test]
fn every_commit_for_lack_of_space_is_counted() {
    let plan = small_plan(13);
    let volume = FullForOne::default();
    let options = ExecuteOptions { threads: 2, fsync_every: 500, ..ExecuteOptions::default() };
    let mut planner = plan.operations();
    let outcome = finished(&mut planner, &&volume, &options);
    assert_eq!((outcome.stalls, volume.commits.into_inner()), (2, 2));
    assert!(outcome.synced >= planner.creates() / 500, "{} of {}", outcome.synced, planner.creates());
}

#[test]
fn synced_files_are_counted() {
    for threads in [1, 2] {
        let plan = small_plan(14);
        let mut planner = plan.operations();
        let options = ExecuteOptions { threads, fsync_every: 100, ..ExecuteOptions::default() };
        let outcome = finished(&mut planner, &NullTarget, &options);
        assert_eq!(outcome.synced, planner.creates() / 100, "{threads} threads");
    }
}

#[test]
fn names_have_the_mean_length_of_the_profile() {
    for (asked, bytes) in [(None, 13), (Some(5), 13), (Some(61), 61), (Some(255), 253)] {
        let plain = small_plan(15);
        let changes = vec![ChangeRow { bytes: Bytes(1 << 30), renames: 0.5, ..ChangeRow::default() }];
        let profile = Profile { name_bytes: asked, changes, ..plain.spec().profile.clone() };
        let plan = Arc::new(AgingPlan::new(&PlanSpec { profile, ..plain.spec().clone() }).unwrap());
        let (room, target) = claimed();
        let mut before = plan.operations();
        let completed = play(&mut before, &target, Data::Sparse, 1, plan.len() / 2);
        is_good(&before, &room, Data::Sparse);
        // As after a kill: further operations, and a file with another length of its name.
        let backend = DirectoryTarget::new(plan.clone(), &target, Data::Sparse);
        let mut hand = backend.hand(1).unwrap();
        for operation in before.clone().take(20) {
            hand.apply(&operation, false).unwrap();
        }
        let stranger = before.namespace().files().next().unwrap().file;
        let stranger = File { padding: stranger.padding.checked_sub(1).unwrap_or(1), directory: 0, ..stranger };
        std::fs::write(room.path().join(stranger.name()), "").unwrap();
        assert!(found(&before, &room, Data::Sparse).strangers > 0);
        let mut resumed = reached(&plan, completed);
        reconcile(&resumed, &backend, None, FileComparison::Content).unwrap();
        is_good(&resumed, &room, Data::Sparse);
        play(&mut resumed, &target, Data::Sparse, 2, u64::MAX);
        is_good(&resumed, &room, Data::Sparse);
        for live in resumed.namespace().files() {
            assert_eq!(live.file.name().len(), bytes + if live.file.renamed { 2 } else { 0 });
        }
    }
}
