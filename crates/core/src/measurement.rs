//! Measured values in one format for all verbs and experiments, for comparison and export.

use crate::analysis::Better;
use crate::finite::{Finite, NoValue};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// [`crate::record::Event::kind`] of events whose data is a [`Measurement`].
pub const EVENT: &str = "measurement";

/// Source of the time in a value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Seconds {
    /// Clock of the machine.
    #[default]
    Machine,
    /// A model, from requests or counts: independent of the machine.
    Model,
    /// Clock of an emulated processor, which is meaningless for real ones.
    Emulator,
}

impl Seconds {
    // Signature required by Serde.
    fn is_of_the_machine(&self) -> bool {
        *self == Self::Machine
    }
}

/// One measured value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// Measured quantity ("throughput", "cold read time").
    pub metric: String,
    /// Its unit ("operations/s", "s").
    pub unit: String,
    /// Which direction is better.
    pub better: Better,
    /// Condition: names and values ("fs" = "ext4", "state" = "aged").
    pub condition: BTreeMap<String, String>,
    /// Index of the image (independent aging), from 0.
    #[serde(default)]
    pub image: u32,
    /// Index of the repetition on that image, from 0.
    #[serde(default)]
    pub repetition: u32,
    /// Whether this is a primary metric, on which the verdict of its workload is based; others are descriptive.
    #[serde(default, skip_serializing_if = "is_false")]
    pub primary: bool,
    /// Whether this is the primary metric to which a comparison gives most of its error rate.
    #[serde(default, skip_serializing_if = "is_false")]
    pub lead: bool,
    /// Source of the time, if the value is a time or a rate.
    #[serde(default, skip_serializing_if = "Seconds::is_of_the_machine")]
    pub seconds: Seconds,
    /// Whether the value is a time or a rate, if that does not follow from its unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timing: Option<bool>,
    /// Digest of the layout from which the value follows, if it follows from one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<String>,
    /// The value, in `unit`.
    pub value: Finite,
}

impl Measurement {
    /// Creates a value without condition, first repetition on the first image. Create rates with [`Finite::per`].
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
        Ok(Self {
            metric,
            unit,
            better,
            condition,
            image: 0,
            repetition: 0,
            primary: false,
            lead: false,
            seconds,
            timing,
            layout: None,
            value,
        })
    }

    /// Returns, for a tail latency, the share (fraction) of events beyond it ("p99 latency": 0.01), if at most a tenth.
    pub fn beyond(&self) -> Option<f64> {
        let percentile = |word: &str| word.strip_prefix('p')?.parse::<f64>().ok();
        let percentile = self.metric.split(' ').find_map(percentile)?;
        (90.0..100.0).contains(&percentile).then_some(1.0 - percentile / 100.0)
    }

    /// Adds a condition.
    pub fn under(mut self, name: &str, value: impl Into<String>) -> Self {
        self.condition.insert(name.into(), value.into());
        self
    }

    /// Marks the value as a time or rate of the machine, or as neither.
    pub fn timing(mut self, is_timing: bool) -> Self {
        self.timing = Some(is_timing);
        self
    }

    /// Notes the digest of the layout from which the value follows.
    pub fn of_layout(mut self, digest: Option<String>) -> Self {
        self.layout = digest;
        self
    }

    /// Marks the value as a primary metric.
    pub fn primary(mut self) -> Self {
        self.primary = true;
        self
    }

    /// Marks the value as the first of the primary metrics.
    pub fn lead(mut self) -> Self {
        self.lead = true;
        self.primary()
    }

    /// Marks the value as modelled.
    pub fn modelled(mut self) -> Self {
        self.seconds = Seconds::Model;
        self
    }

    /// Marks the value as taken under emulation, unless it is modelled.
    pub fn under_emulation(mut self) -> Self {
        if self.seconds == Seconds::Machine {
            self.seconds = Seconds::Emulator;
        }
        self
    }

    /// Returns whether it is a time or a rate from a clock, which is invalid under emulation. Layouts and modelled
    /// times of traced requests are not.
    pub fn is_timing(&self) -> bool {
        self.timing.unwrap_or_else(|| self.seconds != Seconds::Model && is_time(&self.unit))
    }

    /// Returns the text of the condition: `fs=ext4 state=aged`.
    pub fn condition_text(&self) -> String {
        let words: Vec<String> = self.condition.iter().map(|(name, value)| format!("{name}={value}")).collect();
        words.join(" ")
    }
}

/// Returns whether a unit is a time, or a rate per or of a time ("ms", "s/GiB", "operations/s").
pub(crate) fn is_time(unit: &str) -> bool {
    unit.split('/').any(|part| ["s", "ms", "us", "µs", "ns"].contains(&part.trim()))
}

// Signature required by Serde.
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
    fn percentile_is_recognised_by_its_name() {
        let beyond = |metric: &str| Measurement::new(metric, "us", Better::Lower, 1.0).unwrap().beyond();
        let hundredths = |metric: &str| beyond(metric).map(|share| (share * 1e4).round());
        assert_eq!(
            ["p99 latency", "flowop p99.9 latency", "p90"].map(hundredths),
            [Some(100.0), Some(10.0), Some(1000.0)]
        );
        assert_eq!(["p50 latency", "mean latency", "p latency", "p100", "pages"].map(hundredths), [None; 5]);
    }

    #[test]
    fn missing_values_are_not_measurements() {
        assert_eq!(time(2.0).unwrap().value.get(), 2.0);
        for value in [f64::NAN, f64::INFINITY, -f64::INFINITY] {
            assert!(time(value).is_err());
        }
        let cost = |seconds, gib| Measurement::new("cost", "s/GiB", Better::Lower, Finite::per(seconds, gib)?);
        assert_eq!(cost(3.0, 1.5).unwrap().value.get(), 2.0);
        assert!(cost(0.0, 0.0).is_err());
    }

    #[test]
    fn only_clock_times_are_timings() {
        let timing = |unit: &str| Measurement::new("m", unit, Better::Lower, 1.0).unwrap().is_timing();
        assert!(["s", "us", "s/GiB", "operations/s", "MB / s"].into_iter().all(timing));
        assert!(!["", "bytes", "extents/file"].into_iter().any(timing));
        assert!(!time(1.0).unwrap().modelled().is_timing());
    }

    #[test]
    fn modelled_values_are_unchanged_under_emulation() {
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
