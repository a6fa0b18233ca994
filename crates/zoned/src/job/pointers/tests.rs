use super::*;
use crate::command::{Command, Completion, Operation};
use crate::device::{Clock, ZonedDevice};
use crate::geometry::Geometry;
use crate::job::{Activity, ActorSpec, Job, Preparation, Span, Zones};
use crate::null::NullDevice;
use crate::run::{RunOptions, check_on, run_prepared, run_sim};
use crate::sim::model::Model;
use senesce_core::interrupt::Interrupt;
use senesce_core::{Bytes, Seed, Silent};

const STRANGER: u32 = u32::MAX;

/// A drive to which another program sends a command before the command with number `before`, from 0.
struct DisturbedDrive {
    drive: NullDevice,
    before: u32,
    command: Command,
}

impl ZonedDevice for DisturbedDrive {
    fn geometry(&self) -> &Geometry {
        self.drive.geometry()
    }

    fn clock(&self) -> Clock {
        self.drive.clock()
    }

    fn now_ns(&mut self) -> u64 {
        self.drive.now_ns()
    }

    fn reserve(&mut self, commands: u32, transfer_bytes: u32) -> Result<(), ZonedError> {
        self.drive.reserve(commands, transfer_bytes)
    }

    fn submit(&mut self, command: Command) -> Result<(), ZonedError> {
        if self.before == 0 {
            self.drive.submit(self.command)?;
        }
        self.before = self.before.wrapping_sub(1);
        self.drive.submit(command)
    }

    fn next(&mut self, until_ns: u64) -> Result<Option<Completion>, ZonedError> {
        loop {
            match self.drive.next(until_ns)? {
                Some(completion) if completion.tag == STRANGER => assert!(completion.result.is_ok(), "{completion:?}"),
                other => return Ok(other),
            }
        }
    }

    fn report(&mut self, first: u32, count: u32) -> Result<Vec<ZoneInfo>, ZonedError> {
        self.drive.report(first, count)
    }

    fn presets(&self) -> bool {
        true
    }

    fn preset(&mut self, zone: u32, blocks: Option<u64>) -> Result<bool, ZonedError> {
        self.drive.preset(zone, blocks)
    }
}

fn options(interrupt: &Interrupt) -> RunOptions<'_> {
    RunOptions { seed: Seed(1), progress: &Silent, interrupt }
}

/// Returns the result of a job when another program appends a block to a zone before the given command.
fn visited(actor: ActorSpec, zone: u32, before: u32) -> Result<(), String> {
    visited_by((Operation::Append, 1), actor, zone, before)
}

fn visited_by((operation, blocks): (Operation, u32), actor: ActorSpec, zone: u32, before: u32) -> Result<(), String> {
    let drive = NullDevice::new(None).unwrap();
    let block = drive.geometry().start(zone);
    let command = Command { tag: STRANGER, queue: 0, operation, zone, block, blocks };
    let mut drive = DisturbedDrive { drive, before, command };
    let checked = check_on(&mut drive, &Job::of(vec![actor])).unwrap();
    let interrupt = Interrupt::new();
    let unusable = crate::job::prepare::prepare(&mut drive, &checked, &Silent, &interrupt).unwrap();
    assert!(unusable.is_empty());
    run_prepared(&mut drive, &checked, &options(&interrupt)).map(drop).map_err(|error| error.to_string())
}

fn append(count: u64) -> ActorSpec {
    ActorSpec { count: Some(count), qd: 4, zones: Zones::Range(0, 2), ..ActorSpec::new(Activity::Append) }
}

#[test]
fn foreign_block_between_appends_is_detected() {
    assert_eq!(visited(append(100), 0, u32::MAX), Ok(()));
    let found = visited(append(100), 1, 17).unwrap_err();
    assert!(found.starts_with("zone 1 is written up to block 101, but this run wrote 100 there: another"), "{found}");
    let unused = visited(append(100), 9, 17).unwrap_err();
    assert!(unused.starts_with("zone 9 is written up to block 1, but this run wrote 0"), "{unused}");
}

/// Covers a drive that refuses the job's next command in that zone: the worker leaves the zone, and the result is
/// invalid.
#[test]
fn foreign_command_that_makes_ours_fail_is_detected() {
    let write = ActorSpec { op: Activity::Write, qd: 1, jobs: Some(1), ..append(100) };
    let first = visited(write.clone(), 0, 17).unwrap_err();
    assert!(first.starts_with("zone 0 is written up to block 18, but this run wrote 17"), "{first}");
    let reset = visited_by((Operation::Reset, 0), write, 0, 17).unwrap_err();
    assert!(reset.starts_with("zone 0 is written up to block 0, but this run wrote 17"), "{reset}");
    let full = visited_by((Operation::Finish, 0), append(100), 0, 17).unwrap_err();
    assert!(full.starts_with("zone 0 is written up to block 275712, but this run wrote 9 there"), "{full}");
}

