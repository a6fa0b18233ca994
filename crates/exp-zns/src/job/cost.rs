//! Estimates how much a job writes and how long it takes.

use senesce_core::Bytes;
use senesce_core::plan::BY_TIME_ALONE;
use senesce_zoned::Geometry;
use senesce_zoned::job::{Activity, CheckedActor, CheckedJob, Span};

/// Rough bandwidth of a drive, in bytes per second.
const RATE: f64 = (1 << 30) as f64;
/// Rough latency of a single command and of a reset, in seconds.
const ALONE: f64 = 15e-6;
const RESET: f64 = 10e-3;

/// Returns an upper bound of the bytes that a job writes, preparation included, and a rough estimate of its seconds.
pub(crate) fn of_job(checked: &CheckedJob, geometry: &Geometry) -> (Bytes, f64) {
    let (ramp, prepared) = (checked.job.ramp, checked.preparation_bytes(geometry));
    let most = |actor: &CheckedActor| most_bytes(actor, ramp, geometry);
    let bytes = checked.actors.iter().map(most).fold(prepared, u64::saturating_add).min(BY_TIME_ALONE);
    let seconds = checked.actors.iter().map(|actor| seconds(actor, ramp, geometry)).fold(0.0, f64::max);
    (Bytes(bytes), prepared as f64 / RATE + seconds)
}

/// Estimates the time in seconds of single commands that write `bytes` in total, and of `resets`.
pub(crate) fn of_singles(commands: u64, bytes: u64, resets: u64) -> f64 {
    (commands as f64 * ALONE).max(bytes as f64 / RATE) + resets as f64 * RESET
}

/// Returns an upper bound of the bytes of an actor. A writer resets its zones when they are full and continues, so the
/// zones do not limit it.
fn most_bytes(actor: &CheckedActor, ramp: Span, geometry: &Geometry) -> u64 {
    let of_command = bytes_of_command(actor, geometry);
    let of_worker = most_commands(actor, ramp, geometry).map(|count| count.saturating_mul(of_command));
    match of_command {
        0 => 0,
        _ => of_worker.map_or(BY_TIME_ALONE, |bytes| bytes.saturating_mul(u64::from(actor.jobs))),
    }
}

fn bytes_of_command(actor: &CheckedActor, geometry: &Geometry) -> u64 {
    match actor.spec.op {
        Activity::Write | Activity::Append => actor.spec.bs.0,
        Activity::OpenClose => 2 * actor.spec.bs.0,
        Activity::Reset | Activity::Finish => filled(actor, geometry),
        Activity::RandomRead | Activity::SequentialRead => 0,
    }
}

/// Returns the bytes written to prepare a zone before its command.
fn filled(actor: &CheckedActor, geometry: &Geometry) -> u64 {
    actor.occupancy_blocks.unwrap_or(0) * u64::from(geometry.block_bytes)
}

/// Returns an upper bound of the commands of one worker: its count, or its rate times its time.
fn most_commands(actor: &CheckedActor, ramp: Span, geometry: &Geometry) -> Option<u64> {
    let spec = &actor.spec;
    // Commands of the warm-up are not counted.
    let by_count = spec.count.filter(|_| spec.time.is_none() || ramp.is_zero());
    let by_rate = spec.rate.zip(spec.time).and_then(|(rate, time)| {
        let gap_ns = (spec.command_bytes(geometry) as f64 * 1e9 / rate.0.0 as f64) as u64;
        Some(ramp.ns().saturating_add(time.ns()).checked_div(gap_ns)? + 1)
    });
    by_count.into_iter().chain(by_rate).min()
}

/// Returns the actor's time, or an estimate for its commands. A single one takes 15 us, a random read 80 us, a reset 10
/// ms. A finish takes as long as filling the zone.
fn seconds(actor: &CheckedActor, ramp: Span, geometry: &Geometry) -> f64 {
    let spec = &actor.spec;
    let timed = spec.time.map(|time| ramp.0.as_secs_f64() + time.0.as_secs_f64());
    let once = || (spec.op.manages() && spec.time.is_none()).then_some(u64::from(actor.zones.end - actor.zones.start));
    let counted = spec.count.map(|count| count.saturating_mul(u64::from(actor.jobs))).or_else(once);
    let counted = counted.map(|count| count as f64 * seconds_of_command(actor, geometry));
    spec.start.0.as_secs_f64() + timed.into_iter().chain(counted).fold(f64::INFINITY, f64::min)
}

