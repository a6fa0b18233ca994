//! Records in one documented, tidy format for other programs. docs/verbs/report.md describes the schema.

use crate::measurements;
use senesce_core::analysis::{Better, Figure, Table};
use senesce_core::{Analysis, Failure, Record};
use senesce_runner::Registry;
use serde_json::{Value, json};
use std::path::Path;

/// Name and version of the schema; the version changes when the meaning of a column changes.
pub(crate) const SCHEMA: &str = "senesce-export/1";

pub struct Export {
    pub name: String,
    pub measurements: Table,
    pub analysis: Analysis,
    pub record: Record,
}

pub fn name_of(run: &Path) -> String {
    run.file_name().map_or_else(|| "run".into(), |name| name.to_string_lossy().into_owned())
}

pub fn export(registry: &Registry, record: Record) -> Result<Export, Failure> {
    let name = name_of(&record.path);
    let measurements = tidy(registry, &name, &record)?;
    Ok(Export { name, measurements, analysis: registry.analyse(&record)?, record })
}

pub(crate) const COLUMNS: [&str; 11] =
    ["run", "kind", "version", "seed", "complete", "metric", "unit", "better", "condition", "image", "repetition"];

fn tidy(registry: &Registry, name: &str, record: &Record) -> Result<Table, Failure> {
    let mut columns = COLUMNS.to_vec();
    columns.push("value");
    let mut table = Table::new("measurements", "Every measured value", &columns);
    for one in measurements::of(registry, record)? {
        table.row((
            name,
            &record.plan.kind,
            &record.plan.program_version,
            &record.plan.seed.0,
            !record.is_partial(),
            &one.metric,
            &one.unit,
            better_word(one.better),
            one.condition_text(),
            &one.image,
            &one.repetition,
            &one.value,
        ));
    }
    Ok(table)
}

pub(crate) fn better_word(better: Better) -> &'static str {
    match better {
        Better::Higher => "higher",
        Better::Lower => "lower",
        Better::Neither => "neither",
    }
}

pub fn to_json(exports: &[Export]) -> Value {
    let runs: Vec<Value> = exports
        .iter()
        .map(|export| {
            json!({
                "run": export.name,
                "plan": export.record.plan,
                "complete": !export.record.is_partial(),
                "environment": export.record.environment,
                "caveats": export.analysis.caveats,
                "measurements": objects(&export.measurements),
                "findings": export.analysis.findings,
                "result": export.analysis.result,
                "tables": export.analysis.tables,
                "figures": export.analysis.figures.iter().map(|figure: &Figure| json!(figure)).collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({"schema": SCHEMA, "runs": runs})
}

fn objects(table: &Table) -> Vec<Value> {
    let object = |row: &Vec<Value>| table.columns.iter().cloned().zip(row.iter().cloned()).collect();
    table.rows.iter().map(|row| Value::Object(object(row))).collect()
}
