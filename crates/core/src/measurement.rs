//! Single measured values in one shape for all verbs and experiments, so that runs can be compared and exported alike.

use crate::analysis::Better;
use crate::finite::{Finite, NoValue};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Kind of the events that hold a [`Measurement`].
pub const EVENT: &str = "measurement";

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
    /// Whether it is a time or a rate of the machine; `None`: its unit tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timing: Option<bool>,
    /// The value. What was not measured is no measurement.
    pub value: Finite,
}

impl Measurement {
    /// A value without condition, first repetition on the first image. Refuses NaN and infinity; a rate is made by
    /// [`Finite::per`], which refuses one over nothing.
    pub fn new<V>(metric: &str, unit: &str, better: Better, value: V) -> Result<Self, NoValue>
    where
        V: TryInto<Finite>,
        NoValue: From<V::Error>,
    {
        let (metric, unit, value) = (metric.to_string(), unit.to_string(), value.try_into()?);
        let (condition, timing) = (BTreeMap::new(), None);
        Ok(Self { metric, unit, better, condition, image: 0, repetition: 0, primary: false, timing, value })
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

    /// The condition in words: `fs=ext4 state=aged`.
    pub fn condition_words(&self) -> String {
        let words: Vec<String> = self.condition.iter().map(|(name, value)| format!("{name}={value}")).collect();
        words.join(" ")
    }
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
    fn a_record_without_a_number_is_not_read_as_a_measurement() {
        let mut written = serde_json::to_value(time(2.0).unwrap()).unwrap();
        assert_eq!(written["value"], 2.0);
        assert_eq!(serde_json::from_value::<Measurement>(written.clone()).unwrap(), time(2.0).unwrap());
        written["value"] = serde_json::Value::Null;
        assert!(serde_json::from_value::<Measurement>(written).is_err());
    }
}
