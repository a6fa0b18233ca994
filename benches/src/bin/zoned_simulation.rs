//! Speed of the simulated drives and own cost per command: `cargo run --release -p senesce-benches --bin zoned_simulation`.

use senesce_core::interrupt::Interrupt;
use senesce_core::{Bytes, Seed, Silent};
use senesce_zoned::job::{Activity, ActorSpec, Job, JobResult, Rate, Span, Zones};
use senesce_zoned::run::{DeviceName, RunOptions, run_job};
use senesce_zoned::sim::HostPath;

const ROUNDS: usize = 5;

fn run(device: &str, job: &Job) -> JobResult {
    let interrupt = Interrupt::new();
    let options = RunOptions { seed: Seed(42), progress: &Silent, interrupt: &interrupt };
    let name: DeviceName = device.parse().expect("a constant");
    run_job(&name, job, None, &options).expect("the jobs of this program fit its drives")
}

fn actor(op: Activity, kib: u64, depth: u32, zones: Zones, seconds: f64) -> ActorSpec {
    ActorSpec { bs: Bytes::kib(kib), qd: depth, zones, time: Some(Span::seconds(seconds)), ..ActorSpec::new(op) }
}

fn simulated() -> Vec<(&'static str, Job)> {
    let one = |spec| Job::of(vec![spec]);
    let wide = |spec| ActorSpec { jobs: Some(1), ..spec };
    let writer = ActorSpec {
        rate: Some(Rate(Bytes::mib(250))),
        ..wide(actor(Activity::Write, 128, 1, Zones::Range(0, 400), 5.0))
    };
    let reader = wide(actor(Activity::RandomRead, 4, 16, Zones::Range(400, 800), 5.0));
    let resets = ActorSpec { occupancy: Some(0.5), ..actor(Activity::Reset, 4, 1, Zones::Count(900), 86_400.0) };
    let finishes = ActorSpec { occupancy: Some(0.5), ..actor(Activity::Finish, 4, 1, Zones::Count(900), 86_400.0) };
    let merged = Job { path: HostPath::MqDeadline, ..one(actor(Activity::Write, 4, 32, Zones::Count(1), 5.0)) };
    vec![
        ("write 4 KiB, depth 1", one(actor(Activity::Write, 4, 1, Zones::Count(1), 10.0))),
        ("write 4 KiB, 8 zones", one(actor(Activity::Write, 4, 1, Zones::Count(8), 5.0))),
        ("write 128 KiB, depth 1", one(actor(Activity::Write, 128, 1, Zones::Count(1), 60.0))),
        ("write 4 KiB, mq-deadline, depth 32", merged),
        ("append 4 KiB, depth 32", one(actor(Activity::Append, 4, 32, Zones::Count(1), 5.0))),
        ("random read 4 KiB, depth 1", one(actor(Activity::RandomRead, 4, 1, Zones::Count(1), 30.0))),
        ("random read 4 KiB, depth 64", one(actor(Activity::RandomRead, 4, 64, Zones::Count(1), 4.0))),
        ("reads at depth 16 under 250 MiB/s of writes", Job::of(vec![reader, writer])),
        ("a day of resets of half full zones", one(resets)),
        ("a day of finishes of half full zones", one(finishes)),
    ]
}

fn main() {
    println!(
        "| simulated on sim:zn540 | commands | drive time (s) | CPU (s) | million commands per CPU second: best, median of {ROUNDS} |"
    );
    println!("|-|-|-|-|-|");
    for (name, job) in simulated() {
        let mut rates: Vec<f64> = Vec::new();
        let mut last = run("sim:zn540", &job);
        for _ in 0..ROUNDS {
            last = run("sim:zn540", &job);
            rates.push(last.commands_per_cpu_second / 1e6);
        }
        rates.sort_by(f64::total_cmp);
        let commands: u64 = last.actors.iter().map(|actor| actor.tally.commands).sum();
        println!(
            "| {name} | {commands} | {:.0} | {:.2} | {:.2}, {:.2} |",
            last.simulated_seconds.unwrap_or(0.0),
            commands as f64 / rates[ROUNDS / 2] / 1e6,
            rates[ROUNDS - 1],
            rates[ROUNDS / 2]
        );
    }
    println!("\n| own cost on null | CPU per command (us): least, median of {ROUNDS} |\n|-|-|");
    for (name, op, depth) in [
        ("write, depth 1", Activity::Write, 1),
        ("append, depth 1", Activity::Append, 1),
        ("append, depth 32", Activity::Append, 32),
        ("random read, depth 1", Activity::RandomRead, 1),
        ("random read, depth 32", Activity::RandomRead, 32),
    ] {
        let spec = ActorSpec { count: Some(2_000_000), time: None, ..actor(op, 4, depth, Zones::Count(1), 0.0) };
        let mut costs: Vec<f64> =
            (0..ROUNDS).map(|_| run("null", &Job::of(vec![spec.clone()])).cpu_us_per_command).collect();
        costs.sort_by(f64::total_cmp);
        println!("| {name} | {:.3}, {:.3} |", costs[0], costs[ROUNDS / 2]);
    }
}
