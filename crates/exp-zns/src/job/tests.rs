use super::*;
use senesce_core::interrupt::Interrupt;
use senesce_core::measurement::Seconds;
use senesce_core::{Progress, Record};
use senesce_runner::Registry;
use senesce_runner::{Conduct, State, conduct};
use senesce_runs::compare::{self, Options};
use senesce_zoned::job::{Activity, ActorSpec, Span};
use std::path::Path;

const REGISTRY: Registry = Registry { experiments: &[crate::EXPERIMENTS], verbs: &[crate::VERBS] };

fn append(qd: u32, time: f64) -> ActorSpec {
    ActorSpec { qd, time: Some(Span::seconds(time)), ..ActorSpec::new(Activity::Append) }
}

fn run(device: &str, actor: ActorSpec, seed: u64, out: &Path) -> Record {
    let spec = Spec { device: device.into(), job: Job::of(vec![actor]) };
    conduct::<ZnsJob>(&spec, Seed(seed), &Conduct::quietly(out)).unwrap();
    Record::open(out).unwrap()
}

fn values(record: &Record) -> Vec<Measurement> {
    senesce_runs::measurements::of(&REGISTRY, record).unwrap()
}

#[test]
fn double_rate_is_better_at_any_duration() {
    let room = tempfile::tempdir().unwrap();
    let runs = |name: &str, actor: ActorSpec| -> Vec<Record> {
        let of = |seed| run("sim:zn540", actor.clone(), seed, &room.path().join(format!("{name}{seed}")));
        (1..=6).map(of).collect()
    };
    let (alone, four) = (runs("a", append(1, 0.1)), runs("b", append(4, 0.12)));
    let found = compare::compare(&REGISTRY, &four, &alone, &Options::default()).unwrap();
    let names: Vec<&str> = found.rows.iter().map(|row| row.what.metric.as_str()).collect();
    assert_eq!(names, ["bandwidth", "mean latency", "p95 latency", "p99 latency", "throughput"]);
    let verdict = |metric: &str| {
        let row = found.rows.iter().find(|row| row.what.metric == metric).unwrap();
        row.decision.as_ref().unwrap().verdict.word()
    };
    assert_eq!(verdict("throughput"), "better");
    assert_eq!(verdict("bandwidth"), "better");
    assert_eq!(verdict("mean latency"), "worse", "what waits behind three others waits longer");
    let back = compare::compare(&REGISTRY, &alone, &four, &Options::default()).unwrap();
    let throughput = back.rows.iter().find(|row| row.what.metric == "throughput").unwrap();
    assert_eq!(throughput.judged().unwrap().verdict.word(), "worse");
}

#[test]
fn time_source_follows_the_kind_of_drive() {
    let room = tempfile::tempdir().unwrap();
    let seconds = |device: &str| {
        let count = ActorSpec { count: Some(200), ..ActorSpec::new(Activity::Write) };
        let record = run(device, count, 1, &room.path().join(device));
        let found = values(&record);
        assert!(found.iter().all(|one| one.condition["actor"] == "write" && one.condition["op"] == "write"));
        assert_eq!(found.len(), 5, "{found:?}");
        found[0].seconds
    };
    assert_eq!(seconds("sim:zn540"), Seconds::Model);
    assert_eq!(seconds("null"), Seconds::Emulator);
    let by_hand = |nature: &str| {
        let drive = Used { name: "/dev/ng0n1".into(), nature: nature.into(), called: String::new() };
        measurements::of(&[actor(json!({}))], &drive)[0].seconds
    };
    assert_eq!((by_hand("real"), by_hand("emulated")), (Seconds::Machine, Seconds::Emulator));
}

fn actor(more: Value) -> Value {
    let latency = json!({"mean": 14.0, "p50": 13.0, "p95": 16.0, "p99": 17.0, "max": 90.0});
    let mut actor = json!({"name": "a", "op": "read", "iops": 9.0, "bw_mib": 1.0, "commands": 500, "lat_us": latency});
    actor.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
    actor
}

#[test]
fn idle_actors_and_values_outside_the_model_have_no_measurement() {
    let metrics = |more: Value| -> Vec<String> {
        let drive = Used { name: "sim:zn540".into(), nature: "simulated".into(), called: String::new() };
        measurements::of(&[actor(more)], &drive).into_iter().map(|one| one.metric).collect()
    };
    let all = ["throughput", "bandwidth", "mean latency", "p95 latency", "p99 latency"];
    assert_eq!(metrics(json!({})), all);
    assert_eq!(metrics(json!({"bw_mib": 0.0, "commands": 20})), ["throughput", "mean latency", "p95 latency"]);
    assert!(metrics(json!({"commands": 0, "iops": 0.0, "bw_mib": 0.0, "lat_us": null})).is_empty());
    assert!(metrics(json!({"outside_model": "why"})).is_empty());
    assert_eq!(metrics(json!({"rates_outside_model": "why"})), ["p95 latency", "p99 latency"]);
    assert_eq!(metrics(json!({"latencies_outside_model": "why"})), ["throughput", "bandwidth"]);
}

#[test]
fn duration_of_a_simulation_is_not_a_measurement() {
    let room = tempfile::tempdir().unwrap();
    let finish =
        ActorSpec { occupancy: Some(0.5), time: Some(Span::seconds(0.002)), ..ActorSpec::new(Activity::Finish) };
    let record = run("sim:zn540", finish, 1, &room.path().join("run"));
    assert_eq!(values(&record), [], "no finish ends in two milliseconds");
}

#[test]
fn interrupted_run_counts_its_last_part() {
    let room = tempfile::tempdir().unwrap();
    let out = room.path().join("run");
    let spec = Spec { device: "sim:zn540".into(), job: Job::of(vec![append(1, 0.5)]) };
    let interrupt = Interrupt::new();
    let progress = InterruptedRun(&interrupt);
    let ended = Conduct { progress: &progress, interrupt: &interrupt, ..Conduct::quietly(&out) };
    let outcome = conduct::<ZnsJob>(&spec, Seed(1), &ended).unwrap();
    assert!(outcome.state == State::Interrupted && outcome.starts_over);
    let outcome = conduct::<ZnsJob>(&spec, Seed(1), &Conduct::quietly(&out)).unwrap();
    assert_eq!(outcome.state, State::Done);
    let record = Record::open(&out).unwrap();
    assert_eq!(record.events.iter().filter(|event| event.kind == "actor").count(), 2, "each part tells of its actor");
    let alone = run("sim:zn540", append(1, 0.5), 1, &room.path().join("alone"));
    assert_eq!(values(&record), values(&alone));
    // A part that was interrupted while it was recorded is not mixed with the previous one.
    let mut cut = record.clone();
    cut.events.truncate(cut.events.iter().rposition(|event| event.kind == "actor").unwrap() + 1);
    assert_eq!(values(&cut), values(&alone));
}

struct InterruptedRun<'a>(&'a Interrupt);

impl Progress for InterruptedRun<'_> {
    fn phase(&self, name: &str, _total: u64, _unit: &str) {
        if name == "run" {
            self.0.request();
        }
    }
}
