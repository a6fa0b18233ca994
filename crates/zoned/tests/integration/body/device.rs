//! One test body for every drive: state machine, limits, errors, appends at depth, jobs.

use rustix::fs::OFlags;
use senesce_core::interrupt::Interrupt;
use senesce_core::{Bytes, Progress, Seed, Silent};
use senesce_zoned::hardware::{RingOptions, Submission, open_claimed_by, open_for_reading};
use senesce_zoned::job::{Activity, ActorSpec, Job, Preparation, PrepareStep, Zones};
use senesce_zoned::run::{DeviceName, RunOptions, open, run_job};
use senesce_zoned::session::Session;
use senesce_zoned::sim::HostPath;
use senesce_zoned::{Command, Operation, ZoneFault, ZoneInfo, ZoneState, ZonedDevice, ZonedError};
use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

struct Body<'a> {
    device: &'a mut dyn ZonedDevice,
}

impl Body<'_> {
    fn run(&mut self, operation: Operation, zone: u32, offset: u64, blocks: u32) -> Result<u64, ZoneFault> {
        let block = self.device.geometry().start(zone) + offset;
        self.device.execute(Command { tag: 0, queue: 0, operation, zone, block, blocks }).unwrap().result
    }

    fn info(&mut self, zone: u32) -> ZoneInfo {
        self.device.report(zone, 1).unwrap()[0]
    }

    fn reset_all(&mut self) {
        for zone in 0..self.device.geometry().zones.min(40) {
            if self.info(zone).state != ZoneState::Empty {
                self.run(Operation::Reset, zone, 0, 0).unwrap();
            }
        }
    }

    /// Every state that commands can reach, and back to empty.
    fn states(&mut self) {
        assert_eq!(self.info(0).state, ZoneState::Empty);
        self.run(Operation::Write, 0, 0, 8).unwrap();
        assert_eq!(self.info(0).state, ZoneState::ImplicitlyOpen);
        assert_eq!(self.info(0).written(), 8);
        self.run(Operation::Open, 0, 0, 0).unwrap();
        assert_eq!(self.info(0).state, ZoneState::ExplicitlyOpen);
        self.run(Operation::Close, 0, 0, 0).unwrap();
        assert_eq!(self.info(0).state, ZoneState::Closed);
        self.run(Operation::Write, 0, 8, 8).unwrap();
        assert_eq!(self.info(0).state, ZoneState::ImplicitlyOpen);
        self.run(Operation::Finish, 0, 0, 0).unwrap();
        assert_eq!(self.info(0).state, ZoneState::Full);
        self.run(Operation::Read, 0, 0, 8).unwrap();
        self.run(Operation::Reset, 0, 0, 0).unwrap();
        assert_eq!(self.info(0).state, ZoneState::Empty);
    }

    /// Commands that the drive must refuse.
    fn errors(&mut self) {
        assert_eq!(self.run(Operation::Write, 1, 8, 8), Err(ZoneFault::NotAtPointer));
        self.run(Operation::Finish, 1, 0, 0).unwrap();
        assert_eq!(self.run(Operation::Write, 1, 0, 8), Err(ZoneFault::Full));
        assert_eq!(self.run(Operation::Open, 1, 0, 0), Err(ZoneFault::InvalidTransition));
        self.run(Operation::Reset, 1, 0, 0).unwrap();
        assert_eq!(self.run(Operation::Close, 1, 0, 0), Err(ZoneFault::InvalidTransition));
    }

    fn limits(&mut self) {
        let limit = self.device.geometry().max_open;
        if limit == 0 || limit >= self.device.geometry().zones {
            return println!("{} has no limit of open zones", self.device.geometry().name);
        }
        for zone in 0..limit {
            self.run(Operation::Open, zone, 0, 0).unwrap();
        }
        let refused = self.run(Operation::Open, limit, 0, 0);
        assert!(matches!(refused, Err(ZoneFault::TooManyOpen | ZoneFault::TooManyActive)), "{refused:?}");
        self.run(Operation::Close, 0, 0, 0).unwrap();
        self.run(Operation::Finish, 0, 0, 0).unwrap();
        self.run(Operation::Open, limit, 0, 0).unwrap();
        self.reset_all();
    }
}

