use super::*;
use senesce_core::interrupt::Interrupt;
use senesce_core::{Progress, Record};
use senesce_runner::{Conduct, State, conduct};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

fn small(device: &str) -> Spec {
    Spec { repetitions: 2, commands: 300, seconds: 0.1, rounds: 10, ..Spec::of(device, "zn540") }
}

struct After<'a>(AtomicU32, u32, &'a Interrupt);

impl Progress for After<'_> {
    fn phase(&self, _words: &str, _total: u64, _unit: &str) {
        if self.0.fetch_add(1, Ordering::Relaxed) == self.1 {
            self.2.request();
        }
    }
}

fn measured_points(path: &Path) -> usize {
    let record = Record::open(path).unwrap();
    measured(&Recorded::of(&record).unwrap()).count()
}

#[test]
fn interrupted_run_continues_to_a_complete_model() {
    let room = tempfile::tempdir().unwrap();
    let out = room.path().join("run");
    let spec = small("sim:zn540");
    let interrupt = Interrupt::new();
    let progress = After(AtomicU32::new(0), 3, &interrupt);
    let ended = Conduct { progress: &progress, interrupt: &interrupt, ..Conduct::quietly(&out) };
    let outcome = conduct::<ZonedModel>(&spec, Seed(3), &ended).unwrap();
    assert_eq!(outcome.state, State::Interrupted);
    let before = measured_points(&out);
    let outcome = conduct::<ZonedModel>(&spec, Seed(3), &Conduct::quietly(&out)).unwrap();
    assert_eq!(outcome.state, State::Done);
    let points = measured_points(&out);
    assert!(before > 0 && points >= before, "{before} {points}");
    let planned = ZonedModel::steps(&spec, Seed(3)).unwrap();
    let wanted = planned.iter().filter(|planned| matches!(planned.step, Step::Measure { .. })).count();
    assert_eq!(points, wanted, "each point as often as asked, none twice");
    let result = outcome.analysis.result;
    let model = Model::parse(result["model"].as_str().unwrap()).unwrap();
    let fit = model.fit.as_ref().unwrap();
    assert!(fit.deviation.len() > 40 && fit.errors > 50, "{fit:?}");
    assert!(fit.drive.contains("sim:zn540") && fit.drive.contains("simulated"), "{fit:?}");
    assert!(result["errors"].as_array().unwrap().len() > 8);
    let unsettled = result["unsettled"].as_array().unwrap();
    assert_eq!(result["settled"], unsettled.is_empty());
    let stated = outcome.analysis.caveats.iter().any(|words| words.contains("did not converge"));
    assert_eq!(stated, !unsettled.is_empty());
    let searched = Record::open(&out).unwrap();
    let searched = Recorded::<ZonedModel>::of(&searched).unwrap();
    let searched = searched.events().filter(|event| matches!(event, Event::Searched { .. })).count();
    let searches = planned.iter().filter(|planned| matches!(planned.step, Step::Fit { .. })).count();
    assert_eq!(searched, searches);
    let constants = result["constants"].as_array().unwrap();
    assert!(constants.iter().any(|one| one["name"] == "read.fixed_us"));
    let kept = result["from_start_model"].as_array().unwrap();
    assert!(kept.iter().any(|name| name == "flash.dies") && !kept.iter().any(|name| name == "read.fixed_us"));
    let again = conduct::<ZonedModel>(&spec, Seed(3), &Conduct::quietly(&out)).unwrap();
    assert_eq!((again.state, &again.analysis.result), (State::WasDone, &result));
}

#[test]
fn point_names_are_unique() {
    for spec in [small("sim:zn540"), Spec::of("sim:zn540", "zn540")] {
        let planned = ZonedModel::steps(&spec, Seed(3)).unwrap();
        let mut steps: Vec<String> = planned.iter().map(|planned| format!("{:?}", planned.step)).collect();
        let all = steps.len();
        steps.sort();
        let twice: Vec<String> = steps.windows(2).filter(|two| two[0] == two[1]).map(|two| two[0].clone()).collect();
        steps.dedup();
        assert_eq!(steps.len(), all, "{twice:?}");
    }
}

#[test]
fn cost_on_a_real_drive_is_estimated_in_advance() {
    let plan = ZonedModel::plan(&Spec::of("null", "zn540"), Seed(1)).unwrap();
    assert!(plan.estimated_seconds > 600.0 && plan.bytes_to_write > 100 << 30, "{plan:?}");
    let simulated = ZonedModel::plan(&Spec::of("sim:zn540", "zn540"), Seed(1)).unwrap();
    assert_eq!(simulated.bytes_to_write, 0);
}

#[test]
fn inputs_that_cannot_give_a_model_are_refused() {
    let refused = |spec: Spec| {
        let error = ZonedModel::steps(&spec, Seed(1)).unwrap_err();
        assert_eq!(error.exit_code(), ExitCode::Usage);
        error.to_string()
    };
    assert!(refused(Spec { repetitions: 1, ..small("sim:zn540") }).contains("at least 2"));
    assert!(refused(Spec { commands: 5, ..small("sim:zn540") }).contains("too little"));
    assert!(refused(small("sim:nvme-a")).contains("has no zones"));
    assert!(refused(Spec { start: "nvme-a".into(), ..small("sim:zn540") }).contains("without zones"));
}

#[test]
fn changed_tables_are_detected() {
    let room = tempfile::tempdir().unwrap();
    let table = room.path().join("mine.csv");
    let rows: Vec<String> =
        (1..=8).map(|zones| format!("lbaf2,spdk,-,write,4096,{zones},1,{}", 80_000 + zones)).collect();
    let text = format!("lbaf,engine,sched,op,bs,zones,qd,iops\n{}\n", rows.join("\n"));
    std::fs::write(&table, &text).unwrap();
    let spec = Spec::of_tables(std::slice::from_ref(&table), "zn540").unwrap();
    assert!(
        ZonedModel::steps(&spec, Seed(1)).unwrap().iter().all(|planned| !matches!(planned.step, Step::Measure { .. }))
    );
    std::fs::write(&table, text.replace("80001", "90001")).unwrap();
    assert!(ZonedModel::steps(&spec, Seed(1)).unwrap_err().to_string().contains("begin another run"));
    assert!(Spec::of_tables(&["/nowhere/t.csv".into()], "zn540").unwrap_err().to_string().contains("/nowhere/t.csv"));
}
