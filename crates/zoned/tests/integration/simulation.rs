//! Invariants of every simulation: reproducibility, conservation, order.

use senesce_core::interrupt::Interrupt;
use senesce_core::{Bytes, Seed, Silent};
use senesce_zoned::job::{Activity, ActorSpec, FaultSpec, Job, JobResult, OnLostZone, Rate, Span, Zones};
use senesce_zoned::run::{DeviceName, RunOptions, plan_job, run_null, run_sim};
use senesce_zoned::sim::HostPath;
use senesce_zoned::sim::model::Model;
use senesce_zoned::{Operation, ZoneState, ZonedError};
use std::time::Duration;

fn actor(op: Activity, kib: u64, depth: u32, zones: Zones) -> ActorSpec {
    let time = Some(Span::seconds(0.3));
    ActorSpec { bs: Bytes::kib(kib), qd: depth, zones, time, ..ActorSpec::new(op) }
}

fn try_run(job: &Job, seed: u64) -> Result<JobResult, ZonedError> {
    let model = Model::load("zn540").unwrap();
    let interrupt = Interrupt::new();
    run_sim(&model, job, &RunOptions { seed: Seed(seed), progress: &Silent, interrupt: &interrupt })
}

fn run(job: &Job, seed: u64) -> JobResult {
    try_run(job, seed).unwrap()
}

#[test]
fn a_seed_repeats_a_run_exactly_and_another_seed_does_not() {
    let job = Job::of(vec![
        actor(Activity::Append, 16, 4, Zones::Count(2)),
        ActorSpec { jobs: Some(1), ..actor(Activity::RandomRead, 4, 16, Zones::Count(100)) },
    ]);
    let json = |result: &JobResult| result.actors.iter().map(|actor| actor.to_json().to_string()).collect::<Vec<_>>();
    let first = run(&job, 7);
    assert_eq!(json(&first), json(&run(&job, 7)));
    assert_ne!(json(&first), json(&run(&job, 8)));
}

#[test]
fn all_paths_and_operations_run_together() {
    for path in HostPath::ALL {
        let mut actors = vec![
            actor(Activity::Write, 128, 1, Zones::Count(3)),
            actor(Activity::RandomRead, 8, 8, Zones::Count(2)),
            actor(Activity::SequentialRead, 128, 2, Zones::Count(1)),
            ActorSpec { occupancy: Some(0.25), ..actor(Activity::Reset, 4, 1, Zones::Count(4)) },
            ActorSpec {
                occupancy: Some(0.99),
                count: Some(3),
                time: None,
                ..actor(Activity::Finish, 4, 1, Zones::Count(4))
            },
            actor(Activity::OpenClose, 4, 1, Zones::Count(3)),
        ];
        if path.bypasses_block_layer() {
            actors.push(actor(Activity::Append, 4, 8, Zones::Count(2)));
        }
        let result = run(&Job { path, ..Job::of(actors) }, 1);
        for actor in &result.actors {
            assert!(actor.tally.commands > 0, "{}: {:?}", path.name(), actor.name);
            assert_eq!(actor.tally.error_count(), 0, "{}: {:?}", path.name(), actor.tally.errors);
        }
    }
}

#[test]
fn iops_times_latency_equals_the_depth() {
    let job = Job::of(vec![actor(Activity::RandomRead, 4, 32, Zones::Count(1))]);
    let reads = &run(&job, 3).actors[0];
    let in_flight = reads.iops() * reads.latency().mean_us() / 1e6;
    assert!((31.0..=32.0).contains(&in_flight), "Little's law gives a depth of {in_flight}");
}

#[test]
fn rate_of_an_early_actor_uses_its_own_runtime() {
    let early = ActorSpec { count: Some(200), ..actor(Activity::RandomRead, 4, 1, Zones::Count(1)) };
    let result = run(&Job::of(vec![actor(Activity::Write, 4, 1, Zones::Count(1)), early]), 3);
    let (whole, reads) = (&result.actors[0], &result.actors[1]);
    let in_flight = reads.iops() * reads.latency().mean_us() / 1e6;
    assert!((0.95..=1.05).contains(&in_flight), "Little's law gives a depth of {in_flight}");
    assert!((whole.seconds() - 0.3).abs() < 1e-6, "{}", whole.seconds());
}

