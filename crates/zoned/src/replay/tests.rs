use super::*;
use crate::sim::model::Model;
use crate::sim::{HostPath, SimDevice, SimOptions};
use proptest::prelude::*;
use senesce_core::Seed;

fn drive() -> SimDevice {
    let model = Model::load("zn540").unwrap();
    let options = SimOptions { block_bytes: Some(4096), path: HostPath::None };
    SimDevice::new(&model, options, Seed(1)).unwrap()
}

fn one(issue_ns: u64, completed_ns: u64, operation: Operation, zone: u32, block: u64, blocks: u32) -> Recorded {
    let start = u64::from(zone) * drive_zone_blocks();
    Recorded { issue_ns, completed_ns: Some(completed_ns), work: Work::Drive(operation, zone, start + block, blocks) }
}

fn drive_zone_blocks() -> u64 {
    2048 << 20 >> 12
}

/// Writes of 128 KiB in sequence, each issued 1 ms after the completion of the previous one.
fn writes(count: u64, latency_ns: u64) -> Vec<Recorded> {
    let step = 1_000_000 + latency_ns;
    let write = |n| one(n * step, n * step + latency_ns, Operation::Write, 3, n * 32, 32);
    (0..count).map(write).collect()
}

#[test]
fn host_time_is_kept_and_drive_time_is_not() {
    let run = |latency, share| replay(&mut drive(), &writes(200, latency), share).unwrap();
    let (fast, slow) = (run(10_000, 1.0), run(5_000_000, 1.0));
    assert_eq!(fast, slow, "how long the recorded drive took does not matter");
    assert!((fast.host_seconds - 0.199).abs() < 1e-9, "{}", fast.host_seconds);
    assert!((fast.seconds() - fast.host_seconds - fast.busy_seconds).abs() < 1e-9);
    let kind = fast.kinds["write"];
    assert_eq!((kind.commands, kind.bytes, fast.refused.len()), (200, 200 * 131_072, 0));
    let (half, none) = (run(10_000, 0.5), run(10_000, 0.0));
    assert!((half.host_seconds - 0.0995).abs() < 1e-9);
    assert_eq!(none.host_seconds, 0.0);
    assert!(none.seconds() < half.seconds() && half.seconds() < fast.seconds());
}

/// Checks that a write after a reset does not start before the reset has ended.
#[test]
fn zone_commands_stay_in_order() {
    let mut list = writes(10, 5_000);
    let end = list.last().unwrap().completed_ns.unwrap();
    list.push(one(end + 10, end + 20, Operation::Reset, 3, 0, 0));
    list.push(one(end + 30, end + 40, Operation::Write, 3, 0, 32));
    let found = replay(&mut drive(), &list, 0.0).unwrap();
    assert_eq!(found.refused, []);
    assert!(found.times[11].submitted_ns >= found.times[10].completed_ns, "{found:?}");
    assert!(found.times[10].completed_ns - found.times[10].submitted_ns > 1_000_000, "a reset takes milliseconds");
}

#[test]
fn refused_commands_are_reported_and_not_counted() {
    let list = [one(0, 10, Operation::Write, 3, 64, 32), one(20, 30, Operation::Write, 3, 0, 32)];
    let found = replay(&mut drive(), &list, 1.0).unwrap();
    assert_eq!(found.refused, [(0, ZoneFault::NotAtPointer)]);
    assert_eq!(found.kinds["write"].commands, 1);
}

#[test]
fn commands_of_other_drives_take_no_time() {
    let mut list = writes(2, 10_000);
    let between = Recorded { issue_ns: 10_500, completed_ns: Some(900_000), work: Work::Nothing };
    list.insert(1, between);
    let found = replay(&mut drive(), &list, 1.0).unwrap();
    // 500 ns from the write to it, and 110,000 from its recorded end to the next write.
    assert_eq!(found.times[1].submitted_ns, found.times[0].completed_ns + 500);
    assert_eq!(found.times[2].submitted_ns, found.times[1].completed_ns + 110_000);
}

#[test]
fn descending_times_and_invalid_shares_are_refused() {
    let list = [one(10, 20, Operation::Write, 3, 0, 1), one(5, 20, Operation::Write, 3, 1, 1)];
    assert!(replay(&mut drive(), &list, 1.0).is_err());
    for share in [-1.0, f64::NAN, f64::INFINITY] {
        assert!(replay(&mut drive(), &list[..1], share).is_err());
    }
    assert_eq!(replay(&mut drive(), &[], 1.0).unwrap(), Replayed::default());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Checks for any recording that each command runs once, in the recorded order, and after all that it waited for.
    #[test]
    fn commands_keep_their_order_and_dependencies(
        steps in prop::collection::vec((0u64..2_000_000, 0u64..3_000_000, 0u32..4, 0u8..5), 1..200),
        share in prop_oneof![Just(0.0), Just(1.0), 0.0..2.0f64],
    ) {
        let (mut now, mut pointers, mut list) = (0, [0u64; 4], Vec::new());
        for (step, latency, zone, kind) in steps {
            now += step / 4;
            let pointer = &mut pointers[zone as usize];
            let (operation, block, blocks) = match kind {
                0 => (Operation::Read, 0, 8),
                1 => {
                    *pointer = 0;
                    (Operation::Reset, 0, 0)
                }
                _ => {
                    *pointer += 32;
                    (Operation::Write, *pointer - 32, 32)
                }
            };
            list.push(one(now, now + latency, operation, zone, block, blocks));
        }
        let found = replay(&mut drive(), &list, share).unwrap();
        prop_assert_eq!(&found.refused, &[]);
        let done: u64 = found.kinds.values().map(|kind| kind.commands).sum();
        prop_assert_eq!(done as usize, list.len());
        for (later, times) in list.iter().zip(&found.times) {
            for (other, before) in list.iter().zip(&found.times) {
                if other.completed_ns.is_some_and(|at| at <= later.issue_ns) && other.issue_ns < later.issue_ns {
                    prop_assert!(before.completed_ns <= times.submitted_ns);
                }
            }
        }
        prop_assert!(found.times.windows(2).all(|two| two[0].submitted_ns <= two[1].submitted_ns));
    }
}
