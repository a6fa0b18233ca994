use super::*;
use senesce_core::Record;

fn made_up() -> Spec {
    Spec::Imported { format: "none".into(), source: "made up".into(), requests: 0, crc32: String::new() }
}
use senesce_volume::{Operation, Request};

#[test]
fn a_recorded_trace_is_analysed_from_its_record() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("run");
    let requests = (0..50).map(|index| Request {
        issue_ns: index * 1_000_000,
        latency_ns: Some(90_000),
        ..Request::new(Operation::Read, if index % 5 == 0 { index * 1000 } else { index * 8 }, 8)
    });
    let trace = BlockTrace::from_requests("loop7", 1 << 30, requests.collect());
    let summary = Summary::of(&trace).unwrap();
    record(&trace, &summary, made_up(), &Environment::default(), Vec::new(), &out).unwrap();
    let run = Record::open(&out).unwrap();
    let analysis = senesce_runner::analyse::<BlockTraceRun>(&run).unwrap();
    assert_eq!(analysis.result, run.summary.unwrap());
    assert_eq!(analysis.result["requests"], 50);
    let seconds = |drive: &str| analysis.result["modelled_seconds"][drive].as_f64().unwrap();
    assert!(seconds("hdd") > seconds("ssd"));
    assert_eq!(BlockTrace::load(&out.join(TRACE_FILE)).unwrap(), trace);
}

#[test]
fn trace_is_timed_on_requested_models() {
    let list = (0..40).map(|index| Request { issue_ns: index, ..Request::new(Operation::Read, index * 512, 64) });
    let trace = BlockTrace::from_requests("loop7", 1 << 30, list.collect());
    let model = |name: &str| (name.to_string(), DeviceModel::builtin(name).unwrap());
    let json = Summary::on_models(&trace, &[model("ssd:fast24"), model("hdd:atlas-10k")]).unwrap().to_json();
    let seconds = |name: &str| json["modelled_seconds"][name].as_f64().unwrap();
    assert!(seconds("ssd:fast24") < seconds("hdd:atlas-10k"), "{json}");
    assert_eq!(json["modelled"]["ssd:fast24"]["collision_index"], 1.0);
}

#[test]
fn requests_beyond_a_drive_are_timed_where_the_capacity_does_not_matter() {
    let far = |sector: u64| {
        let list =
            (0..40).map(|index| Request { issue_ns: index, ..Request::new(Operation::Read, sector + index * 512, 64) });
        BlockTrace::from_requests("sda", 4 << 40, list.collect())
    };
    let models = ["970-evo-plus", "hdd:atlas-10k"].map(|name| (name.to_string(), DeviceModel::builtin(name).unwrap()));
    let [near, far] = [far(0), far(3 << 31)].map(|trace| Summary::on_models(&trace, &models).unwrap());
    let seconds = |summary: &Summary| summary.ssd.as_ref().map(|one| one.seconds);
    assert!(seconds(&far).is_some() && seconds(&far) == seconds(&near));
    assert!(near.hdd.is_some() && near.too_small.is_empty() && !near.text().contains("hint:"));
    assert_eq!((&far.hdd, far.too_small.as_slice()), (&None, &models.map(|(name, _)| name)[..]));
    assert!(far.to_json()["modelled_seconds"]["hdd:atlas-10k"].is_null() && far.text().contains("hint:"));
}

#[test]
fn a_trace_with_holes_is_neither_scored_nor_timed() {
    let list = vec![Request { latency_ns: Some(5), ..Request::new(Operation::Read, 0, 8) }];
    let mut trace = BlockTrace::from_requests("loop7", 1 << 30, list);
    trace.set_account(Some(DeviceStat { reads: 2, ..DeviceStat::default() }), vec![Problem::Lost { events: 2 }]);
    let summary = Summary::of(&trace).unwrap();
    assert_eq!((&summary.hdd, &summary.ssd), (&None, &None));
    let json = summary.to_json();
    let found = [&json["valid"], &json["requests"], &json["device_stat"]["reads"]];
    assert_eq!(found, [&json!(false), &json!(1), &json!(2)]);
    assert!(json["reasons"][0].as_str().unwrap().contains("lost 2 events"), "{json}");
    for key in ["dynamic_layout_score", "latency_ns", "queue_depth"] {
        assert_eq!(json[key], Value::Null, "{key}");
    }
    assert_eq!(json["modelled_seconds"]["hdd"], Value::Null);
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("run");
    record(&trace, &summary, made_up(), &Environment::default(), Vec::new(), &out).unwrap();
    let analysis = senesce_runner::analyse::<BlockTraceRun>(&Record::open(&out).unwrap()).unwrap();
    assert!(analysis.caveats.iter().any(|caveat| caveat.contains("invalid")), "{:?}", analysis.caveats);
    assert!(analysis.summary.contains("not valid"), "{}", analysis.summary);
}

#[test]
fn a_record_is_not_traced_again() {
    let directory = tempfile::tempdir().unwrap();
    let trace = BlockTrace::from_requests("loop7", 0, vec![Request::new(Operation::Read, 0, 8)]);
    let out = directory.path().join("run");
    refuse_record(&out).unwrap();
    record(&trace, &Summary::of(&trace).unwrap(), made_up(), &Environment::default(), Vec::new(), &out).unwrap();
    assert_eq!(refuse_record(&out).unwrap_err().exit_code(), ExitCode::Refused);
}

#[test]
fn command_gets_mount_point_and_returns_its_status() {
    let run = |words: &[&str]| {
        let words = words.iter().map(ToString::to_string).collect();
        run_command(&CommandLine { words, output_to_stderr: false, spares: false }, Path::new("/some/where"))
    };
    let shell = |script| run(&["sh", "-c", script]).unwrap();
    assert_eq!(shell(r#"[ "{}" = "$SENESCE_MNT" ] && [ "{}" = /some/where ]"#), 0);
    assert_eq!(shell("exit 7"), 7);
    assert_eq!(shell("kill -9 $$"), 137);
    assert_eq!(run(&["no-such-program"]).unwrap_err().exit_code(), ExitCode::Usage);
}