#[test]
fn rate_is_kept_and_latency_counts_from_the_intended_start() {
    let mut writer = actor(Activity::Write, 128, 1, Zones::Range(0, 400));
    writer.jobs = Some(1);
    writer.rate = Some(Rate(Bytes::mib(100)));
    let result = run(&Job::of(vec![writer.clone()]), 1);
    assert!((result.actors[0].bw_mib() - 100.0).abs() < 2.0, "{}", result.actors[0].bw_mib());
    writer.rate = Some(Rate(Bytes::mib(5000)));
    let result = run(&Job::of(vec![writer]), 1);
    let intended = result.actors[0].tally.from_intended.as_ref().unwrap().mean_us();
    assert!(intended > 10.0 * result.actors[0].latency().mean_us(), "a rate that cannot be kept is seen: {intended}");
}

#[test]
fn a_lost_zone_is_dropped_or_ends_the_run() {
    let mut job = Job::of(vec![actor(Activity::Write, 128, 1, Zones::Count(2))]);
    job.faults = vec![FaultSpec { zone: 1, state: ZoneState::Offline, at: Span::seconds(0.1) }];
    let dropped = run(&job, 1);
    assert_eq!(dropped.actors[0].tally.lost.len(), 1);
    assert_eq!(dropped.actors[0].tally.lost[0].0, 1);
    assert!(!dropped.stopped);
    job.on_lost_zone = OnLostZone::Stop;
    let stopped = run(&job, 1);
    assert!(stopped.stopped);
    assert!(stopped.actors[0].tally.commands < dropped.actors[0].tally.commands);
}

#[test]
fn a_finish_shares_the_flash_with_writers() {
    let finish = |others: Vec<ActorSpec>| {
        let mut actors = others;
        let spec = actor(Activity::Finish, 4, 1, Zones::Count(1));
        actors.push(ActorSpec { occupancy: Some(0.5), count: Some(1), time: None, ..spec });
        run(&Job::of(actors), 1).actors.last().unwrap().latency().mean_us()
    };
    let alone = finish(Vec::new());
    let mut writers = actor(Activity::Write, 128, 1, Zones::Count(3));
    writers.time = Some(Span::seconds(3.0));
    let crowded = finish(vec![writers]);
    assert!(
        (3.0..5.0).contains(&(crowded / alone)),
        "one of four streams: {alone} us alone, {crowded} us among writers"
    );
}

/// 2.5 s contain two whole finishes of 0.9 s and most of a third.
#[test]
fn zone_commands_at_the_end_of_the_time_count_by_their_share() {
    let finishes = actor(Activity::Finish, 4, 1, Zones::Count(10));
    let time = Some(Span::seconds(2.5));
    let job = Job::of(vec![ActorSpec { occupancy: Some(4e-6), jobs: Some(1), time, ..finishes }]);
    let finishes = &run(&job, 1).actors[0];
    let busy = finishes.iops() * finishes.latency().mean_us() / 1e6;
    assert!((0.98..1.01).contains(&busy), "{} per second, {busy} of the time", finishes.iops());
    assert_eq!(finishes.tally.commands, 2);
}

#[test]
fn passthrough_only_adds_host_time() {
    let writes = |path, zones| {
        let job = Job { path, ..Job::of(vec![actor(Activity::Write, 8, 1, Zones::Count(zones))]) };
        run(&job, 1).actors[0].clone()
    };
    let later = |zones| {
        let [direct, passthrough] = [HostPath::Direct, HostPath::Passthrough].map(|path| writes(path, zones));
        (passthrough.latency().mean_us() - direct.latency().mean_us(), passthrough.iops() / direct.iops())
    };
    assert!((3.5..5.0).contains(&later(1).0), "{:?}", later(1));
    assert!((0.98..1.02).contains(&later(8).1), "the flash limits both: {:?}", later(8));
    let model = Model::load("nvme-a").unwrap();
    let interrupt = Interrupt::new();
    let job = Job { path: HostPath::Passthrough, ..Job::of(vec![actor(Activity::Write, 8, 1, Zones::Count(1))]) };
    let options = RunOptions { seed: Seed(1), progress: &Silent, interrupt: &interrupt };
    let error = run_sim(&model, &job, &options).unwrap_err().to_string();
    assert!(error.contains("passthrough; it supports direct, none, mq-deadline"), "{error}");
}

