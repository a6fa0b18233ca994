//! Tables and figures of a comparison.

use super::{Comparison, Row};
use crate::decided::{fields, interval_fields, interval_text};
use senesce_core::Rows;
use senesce_core::analysis::*;
use senesce_stats::gate::Gate;
use senesce_stats::verdict::MARGIN;
use serde_json::{Value, json};
use std::path::PathBuf;

pub(super) fn analysis(comparison: &Comparison) -> Analysis {
    let (described, judged): (Vec<&Row>, Vec<&Row>) = comparison.rows.iter().partition(|row| row.described.is_some());
    let further = format!("{} more, described without verdict", described.len());
    let tables = [
        environment(comparison),
        settings(comparison),
        metrics("metrics", "Judged metrics", &judged),
        metrics("described", &further, &described),
    ];
    let result = json!({
        "reference": names(&comparison.reference),
        "sample": names(&comparison.sample),
        "environment": comparison.environment.iter().map(|(name, ours, theirs)| json!({"name": name, "reference": ours, "sample": theirs})).collect::<Vec<_>>(),
        "settings": comparison.settings,
        "caveats": comparison.caveats,
        "metrics": comparison.rows.iter().filter(|row| row.described.is_none()).map(row_json).collect::<Vec<_>>(),
        "described": comparison.rows.iter().filter(|row| row.described.is_some()).map(row_json).collect::<Vec<_>>(),
        "gate": comparison.options.fail_on_regression.map(|_| comparison.gate()),
    });
    Analysis {
        title: sides(comparison),
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
    let count = |wanted: &str| comparison.rows.iter().filter(|row| verdict(row) == wanted).count();
    let environment = match comparison.environment.len() {
        0 => "The environments are the same.".to_string(),
        1 => "One fact of the environment differs.".to_string(),
        many => format!("{many} facts of the environment differ."),
    };
    let gate = match comparison.options.fail_on_regression {
        Some(limit) => format!(" The gate at {} %: {}.", trimmed(limit * 100.0), gate_word(comparison.gate())),
        None => String::new(),
    };
    let described = comparison.rows.iter().filter(|row| row.described.is_some()).count();
    format!(
        "{environment} Of {} compared metrics: {} better, {} worse, {} equivalent, {} undecided, {} not testable; \
         {described} more are described.{gate}",
        comparison.rows.len() - described,
        count("better"),
        count("worse"),
        count("equivalent"),
        count("undecided"),
        count("not-testable"),
    )
}

fn trimmed(value: f64) -> String {
    format!("{value:.3}").trim_end_matches('0').trim_end_matches('.').to_string()
}

fn gate_word(gate: Gate) -> &'static str {
    match gate {
        Gate::Pass => "passed",
        Gate::Fail => "failed",
        Gate::Undecided => "undecided",
    }
}

fn verdict(row: &Row) -> &'static str {
    row.judged().map_or("described", |decision| decision.verdict.word())
}

pub(super) fn text(row: &Row) -> String {
    match (row.described, &row.decision) {
        (Some(why), _) => why.into(),
        (None, Some(decision)) => decision.text_at(MARGIN),
        (None, None) => "described".into(),
    }
}

fn environment(comparison: &Comparison) -> Table {
    Rows::of(&comparison.environment)
        .column("fact", |(name, _, _)| name)
        .column("reference", |(_, ours, _)| ours.clone())
        .column("sample", |(_, _, theirs)| theirs.clone())
        .table("environment", "What differs in the environments")
}

fn settings(comparison: &Comparison) -> Table {
    let mut table = Table::new("settings", "What differs in the plans", &["setting: reference against sample"]);
    comparison.settings.iter().for_each(|text| table.row((text,)));
    table
}

fn metrics(id: &str, title: &str, rows: &[&Row]) -> Table {
    let columns = ["metric", "condition", "reference", "sample", "unit", "ratio", "interval", "values", "verdict"];
    let mut table = Table::new(id, title, &columns);
    for row in rows {
        let [reference, sample] = row.means();
        let interval = row.decision.as_ref().and_then(|decision| decision.interval);
        let count = |groups: &[Vec<f64>]| groups.iter().map(Vec::len).sum::<usize>();
        let gate = row.gate.map_or(String::new(), |gate| format!("; gate {}", gate_word(gate)));
        table.row((
            &row.what.metric,
            row.what.condition_text(),
            reference,
            sample,
            &row.what.unit,
            interval.map_or(Value::Null, |interval| json!(interval.value)),
            interval.map_or(Value::Null, |interval| json!(interval_text(&interval))),
            format!("{} / {}", count(&row.reference), count(&row.sample)),
            format!("{}{gate}", text(row)),
        ));
    }
    table
}

fn row_json(row: &Row) -> Value {
    let mut all = json!({
        "name": row.name(),
        "metric": row.what.metric,
        "unit": row.what.unit,
        "better": row.what.better,
        "condition": row.what.condition,
        "gate": row.gate,
        "reference": row.reference,
        "sample": row.sample,
    });
    let said = match (row.judged(), &row.decision) {
        (Some(decision), _) => fields(decision),
        (None, described) => interval_fields(described.as_ref().and_then(|decision| decision.interval.as_ref())),
    };
    if let Some(all) = all.as_object_mut() {
        all.extend(said);
        all.insert("verdict".into(), json!(verdict(row)));
        all.insert("words".into(), json!(text(row)));
    }
    all
}

fn figures(comparison: &Comparison) -> Vec<Figure> {
    let mut figures: Vec<Figure> = Vec::new();
    for rows in comparison.rows.chunk_by(|a, b| a.what.metric == b.what.metric && a.what.unit == b.what.unit) {
        let ratio = |row: &Row| row.decision.as_ref().and_then(|decision| decision.interval);
        let valid: Vec<_> = rows.iter().filter_map(|row| Some((row, ratio(row)?))).collect();
        if valid.is_empty() {
            continue;
        }
        let names = valid
            .iter()
            .map(|(row, _)| if row.what.condition.is_empty() { "all".into() } else { row.what.condition_text() });
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
            caption: "Ratio of the geometric means with its interval, which holds for all compared metrics together. An interval that includes 1 shows no difference; one inside 0.98 to 1.02 excludes any relevant difference."
                .into(),
            device: sides(comparison),
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

/// Maximum number of runs of a side that are named; of more only the first and the last are.
const MOST_NAMES: usize = 4;

fn sides(comparison: &Comparison) -> String {
    let text = |paths: &[PathBuf]| match &names(paths)[..] {
        [first, .., last] if paths.len() > MOST_NAMES => format!("{first} to {last} ({} runs)", paths.len()),
        all => all.join(", "),
    };
    format!("{} against {}", text(&comparison.sample), text(&comparison.reference))
}
