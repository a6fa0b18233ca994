//! Captures profiles from two snapshots of a tree.

use crate::changes::{plan, row, spec};
use crate::common::*;
use senesce_aging::capture::changes::{ClassChanges, StatedBy, compare};
use senesce_aging::capture::{capture_since, snapshot};
use senesce_aging::{CaptureOptions, Data, File, PlanSpec, Planner, Profile};
use senesce_core::Bytes;
use std::collections::HashMap;
use std::path::Path;

/// The planner's own churn between two times, measured only on the file system.
#[test]
fn two_snapshots_of_an_aging_show_the_operations_in_between() {
    let spec = spec(vec![row(1 << 30, [0.25, 0.25, 0.25, 0.25, 0.0])], 11);
    let plan = plan(&PlanSpec { capacity: Bytes::mib(256), ..spec });
    let (room, target) = claimed();
    let mut planner = plan.operations();
    play(&mut planner, &target, Data::Sparse, 1, 3000);
    let files = |planner: &Planner| {
        planner.namespace().files().map(|live| (live.file.birth, live.file)).collect::<HashMap<u64, File>>()
    };
    let (was, before) = (files(&planner), snapshot(room.path(), &CaptureOptions::default()).unwrap());
    assert_eq!(before.len(), was.len() + 1, "and the marker");
    // File times have the resolution of the kernel's clock: the next change must be later than the last.
    let newest = before.iter().map(|seen| seen.newest()).max().unwrap();
    while now_of(&room) <= newest {}
    play(&mut planner, &target, Data::Sparse, 1, 3200);
    let (is, after) = (files(&planner), snapshot(room.path(), &CaptureOptions::default()).unwrap());
    let observed = compare(&before, &after);
    assert_eq!(observed.told_by, StatedBy::Inode);
    let sum = |pick: fn(&ClassChanges) -> u64| observed.classes.iter().map(pick).sum::<u64>();
    let both = |which: &dyn Fn(&File, &File) -> bool| {
        is.values().filter(|file| was.get(&file.birth).is_some_and(|earlier| which(earlier, file))).count() as u64
    };
    assert_eq!(sum(|class| class.created), is.keys().filter(|birth| !was.contains_key(birth)).count() as u64);
    assert_eq!(sum(|class| class.deleted), was.keys().filter(|birth| !is.contains_key(birth)).count() as u64);
    assert_eq!(sum(|class| class.appends), both(&|was, is| is.size > was.size));
    assert_eq!(sum(|class| class.truncations), both(&|was, is| is.size < was.size));
    assert_eq!(sum(|class| class.renames), both(&|was, is| is.renamed && !was.renamed));
    assert!(sum(|class| class.renames) > 0 && sum(|class| class.appends) > 0 && sum(|class| class.overwrites) > 0);
}

fn now_of(room: &tempfile::TempDir) -> (i64, u32) {
    use std::os::unix::fs::MetadataExt;
    let path = room.path().join("probe");
    std::fs::write(&path, "x").unwrap();
    let found = std::fs::metadata(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    (found.mtime(), found.mtime_nsec() as u32)
}

#[test]
fn two_trees_make_one_profile_and_must_be_in_order() {
    let room = tempfile::tempdir().unwrap();
    let (one, two) = (room.path().join("one"), room.path().join("two"));
    let tree = |top: &Path, files: &[(&str, usize)]| {
        std::fs::create_dir(top).unwrap();
        files.iter().for_each(|(name, size)| std::fs::write(top.join(name), vec![1; *size]).unwrap());
    };
    tree(&one, &[("a", 100), ("b", 5000), ("c", 10)]);
    let made = now_of(&room);
    while now_of(&room) <= made {}
    tree(&two, &[("a", 200), ("b", 4500), ("d", 10), ("e", 6000), ("f", 7000)]);
    let options = CaptureOptions::default();
    let captured = capture_since(&one, &two, &options).unwrap();
    assert_eq!(captured.changes.as_ref().unwrap().told_by, StatedBy::Path);
    assert_eq!(captured.profile.changes, [row(4096, [1.0, 0.0, 0.0, 0.0, 0.0]), row(65536, [0.0, 0.5, 0.0, 0.0, 0.0])]);
    assert_eq!(captured.files, 5);
    assert_eq!(Profile::parse("again", &captured.profile.to_toml()).unwrap(), captured.profile);
    let error = capture_since(&two, &one, &options).unwrap_err().to_string();
    assert!(error.contains("name the earlier snapshot first"), "{error}");
}

/// A tree of files with known modification times, as left by `cp -a`: births are those of the copying.
fn copy(top: &Path, files: &[(&str, u64)]) {
    std::fs::create_dir(top).unwrap();
    for (name, seconds) in files {
        let file = std::fs::File::create(top.join(name)).unwrap();
        file.set_len(100).unwrap();
        file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(*seconds)).unwrap();
    }
}

#[test]
fn files_of_copied_snapshots_are_as_old_as_their_modifications() {
    let room = tempfile::tempdir().unwrap();
    let [one, two, three] = ["one", "two", "three"].map(|name| room.path().join(name));
    copy(&one, &[("a", 1_000_000), ("b", 1_500_000)]);
    copy(&two, &[("a", 1_000_000), ("b", 1_900_000)]);
    copy(&three, &[("a", 1_000_000), ("b", 1_900_000), ("of 2096", 4_000_000_000)]);
    let captured = [&two, &three].map(|later| capture_since(&one, later, &CaptureOptions::default()).unwrap());
    let oldest = captured.each_ref().map(|captured| captured.profile.ages.last().unwrap().edge);
    assert_eq!(oldest, [900_001.0; 2], "a time in the future makes no other file older");
    assert_eq!(captured[0].changes.as_ref().unwrap().told_by, StatedBy::Path);
    assert_eq!((captured[0].by_birth, captured[0].by_modification), (0, 2));
}

#[test]
fn later_snapshot_may_lack_the_newest_file_of_the_earlier_one() {
    let room = tempfile::tempdir().unwrap();
    let (one, two) = (room.path().join("one"), room.path().join("two"));
    copy(&one, &[("a", 1_000_000), ("b", 1_500_000), ("newest", 4_000_000_000)]);
    copy(&two, &[("a", 1_000_000), ("b", 1_500_000)]);
    let options = CaptureOptions::default();
    let observed = capture_since(&one, &two, &options).unwrap().changes.unwrap();
    assert_eq!((observed.newer, observed.older, observed.classes[0].deleted), (0, 0, 1));
    let three = room.path().join("three");
    copy(&three, &[("a", 1_000_000), ("b", 1_600_000), ("c", 1_700_000)]);
    assert_eq!(capture_since(&two, &three, &options).unwrap().changes.unwrap().newer, 1);
    let refused = capture_since(&three, &two, &options).unwrap_err().to_string();
    assert!(refused.contains("most files of both trees are newer in the earlier one"), "{refused}");
    assert!(refused.contains("three: 1, in") && refused.contains("two: 0); name the earlier"), "{refused}");
}
