//! Limits of a job's duration: long enough to measure something, short enough to end.

use super::spec::{ActorSpec, Job};
use super::values::Span;
use senesce_core::Bytes;
use std::time::Duration;

/// Minimum time of a measurement: hardly any drive completes a command in less.
pub(crate) const SHORTEST: Duration = Duration::from_millis(1);
pub(crate) const LONGEST: Duration = Duration::from_hours(24 * 366);
/// Maximum count per worker: 35 years at a million commands per second.
pub(crate) const MOST_COMMANDS: u64 = 1 << 50;

/// Returns problem and remedy of an actor's times; `bytes` is the size of one of its commands.
pub(crate) fn problem(job: &Job, spec: &ActorSpec, bytes: u64) -> Option<(String, &'static str)> {
    if spec.count == Some(0) {
        return Some(("count 0 measures nothing".into(), "say how many"));
    }
    if spec.count.is_some_and(|count| count > MOST_COMMANDS) {
        return Some((
            format!("more than {MOST_COMMANDS} commands would take years"),
            "choose a smaller count, or a time",
        ));
    }
    if let Some(Span(time)) = spec.time.filter(|time| time.0 < SHORTEST) {
        let problem = format!("a time of {time:?} is too short for a measurement");
        return Some((problem, "choose 1ms or more, or count commands instead"));
    }
    if let (Some(rate), Some(Span(time))) = (spec.rate, spec.time)
        && rate.0.0 as f64 * time.as_secs_f64() < bytes as f64
    {
        let problem = format!("a rate of {}/s is less than one command of {} in {time:?}", rate.0, Bytes(bytes));
        return Some((
            problem,
            "rates are bytes per second, such as 250MiB/s; a zone command counts for the capacity of its zone",
        ));
    }
    let ramp = if spec.time.is_some() { job.ramp } else { Span::default() };
    let spans = [("time", spec.time.unwrap_or_default()), ("ramp", ramp), ("start", spec.start), ("pause", spec.pause)];
    let (name, _) = spans.into_iter().find(|(_, span)| span.0 > LONGEST)?;
    Some((format!("its {name} is longer than 366 days"), "choose a shorter one"))
}
