//! Crashes at every persist of a recorded workload: the state afterwards is the one before or after the current operation.

use super::model::{Op, apply, op};
use super::sim::{crash_image, unpersisted};
use super::*;
use crate::Attr;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

const BLOCKS: u64 = 192;
const SLOTS: u64 = 1000;

/// States that a crash during each operation may leave.
fn expected_states(ops: &[Op]) -> Vec<Dump> {
    let cold = SimCold::default();
    let fs = open_image(&empty_image(BLOCKS, SLOTS), &cold, &Options::default()).unwrap();
    let mut states = vec![dump(&fs).unwrap()];
    for op in ops {
        let _ = apply(&fs, op);
        states.push(dump(&fs).unwrap());
    }
    states
}

/// Runs `ops` and crashes at every persist in three ways, and in two more for each of about `lines` unpersisted cache lines:
/// without it, and with a part of it only. Returns the number of crashes.
fn crash_everywhere(ops: Vec<Op>, seed: Seed, lines: usize) -> usize {
    let states = Arc::new(expected_states(&ops));
    let (nvm, cold) = (SimNvm::new(&empty_image(BLOCKS, SLOTS)), SimCold::default());
    let fs = open_nvm(&nvm, &cold, &Options::default());
    let (current, crashes) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut rng = seed.stream("tierfs/crash");
    let (now, count, described) = (current.clone(), crashes.clone(), ops.clone());
    nvm.set_hook(Box::new(move |stored, durable| {
        let unpersisted = unpersisted(stored, durable);
        let step = unpersisted.div_ceil(lines).max(1);
        let some = (rng.next_u32() as usize % step..unpersisted).step_by(step);
        let single = some.flat_map(|line| [Survivors::AllBut(line), Survivors::Torn(line)]);
        for survivors in [Survivors::None, Survivors::All, Survivors::Random].into_iter().chain(single) {
            let at = now.load(Ordering::Relaxed);
            let image = crash_image(stored, durable, survivors, &mut rng);
            let after = cold.crash(survivors, &mut rng);
            let report = check(anonymous(&image), Some(&after), Path::new("image")).unwrap();
            assert!(report.is_sound(), "{survivors:?} in {:?}: {report:?}", described[at]);
            let found = dump(&open_image(&image, &after, &Options::default()).unwrap()).unwrap();
            assert!(
                found == states[at] || found == states[at + 1],
                "{survivors:?} in {:?}: neither before nor after",
                described[at]
            );
            count.fetch_add(1, Ordering::Relaxed);
        }
    }));
    for (at, op) in ops.iter().enumerate() {
        current.store(at, Ordering::Relaxed);
        let _ = apply(&fs, op);
    }
    crashes.load(Ordering::Relaxed)
}

/// Operations that are atomic as a whole. Punch and preallocation are atomic only per block.
fn atomic_op() -> impl Strategy<Value = Op> {
    op().prop_filter("atomic", |op| !matches!(op, Op::Punch(..) | Op::Preallocate(..) | Op::Remount))
}

fn workload(seed: u8, length: usize) -> Vec<Op> {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    (0..length).map(|_| atomic_op().new_tree(&mut runner).unwrap().current()).collect()
}

#[test]
fn crashes_of_a_fixed_workload_leave_a_consistent_state() {
    let ops = vec![
        Op::Mkdir(0, 0),
        Op::Create(0, 2),
        Op::Write(0, 2, 0, 20_000, 1),
        Op::Write(0, 2, 5_000, 6_000, 2),
        Op::Write(0, 2, 18_000, 9_000, 3),
        Op::Write(0, 2, 16, 8, 4),
        Op::Evict(40),
        Op::Write(0, 2, 100, 300, 5),
        Op::Read(0, 2, 0, 20_000),
        Op::Evict(40),
        Op::Truncate(0, 2, 9_999),
        Op::Truncate(0, 2, 30_000),
        Op::Create(1, 3),
        Op::Write(1, 3, 50_000, 5_000, 6),
        Op::Write(1, 3, 53_000, 9_000, 7),
        Op::Write(1, 3, 57_344, 12_288, 8),
        Op::Write(1, 3, 50_000, 12_000, 9),
        Op::Write(1, 3, 90_000, 3_000, 10),
        Op::Rename(0, 2, 1, 3, false),
        Op::Rename(1, 3, 0, 5, true),
        Op::Link(0, 5, 1, 1),
        Op::SetXattr(0, 5, 1, 7),
        Op::SetXattr(0, 5, 2, 8),
        Op::RemoveXattr(0, 5, 1),
        Op::Symlink(1, 2),
        Op::Evict(40),
        Op::Unlink(0, 5),
        Op::Unlink(1, 1),
        Op::Unlink(1, 2),
        Op::Rmdir(0, 0),
    ];
    let crashes = crash_everywhere(ops, Seed(1), 24);
    assert!(crashes > 1000, "{crashes}");
}

