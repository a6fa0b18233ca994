//! Records gathered by cell.

use super::*;
use senesce_core::analysis::Better;

const STUDY: &str = r#"
name = "t"
size = "512M"
models = ["850-evo"]
file_system = [{ kind = "ext4" }, { kind = "xfs" }]
state = [{ kind = "fresh" }]
workload = [{ personality = "webserver" }]
"#;

fn event(fs: usize, twin: bool, measured: f64, modelled: f64) -> RunEvent {
    let metric = |name: &str, value| Measurement::new(name, "operations/s", Better::Higher, value).unwrap();
    RunEvent {
        id: RunId { on: ImageId { fs, state: 0, image: 0 }, workload: 0, repetition: 0, twin },
        metrics: vec![metric(THROUGHPUT, measured), metric("throughput, modelled 850-evo", modelled)],
        overhead_seconds: 0.1,
        seconds: 1.0,
        guest: None,
    }
}

#[test]
fn fast_modelled_drive_is_compared_by_drive_time() {
    let spec = StudySpec::parse("t", STUDY).unwrap();
    let idle = |modelled: f64| idle_models(&spec, &[event(0, false, 100.0, 100.0), event(1, false, 100.0, modelled)]);
    assert_eq!(idle(100.0), BTreeSet::from([(0, "850-evo".to_string())]));
    assert!(idle(90.0).is_empty());
    assert!(
        depends_on_drive("drive time, modelled 850-evo", true)
            && !depends_on_drive("throughput, modelled 850-evo", true)
    );
    assert!(
        depends_on_drive("throughput, modelled 850-evo", false)
            && depends_on_drive("cold read time, modelled 850-evo", false)
    );
}

#[test]
fn emulated_times_stay_separate() {
    let on = |guest: Option<&str>| RunEvent { guest: guest.map(str::to_string), ..event(0, false, 1.0, 1.0) };
    let cell = |events: &[RunEvent]| cells(events).remove(0);
    assert!(cell(&[on(Some("kvm")), on(Some("tcg"))]).emulated);
    let kvm = cell(&[on(Some("kvm")), on(Some("kvm"))]);
    assert!(kvm.in_guest && !kvm.emulated && kvm.has_bar());
    assert!(!cell(&[on(Some("tcg")), on(Some("tcg"))]).has_bar());
    assert!(!cell(&[on(None)]).in_guest);
}

#[test]
fn workload_is_compared_by_its_first_metric() {
    let metric = |name: &str| Measurement::new(name, "s", Better::Lower, 1.0).unwrap();
    let of = |workload: usize, names: [&str; 2]| {
        let own = event(0, false, 1.0, 1.0);
        RunEvent { id: RunId { workload, ..own.id }, metrics: names.map(metric).to_vec(), ..own }
    };
    let events = [of(0, ["wall time", "size"]), of(1, ["printed", "wall time"])];
    let (judged, others) = primary_and_other_cells(&events, &BTreeSet::new());
    let names = |cells: &[Cell]| -> Vec<(usize, String)> {
        cells.iter().map(|cell| (cell.id.workload, cell.what.metric.clone())).collect()
    };
    assert_eq!(names(&judged), [(0, "wall time".to_string()), (1, "printed".to_string())]);
    assert_eq!(names(&others), [(0, "size".to_string()), (1, "wall time".to_string())]);
}

#[test]
fn study_without_a_successful_run_has_no_measured_cell() {
    let spec = StudySpec::parse("t", STUDY).unwrap();
    let failed =
        |fs| PastEvent::Failed(FailedRun { id: event(fs, false, 1.0, 1.0).id, reason: "no space".into() }, 1.0);
    let results = Results::gather(spec, &[failed(0), failed(1)], Vec::new(), Vec::new());
    assert_eq!(crate::answer::sentence(&results), "No cell was measured: 2 runs failed.");
}

#[test]
fn failed_runs_are_grouped_by_reason() {
    let spec = StudySpec::parse("t", STUDY).unwrap();
    let failed = |fs, repetition, reason: &str| {
        let id = RunId { repetition, ..event(fs, false, 1.0, 1.0).id };
        PastEvent::Failed(FailedRun { id, reason: reason.into() }, 1.0)
    };
    let reasons = [(0, 0, "no space"), (0, 1, "lost 0.1 s"), (1, 0, "lost 0.2 s"), (1, 1, "lost 0.3 s")];
    let past = reasons.map(|(fs, repetition, reason)| failed(fs, repetition, reason));
    let results = Results::gather(spec, &past, Vec::new(), Vec::new());
    let tables = crate::analysis_of(&results).tables;
    let failed = tables.iter().find(|table| table.id == "failed").unwrap();
    let expected = serde_json::json!([
        [3, "lost 0.1 s", "ext4 / fresh / webserver (1), xfs / fresh / webserver (2)"],
        [1, "no space", "ext4 / fresh / webserver"],
    ]);
    assert_eq!(serde_json::json!(failed.rows), expected);
}

#[test]
fn single_cell_is_reported_without_counts_of_comparisons() {
    let spec = StudySpec::parse("t", &STUDY.replace(", { kind = \"xfs\" }", "")).unwrap();
    let results = Results::gather(spec, &[PastEvent::Run(event(0, false, 1.0, 1.0))], Vec::new(), Vec::new());
    assert!(results.answers.is_empty());
    let sentence = "One cell was measured; compare it with another study with senesce compare.";
    assert_eq!(crate::analysis_of(&results).summary, sentence);
}

#[test]
fn replaced_image_gives_a_caveat() {
    let spec = StudySpec::parse("t", STUDY).unwrap();
    let remade = BTreeSet::from([ImageId { fs: 1, state: 0, image: 0 }]);
    let results = Results { remade, ..Results::gather(spec, &[], Vec::new(), Vec::new()) };
    let caveats = crate::analysis_of(&results).caveats;
    assert!(caveats.iter().any(|message| message.contains("image 0 of xfs, fresh")), "{caveats:?}");
}

#[test]
fn single_value_has_no_interval_bar() {
    let one = cells(&[event(0, false, 1.0, 1.0)]);
    let two = cells(&[event(0, false, 1.0, 1.0), event(0, false, 2.0, 2.0)]);
    assert!(one.iter().all(|cell| !cell.has_bar()) && two.iter().all(Cell::has_bar));
}
