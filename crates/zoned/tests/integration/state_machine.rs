//! Random commands on the simulated and the null drive, compared with the reference state machine.

#[path = "body/reference.rs"]
mod reference;

use proptest::prelude::*;
use reference::Reference;
use senesce_core::Seed;
use senesce_zoned::null::NullDevice;
use senesce_zoned::sim::model::Model;
use senesce_zoned::sim::{SimDevice, SimOptions};
use senesce_zoned::{Command, Operation, ZoneState, ZonedDevice};

/// A small drive: 12 zones of 3 MiB in steps of 4 MiB, 4 open, 6 active.
fn small_model() -> Model {
    let mut model = Model::load("zn540").unwrap();
    model.geometry.zones = 12;
    model.geometry.zone_size_mib = 4;
    model.geometry.zone_capacity_mib = 3;
    model.geometry.max_open = 4;
    model.geometry.max_active = 6;
    model
}

#[derive(Debug, Clone)]
struct Attempt {
    operation: Operation,
    zone: u32,
    blocks: u32,
    /// Distance in blocks from the valid position; usually 0.
    astray: u64,
}

fn attempt() -> impl Strategy<Value = Attempt> {
    let operation = prop_oneof![
        5 => Just(Operation::Write),
        4 => Just(Operation::Append),
        2 => Just(Operation::Read),
        3 => Just(Operation::Open),
        3 => Just(Operation::Close),
        1 => Just(Operation::Finish),
        2 => Just(Operation::Reset),
    ];
    let blocks = prop_oneof![4 => 1u32..=256, 1 => Just(256u32)];
    (operation, 0u32..12, blocks, prop_oneof![12 => Just(0u64), 1 => 1u64..2000])
        .prop_map(|(operation, zone, blocks, astray)| Attempt { operation, zone, blocks, astray })
}

fn command(attempt: &Attempt, reference: &Reference, zone_blocks: u64) -> Command {
    let start = u64::from(attempt.zone) * zone_blocks;
    let pointer = reference.pointers[attempt.zone as usize];
    let block = match attempt.operation {
        Operation::Write => start + pointer + attempt.astray,
        _ => start + attempt.astray,
    };
    let moves = attempt.operation.moves_data();
    Command {
        tag: 0,
        queue: 0,
        operation: attempt.operation,
        zone: attempt.zone,
        block: if moves { block } else { start },
        blocks: if moves { attempt.blocks } else { 0 },
    }
}

fn agree(device: &mut dyn ZonedDevice, attempts: &[Attempt], lost: Option<(usize, u32, ZoneState)>) {
    let geometry = device.geometry().clone();
    let mut reference = Reference::new(&geometry);
    for (index, attempt) in attempts.iter().enumerate() {
        if let Some((when, zone, state)) = lost
            && when == index
        {
            reference.states[zone as usize] = state;
        }
        let command = command(attempt, &reference, geometry.zone_blocks);
        let expected = reference.apply(&command);
        let answer = device.execute(command).unwrap();
        assert_eq!(answer.result, expected, "{index}: {command:?}");
        assert!(answer.completed_ns >= answer.submitted_ns);
        let zones = device.report(0, geometry.zones).unwrap();
        for info in zones.iter().take(12) {
            let zone = info.zone as usize;
            assert_eq!(info.state, reference.states[zone], "{index}: zone {zone} after {command:?}");
            if info.state.is_active() {
                assert_eq!(info.pointer - info.start, reference.pointers[zone], "{index}: zone {zone}");
            }
        }
        assert!(reference.open() <= geometry.max_open as usize && reference.active() <= geometry.max_active as usize);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn the_simulated_drive_follows_the_reference(attempts in proptest::collection::vec(attempt(), 1..120)) {
        let mut device = SimDevice::new(&small_model(), SimOptions::default(), Seed(1)).unwrap();
        agree(&mut device, &attempts, None);
    }

    #[test]
    fn lost_zones_answer_as_specified(
        attempts in proptest::collection::vec(attempt(), 20..60),
        zone in 0u32..12,
        read_only in any::<bool>(),
    ) {
        let state = if read_only { ZoneState::ReadOnly } else { ZoneState::Offline };
        let mut device = SimDevice::new(&small_model(), SimOptions::default(), Seed(1)).unwrap();
        device.fail_zone(zone, state, 0);
        device.next(1).unwrap();
        agree(&mut device, &attempts, Some((0, zone, state)));
    }

    #[test]
    fn the_null_drive_follows_the_reference(attempts in proptest::collection::vec(attempt(), 1..60)) {
        agree(&mut NullDevice::new(None).unwrap(), &attempts, None);
    }
}
