//! Single measured values in one shape for all verbs and experiments, so that runs can be compared and exported alike.

use crate::analysis::Better;
use crate::finite::{Finite, NoValue};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Kind of the events that hold a [`Measurement`].
pub const EVENT: &str = "measurement";

/// What tells the seconds in a value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Seconds {
    /// The clock of the machine.
    #[default]
    Machine,
    /// A model, from requests or counts: the same on whatever machine these were taken.
    Model,
    /// The clock of an emulated processor, which says nothing of a real one.
    Emulator,
}

impl Seconds {
    // Serde wants a reference.
    fn is_of_the_machine(&self) -> bool {
        *self == Self::Machine
    }
}

/// One measured value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// What was measured ("throughput", "cold read time").
    pub metric: String,
    /// Its unit ("operations/s", "s").
    pub unit: String,
    /// Which direction is better.
    pub better: Better,
    /// Under which condition: names and values ("fs" = "ext4", "state" = "aged").
    pub condition: BTreeMap<String, String>,
    /// Number of the image (independent aging) it was taken on, from 0.
    #[serde(default)]
    pub image: u32,
    /// Number of the repetition on that image, from 0.
    #[serde(default)]
    pub repetition: u32,
    /// Whether it is one of the few by which its workload is judged; all others are described.
    #[serde(default, skip_serializing_if = "is_false")]
    pub primary: bool,
    /// What its seconds were told by, where it is a time or a rate.
    #[serde(default, skip_serializing_if = "Seconds::is_of_the_machine")]
    pub seconds: Seconds,
    /// Whether it is a time or a rate at all, where its unit does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timing: Option<bool>,
    /// The value. What was not measured is no measurement.
    pub value: Finite,
}

impl Measurement {
    /// A value without condition, first repetition on the first image. Refuses NaN and infinity; a rate is made by
    /// [`Finite::per`], which refuses one over nothing.
    ///
    /// # Errors
    /// As [`Finite::new`] or [`Finite::per`].
    pub fn new<V>(metric: &str, unit: &str, better: Better, value: V) -> Result<Self, NoValue>
    where
        V: TryInto<Finite>,
        NoValue: From<V::Error>,
    {
        let (metric, unit, value) = (metric.to_string(), unit.to_string(), value.try_into()?);
        let (condition, seconds, timing) = (BTreeMap::new(), Seconds::Machine, None);
        Ok(Self { metric, unit, better, condition, image: 0, repetition: 0, primary: false, seconds, timing, value })
    }

    /// The share (fraction) of events beyond it, of a latency that is exceeded by a tenth of them at most ("p99 latency": 0.01).
    pub fn beyond(&self) -> Option<f64> {
        let percentile = |word: &str| word.strip_prefix('p')?.parse::<f64>().ok();
        let percentile = self.metric.split(' ').find_map(percentile)?;
        (90.0..100.0).contains(&percentile).then_some(1.0 - percentile / 100.0)
    }

    /// The same under one more condition.
    pub fn under(mut self, name: &str, value: impl Into<String>) -> Self {
        self.condition.insert(name.into(), value.into());
        self
    }

    /// The same, said to be a time or a rate of the machine, or to be none.
    pub fn timing(mut self, is_timing: bool) -> Self {
        self.timing = Some(is_timing);
        self
    }

    /// The same, as one by which its workload is judged.
    pub fn primary(mut self) -> Self {
        self.primary = true;
        self
    }

    /// The same, told by a model.
    pub fn modelled(mut self) -> Self {
        self.seconds = Seconds::Model;
        self
    }

    /// The same, taken under emulation. What a model tells stays what it is.
    pub fn under_emulation(mut self) -> Self {
        if self.seconds == Seconds::Machine {
            self.seconds = Seconds::Emulator;
        }
        self
    }

    /// Whether it is a time or a rate that was taken with a clock: under emulation it means nothing. Layout does, and so does the
    /// time that a model takes for traced requests.
    pub fn is_timing(&self) -> bool {
        self.timing.unwrap_or_else(|| self.seconds != Seconds::Model && is_time(&self.unit))
    }

    /// The condition in words: `fs=ext4 state=aged`.
    pub fn condition_text(&self) -> String {
        let words: Vec<String> = self.condition.iter().map(|(name, value)| format!("{name}={value}")).collect();
        words.join(" ")
    }
}

/// Whether a unit is a time, or a rate over or of one ("ms", "s/GiB", "operations/s").
pub fn is_time(unit: &str) -> bool {
    unit.split('/').any(|part| ["s", "ms", "us", "µs", "ns"].contains(&part.trim()))
}

// Serde wants a reference.
fn is_false(flag: &bool) -> bool {
    !flag
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(value: f64) -> Result<Measurement, NoValue> {
        Measurement::new("cold read time", "s", Better::Lower, value)
    }

    #[test]
    fn a_percentile_is_told_by_its_name() {
        let beyond = |metric: &str| Measurement::new(metric, "us", Better::Lower, 1.0).unwrap().beyond();
        let hundredths = |metric: &str| beyond(metric).map(|share| (share * 1e4).round());
        assert_eq!(
            ["p99 latency", "flowop p99.9 latency", "p90"].map(hundredths),
            [Some(100.0), Some(10.0), Some(1000.0)]
        );
        assert_eq!(["p50 latency", "mean latency", "p latency", "p100", "pages"].map(hundredths), [None; 5]);
    }

    #[test]
    fn what_was_not_measured_is_no_measurement() {
        assert_eq!(time(2.0).unwrap().value.get(), 2.0);
        for value in [f64::NAN, f64::INFINITY, -f64::INFINITY] {
            assert!(time(value).is_err());
        }
        let cost = |seconds, gib| Measurement::new("cost", "s/GiB", Better::Lower, Finite::per(seconds, gib)?);
        assert_eq!(cost(3.0, 1.5).unwrap().value.get(), 2.0);
        assert!(cost(0.0, 0.0).is_err());
    }

    #[test]
    fn only_times_that_a_clock_told_are_timings() {
        let timing = |unit: &str| Measurement::new("m", unit, Better::Lower, 1.0).unwrap().is_timing();
        assert!(["s", "us", "s/GiB", "operations/s", "MB / s"].into_iter().all(timing));
        assert!(!["", "bytes", "extents/file"].into_iter().any(timing));
        assert!(!time(1.0).unwrap().modelled().is_timing());
    }

    #[test]
    fn a_model_says_the_same_under_emulation() {
        assert_eq!(time(1.0).unwrap().under_emulation().seconds, Seconds::Emulator);
        assert_eq!(time(1.0).unwrap().modelled().under_emulation().seconds, Seconds::Model);
        let back =
            |one: &Measurement| serde_json::from_value::<Measurement>(serde_json::to_value(one).unwrap()).unwrap();
        let marked = time(1.0).unwrap().under_emulation();
        assert_eq!(back(&marked), marked);
    }

    #[test]
    fn a_record_without_a_number_is_not_read_as_a_measurement() {
        let mut written = serde_json::to_value(time(2.0).unwrap()).unwrap();
        assert_eq!(written["value"], 2.0);
        assert_eq!(serde_json::from_value::<Measurement>(written.clone()).unwrap(), time(2.0).unwrap());
        written["value"] = serde_json::Value::Null;
        assert!(serde_json::from_value::<Measurement>(written).is_err());
    }
}
