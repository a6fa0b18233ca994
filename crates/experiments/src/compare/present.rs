//! A comparison as tables and figures.

use super::{Comparison, Row};
use senesce_core::analysis::*;
use senesce_stats::Outcome;
use serde_json::{Value, json};
use std::path::PathBuf;

pub(super) fn analysis(comparison: &Comparison) -> Analysis {
    let tables = vec![environment(comparison), settings(comparison), metrics(comparison)];
    let result = json!({
        "reference": names(&comparison.reference),
        "sample": names(&comparison.sample),
        "environment": comparison.environment.iter().map(|(name, ours, theirs)| json!({"name": name, "reference": ours, "sample": theirs})).collect::<Vec<_>>(),
        "settings": comparison.settings,
        "caveats": comparison.caveats,
        "metrics": comparison.rows.iter().map(row_json).collect::<Vec<_>>(),
        "regressions": comparison.rows.iter().filter(|row| row.regression).count(),
    });
    Analysis {
        title: format!("{} against {}", names(&comparison.sample).join(", "), names(&comparison.reference).join(", ")),
        summary: summary(comparison),
        figures: figures(comparison),
        tables: tables.into_iter().filter(|table| !table.rows.is_empty()).collect(),
        findings: Vec::new(),
        caveats: comparison.caveats.clone(),
        result,
    }
}

fn names(paths: &[PathBuf]) -> Vec<String> {
    paths.iter().map(|path| path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()).collect()
}

fn summary(comparison: &Comparison) -> String {
    let count = |wanted: &str| comparison.rows.iter().filter(|row| word(row) == wanted).count();
    let environment = match comparison.environment.len() {
        0 => "The environments are the same.".to_string(),
        1 => "One fact of the environment differs.".to_string(),
        many => format!("{many} facts of the environment differ."),
    };
    let invalid = comparison.rows.iter().filter(|row| word(row).starts_with("invalid")).count();
    let regressions = match comparison.options.fail_on_regression {
        Some(limit) => format!(
            " Regressions beyond {:.3} %: {}.",
            limit * 100.0,
            comparison.rows.iter().filter(|row| row.regression).count()
        )
        .replace(".000 %", " %"),
        None => String::new(),
    };
    format!(
        "{environment} Of {} metrics: {} faster, {} slower, {} without a difference, {invalid} invalid.{regressions}",
        comparison.rows.len(),
        count("faster"),
        count("slower"),
        count("no difference"),
    )
}

/// The verdict in words.
pub(super) fn word(row: &Row) -> String {
    match &row.judgement {
        Some(judgement) if row.emulated => format!("not judged under emulation ({})", judgement.outcome.words()),
        Some(judgement) => judgement.outcome.words(),
        None => "described only".into(),
    }
}

fn environment(comparison: &Comparison) -> Table {
    let mut table = Table::new("environment", "What differs in the environments", &["fact", "reference", "sample"]);
    for (name, ours, theirs) in &comparison.environment {
        table.row(vec![json!(name), ours.clone(), theirs.clone()]);
    }
    table
}

fn settings(comparison: &Comparison) -> Table {
    let mut table = Table::new("settings", "What differs in the plans", &["setting: reference against sample"]);
    comparison.settings.iter().for_each(|words| table.row(vec![json!(words)]));
    table
}

fn metrics(comparison: &Comparison) -> Table {
    let columns = [
        "metric",
        "condition",
        "reference",
        "sample",
        "unit",
        "ratio",
        "95 % interval",
        "p",
        "p (Holm)",
        "noise floor (%)",
        "values",
        "verdict",
    ];
    let mut table = Table::new("metrics", "Every metric under every condition", &columns);
    for row in &comparison.rows {
        let mean = |groups: &[Vec<f64>]| {
            senesce_stats::bootstrap::mean_of_means(groups).map_or(Value::Null, |mean| json!(mean))
        };
        let ratio = row.judgement.as_ref().and_then(|judgement| judgement.ratio);
        let count = |groups: &[Vec<f64>]| groups.iter().map(Vec::len).sum::<usize>();
        table.row(vec![
            json!(row.what.metric),
            json!(row.what.condition_words()),
            mean(&row.reference),
            mean(&row.sample),
            json!(row.what.unit),
            ratio.map_or(Value::Null, |ratio| json!(ratio.value)),
            ratio.map_or(Value::Null, |ratio| json!(format!("{:.3} to {:.3}", ratio.low, ratio.high))),
            json!(row.judgement.as_ref().and_then(|judgement| judgement.p)),
            json!(row.adjusted_p),
            row.judgement.as_ref().map_or(Value::Null, |judgement| json!(judgement.noise_floor * 100.0)),
            json!(format!("{} / {}", count(&row.reference), count(&row.sample))),
            json!(format!("{}{}", word(row), if row.regression { " (regression)" } else { "" })),
        ]);
    }
    table
}

fn row_json(row: &Row) -> Value {
    json!({
        "metric": row.what.metric,
        "unit": row.what.unit,
        "better": row.what.better,
        "condition": row.what.condition,
        "reference": row.reference,
        "sample": row.sample,
        "judgement": row.judgement,
        "p_holm": row.adjusted_p,
        "emulated": row.emulated,
        "regression": row.regression,
        "verdict": word(row),
    })
}

/// One figure per metric: the ratio under each condition; what is invalid is no mark.
fn figures(comparison: &Comparison) -> Vec<Figure> {
    let mut figures: Vec<Figure> = Vec::new();
    for rows in comparison.rows.chunk_by(|a, b| a.what.metric == b.what.metric && a.what.unit == b.what.unit) {
        let valid: Vec<_> = rows
            .iter()
            .filter(|row| {
                !matches!(row.judgement.as_ref().map(|judged| &judged.outcome), Some(Outcome::Invalid(_)) | None)
            })
            .filter_map(|row| Some((row, row.judgement.as_ref()?.ratio?)))
            .collect();
        if valid.is_empty() {
            continue;
        }
        let names = valid
            .iter()
            .map(|(row, _)| if row.what.condition.is_empty() { "all".into() } else { row.what.condition_words() });
        let mut ours = Series::new("ratio to reference", Mark::Measured, Vec::new());
        for (index, (_, ratio)) in valid.iter().enumerate() {
            ours.points.push((index as f64, ratio.value));
            ours.intervals.push((ratio.low, ratio.high));
        }
        let level =
            Series::new("no change", Mark::Predicted, (0..valid.len()).map(|index| (index as f64, 1.0)).collect());
        let what = &rows[0].what;
        figures.push(Figure {
            id: format!("ratio-{}", what.metric.replace([' ', '.', '/'], "-")),
            title: format!("{}: sample over reference", what.metric),
            caption: "Ratio of the means with its 95 % interval. An interval that crosses 1 shows no difference."
                .into(),
            device: names_of_devices(comparison),
            better: what.better,
            kind: FigureKind::Scatter {
                x: Axis::categories("", names.collect()),
                y: Axis::linear(&format!("Ratio of {}", what.metric)),
                series: vec![ours, level],
            },
        });
    }
    figures
}

fn names_of_devices(comparison: &Comparison) -> String {
    format!("{} against {}", names(&comparison.sample).join(", "), names(&comparison.reference).join(", "))
}
