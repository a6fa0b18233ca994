//! The single values of any record.

use senesce_core::analysis::Better;
use senesce_core::{Failure, Measurement, Record};
use senesce_runner::Registry;
use serde_json::Value;

pub const THROUGHPUT: &str = "throughput";

pub const MODELLED: &str = ", modelled ";

/// Returns the values that the run recorded one by one. If it recorded none, returns the numbers of its result whose
/// name implies a unit and a direction. Times under emulation are marked for all kinds of runs.
pub fn of(registry: &Registry, record: &Record) -> Result<Vec<Measurement>, Failure> {
    let kind = registry.kind(&record.plan)?;
    let mut found = kind.measurements(record)?;
    if found.is_empty() {
        collect("", &kind.analyse(record)?.result, kind.not_measured(), &mut found);
    }
    Ok(timed(record, found))
}

/// Marks the times of a record under emulation.
pub(crate) fn timed(record: &Record, found: Vec<Measurement>) -> Vec<Measurement> {
    match record.environment.is_emulated() {
        true => found.into_iter().map(Measurement::under_emulation).collect(),
        false => found,
    }
}

fn collect(name: &str, value: &Value, not_measured: &[&str], found: &mut Vec<Measurement>) {
    match value {
        Value::Object(entries) => {
            for (key, value) in entries.iter().filter(|(key, _)| !not_measured.contains(&key.as_str())) {
                let name = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
                collect(&name, value, not_measured, found);
            }
        }
        Value::Number(number) => {
            if let (Some((unit, better)), Some(value)) = (nature(name), number.as_f64()) {
                found.extend(Measurement::new(name, unit, better, value));
            }
        }
        _ => {}
    }
}

/// Endings of names with unit and direction, the more specific first. The distance of an aging from its profile
/// (`rmse`) follows from the plan on every file system, so it is not a measurement.
const NATURES: [(&str, &str, Better); 13] = [
    ("per_second", "1/s", Better::Higher),
    ("throughput", "1/s", Better::Higher),
    ("bandwidth", "bytes/s", Better::Higher),
    ("layout_score", "", Better::Higher),
    ("score", "", Better::Higher),
    ("discontinuities", "", Better::Lower),
    ("extents_per_file", "", Better::Lower),
    ("free_extents", "", Better::Lower),
    ("seconds", "s", Better::Lower),
    ("_ns", "ns", Better::Lower),
    ("_us", "us", Better::Lower),
    ("_ms", "ms", Better::Lower),
    ("peak_rss_bytes", "bytes", Better::Lower),
];

fn nature(name: &str) -> Option<(&'static str, Better)> {
    NATURES.iter().find(|(ending, ..)| name.ends_with(ending)).map(|(_, unit, better)| (*unit, *better))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_numbers_with_known_names_become_measurements() {
        let result = json!({"ops_per_second": 10.0, "seed": 42, "rmse": {"age": 0.1}, "layout": {"score": 0.9}, "machine": {"x_ns": 1}, "asked_seconds": 1.2});
        let mut found = Vec::new();
        collect("", &result, &["machine", "asked_seconds"], &mut found);
        let names: Vec<&str> = found.iter().map(|one| one.metric.as_str()).collect();
        assert_eq!(names, ["ops_per_second", "layout.score"]);
        assert!(found[0].is_timing() && !found[1].is_timing());
    }
}