#[test]
fn a_day_of_resets_is_simulated() {
    let mut resets = actor(Activity::Reset, 4, 1, Zones::Count(900));
    resets.occupancy = Some(0.5);
    resets.time = Some(Span::seconds(3600.0));
    let result = run(&Job::of(vec![resets]), 1);
    assert!(result.simulated_seconds.unwrap() >= 3600.0);
    assert!(result.actors[0].tally.commands > 300_000);
}

#[test]
fn wrong_jobs_are_refused_before_the_first_command() {
    let refused = |job: &Job, words: &str| {
        let error = try_run(job, 1).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    let one = |actor: ActorSpec| Job::of(vec![actor]);
    refused(&one(actor(Activity::Write, 4, 1, Zones::Count(15))), "allows 14 open zones");
    refused(&one(actor(Activity::Write, 2048, 1, Zones::Count(1))), "transfer limit of 1 MiB");
    refused(&one(ActorSpec { bs: Bytes(5000), ..actor(Activity::Write, 4, 1, Zones::Count(1)) }), "not a multiple");
    refused(&Job { lbaf: Some(520), ..one(actor(Activity::Write, 4, 1, Zones::Count(1))) }, "no LBA format of 520 B");
    refused(
        &Job { path: HostPath::None, ..one(actor(Activity::Append, 4, 1, Zones::Count(1))) },
        "does not offer append",
    );
    refused(
        &one(ActorSpec { at: Some(Bytes::kib(64)), ..actor(Activity::Write, 4, 1, Zones::Count(1)) }),
        "write pointer",
    );
    refused(
        &Job { prepare: Some(Vec::new()), ..one(actor(Activity::RandomRead, 4, 1, Zones::Count(1))) },
        "less than one",
    );
    refused(&one(actor(Activity::Write, 4, 1, Zones::Range(900, 910))), "do not exist");
    let timed = |time| ActorSpec { time: Some(Span(time)), ..actor(Activity::Write, 4, 1, Zones::Count(1)) };
    refused(&one(timed(Duration::from_nanos(999_999))), "a time of 999.999µs is too short for a measurement");
    refused(&one(timed(Duration::from_secs(1_000_000_000 * 86_400))), "its time is longer than 366 days");
    let slow = |rate: &str| ActorSpec { rate: Some(rate.parse().unwrap()), ..timed(Duration::from_secs(4)) };
    refused(&one(slow("63/s")), "a rate of 63 B/s is less than one command of 4 KiB in 4s");
    let resets = ActorSpec { op: Activity::Reset, occupancy: Some(1.0), ..slow("200MiB/s") };
    refused(&one(resets), "less than one command of 1.05 GiB");
    let year = Span(Duration::from_secs(400 * 86_400));
    refused(&Job { ramp: year, ..one(timed(Duration::from_secs(1))) }, "its ramp is longer");
    refused(&one(ActorSpec { start: year, ..timed(Duration::from_secs(1)) }), "its start is longer");
    for (count, words) in [(0, "count 0 measures nothing"), (u64::MAX, "commands would take years")] {
        let counted = ActorSpec { count: Some(count), ..actor(Activity::Write, 4, 1, Zones::Count(1)) };
        refused(&one(counted), words);
    }
    for op in [Activity::OpenClose, Activity::Write, Activity::RandomRead] {
        let filled = ActorSpec { occupancy: Some(0.5), ..actor(op, 4, 1, Zones::Count(1)) };
        refused(&one(filled), "occupancy is only for reset and finish");
    }
    let overlap =
        vec![actor(Activity::Write, 4, 1, Zones::Range(0, 4)), actor(Activity::RandomRead, 4, 1, Zones::Range(3, 5))];
    refused(&Job::of(overlap), "one changes zones that the other uses");
}

#[test]
fn actor_without_commands_has_no_latency_and_a_warning() {
    let finishes = ActorSpec {
        occupancy: Some(0.1),
        time: Some(Span::seconds(0.01)),
        ..actor(Activity::Finish, 4, 1, Zones::Count(2))
    };
    let result = run(&Job::of(vec![finishes]), 1);
    assert_eq!(result.actors[0].to_json()["lat_us"], serde_json::Value::Null);
    assert!(result.warnings.iter().any(|words| words.contains("nothing was measured")), "{:?}", result.warnings);
}

#[test]
fn the_null_drive_runs_jobs_in_real_time() {
    let interrupt = Interrupt::new();
    let job =
        Job::of(vec![ActorSpec { count: Some(20_000), time: None, ..actor(Activity::Append, 4, 1, Zones::Count(1)) }]);
    let result = run_null(&job, &RunOptions { seed: Seed(1), progress: &Silent, interrupt: &interrupt }).unwrap();
    assert_eq!(result.actors[0].tally.latency(Operation::Append).unwrap().count(), 20_000);
}

#[test]
fn committed_jobs_are_checked_without_panic() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/zns_job");
    let (mut fit, mut refused) = (0, 0);
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let text = String::from_utf8_lossy(&std::fs::read(entry.path()).unwrap()).into_owned();
        let judged = Job::parse(&text).and_then(|job| plan_job(&DeviceName::Sim("zn540".into()), &job));
        match judged {
            Ok(_) => fit += 1,
            Err(error) => {
                refused += 1;
                assert!(!error.to_string().is_empty());
            }
        }
    }
    assert!(fit >= 2 && refused >= 4, "{fit} {refused}");
}

