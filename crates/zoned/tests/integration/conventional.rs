//! A zoned drive whose first zones are conventional: allowed commands, and the guard's refusal of jobs.

use senesce_core::Seed;
use senesce_core::failure::{Classify, ExitCode};
use senesce_core::interrupt::Interrupt;
use senesce_zoned::fit::design::{Effort, design};
use senesce_zoned::job::{Activity, ActorSpec, Job, Zones};
use senesce_zoned::manage::{Action, Choice, list, manage};
use senesce_zoned::run::{DeviceName, RunOptions, run_sim};
use senesce_zoned::sim::model::Model;
use senesce_zoned::sim::{SimDevice, SimOptions};
use senesce_zoned::survey::Survey;
use senesce_zoned::{Command, Operation, ZoneFault, ZoneState, ZonedDevice};

const CONVENTIONAL: u32 = 3;

fn model() -> Model {
    let mut model = Model::load("zn540").unwrap();
    model.geometry.conventional_zones = CONVENTIONAL;
    (model.geometry.zones, model.name) = (40, "mixed".into());
    model.checked().unwrap()
}

fn named(folder: &tempfile::TempDir) -> DeviceName {
    let file = folder.path().join("mixed.toml");
    std::fs::write(&file, model().to_toml().unwrap()).unwrap();
    DeviceName::Sim(file.display().to_string())
}

fn answer(drive: &mut SimDevice, operation: Operation, zone: u32, offset: u64, blocks: u32) -> Result<u64, ZoneFault> {
    let block = drive.geometry().start(zone) + offset;
    drive.execute(Command { tag: 0, queue: 0, operation, zone, block, blocks }).unwrap().result
}

#[test]
fn conventional_zones_accept_writes_anywhere_and_no_zone_commands() {
    let mut drive = SimDevice::new(&model(), SimOptions::default(), Seed(1)).unwrap();
    drive.reserve(1, 4096).unwrap();
    let size = drive.geometry().zone_blocks;
    for offset in [900, 7, 7, size - 1] {
        assert!(answer(&mut drive, Operation::Write, 1, offset, 1).is_ok(), "{offset}");
    }
    assert_eq!(answer(&mut drive, Operation::Write, 1, size - 1, 2), Err(ZoneFault::Boundary));
    assert_eq!(answer(&mut drive, Operation::Append, 1, 0, 1), Err(ZoneFault::Unsupported));
    for operation in [Operation::Open, Operation::Close, Operation::Finish, Operation::Reset] {
        assert_eq!(answer(&mut drive, operation, 1, 0, 0), Err(ZoneFault::InvalidTransition), "{operation}");
    }
    assert!(answer(&mut drive, Operation::Read, 1, 7, 1).is_ok());
    assert_eq!(answer(&mut drive, Operation::Write, CONVENTIONAL, 900, 1), Err(ZoneFault::NotAtPointer));
    let zones = drive.report(0, 40).unwrap();
    assert_eq!((zones[2].state, zones[2].capacity, zones[2].written()), (ZoneState::Conventional, size, 0));
    assert_eq!((zones[3].state, zones[3].capacity), (ZoneState::Empty, drive.geometry().capacity_blocks));
}

#[test]
fn no_job_uses_a_conventional_zone() {
    let options = RunOptions { seed: Seed(1), progress: &senesce_core::Silent, interrupt: &Interrupt::new() };
    for op in [Activity::Write, Activity::RandomRead, Activity::Reset, Activity::Finish] {
        let actor = |zones| ActorSpec { zones, count: Some(2), ..ActorSpec::new(op) };
        let error = run_sim(&model(), &Job::of(vec![actor(Zones::Range(2, 5))]), &options).unwrap_err();
        assert_eq!(error.exit_code(), ExitCode::Usage);
        let words = error.to_string();
        assert!(words.contains("zone 2 is conventional") && words.contains("the first one is zone 3"), "{words}");
        run_sim(&model(), &Job::of(vec![actor(Zones::Range(3, 5))]), &options).unwrap();
    }
}

#[test]
fn surveys_and_designs_skip_conventional_zones() {
    let folder = tempfile::tempdir().unwrap();
    let survey = Survey::of(&named(&folder)).unwrap();
    assert_eq!(survey.usable(), CONVENTIONAL..40);
    let design = design(&survey, Effort::usual(true)).unwrap();
    assert!(design.blocks.len() > 10, "every point would be refused on a conventional zone: {:?}", design.left_out);
}

#[test]
fn zone_commands_skip_conventional_zones_unless_named() {
    let folder = tempfile::tempdir().unwrap();
    let name = named(&folder);
    let reset = |choice| manage(&name, choice, Action::RESET, None).unwrap();
    let all = reset(Choice::All);
    assert_eq!((all.left_conventional, all.zones.len(), all.refused), (3, 40, vec![]));
    let named = reset(Choice::Range(2, 8));
    assert_eq!((named.left_conventional, named.refused), (0, vec![(2, ZoneFault::InvalidTransition)]));
    let rows = list(&name, Choice::All).unwrap().rows();
    assert!(rows[0].contains("0-2") && rows[0].contains("conventional") && rows[1].contains("3-39"), "{rows:?}");
}

#[test]
fn conventional_zones_of_a_model_are_limited() {
    let refused = |change: fn(&mut Model)| {
        let mut model = model();
        change(&mut model);
        model.checked().unwrap_err().to_string()
    };
    assert!(refused(|model| model.geometry.conventional_zones = 40).contains("conventional_zones"));
    assert!(refused(|model| model.zones = None).contains("conventional_zones"));
}
