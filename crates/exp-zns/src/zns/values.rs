//! Values of points, as recorded and as claims, tables and exports see them.

use super::condition::Condition;
use senesce_core::{Better, Measurement};
use senesce_zoned::job::Latency;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The values of one key.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Values {
    /// The condition of the point.
    pub key: String,
    /// Repetition of the point, from 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub repetition: u32,
    /// In an import of several devices: the device of the measurement.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub device: String,
    /// Numbers by name: iops, bw_mib, lat_mean_us ...
    pub values: BTreeMap<String, f64>,
    /// Prefixes of the names of values outside the validity of the simulator's model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outside: Vec<String>,
    /// Bandwidth of each second, MiB/s.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_second: Vec<f64>,
}

// Serde passes a reference.
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Values {
    pub(crate) fn of(key: &str) -> Self {
        Self {
            key: key.into(),
            repetition: 0,
            device: String::new(),
            values: BTreeMap::new(),
            outside: Vec::new(),
            by_second: Vec::new(),
        }
    }

    /// Returns the value, unless it is outside the model's validity, or a rate or latency of an actor without completed
    /// commands.
    pub(crate) fn inside(&self, name: &str) -> Option<f64> {
        let is_outside = self.outside.iter().any(|beginning| name.starts_with(beginning));
        self.of_something(name).filter(|_| !is_outside)
    }

    /// Returns the value, unless it is a rate or latency of an actor without completed commands, which is unknown
    /// rather than 0.
    pub(crate) fn of_something(&self, name: &str) -> Option<f64> {
        let (prefix, own) = parts(name);
        let nothing = || self.values.get(&format!("{prefix}count")).is_some_and(|count| *count == 0.0);
        self.values.get(name).copied().filter(|_| unit(own).is_none() || !nothing())
    }

    pub(crate) fn of_latency(key: &str, latency: &Latency) -> Self {
        let mut values = Self::of(key);
        values.put_latency("", latency);
        values
    }

    /// Adds a latency with names that start with `prefix`.
    pub(crate) fn put_latency(&mut self, prefix: &str, latency: &Latency) {
        for (name, value) in [
            ("lat_mean_us", latency.mean_us()),
            ("lat_p50_us", latency.quantile_us(0.50)),
            ("lat_p95_us", latency.quantile_us(0.95)),
            ("lat_p99_us", latency.quantile_us(0.99)),
            ("lat_max_us", latency.max_us()),
            ("count", latency.count() as f64),
        ] {
            self.values.insert(format!("{prefix}{name}"), value);
        }
    }

    pub(crate) fn measurements(&self) -> Vec<Measurement> {
        let one = |name: &String| {
            let (unit, better) = unit(parts(name).1)?;
            measurement(&self.key, name, unit, better, self.inside(name)?, self.repetition)
        };
        self.values.keys().filter_map(one).collect()
    }
}

pub(super) fn parts(name: &str) -> (&str, &str) {
    name.split_at(if name.starts_with(WRITER) { WRITER.len() } else { 0 })
}

/// Prefix of the values of a writer that runs with readers.
const WRITER: &str = "writer_";

/// Returns unit and better direction of a value; `None` for counts without claims.
fn unit(name: &str) -> Option<(&'static str, Better)> {
    Some(match name {
        "iops" => ("1/s", Better::Higher),
        "bw_mib" => ("MiB/s", Better::Higher),
        _ if name.starts_with("lat_") => ("us", Better::Lower),
        _ => return None,
    })
}

/// Creates one value with the conditions of its key; a key in plain words is a single condition. `None` if the value is
/// not a number.
pub(crate) fn measurement(
    key: &str,
    metric: &str,
    unit: &str,
    better: Better,
    value: f64,
    repetition: u32,
) -> Option<Measurement> {
    let mut one = Measurement::new(metric, unit, better, value).ok()?;
    match Condition::parse(key) {
        Some(condition) => one.condition = condition.into_map(),
        None => one = one.under("condition", key),
    }
    one.repetition = repetition;
    Some(one)
}

#[derive(Debug, Clone, PartialEq)]
pub struct Derived {
    pub key: String,
    pub metric: &'static str,
    pub unit: &'static str,
    pub better: Better,
    pub value: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_come_from_the_key() {
        let mut values = Values::of("op=write,qd=4");
        values.values.extend([("iops".to_string(), 5.0), ("count".to_string(), 9.0)]);
        let found = values.measurements();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].unit.as_str(), found[0].condition["qd"].as_str()), ("1/s", "4"));
        values.outside = vec!["iops".into()];
        assert!(values.measurements().is_empty(), "the model does not know it");
        values.outside.clear();
        values.values.insert("count".into(), 0.0);
        assert!(values.measurements().is_empty(), "no command completed");
        assert_eq!(
            (values.inside("iops"), values.inside("count")),
            (None, Some(0.0)),
            "not compared with published values"
        );
        let plain = measurement("close after open", "lat_mean_us", "us", Better::Lower, 3.0, 2).unwrap();
        assert_eq!((plain.condition["condition"].as_str(), plain.repetition), ("close after open", 2));
        assert!(measurement("a", "b", "us", Better::Lower, f64::NAN, 0).is_none());
    }
}
