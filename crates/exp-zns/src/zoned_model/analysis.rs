//! Reports a fitted model: its constants with their uncertainty, and its error on values that were not fitted.

use super::{Event, Spec, ZonedModel, file, model_so_far};
use senesce_core::Rows;
use senesce_core::analysis::Table;
use senesce_core::{Analysis, Failure};
use senesce_runner::Recorded;
use senesce_zoned::fit::block::DETERMINED;
use senesce_zoned::fit::constants::Constants;
use senesce_zoned::fit::error::Summary;
use senesce_zoned::fit::points::CONCURRENT;
use senesce_zoned::sim::model::{FitSource, Model};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) fn start(recorded: &Recorded<ZonedModel>) -> Option<&str> {
    recorded.events().find_map(|event| match event {
        Event::Start(text) => Some(text.as_str()),
        _ => None,
    })
}

struct Constant<'a> {
    about: &'a str,
    value: f64,
    deviation: Option<f64>,
}

impl Constant<'_> {
    fn is_determined(&self) -> bool {
        self.deviation.is_some_and(|deviation| deviation <= DETERMINED)
    }

    fn words(&self) -> &'static str {
        match self.deviation {
            None => "kept: no measured value depends on it",
            Some(_) if self.is_determined() => "fitted",
            Some(_) => "not distinguished from others by the measurements",
        }
    }
}

struct Check<'a> {
    point: &'a str,
    value: &'a str,
    measured: f64,
    modelled: f64,
}

impl Check<'_> {
    fn error(&self) -> f64 {
        self.modelled / self.measured - 1.0
    }

    /// Describes operation, single or concurrent, and the compared quantity.
    fn group(&self) -> String {
        let operation = self.point.split_once(' ').map_or(self.point, |(word, _)| word);
        let concurrent = if self.point.contains(CONCURRENT) { " next to others" } else { "" };
        let what = match self.value.split_once('.').map_or(self.value, |(_, what)| what) {
            "iops" => "commands per second",
            "mean" => "mean latency",
            "p95" => "p95 latency",
            other => other,
        };
        let whose = if self.value.starts_with("1.") { ", the other" } else { "" };
        format!("{operation}{concurrent}{whose}: {what}")
    }
}

pub(crate) fn analyse(spec: &Spec, recorded: &Recorded<ZonedModel>) -> Result<Analysis, Failure> {
    let mut constants: BTreeMap<&str, Constant<'_>> = BTreeMap::new();
    let (mut checks, mut points) = (Vec::new(), BTreeSet::new());
    let mut settled: BTreeMap<&str, bool> = BTreeMap::new();
    for event in recorded.events() {
        match event {
            Event::Constant { name, block, value, deviation, .. } => {
                constants.insert(name, Constant { about: block, value: *value, deviation: *deviation });
            }
            Event::Checked { point, value, measured, modelled } => {
                checks.push(Check { point, value, measured: *measured, modelled: *modelled });
            }
            Event::Measured { point, .. } => {
                points.insert(point.as_str());
            }
            Event::Searched { block, settled: is_settled } => {
                settled.insert(block, *is_settled);
            }
            Event::Start(_) | Event::Left(_) => {}
        }
    }
    // The values that were not fitted were measured too.
    points.retain(|point| checks.iter().all(|check| check.point != *point));
    let fitted_to = match spec.tables.is_empty() {
        true => format!("{} points", points.len()),
        false => "points".into(),
    };
    let overall = Summary::of(checks.iter().map(Check::error));
    let fitted = constants.values().filter(|constant| constant.is_determined()).count();
    let summary = match overall {
        None => format!("{} points measured; the model is not checked yet.", points.len()),
        Some(error) => format!(
            "{fitted} constants fitted to {fitted_to}. On the {} values that were not fitted, the error of the \
             model is {:.1} % in the median, {:.1} % at the 90th percentile and {:.1} % at worst.",
            error.count,
            error.median * 100.0,
            error.p90 * 100.0,
            error.worst * 100.0
        ),
    };
    let unsettled: Vec<&str> =
        settled.iter().filter(|(_, is_settled)| !**is_settled).map(|(block, _)| *block).collect();
    let mut result = json!({
        "device": spec.device,
        "start": spec.start,
        "constants": constants.iter().map(|(name, one)| constant_json(name, one)).collect::<Vec<_>>(),
        "settled": unsettled.is_empty(),
        "unsettled": unsettled,
        "errors": errors(&checks),
        "points": checks.iter().map(check_json).collect::<Vec<_>>(),
    });
    if let Some(text) = start(recorded) {
        let begun = Model::parse(text)?;
        let names = Constants::of(&begun)?.names();
        let start: Vec<&String> = names.iter().filter(|name| !constants.contains_key(name.as_str())).collect();
        result["from_start_model"] = json!(start);
        if let Some(error) = overall {
            let determined = constants.iter().filter(|(_, constant)| constant.is_determined());
            let source = FitSource {
                drive: device_words(spec, recorded),
                start: spec.start.clone(),
                deviation: determined
                    .filter_map(|(name, one)| Some((name.to_string(), rounded(one.deviation?))))
                    .collect(),
                median_error: rounded(error.median),
                errors: error.count as u32,
            };
            let model = Model {
                description: format!("fitted to {fitted_to} of {}", source.drive),
                fitted_to: vec![source.drive.clone()],
                fit: Some(source),
                ..model_so_far(&begun, recorded)?
            };
            result["model"] = json!(model.to_toml()?);
        }
    }
    Ok(Analysis {
        title: format!("A model of {}", spec.device),
        summary,
        tables: vec![constant_table(&constants), error_table(&checks), check_table(&checks)],
        caveats: caveats(&constants, &unsettled),
        result,
        ..Analysis::default()
    })
}