#[test]
fn misplaced_write_in_a_prepared_zone_is_named() {
    let text = "[[prepare]]\nstep = 'fill'\nzones = '3..4'\nto = 0.5\n[[actor]]\nop = 'write'\nzones = '3..4'\nat = '4k'\ncount = 1\n";
    let error = try_run(&Job::parse(text).unwrap(), 1).unwrap_err().to_string();
    assert!(error.contains("zone 3 at block 1, but the write pointer will be at 137856"), "{error}");
}

#[test]
fn values_outside_the_domain_are_marked() {
    let outside = |depth: u32, zones: u32, lbaf: u32| {
        let job =
            Job { lbaf: Some(lbaf), ..Job::of(vec![actor(Activity::SequentialRead, 4, depth, Zones::Count(zones))]) };
        let result = run(&job, 1);
        assert_eq!(result.actors[0].outside_model.is_some(), !result.warnings.is_empty());
        assert_eq!(result.actors[0].to_json().get("outside_model").is_some(), !result.warnings.is_empty());
        result.actors[0].outside_model.is_some()
    };
    assert!(!outside(1, 1, 512) && !outside(64, 1, 512));
    assert!(outside(128, 1, 512) && outside(1, 2, 512) && outside(1, 1, 4096));
}

#[test]
fn one_stream_of_reads_is_read_ahead_and_two_are_not() {
    let iops = |zones: u32| {
        let job = Job { lbaf: Some(512), ..Job::of(vec![actor(Activity::SequentialRead, 4, 1, Zones::Count(zones))]) };
        run(&job, 1).actors[0].iops()
    };
    // Published: 127 thousand per second in one zone, 62 thousand in two zones at depth 2.
    assert!((120e3..135e3).contains(&iops(1)), "{}", iops(1));
    assert!(iops(2) < 80e3, "{}", iops(2));
}

#[test]
fn a_rate_of_zone_commands_counts_the_capacity() {
    let rate = Rate(Bytes::mib(1077 * 20));
    let job = Job::of(vec![ActorSpec {
        occupancy: Some(1.0),
        rate: Some(rate),
        time: Some(Span::seconds(2.0)),
        ..actor(Activity::Reset, 4, 1, Zones::Count(4))
    }]);
    let resets = &run(&job, 1).actors[0];
    assert!((resets.iops() - 20.0).abs() < 1.0, "{}", resets.iops());
}
