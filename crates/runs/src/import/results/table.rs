//! Any table of results: CSV, TSV, columns between blanks, JSON. A map names its columns.

mod json;
mod map;
mod text;

use super::{ParsedResults, record};
use crate::import::{Importer, Options, printable, read_text};
use map::Map;
use senesce_core::analysis::Better;
use senesce_core::{Failure, Measurement, number_of};
use std::collections::BTreeMap;
use std::path::Path;

pub(crate) const TABLE: &str = "table";

const MOST_ROWS: usize = 100_000;
const SHOWN_LINES: usize = 3;

pub(crate) struct Tables;

pub(crate) static TABLES: Tables = Tables;

struct MappedTable {
    maps: Vec<Map>,
    texts: Vec<String>,
}

#[derive(Debug)]
struct Row {
    at: String,
    name: String,
    value: String,
    unit: String,
    better: Option<String>,
    conditions: Vec<(String, String)>,
}

#[derive(Debug, Default)]
struct Rows {
    rows: Vec<Row>,
    left_out: Vec<String>,
}

impl Importer for Tables {
    fn name(&self) -> &'static str {
        TABLE
    }

    fn about(&self) -> &'static str {
        "results in CSV, TSV, columns or JSON; --map name=COL,value=COL,unit=COL names the columns"
    }

    fn import(&self, _source: &Path, _out: &Path) -> Result<(), Failure> {
        Err(Failure::usage(format!("'import table' needs --map\nhint: {}", map::EXAMPLE)))
    }

    fn with(&self, options: &Options) -> Result<Option<Box<dyn Importer>>, Failure> {
        if options.pattern.is_some() {
            return Err(Failure::usage("--pattern is for 'import trace'; a table needs --map"));
        }
        let maps = options.map.iter().map(|text| Map::parse(text)).collect::<Result<Vec<_>, _>>();
        let maps = maps.map_err(|problem| Failure::usage(format!("--map: {problem}\nhint: {}", map::EXAMPLE)))?;
        match maps.is_empty() {
            true => Ok(None),
            false => Ok(Some(Box::new(MappedTable { maps, texts: options.map.clone() }))),
        }
    }
}

impl Importer for MappedTable {
    fn name(&self) -> &'static str {
        TABLE
    }

    fn about(&self) -> &'static str {
        Tables.about()
    }

    fn import(&self, source: &Path, out: &Path) -> Result<(), Failure> {
        let text = read_text(source)?;
        let extension = source.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let found = read(&self.maps, &text, extension)
            .map_err(|problem| Failure::usage(format!("{}: {problem}", source.display())))?;
        record(found, source, &text, TABLE, self.texts.clone(), out)
    }
}

pub fn check(map: &str, text: &str) {
    if let Ok(map) = Map::parse(map) {
        drop(read(&[map], text, ""));
    }
}

fn read(maps: &[Map], text: &str, extension: &str) -> Result<ParsedResults, String> {
    let mut found = ParsedResults::default();
    let mut repetitions = BTreeMap::<(String, String, String), u32>::new();
    for map in maps {
        let is_json = text.trim_start().starts_with(['{', '[']);
        let rows = if is_json { json::rows(map, text)? } else { text::rows(map, text, extension)? };
        if rows.rows.is_empty() {
            return Err(format!("none of its rows has a name and a number where --map {} expects them", map.text()));
        }
        let kept = rows.rows.iter().filter(|row| map.keeps(&row.name));
        for row in kept {
            let one = measurement(row).map_err(|problem| format!("{}: {problem}", row.at))?;
            let key = (one.metric.clone(), one.unit.clone(), one.condition_text());
            let repetition = repetitions.entry(key).or_default();
            found.measurements.push(Measurement { repetition: *repetition, ..one });
            *repetition += 1;
        }
        left_out(&rows, &mut found);
    }
    if found.measurements.is_empty() {
        return Err("no row has a name that rows= lists".into());
    }
    undirected(&mut found);
    Ok(found)
}

fn left_out(rows: &Rows, found: &mut ParsedResults) {
    if rows.left_out.is_empty() {
        return;
    }
    let shown: Vec<String> = rows.left_out.iter().take(SHOWN_LINES).cloned().collect();
    let (count, more) = (rows.left_out.len(), if rows.left_out.len() > SHOWN_LINES { ", ..." } else { "" });
    found.caveats.push(format!("not rows of the table: {} ({}{more})", number_of(count, "line"), shown.join(", ")));
}

fn undirected(found: &mut ParsedResults) {
    let units: std::collections::BTreeSet<&str> =
        found.measurements.iter().filter(|one| one.better == Better::Neither).map(|one| one.unit.as_str()).collect();
    if !units.is_empty() {
        let units: Vec<&str> = units.into_iter().take(SHOWN_LINES).collect();
        found.caveats.push(format!(
            "it is unknown whether larger values are better ({}): add better=higher or better=lower to --map",
            units.join(", ")
        ));
    }
}

fn measurement(row: &Row) -> Result<Measurement, String> {
    let name = printable(row.name.trim());
    if name.is_empty() {
        return Err("its name is empty".into());
    }
    let value: f64 = row.value.parse().map_err(|_| not_a_number(&name, &row.value))?;
    if !(value.is_finite() && value >= 0.0) {
        return Err(not_a_number(&name, &row.value));
    }
    let unit = printable(row.unit.trim());
    let better = match row.better.as_deref() {
        Some("higher") => Better::Higher,
        Some("lower") => Better::Lower,
        Some(other) => return Err(format!("better is '{}', not higher or lower", printable(other))),
        None => direction(&unit),
    };
    let one = Measurement::new(&name, &unit, better, value).map_err(|problem| problem.to_string())?.primary();
    Ok(row.conditions.iter().fold(one, |one, (name, value)| one.under(name, printable(value.trim()))))
}

fn not_a_number(name: &str, value: &str) -> String {
    format!("'{name}' is '{}', which cannot be a measured value", printable(value))
}

/// Returns which direction is better: larger rates, and smaller times and costs of an operation. Other units are
/// unknown.
fn direction(unit: &str) -> Better {
    let unit = unit.to_lowercase();
    let is_time = ["ns", "us", "µs", "μs", "ms", "s", "sec", "second", "seconds"].contains(&unit.as_str());
    match () {
        () if ["/s", "/sec", "/second", "per second"].iter().any(|end| unit.ends_with(end)) => Better::Higher,
        () if ["iops", "tps", "qps", "ops"].contains(&unit.as_str()) => Better::Higher,
        () if is_time || unit.ends_with("/op") || unit.ends_with("/iter") => Better::Lower,
        () => Better::Neither,
    }
}

#[cfg(test)]
mod tests;