/// Returns the drive's model name, and the user's name of it.
fn device_words(spec: &Spec, recorded: &Recorded<ZonedModel>) -> String {
    if !spec.tables.is_empty() {
        let names: Vec<String> = spec.tables.iter().map(|table| table.path.display().to_string()).collect();
        return format!("the tables {}", names.join(", "));
    }
    let fact = |name: &str| recorded.environment.0.get(name).and_then(Value::as_str);
    let nature = fact("zns.device.0.nature").unwrap_or("real");
    format!("{} ({nature} drive {})", spec.device, fact("zns.device.0.model").unwrap_or_default())
}

fn caveats(constants: &BTreeMap<&str, Constant<'_>>, unsettled: &[&str]) -> Vec<String> {
    let left: Vec<&str> =
        constants.iter().filter(|(_, constant)| !constant.is_determined()).map(|(name, _)| *name).collect();
    let left = (!left.is_empty())
        .then(|| format!("{} constants are not determined by the measurements: {}", left.len(), left.join(", ")));
    left.into_iter().chain(file::unsettled_words(unsettled)).collect()
}

fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

fn percent(share: f64) -> Value {
    json!((share * 1e4).round() / 100.0)
}

fn constant_json(name: &str, constant: &Constant<'_>) -> Value {
    json!({
        "name": name,
        "about": constant.about,
        "value": constant.value,
        "relative_deviation": constant.deviation.map(rounded),
        "determined": constant.is_determined(),
    })
}

fn constant_table(constants: &BTreeMap<&str, Constant<'_>>) -> Table {
    Rows::of(constants)
        .column("constant", |(name, _)| name)
        .column("about", |(_, constant)| &constant.about)
        .column("value", |(_, constant)| rounded(constant.value))
        .column("standard deviation (%)", |(_, constant)| constant.deviation.map_or(Value::Null, percent))
        .column("how", |(_, constant)| constant.words())
        .table("constants", "Constants, in the unit at the end of their name")
}

fn groups(checks: &[Check<'_>]) -> BTreeMap<String, Summary> {
    let mut errors: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    checks.iter().for_each(|check| errors.entry(check.group()).or_default().push(check.error()));
    errors.into_iter().filter_map(|(group, errors)| Some((group, Summary::of(errors.into_iter())?))).collect()
}

fn errors(checks: &[Check<'_>]) -> Vec<Value> {
    let one = |(group, error): (String, Summary)| json!({"group": group, "values": error.count, "median": error.median, "p90": error.p90, "worst": error.worst});
    groups(checks).into_iter().map(one).collect()
}

fn error_table(checks: &[Check<'_>]) -> Table {
    let groups = groups(checks);
    Rows::of(&groups)
        .column("what", |(group, _)| group)
        .column("values", |(_, error)| error.count)
        .column("median error (%)", |(_, error)| percent(error.median))
        .column("90th percentile (%)", |(_, error)| percent(error.p90))
        .column("worst (%)", |(_, error)| percent(error.worst))
        .table("errors", "Errors of the model on values that were not fitted")
}

fn check_json(check: &Check<'_>) -> Value {
    json!({"point": check.point, "value": check.value, "measured": check.measured, "modelled": check.modelled})
}

fn check_table(checks: &[Check<'_>]) -> Table {
    Rows::of(checks)
        .column("point", |check| &check.point)
        .column("value", |check| &check.value)
        .column("measured (1/s or us)", |check| rounded(check.measured))
        .column("modelled (1/s or us)", |check| rounded(check.modelled))
        .column("error (%)", |check| percent(check.error()))
        .table("checks", "Points that were not fitted")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn concurrent_reads_have_a_group_of_their_own() {
        let point = "randread,bs=4096,qd=1 beside write,bs=131072,rate=100MiB/s";
        let check = Check { point, value: "0.mean", measured: 1.0, modelled: 1.0 };
        assert_eq!(check.group(), "randread,bs=4096,qd=1 next to others: mean latency");
    }
}
