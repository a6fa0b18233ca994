//! The values of a `zns` record for `compare`, `history` and `export`.

use crate::zns::drives::Used;
use senesce_core::Better::{Higher, Lower};
use senesce_core::Measurement;
use serde_json::Value;

/// With fewer commands the 95th and 99th percentiles equal the maximum.
const COMMANDS_OF_P95: u64 = 20;
const COMMANDS_OF_P99: u64 = 100;

/// Returns the values of these actors on this kind of drive, without those outside the model's validity.
pub(super) fn of(actors: &[Value], drive: &Used) -> Vec<Measurement> {
    let stated = |one: Measurement| match drive.nature.as_str() {
        "simulated" => one.modelled(),
        "emulated" => one.under_emulation(),
        _ => one,
    };
    actors.iter().flat_map(of_actor).map(stated).collect()
}

fn of_actor(actor: &Value) -> Vec<Measurement> {
    let commands = actor["commands"].as_u64().unwrap_or(0);
    let is_inside = |part: &str| actor["outside_model"].is_null() && actor[part].is_null();
    let (rates, latencies) = (is_inside("rates_outside_model"), is_inside("latencies_outside_model"));
    let latency = |name: &str| &actor["lat_us"][name];
    let moves_data = actor["bw_mib"].as_f64().is_some_and(|rate| rate > 0.0);
    let values = [
        ("throughput", "operations/s", Higher, &actor["iops"], rates && commands > 0),
        ("bandwidth", "MiB/s", Higher, &actor["bw_mib"], rates && moves_data),
        ("mean latency", "us", Lower, latency("mean"), rates && latencies),
        ("p95 latency", "us", Lower, latency("p95"), latencies && commands >= COMMANDS_OF_P95),
        ("p99 latency", "us", Lower, latency("p99"), latencies && commands >= COMMANDS_OF_P99),
    ];
    let condition = |name: &str| actor[name].as_str().unwrap_or_default().to_string();
    let counts = values.into_iter().filter(|(.., counts)| *counts);
    let made = counts.flat_map(|(metric, unit, better, value, _)| {
        value.as_f64().and_then(|value| Measurement::new(metric, unit, better, value).ok())
    });
    made.map(|one| mark_primary(one).under("actor", condition("name")).under("op", condition("op"))).collect()
}

/// Marks primary metrics as in `bench`: throughput stands for bandwidth, and the 99th percentile for the tail.
fn mark_primary(one: Measurement) -> Measurement {
    let is_primary = ["throughput", "mean latency", "p99 latency"].contains(&one.metric.as_str());
    if is_primary { one.primary() } else { one }
}
