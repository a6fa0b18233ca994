//! Single measured values in one shape for all verbs and experiments, so that runs can be compared and exported alike.

use crate::analysis::Better;
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
    /// The value.
    pub value: f64,
}

impl Measurement {
    /// A value without condition, first repetition on the first image.
    pub fn new(metric: &str, unit: &str, better: Better, value: f64) -> Self {
        let (metric, unit) = (metric.to_string(), unit.to_string());
        Self { metric, unit, better, condition: BTreeMap::new(), image: 0, repetition: 0, value }
    }

    /// The same under one more condition.
    pub fn under(mut self, name: &str, value: impl Into<String>) -> Self {
        self.condition.insert(name.into(), value.into());
        self
    }

    /// The condition in words: `fs=ext4 state=aged`.
    pub fn condition_words(&self) -> String {
        let words: Vec<String> = self.condition.iter().map(|(name, value)| format!("{name}={value}")).collect();
        words.join(" ")
    }
}
