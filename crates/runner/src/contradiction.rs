//! Detects contradictions in a record: an altered line is refused with its number.

use crate::recorded::{Common, Recorded, RecordedEvent};
use crate::{Run, spec_of};
use senesce_core::record::RecordError;
use senesce_core::{Better, Failure, Measurement, Record};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap, HashSet};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contradiction {
    pub line: usize,
    pub problem: String,
}

impl Contradiction {
    pub fn new(line: usize, problem: impl Into<String>) -> Self {
        Self { line, problem: problem.into() }
    }
}

pub(crate) fn check<R: Run>(record: &Record, recorded: &Recorded<R>) -> Result<(), Failure> {
    let found = steps_are_distinct(recorded)
        .and_then(|()| events_are_distinct(record))
        .and_then(|()| values_are_distinct(recorded))
        .and_then(|()| percentiles_rise(recorded))
        .and_then(|()| {
            // Readers of a specification report its problems.
            spec_of::<R>(record).map_or(Ok(()), |spec| R::check(&spec, recorded, record.is_partial()))
        });
    let damaged = |Contradiction { line, problem }: Contradiction| -> Failure {
        RecordError::Damaged { path: record.path.join("events.jsonl"), line, problem }.into()
    };
    found.map_err(damaged)?;
    let of_files = spec_of::<R>(record).map_or(Ok(None), |spec| R::check_files(&spec, recorded))?;
    of_files.map_or(Ok(()), |found| Err(damaged(found)))
}

fn steps_are_distinct<R: Run>(recorded: &Recorded<R>) -> Result<(), Contradiction> {
    let mut done = HashSet::new();
    for (line, entry) in recorded.lines() {
        let RecordedEvent::Common(Common::Done(one)) = entry else { continue };
        if !done.insert(canonical(one.step.clone())) {
            return Err(Contradiction::new(line, format!("step {} was completed a second time", one.step)));
        }
        if one.seconds.is_nan() || one.seconds < 0.0 {
            return Err(Contradiction::new(line, format!("step {} took {} s", one.step, one.seconds)));
        }
    }
    Ok(())
}

/// Checks that the events of a step differ: an event that equals another of its batch in all digits is a copy.
fn events_are_distinct(record: &Record) -> Result<(), Contradiction> {
    let (mut of_batch, mut batch) = (HashMap::new(), 0);
    for event in &record.events {
        let line = event.line;
        if event.batch != batch {
            (batch, of_batch) = (event.batch, HashMap::new());
        }
        let data = event.data.value();
        if !is_of_a_clock(&data) {
            continue;
        }
        let content = blake3::hash(canonical(data).as_bytes());
        if let Some(earlier) = of_batch.insert((&event.kind, content), line) {
            return Err(Contradiction::new(line, format!("event '{}' repeats line {earlier}", event.kind)));
        }
    }
    Ok(())
}

/// Returns whether a value has a number that two measurements would not share by chance.
fn is_of_a_clock(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_f64() && number.as_f64().is_some_and(|value| digits(value) >= OF_A_CLOCK),
        Value::Array(values) => values.iter().any(is_of_a_clock),
        Value::Object(values) => values.values().any(is_of_a_clock),
        _ => false,
    }
}

/// Checks that no time was recorded twice: an equal number under the same condition in the same repetition is a copy.
fn values_are_distinct<R: Run>(recorded: &Recorded<R>) -> Result<(), Contradiction> {
    let mut values: BTreeMap<(String, u64), usize> = BTreeMap::new();
    for (line, entry) in recorded.lines() {
        let RecordedEvent::Common(Common::Measurement(one)) = entry else { continue };
        if !one.is_timing() || digits(one.value.get()) < OF_A_CLOCK {
            continue;
        }
        if let Some(earlier) = values.insert((place(one), one.value.get().to_bits()), line) {
            let problem = format!("the measurement of {} repeats line {earlier}", one.metric);
            return Err(Contradiction::new(line, problem));
        }
    }
    Ok(())
}

/// Checks that the percentiles of one distribution rise with their number.
fn percentiles_rise<R: Run>(recorded: &Recorded<R>) -> Result<(), Contradiction> {
    let mut found: BTreeMap<String, Vec<(f64, f64, usize)>> = BTreeMap::new();
    for (line, entry) in recorded.lines() {
        let RecordedEvent::Common(Common::Measurement(one)) = entry else { continue };
        // Names of imported metrics are free: "p1" may be a partition.
        let is_latency = one.is_timing() && one.better == Better::Lower;
        if let Some((percent, metric)) = percentile(&one.metric).filter(|(percent, _)| is_latency && *percent >= 50.0) {
            let distribution = place(&Measurement { metric, ..one.clone() });
            found.entry(distribution).or_default().push((percent, one.value.get(), line));
        }
    }
    for values in found.values_mut() {
        values.sort_by(|a, b| a.0.total_cmp(&b.0));
        let falls = values.windows(2).find(|pair| pair[0].0 < pair[1].0 && pair[0].1 > pair[1].1 * (1.0 + CELL));
        if let Some([(low, low_value, _), (high, high_value, line)]) = falls.map(|pair| [pair[0], pair[1]]) {
            let problem = format!("percentile {low} is {low_value}, more than percentile {high}, {high_value}");
            return Err(Contradiction::new(line, problem));
        }
    }
    Ok(())
}

/// Percentiles that are read from the cells of a histogram differ by this fraction at most.
const CELL: f64 = 0.02;

/// Returns the number of a metric such as `read p99.9 latency`, and its name without it.
fn percentile(metric: &str) -> Option<(f64, String)> {
    let of_word = |word: &str| word.strip_prefix('p')?.parse::<f64>().ok().filter(|percent| *percent <= 100.0);
    let percent = metric.split(' ').find_map(of_word)?;
    let others: Vec<&str> = metric.split(' ').filter(|word| of_word(word).is_none()).collect();
    Some((percent, others.join(" ")))
}

/// Number of significant digits that two measurements do not share by chance.
const OF_A_CLOCK: usize = 12;

pub(crate) fn digits(value: f64) -> usize {
    let text = format!("{value:e}");
    text.split('e').next().map_or(0, |mantissa| mantissa.bytes().filter(u8::is_ascii_digit).count())
}

/// Returns the metric, condition, repetition and image of a measurement.
pub(crate) fn place(one: &Measurement) -> String {
    format!("{}\n{}\n{}\n{}\n{}", one.metric, one.unit, one.condition_text(), one.image, one.repetition)
}

/// Returns text that does not depend on the order of entries in an object.
pub(crate) fn canonical(mut value: Value) -> String {
    value.sort_all_objects();
    value.to_string()
}
