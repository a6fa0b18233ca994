//! Analyses imported points like our own experiments, each device separately.

use super::{Event, ZnsStudyImport};
use crate::zns::compare::{Comparison, compare, group_table, groups, table};
use crate::zns::drives::{PUBLISHED_CONVENTIONAL, PUBLISHED_ZONED, Used};
use crate::zns::measure::DeviceValues;
use crate::zns::values::Values;
use crate::zns::{ZnsStudy, facts_of, measurements_of};
use senesce_claims::{ClaimSet, Facts, decide};
use senesce_core::{Analysis, Failure, Figure, Finding, Level, Measurement, Table, Verdict};
use senesce_runner::Recorded;
use serde_json::{Value, json};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

struct Study {
    id: &'static str,
    published: &'static str,
    claims: &'static str,
    measurements: fn(&[Used], &[Values]) -> Vec<Measurement>,
    figures: fn(&DeviceValues, &[Comparison]) -> Vec<Figure>,
}

const fn study<S: ZnsStudy>() -> Study {
    Study {
        id: S::ID,
        published: S::PUBLISHED,
        claims: S::CLAIMS,
        measurements: measurements_of::<S>,
        figures: S::figures,
    }
}

/// The experiments whose points an import may contain.
const STUDIES: [Study; 10] = [
    study::<crate::zns_request_size::ZnsRequestSize>(),
    study::<crate::zns_intra_zone::ZnsIntraZone>(),
    study::<crate::zns_inter_zone::ZnsInterZone>(),
    study::<crate::zns_bandwidth::ZnsBandwidth>(),
    study::<crate::zns_reset::ZnsReset>(),
    study::<crate::zns_finish::ZnsFinish>(),
    study::<crate::zns_open_close::ZnsOpenClose>(),
    study::<crate::zns_read_interference::ZnsReadInterference>(),
    study::<crate::zns_heavy::ZnsHeavy>(),
    study::<crate::zns_reset_interference::ZnsResetInterference>(),
];

/// The study's folder name of its zoned drive; the conventional drive was measured with it.
const ZONED_FOLDER: &str = "zns-a";

pub(crate) fn analyse(recorded: &Recorded<ZnsStudyImport>) -> Result<Analysis, Failure> {
    let points: Vec<&Values> = recorded
        .events()
        .filter_map(|event| if let Event::Point(values) = event { Some(values) } else { None })
        .collect();
    let devices: BTreeSet<&str> = points.iter().map(|values| values.device.as_str()).collect();
    let mut analysis = Analysis {
        title: "Imported results of the ZNS study".into(),
        summary: "Raw files converted to the form of our own experiments, with the published values.".into(),
        ..Analysis::default()
    };
    let mut result = Vec::new();
    for device in devices {
        let of_it: Vec<Values> = points.iter().filter(|values| values.device == device).map(|v| (*v).clone()).collect();
        result.push(add_device(device, &of_it, &mut analysis)?);
    }
    analysis.tables.push(skipped(recorded));
    analysis.result = json!({"devices": result});
    Ok(analysis)
}

fn drives_of(device: &str) -> Vec<Used> {
    let used = |called: &str| Used { name: device.into(), nature: "real".into(), called: called.into() };
    match device {
        ZONED_FOLDER => vec![used(PUBLISHED_ZONED), used(PUBLISHED_CONVENTIONAL)],
        _ => vec![used("")],
    }
}

/// Adds the analysis of one device; returns its part of the result.
fn add_device(device: &str, points: &[Values], analysis: &mut Analysis) -> Result<Value, Failure> {
    let drives = drives_of(device);
    let measured = DeviceValues::on(drives.clone(), points.iter(), std::iter::empty());
    let word = if device.is_empty() { "no-device" } else { device };
    let mut all = Vec::new();
    for study in STUDIES {
        let comparison = compare(&measured, study.published)?;
        if comparison.is_empty() {
            continue;
        }
        let rename = |mut figure: Figure| {
            figure.id = format!("{word}-{}-{}", study.id, figure.id);
            figure
        };
        analysis.figures.extend((study.figures)(&measured, &comparison).into_iter().map(rename));
        analysis.findings.extend(findings(&study, &drives, points)?);
        all.extend(comparison);
    }
    let all = once(all);
    let groups = groups(&all);
    let titled = |mut table: Table| {
        table.id = format!("{word}-{}", table.id);
        table.title = format!("{} ({word})", table.title);
        table
    };
    if !groups.is_empty() {
        analysis.tables.push(titled(group_table(&groups)));
    }
    if !all.is_empty() {
        analysis.tables.push(titled(table(&all, &measured)));
    }
    analysis.tables.push(titled(own_values(&measured)));
    Ok(json!({"device": device, "points": measured.to_json(), "groups": groups, "comparison": all}))
}

fn once(all: Vec<Comparison>) -> Vec<Comparison> {
    let mut kept: Vec<Comparison> = Vec::new();
    let mut places: BTreeMap<(String, String, u64), usize> = BTreeMap::new();
    for one in all {
        match places.entry((one.condition.clone(), one.metric.clone(), one.published.to_bits())) {
            Entry::Vacant(place) => {
                place.insert(kept.len());
                kept.push(one);
            }
            // Not every experiment assigns a group.
            Entry::Occupied(place) if kept[*place.get()].group.is_empty() => kept[*place.get()] = one,
            Entry::Occupied(_) => {}
        }
    }
    kept
}

/// Returns the claims that these points decide.
fn findings(study: &Study, drives: &[Used], points: &[Values]) -> Result<Vec<Finding>, Failure> {
    let set = ClaimSet::parse(study.claims, study.published).map_err(|error| Failure::usage(error.to_string()))?;
    let facts = facts_of(drives, Facts::of(Level::Paper));
    let found = decide(&set, &(study.measurements)(drives, points), &facts);
    Ok(found.into_iter().filter(|finding| finding.verdict != Verdict::NotTestable).collect())
}

fn own_values(measured: &DeviceValues) -> Table {
    let columns = ["point", "1/s", "MiB/s", "mean (us)", "p95 (us)"];
    let mut table = Table::new("points", "All imported points", &columns);
    for values in measured.all() {
        let get = |name: &str| {
            let own = values.values.get(name).or_else(|| values.values.get(&format!("writer_{name}")));
            own.map_or(Value::Null, |value| json!(value))
        };
        table.row((&values.key, get("iops"), get("bw_mib"), get("lat_mean_us"), get("lat_p95_us")));
    }
    table
}

fn skipped(recorded: &Recorded<ZnsStudyImport>) -> Table {
    let mut table = Table::new("skipped", "Files that are not results of the study", &["file", "why"]);
    for event in recorded.events() {
        if let Event::Skipped { path, why } = event {
            table.row((path, why));
        }
    }
    table
}
