use super::ranks::{make_target, spec};
use senesce_aging::CommitShare;
use senesce_core::analysis::Table;
use senesce_core::{Analysis, Bytes, Record, Silent, Verdict};
use senesce_exp_aging::age::{Age, AgeSpec, Limits, plan_only, resume};
use senesce_runner::Registry;
use senesce_runner::{Conduct, Outcome, analyse, conduct};
use senesce_runs::measurements;
use serde_json::{Value, json};
use std::path::Path;

const REGISTRY: Registry = Registry { experiments: &[], verbs: &[senesce_exp_aging::VERBS] };

fn age(spec: &AgeSpec, out: &Path) -> Outcome {
    make_target(spec);
    conduct::<Age>(spec, spec.seed, &Conduct::quietly(out)).unwrap()
}

fn limited(spec: AgeSpec, seconds: f64) -> AgeSpec {
    AgeSpec { limits: Limits { max_seconds: Some(seconds), ..Limits::default() }, ..spec }
}

fn failed(room: &Path) -> Record {
    let (aged, out) = (room.join("aged"), room.join("run"));
    let spec = spec(&aged);
    let plan = spec.planner(0).unwrap();
    let file = plan.clone().nth(3000).unwrap().file;
    let folder = aged.join(plan.plan().directories().path(file.directory));
    make_target(&spec);
    senesce_volume::ClaimedDirectory::claim(&aged, None).unwrap();
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::create_dir(folder.join(senesce_aging::plan::file_name(file.birth))).unwrap();
    assert!(conduct::<Age>(&spec, spec.seed, &Conduct::quietly(&out)).is_err());
    Record::open(&out).unwrap()
}

fn names(table: &Table) -> Vec<&str> {
    table.rows.iter().map(|row| row[0].as_str().unwrap()).collect()
}

fn figures(analysis: &Analysis) -> Vec<&str> {
    analysis.figures.iter().map(|figure| &*figure.id).collect()
}

#[test]
fn failed_aging_shows_its_plan_as_a_plan() {
    let temporary = tempfile::tempdir().unwrap();
    let record = failed(temporary.path());
    let analysis = analyse::<Age>(&record).unwrap();
    assert!(analysis.title.ends_with("an aging to profile agrawal that has not ended"), "{}", analysis.title);
    assert!(analysis.summary.contains("its final state was not measured"), "{}", analysis.summary);
    assert_eq!(analysis.tables[0].id, "plan");
    let done = ["operations done", "execution (s)"];
    assert!(names(&analysis.tables[0]).iter().all(|name| name.starts_with("planned ") || done.contains(name)));
    assert!(!figures(&analysis).contains(&"ages"));
    let result = &analysis.result;
    for key in ["operations", "files_live", "rmse", "fullness", "chi_square", "namespace_sha256", "peak_rss_bytes"] {
        assert!(result[key].is_null(), "{key}: {}", result[key]);
    }
    assert_eq!(result["planned"]["operations"], 6000);
    let measured = measurements::of(&REGISTRY, &record).unwrap();
    let metrics: Vec<&str> = measured.iter().map(|one| &*one.metric).collect();
    assert!(metrics.is_empty(), "a failed aging has nothing to compare: {metrics:?}");
}

#[test]
fn run_killed_after_continuing_does_not_report_its_previous_end() {
    let temporary = tempfile::tempdir().unwrap();
    let (spec, out) = (limited(spec(&temporary.path().join("aged")), 0.0), temporary.path().join("run"));
    let stopped = age(&spec, &out).analysis;
    assert!(stopped.tables.iter().any(|table| table.id == "result"));
    let mut directory = senesce_core::RunDirectory::resume(&out).unwrap();
    directory.reopen_finished().unwrap();
    let checkpoint = |operation: u64| json!({"operation": operation, "seconds": 1.0});
    for operation in [2048, 4096] {
        directory.append("checkpoint", &checkpoint(operation)).unwrap();
    }
    let killed = analyse::<Age>(&Record::open(&out).unwrap()).unwrap();
    assert_eq!(killed.tables[0].id, "plan");
    assert!(killed.summary.ends_with("Its last checkpoint was after 4096 operations."), "{}", killed.summary);
    assert!(killed.tables.iter().all(|table| table.id != "layout"));
}

/// The last end of an execution, with its rate even if the time does not count because the machine was busy.
fn last_executed(out: &Path) -> Value {
    let events = std::fs::read_to_string(out.join("events.jsonl")).unwrap();
    let mut lines = events.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.rfind(|line| line["event"]["kind"] == "executed").unwrap()["event"]["data"].clone()
}

fn number(result: &Value, key: &str) -> f64 {
    result[key].as_f64().unwrap_or_else(|| panic!("{key}: {result}"))
}