fn seconds_of_command(actor: &CheckedActor, geometry: &Geometry) -> f64 {
    let spec = &actor.spec;
    let left = geometry.capacity_bytes().saturating_sub(filled(actor, geometry)) as f64;
    let alone = match spec.op {
        Activity::RandomRead => 80e-6,
        Activity::Reset => RESET,
        Activity::Finish => left / RATE,
        _ => ALONE,
    };
    let beside = f64::from(actor.jobs.saturating_mul(spec.qd)).min(16.0);
    let data = if spec.op.manages() { 0.0 } else { spec.bs.0 as f64 };
    let counted = spec.command_bytes(geometry) as f64;
    let limited = spec.rate.map_or(0.0, |rate| counted / rate.0.0 as f64) / f64::from(actor.jobs);
    let filling = bytes_of_command(actor, geometry) as f64;
    (alone / beside).max(data / RATE).max(limited)
        + if spec.op.manages() { filling / RATE + spec.pause.0.as_secs_f64() / f64::from(actor.jobs) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_zoned::job::{ActorSpec, Job, Rate, Zones};
    use senesce_zoned::run::plan_job;

    fn cost(job: &Job) -> (u64, f64) {
        let (checked, geometry) = plan_job(&"sim:zn540".parse().unwrap(), job).unwrap();
        let (bytes, seconds) = of_job(&checked, &geometry);
        (bytes.0, seconds)
    }

    fn of(actor: ActorSpec) -> (u64, f64) {
        cost(&Job::of(vec![actor]))
    }

    const ZONE: u64 = 1077 << 20;

    #[test]
    fn time_limit_does_not_bound_bytes() {
        let time = Some(Span::seconds(60.0));
        let writer = ActorSpec { bs: Bytes::kib(128), time, ..ActorSpec::new(Activity::Write) };
        assert_eq!(of(writer.clone()), (BY_TIME_ALONE, 60.0));
        let together = vec![writer.clone(), ActorSpec { time, ..ActorSpec::new(Activity::Append) }];
        assert_eq!(cost(&Job::of(together)).0, BY_TIME_ALONE, "no sum is beyond it");
        let resets = ActorSpec { occupancy: Some(0.5), time, ..ActorSpec::new(Activity::Reset) };
        assert_eq!(of(resets).0, BY_TIME_ALONE);
        let slow = ActorSpec { rate: Some(Rate(Bytes::mib(1))), ..writer.clone() };
        assert_eq!(of(slow.clone()).0, 60 * (1 << 20) + (128 << 10), "the first begins at once");
        let ramp = Job { ramp: Span::seconds(2.0), ..Job::of(vec![slow]) };
        assert_eq!(cost(&ramp).0, 62 * (1 << 20) + (128 << 10));
        let both = ActorSpec { count: Some(10), ..writer };
        assert_eq!(of(both.clone()).0, 10 * (128 << 10));
        assert_eq!(cost(&Job { ramp: Span::seconds(2.0), ..Job::of(vec![both]) }).0, BY_TIME_ALONE);
    }

    #[test]
    fn preparation_counts_as_written() {
        let half = |op, count| ActorSpec { occupancy: Some(0.5), count: Some(count), ..ActorSpec::new(op) };
        let (bytes, seconds) = of(half(Activity::Reset, 1000));
        assert_eq!(bytes, 1000 * ZONE / 2);
        assert!((500.0..600.0).contains(&seconds), "{seconds}");
        let (bytes, seconds) = of(half(Activity::Finish, 10));
        assert_eq!(bytes, 10 * ZONE / 2);
        assert!((10.0..12.0).contains(&seconds), "half is written, half is padded: {seconds}");
        let once = ActorSpec { zones: Zones::Range(0, 8), ..ActorSpec::new(Activity::Reset) };
        assert_eq!(of(once).0, 0);
        let opened = ActorSpec { count: Some(5), ..ActorSpec::new(Activity::OpenClose) };
        assert_eq!(of(opened).0, 5 * 2 * 4096);
        let read = ActorSpec { count: Some(5), zones: Zones::Range(0, 2), ..ActorSpec::new(Activity::RandomRead) };
        assert_eq!(of(read).0, 2 * ZONE, "both are filled before");
    }
}
