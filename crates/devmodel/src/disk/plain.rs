//! Reference implementation of the drive's choice with exact times of all candidates, and its comparison.

use super::{Disk, DiskState};
use crate::request::{Operation, Request};
use crate::simulate::Queue;
use crate::{DeviceModel, Parameters};
use proptest::prelude::*;

impl DiskState {
    pub(super) fn choose_write_plainly(&self, begin: f64) -> (usize, f64) {
        let here = self.here(begin);
        let (mut best, mut soonest) = (0, f64::INFINITY);
        let among = self.disk.queue_depth.max(1) as usize;
        for (number, write) in self.pending.iter().take(among).take_while(|write| write.since_ns <= begin).enumerate() {
            let arrives = self.arrives(&here, &self.layout.place(write.start), true);
            if arrives < soonest {
                (best, soonest) = (number, arrives);
            }
        }
        (best, soonest)
    }

    pub(super) fn choose_plainly<'a>(&self, at: f64, waiting: impl Iterator<Item = (&'a Request, u64)>) -> usize {
        let here = self.here(at);
        let (mut best, mut soonest) = (0, f64::INFINITY);
        for (number, (request, issued_ns)) in waiting.take(self.disk.queue_depth.max(1) as usize).enumerate() {
            if issued_ns as f64 > at || request.operation == Operation::Flush {
                break;
            }
            let (start, end) = (request.offset(), request.end());
            let is_read = request.operation == Operation::Read;
            let needs_arm = is_read && self.segments.holding(start, end).is_none()
                || request.operation == Operation::Write && self.disk.write_cache_bytes == 0;
            let streamed = self.streaming(start, self.layout.end(end).1, here.begin).filter(|_| is_read);
            let arrives = match (needs_arm, streamed) {
                (false, _) => here.begin,
                (true, streamed) => {
                    let arrives = self.arrives(&here, &self.layout.place(start), !is_read);
                    streamed.map_or(arrives, |(_, passed)| passed.min(arrives))
                }
            };
            if arrives < soonest {
                (best, soonest) = (number, arrives);
            }
        }
        best
    }
}

const DRIVES: [&str; 3] = ["st500dm002", "atlas-10k", "cheetah-9lp"];
const DEPTHS: [u32; 4] = [2, 5, 32, 64];

fn drives() -> impl Strategy<Value = Disk> {
    (prop::sample::select(&DRIVES[..]), any::<bool>(), prop::sample::select(&DEPTHS[..])).prop_map(
        |(name, has_cache, queue_depth)| {
            let Parameters::Disk(disk) = DeviceModel::builtin(&format!("hdd:{name}")).unwrap().parameters else {
                panic!("a disk drive")
            };
            let write_cache_bytes = if has_cache { disk.write_cache_bytes } else { 0 };
            Disk { write_cache_bytes, queue_depth, ..disk }
        },
    )
}

/// Operation, position (up to 1: share of the span; above: small distance after the previous), pages, pause in ns.
type Step = (u32, f64, u64, u64);

/// Returns the completion times with `depth` open requests; `None`: at their issue times.
fn times(disk: &Disk, steps: &[Step], span: f64, depth: Option<u64>, is_plain: bool) -> Vec<(u64, u64)> {
    let mut drive = disk.start();
    drive.is_plain = is_plain;
    let (mut now, mut open, mut last, mut times) = (0, 0, 0, Vec::new());
    let left = (disk.capacity_bytes as f64 * span) as u64 / 4096 - 64;
    for (what, place, pages, pause) in steps {
        let operation = match what {
            0..60 => Operation::Read,
            60..97 => Operation::Write,
            97 => Operation::Discard,
            _ => Operation::Flush,
        };
        let page = if *place < 0.2 { last } else { (*place * left as f64) as u64 } % left;
        last = page + pages;
        let request = Request::of_bytes(operation, page * 4096, pages * 4096);
        match depth {
            Some(depth) => {
                while open >= depth {
                    let finished = drive.next().unwrap();
                    now = now.max(finished.done_ns);
                    times.push((finished.index, finished.done_ns));
                    open -= 1;
                }
            }
            None => {
                now += pause;
                times.extend(std::iter::from_fn(|| drive.next_before(now)).map(|one| (one.index, one.done_ns)));
            }
        }
        drive.submit(&request.into(), now);
        open += 1;
    }
    times.extend(std::iter::from_fn(|| drive.next()).map(|one| (one.index, one.done_ns)));
    times
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn estimated_choice_equals_exact_choice(
        disk in drives(),
        steps in prop::collection::vec((0u32..100, 0.0..1.0f64, 1u64..40, 0u64..20_000_000), 1..300),
        writes_only in any::<bool>(),
        span in prop::sample::select(vec![1.0, 0.01, 0.0005]),
    ) {
        let one = |(what, place, pages, pause): &Step| (if writes_only { 60 } else { *what }, *place, *pages, *pause);
        let steps: Vec<Step> = steps.iter().map(one).collect();
        for depth in [Some(1), Some(32), Some(100), None] {
            let (plain, rough) = (times(&disk, &steps, span, depth, true), times(&disk, &steps, span, depth, false));
            prop_assert_eq!(plain.len(), steps.len());
            prop_assert_eq!(plain, rough, "depth {:?}", depth);
        }
    }
}

#[test]
fn long_settling_only_considers_waiting_requests() {
    let Parameters::Disk(disk) = DeviceModel::builtin("hdd:st500dm002").unwrap().parameters else {
        panic!("a disk drive")
    };
    let disk = Disk { write_cache_bytes: 0, write_settle_ms: 1e6, ..disk };
    let steps: Vec<Step> = (0..13).map(|number| (60, 0.2 + f64::from(number * 7 % 13) / 20.0, 1, 0)).collect();
    assert_eq!(times(&disk, &steps, 1.0, Some(5), true), times(&disk, &steps, 1.0, Some(5), false));
}