#[test]
fn rate_covers_all_parts_of_a_run() {
    let temporary = tempfile::tempdir().unwrap();
    let (spec, out) = (limited(spec(&temporary.path().join("aged")), 0.0), temporary.path().join("run"));
    age(&spec, &out);
    let whole = Limits { max_seconds: Some(600.0), ..Limits::default() };
    let result = resume(&out, &whole, &Conduct::quietly(&out)).unwrap().analysis.result;
    assert_eq!(result["stopped_by"], "convergence");
    let executed = last_executed(&out);
    let done = number(&executed, "ops_per_second") * number(&executed, "execute_seconds");
    assert!((done / number(&result, "operations") - 1.0).abs() < 1e-6, "{done} of {result}");
}

#[test]
fn rate_of_a_shard_covers_its_own_operations() {
    let temporary = tempfile::tempdir().unwrap();
    let spec = AgeSpec { shard: Some((0, 4)), ..spec(&temporary.path().join("aged")) };
    let own = spec.planner(0).unwrap().filter(|operation| operation.file.directory % 4 == 0).count() as f64;
    let out = temporary.path().join("run");
    age(&spec, &out);
    let executed = last_executed(&out);
    let done = number(&executed, "ops_per_second") * number(&executed, "execute_seconds");
    assert!((done - own).abs() < 1e-3 * own, "{done} operations of {own}");
}

#[test]
fn time_limit_decides_no_claim() {
    let temporary = tempfile::tempdir().unwrap();
    let spec = limited(spec(&temporary.path().join("aged")), 0.0);
    let stopped = age(&spec, &temporary.path().join("run")).analysis;
    assert_eq!(stopped.result["stopped_by"], "time");
    assert!(stopped.title.ends_with(", stopped before the end of the plan"), "{}", stopped.title);
    assert!(stopped.findings.is_empty(), "{:?}", stopped.findings);
    let all = stopped.result["findings"].as_array().unwrap();
    assert!(!all.is_empty() && all.iter().all(|finding| finding["verdict"] == "not-testable"), "{all:?}");
}

#[test]
fn plan_done_at_its_time_limit_is_complete() {
    let temporary = tempfile::tempdir().unwrap();
    let limits = Limits { max_operations: Some(500), max_seconds: Some(0.0), ..Limits::default() };
    // A single round, so that no commit ends it early.
    let spec = AgeSpec { limits, commit_share: Some(CommitShare::NONE), ..spec(&temporary.path().join("aged")) };
    assert_eq!(age(&spec, &temporary.path().join("run")).analysis.result["stopped_by"], "operations");
}

#[test]
#[ignore = "needs loop devices"]
fn aging_ends_at_the_same_operation_when_extents_settle() {
    let temporary = tempfile::tempdir().unwrap();
    let ended = |name: &str, more: &[&str]| {
        let flags = ["--overwrites", "12", "--truncate-sizes", "--no-cost", "--data", "fallocate"];
        let spec = AgeSpec::of_flags(&[&flags[..], more].concat()).unwrap();
        let spec = spec.on(Some("memory:96M".parse().unwrap())).unwrap();
        let analysis =
            conduct::<Age>(&spec, spec.seed, &Conduct::quietly(&temporary.path().join(name))).unwrap().analysis;
        assert!(
            analysis.findings.iter().all(|finding| finding.verdict != Verdict::NotSupported),
            "{:?}",
            analysis.findings
        );
        analysis.result
    };
    let until = ["--until", "extents-settle"];
    let (whole, settled, again) = (ended("a", &[]), ended("b", &until), ended("c", &until));
    assert_eq!((&whole["stopped_by"], &settled["stopped_by"]), (&json!("overwrites"), &json!("extents-settle")));
    let counts = whole["extents"].as_array().unwrap();
    assert!(!counts.is_empty(), "{whole}");
    for key in ["operations", "namespace_sha256"] {
        assert_eq!(settled[key], again[key]);
    }
    assert!(number(&settled, "operations") < number(&whole, "operations"));
    let last = settled["extents"].as_array().unwrap().last().unwrap();
    assert_eq!(last["operations"], settled["operations"]);
}

#[test]
fn unreached_confidence_does_not_stop_the_plan() {
    let of = |size: Bytes| {
        let limits = Limits { confidence: Some(0.95), ..Limits::default() };
        let spec = AgeSpec { limits, size: Some(size), target: None, ..spec(Path::new("none")) };
        let planned = plan_only(&spec, &Silent, &senesce_core::interrupt::Interrupt::new()).unwrap();
        let least = |name: &str| planned["chi_square"][name]["p"].as_f64().unwrap();
        (planned["stopped_by"].as_str().unwrap().to_string(), least("age").min(least("size")).min(least("depth")))
    };
    let (stopped_by, p) = of(Bytes::mib(24));
    assert!(stopped_by == "confidence" && p >= 0.95, "{stopped_by}: {p}");
    let (stopped_by, p) = of(Bytes::kib(1500));
    assert!(stopped_by == "convergence" && p < 0.95, "{stopped_by}: {p}");
}