#[test]
fn foreign_block_in_a_read_zone_is_detected() {
    let read = ActorSpec { op: Activity::RandomRead, ..append(50) };
    let half = Preparation { step: PrepareStep::Fill, zones: Zones::Range(0, 2), to: 0.5 };
    let job = |before| {
        let drive = NullDevice::new(None).unwrap();
        let command = Command { tag: STRANGER, queue: 0, operation: Operation::Append, zone: 0, block: 0, blocks: 1 };
        let mut drive = DisturbedDrive { drive, before, command };
        let checked = check_on(&mut drive, &Job { prepare: Some(vec![half.clone()]), ..Job::of(vec![read.clone()]) });
        let (checked, interrupt) = (checked.unwrap(), Interrupt::new());
        crate::job::prepare::prepare(&mut drive, &checked, &Silent, &interrupt).unwrap();
        run_prepared(&mut drive, &checked, &options(&interrupt)).map(drop)
    };
    job(u32::MAX).unwrap();
    assert!(matches!(job(20), Err(ZonedError::Disturbed { zone: 0, more: 0, .. })));
}

#[test]
fn derived_pointers_match_the_report_after_every_kind_of_job() {
    let model = Model::load("zn540").unwrap();
    let sized = |op, bytes| ActorSpec { bs: bytes, qd: 1, zones: Zones::Range(0, 3), ..ActorSpec::new(op) };
    let filled = |op| ActorSpec { occupancy: Some(0.01), ..sized(op, Bytes::kib(4)) };
    let actors = [
        ActorSpec { jobs: Some(1), ..sized(Activity::Write, Bytes::mib(1)) },
        ActorSpec { qd: 8, ..sized(Activity::Append, Bytes::kib(16)) },
        filled(Activity::Reset),
        filled(Activity::Finish),
        sized(Activity::OpenClose, Bytes::kib(4)),
        sized(Activity::RandomRead, Bytes::kib(4)),
        sized(Activity::Reset, Bytes::kib(4)),
        sized(Activity::Finish, Bytes::kib(4)),
    ];
    for actor in actors {
        let once = actor.op.manages() && actor.occupancy.is_none() && actor.op != Activity::OpenClose;
        // Zones of 1077 MiB are rewritten in 10 s by the fastest writer.
        for milliseconds in [1, 7, 113, 10_000] {
            let time = Some(Span::seconds(f64::from(milliseconds) / 1e3)).filter(|_| !once);
            let actor = ActorSpec { time, ..actor.clone() };
            run_sim(&model, &Job::of(vec![actor.clone()]), &options(&Interrupt::new()))
                .unwrap_or_else(|error| panic!("{actor:?}: {error}"));
        }
        let ended = Interrupt::new();
        ended.request();
        let long = ActorSpec { time: Some(Span::seconds(60.0)).filter(|_| !once), ..actor };
        run_sim(&model, &Job::of(vec![long]), &options(&ended)).unwrap();
    }
}

#[test]
fn preparation_steps_update_pointers() {
    let mut drive = NullDevice::new(None).unwrap();
    drive.preset(1, Some(77)).unwrap();
    drive.preset(2, Some(77)).unwrap();
    drive.make(5, ZoneState::Offline);
    let step = |step, first, end, to| Preparation { step, zones: Zones::Range(first, end), to };
    let job = Job {
        prepare: Some(vec![
            step(PrepareStep::Reset, 0, 2, 1.0),
            step(PrepareStep::Fill, 3, 6, 0.25),
            step(PrepareStep::Finish, 4, 5, 1.0),
            step(PrepareStep::Open, 6, 7, 1.0),
        ]),
        ..Job::of(vec![ActorSpec { zones: Zones::Range(8, 9), ..append(1) }])
    };
    let checked = check_on(&mut drive, &job).unwrap();
    let all = drive.geometry().zones;
    let before = drive.report(0, all).unwrap();
    let mut pointers = Pointers::of(&before);
    crate::job::prepare::prepare(&mut drive, &checked, &Silent, &Interrupt::new()).unwrap();
    pointers.prepare(&checked.steps, &before);
    let after = drive.report(0, all).unwrap();
    assert_eq!((after[1].written(), after[2].written(), after[3].written()), (0, 77, after[3].capacity / 4));
    assert_eq!(after[4].state, ZoneState::Full);
    pointers.check(&after).unwrap();
    assert!(Pointers::of(&before).check(&after).is_err());
}