#[test]
fn crashes_of_random_workloads_leave_a_consistent_state() {
    let crashes: usize = (0..5).map(|seed| crash_everywhere(workload(seed, 150), Seed(u64::from(seed)), 1)).sum();
    assert!(crashes > 2000, "{crashes}");
}

#[test]
#[ignore = "long: minutes"]
fn crashes_of_many_random_workloads_leave_a_consistent_state() {
    for seed in 0..150 {
        crash_everywhere(workload(seed, 150), Seed(u64::from(seed)), 4);
    }
}

/// Crashes at every persist of `change`, before and after it takes effect, and passes the file `a` to `judge`.
fn crash_in(prepare: impl FnOnce(&TierFs, u32), change: impl FnOnce(&TierFs, u32), judge: fn(Attr, Vec<u8>)) {
    let (nvm, cold) = (SimNvm::new(&empty_image(BLOCKS, SLOTS)), SimCold::default());
    let fs = open_nvm(&nvm, &cold, &Options::default());
    let a = fs.create(ROOT_INO, b"a", &new(libc::S_IFREG | 0o4755)).unwrap().ino;
    prepare(&fs, a);
    let crashes = Arc::new(AtomicUsize::new(0));
    let count = crashes.clone();
    nvm.set_hook(Box::new(move |stored, durable| {
        for image in [stored, durable] {
            let after = open_image(image, &cold, &Options::default()).unwrap();
            let attr = after.lookup(ROOT_INO, b"a").unwrap();
            judge(attr, read_all(&after, attr.ino).unwrap());
            count.fetch_add(1, Ordering::Relaxed);
        }
    }));
    change(&fs, a);
    assert!(crashes.load(Ordering::Relaxed) >= 4);
}

#[test]
fn set_user_id_is_cleared_with_the_first_changed_byte() {
    let old = |fs: &TierFs, a: u32| assert!(fs.write(a, 0, &[1; 3 * 4096], false).unwrap() > 0);
    let judge = |attr: Attr, content: Vec<u8>| {
        assert!(attr.mode & libc::S_ISUID == 0 || content.iter().all(|byte| *byte == 1), "{attr:?}");
    };
    crash_in(old, |fs, a| assert!(fs.write(a, 4096, &[2; 4096], true).unwrap() > 0), judge);
    crash_in(old, |fs, a| assert!(fs.write(a, 8, &[2; 8], true).unwrap() > 0), judge);
    crash_in(old, |fs, a| assert!(fs.write(a, 100, &[2; 6000], true).unwrap() > 0), judge);
}

#[test]
fn size_and_times_are_set_atomically() {
    let set = SetAttr { size: Some(100), mtime: Some(5), atime: Some(6), mode: Some(0o600), ..Default::default() };
    let judge = |attr: Attr, _: Vec<u8>| {
        assert_eq!(attr.size == 100, attr.mtime == 5 && attr.mode & 0o7777 == 0o600, "{attr:?}");
    };
    let old = |fs: &TierFs, a: u32| assert!(fs.write(a, 0, &[1; 3 * 4096], false).unwrap() > 0);
    crash_in(old, move |fs, a| assert_eq!(fs.set_attr(a, &set).unwrap().mtime, 5), judge);
}