/// Appends at depth fill a zone without gaps or overlaps.
fn appends_at_depth(device: &mut dyn ZonedDevice) {
    if device.geometry().append_limit == 0 {
        return println!("{} offers no appends", device.geometry().name);
    }
    let (zone, blocks, total) = (2, 4u32, 256u32);
    let start_info = device.report(zone, 1).unwrap()[0];
    assert_eq!(start_info.state, ZoneState::Empty);
    let start = device.geometry().start(zone);
    device.reserve(8, 64 << 10).unwrap();
    let command = |tag| Command { tag, queue: 0, operation: Operation::Append, zone, block: start, blocks };
    let mut places = Vec::new();
    for tag in 0..8 {
        device.submit(command(tag)).unwrap();
    }
    let mut submitted = 8;
    while places.len() < total as usize {
        let Some(completion) = device.next(u64::MAX).unwrap() else { continue };
        places.push(completion.result.unwrap() - start);
        if submitted < total {
            device.submit(command(completion.tag)).unwrap();
            submitted += 1;
        }
    }
    places.sort_unstable();
    let expected: Vec<u64> = (0..u64::from(total)).map(|index| index * u64::from(blocks)).collect();
    assert_eq!(places, expected);
}

fn single_commands(device: &mut dyn ZonedDevice) {
    let mut body = Body { device };
    body.reset_all();
    body.states();
    body.errors();
    body.limits();
    appends_at_depth(body.device);
    body.reset_all();
}

/// Concurrent actors through the job runner.
fn jobs(name: &DeviceName, way: HostPath, submission: Submission, erase: Option<&str>) {
    let actor = |op, zones| ActorSpec { zones, count: Some(200), bs: Bytes::kib(16), ..ActorSpec::new(op) };
    let qd = if submission == Submission::Ioctl { 1 } else { 4 };
    let mut actors = vec![
        actor(Activity::Write, Zones::Range(0, 2)),
        ActorSpec { qd, ..actor(Activity::RandomRead, Zones::Range(2, 3)) },
        ActorSpec { count: Some(2), occupancy: Some(0.01), ..actor(Activity::Reset, Zones::Range(4, 6)) },
        ActorSpec { count: Some(2), occupancy: Some(0.01), ..actor(Activity::Finish, Zones::Range(6, 8)) },
        ActorSpec { count: Some(3), ..actor(Activity::OpenClose, Zones::Range(8, 9)) },
    ];
    if way.bypasses_block_layer() {
        actors.push(ActorSpec { qd, ..actor(Activity::Append, Zones::Range(9, 10)) });
    }
    let interrupt = Interrupt::new();
    let options = RunOptions { seed: Seed(1), progress: &Silent, interrupt: &interrupt };
    let result = run_job(name, &Job { path: way, submission, ..Job::of(actors) }, erase, &options).unwrap();
    for actor in &result.actors {
        assert_eq!(actor.tally.error_count(), 0, "{} {:?}", actor.name, actor.tally.errors);
        assert!(actor.tally.commands > 0, "{}", actor.name);
    }
}

/// Another program that writes one block when the workers of a job are about to begin.
struct ForeignWriter<'a> {
    path: &'a Path,
    way: HostPath,
    zone: u32,
}

impl ForeignWriter<'_> {
    fn write(&self) {
        let mut device = open_for_reading(self.path, self.way).unwrap();
        let (block, block_bytes) = (device.geometry().start(self.zone), device.geometry().block_bytes as usize);
        if self.way.bypasses_block_layer() {
            device.reserve(1, block_bytes as u32).unwrap();
            let append = Command { tag: 0, queue: 0, operation: Operation::Append, zone: self.zone, block, blocks: 1 };
            device.execute(append).unwrap().result.unwrap();
            return;
        }
        let file = File::options().write(true).custom_flags(OFlags::DIRECT.bits() as i32).open(self.path).unwrap();
        let memory = vec![7; 2 * block_bytes];
        let skip = memory.as_ptr().align_offset(block_bytes);
        file.write_all_at(&memory[skip..skip + block_bytes], block * block_bytes as u64).unwrap();
    }
}

