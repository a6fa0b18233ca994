//! Lazy evaluation of releases must not change results: a drive that handles each release at its time completes all
//! commands at the same instants.

use super::model::{Curve, Model};
use super::*;
use crate::device::ZonedDevice;
use proptest::prelude::*;
use std::cell::Cell;

/// Action of the host: submit a command of a number of blocks, wait for a number of completions, then for some time.
#[derive(Debug, Clone)]
struct Step {
    operation: Operation,
    zone: u32,
    blocks: u32,
    completions: u32,
    wait: u64,
}

fn step() -> impl Strategy<Value = Step> {
    use Operation::{Append, Finish, Read, Reset, Write};
    let operation = prop::sample::select(vec![Write, Write, Write, Write, Append, Append, Read, Finish, Reset]);
    let blocks = prop::sample::select(vec![1, 2, 4, 8, 32, 200]);
    let wait = prop::sample::select(vec![0, 0, 0, 1000, 2000, 20_000]);
    (operation, 0..3u32, blocks, 0..3u32, wait).prop_map(|(operation, zone, blocks, completions, wait)| Step {
        operation,
        zone,
        blocks,
        completions,
        wait,
    })
}

/// Generates small drives with whole microseconds and no spread, so that many events coincide.
fn model() -> impl Strategy<Value = Model> {
    let parts = prop::sample::select(vec![1, 2, 4, 8]);
    let few = |times: Vec<f64>| prop::sample::select(times);
    let dies = prop::sample::select(vec![2, 4, 100]);
    let (loads, seconds) = (few(vec![0.0, 0.25, 1.0]), few(vec![0.0, 4.0, 40.0]));
    let (controllers, transfers) = (few(vec![0.0, 1.0]), few(vec![0.0, 0.25]));
    (parts, dies, loads, seconds, controllers, transfers, few(vec![0.0, 2.0])).prop_map(
        |(parts, dies, load, second, controller, transfer, fixed)| {
            let constant = |time| -> Curve { vec![(4.0, time)] };
            let mut model = Model::load("zn540").unwrap();
            (model.geometry.zones, model.geometry.max_open, model.geometry.max_active) = (4, 3, 3);
            (model.geometry.zone_size_mib, model.geometry.zone_capacity_mib) = (1, 1);
            let flash = &mut model.flash;
            (flash.dies, flash.unit_kib, flash.release_kib, flash.buffer_kib) = (dies, 16, 16 / parts, 80);
            (flash.load_us_per_kib, flash.second_half_us, flash.program_us) = (load, second, 60.0);
            flash.release_us = load * 16.0 / f64::from(parts);
            (flash.program_spread, flash.segment_spread, flash.window_kib) = (0.0, 0.0, 128);
            let write = &mut model.write;
            (write.jitter_us, write.transfer_us_per_kib) = (0.0, transfer);
            (write.controller_write_us, write.controller_append_us) = (constant(controller), constant(controller));
            (write.fixed_write_us, write.fixed_append_us) = (constant(fixed), constant(fixed));
            (write.opening_write_us, write.opening_append_us, write.reopening_us) = (0.0, 0.0, 0.0);
            for way in [&mut model.host.direct, &mut model.host.mq_deadline] {
                (way.submit_us, way.reap_us, way.delay_us) = (0.0, 0.0, constant(0.0));
            }
            let zones = model.zones.as_mut().unwrap();
            (zones.finish_tail_kib, zones.finish_us, zones.spread) = (0, 10.0, 0.0);
            (zones.reset_us, zones.reset_open_us, zones.reset_stops_programs_per_4k_ns) = (50.0, 0.0, 100.0);
            model
        },
    )
}

/// Long after the end of every command.
const NEVER: u64 = u64::MAX / 2;

thread_local! {
    static SEEN: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// Returns all completions in order, with the time after each completion and each wait.
fn completions(model: &Model, path: HostPath, eager: bool, steps: &[Step]) -> Vec<(Option<Completion>, u64)> {
    let mut drive = SimDevice::new(model, SimOptions { block_bytes: None, path }, Seed(1)).unwrap();
    drive.eager = eager;
    let (mut found, mut in_flight) = (Vec::new(), 0);
    let mut next = |drive: &mut SimDevice, in_flight: &mut u32, until: u64| {
        let completion = drive.next(until).unwrap();
        assert!(completion.is_some() || until < NEVER, "a command never ends");
        *in_flight -= u32::from(completion.is_some());
        found.push((completion, drive.now_ns()));
    };
    for (tag, step) in (0..).zip(steps) {
        let zone = drive.report(step.zone, 1).unwrap()[0];
        let operation = step.operation;
        let blocks = if operation.moves_data() { step.blocks } else { 0 };
        let block = zone.start + if operation == Operation::Write { zone.written() } else { 0 };
        let zone = zone.zone;
        drive.submit(Command { tag, queue: 0, operation, zone, block, blocks }).unwrap();
        in_flight += 1;
        SEEN.set((SEEN.get().0 + 1, SEEN.get().1 + usize::from(!eager && drive.has_waiting_commands())));
        for _ in 0..step.completions.min(in_flight) {
            next(&mut drive, &mut in_flight, NEVER);
        }
        if step.wait > 0 {
            let until = drive.now + step.wait;
            next(&mut drive, &mut in_flight, until);
        }
    }
    while in_flight > 0 {
        next(&mut drive, &mut in_flight, NEVER);
    }
    found
}

#[test]
fn lazy_releases_change_nothing() {
    let config = ProptestConfig { cases: 400, ..ProptestConfig::default() };
    let paths = prop::sample::select(vec![HostPath::Direct, HostPath::MqDeadline]);
    proptest!(config, |(model in model(), path in paths, steps in prop::collection::vec(step(), 1..120))| {
        let eager = completions(&model, path, true, &steps);
        let lazy = completions(&model, path, false, &steps);
        prop_assert_eq!(lazy, eager);
    });
    let (all, waiting) = SEEN.get();
    assert!(
        waiting > all / 50 && waiting < all / 2,
        "somebody waited at {waiting} of {all} commands: not much is compared"
    );
}

#[test]
fn refused_write_does_not_release_the_lock() {
    let model = Model::load("zn540").unwrap();
    let options = SimOptions { block_bytes: None, path: HostPath::MqDeadline };
    let mut drive = SimDevice::new(&model, options, Seed(1)).unwrap();
    let start = drive.report(0, 1).unwrap()[0].start;
    let write = |tag, block| Command { tag, queue: 0, operation: Operation::Write, zone: 0, block, blocks: 1 };
    // Each waits for the lock of the previous one; the middle one is not at the write pointer.
    let mut next_block = start;
    for (tag, is_wrong) in (0..).zip([false, false, true, false]) {
        drive.submit(write(tag, if is_wrong { start + 100 } else { next_block })).unwrap();
        next_block += u64::from(!is_wrong);
    }
    let ended: Vec<Completion> = (0..4).map(|_| drive.next(NEVER).unwrap().unwrap()).collect();
    let refused: Vec<u32> = ended.iter().filter(|one| one.result.is_err()).map(|one| one.tag).collect();
    assert_eq!(refused, [2]);
    assert_eq!(drive.locked, 0);
    assert!(drive.locks.iter().all(|lock| !lock.is_held()));
}