impl Progress for ForeignWriter<'_> {
    fn phase(&self, name: &str, _total: u64, _unit: &str) {
        if name == "run" {
            self.write();
        }
    }
}

/// A foreign block is detected by the write pointers even if no command of the job fails, both in zones of the job and
/// elsewhere.
fn detect_foreign_block(path: &Path, way: HostPath, submission: Submission) {
    let (op, zone) = if way.bypasses_block_layer() { (Activity::Append, 9) } else { (Activity::Write, 11) };
    let interrupt = Interrupt::new();
    let options = RunOptions { seed: Seed(1), progress: &ForeignWriter { path, way, zone }, interrupt: &interrupt };
    let actor = ActorSpec { zones: Zones::Range(9, 10), count: Some(200), ..ActorSpec::new(op) };
    let reset = Preparation { step: PrepareStep::Reset, zones: Zones::Range(9, 12), to: 1.0 };
    let job = Job { path: way, submission, prepare: Some(vec![reset]), ..Job::of(vec![actor]) };
    match run_job(&DeviceName::Path(path.into()), &job, path.to_str(), &options) {
        Err(ZonedError::Disturbed { zone: found, ours, found: blocks, more: 0 }) => {
            assert_eq!((found, blocks), (zone, ours + 1));
        }
        other => panic!("{way:?}: {other:?}"),
    }
}

/// A foreign block between two jobs of a run is detected too, and the leftover has no content hash any more.
fn detect_foreign_block_between_jobs(path: &Path, way: HostPath, submission: Submission) {
    let interrupt = Interrupt::new();
    let options = RunOptions { seed: Seed(1), progress: &Silent, interrupt: &interrupt };
    let actor = ActorSpec { zones: Zones::Range(9, 10), count: Some(20), ..ActorSpec::new(Activity::Write) };
    let reset = Preparation { step: PrepareStep::Reset, zones: Zones::Range(9, 12), to: 1.0 };
    let job = Job { path: way, submission, prepare: Some(vec![reset]), ..Job::of(vec![actor]) };
    for by_single_commands in [false, true] {
        let mut session = Session::new(DeviceName::Path(path.into()), path.to_str(), None);
        session.run(&job, &options).unwrap();
        assert!(session.leftover().unwrap().unwrap().content.is_some());
        session.run(&job, &options).unwrap();
        ForeignWriter { path, way, zone: 11 }.write();
        assert!(session.leftover().unwrap().unwrap().content.is_none());
        let found = match by_single_commands {
            true => session.open(4096, Seed(1)).map(drop),
            false => session.run(&job, &options).map(drop),
        };
        assert!(matches!(found, Err(ZonedError::Disturbed { zone: 11, ours: 0, found: 1, more: 0 })), "{found:?}");
        session.open(4096, Seed(1)).unwrap();
        assert!(session.leftover().unwrap().unwrap().content.is_none());
    }
}

#[allow(dead_code)]
pub fn simulated(model: &str) {
    let name = DeviceName::Sim(model.into());
    single_commands(&mut *open(&name, None, None, Seed(1)).unwrap());
    for way in HostPath::ALL {
        jobs(&name, way, Submission::IoUring, None);
    }
}

/// Runs the body on a real drive, destroying its data: single commands and jobs by one path.
#[allow(dead_code)]
pub fn drive(path: &Path, way: HostPath, submission: Submission) {
    let erase = path.to_str();
    let rings = RingOptions { submission, ..RingOptions::default() };
    let mut device = open_claimed_by(path, way, rings, erase).unwrap();
    single_commands(&mut *device);
    drop(device);
    jobs(&DeviceName::Path(path.into()), way, submission, erase);
    detect_foreign_block(path, way, submission);
    detect_foreign_block_between_jobs(path, way, submission);
}
