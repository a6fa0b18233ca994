//! Tables and figures of a comparison.

use super::{Comparison, Row, ratio};
use crate::decided::{fields_at, interval_fields, interval_text};
use senesce_core::analysis::*;
use senesce_core::{Rows, number_of};
use senesce_stats::arm::Unit;
use senesce_stats::gate::Gate;
use senesce_stats::verdict::{Decision, PRACTICAL_UNITS, Verdict, at_margin};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Tables of the metrics with and without a verdict.
const JUDGED: &str = "metrics";
const DESCRIBED: &str = "described";

impl Row {
    /// Returns whether it has a verdict, or lacks one that its metric should have.
    pub fn needs_verdict(&self) -> bool {
        self.described.is_none() || (self.what.primary && self.what.better != Better::Neither)
    }
}

impl Comparison {
    /// Returns the verdict of a row in words.
    pub fn words(&self, row: &Row) -> String {
        text(row, self)
    }
}

pub(super) fn analysis(comparison: &Comparison) -> Analysis {
    let (described, mut judged): (Vec<&Row>, Vec<&Row>) =
        comparison.rows.iter().partition(|row| row.described.is_some());
    judged.sort_by_key(|row| !row.is_testable());
    let margin = comparison.margin;
    let further = format!("{} more, described without verdict", described.len());
    let tables = [
        environment(comparison),
        settings(comparison),
        metrics(JUDGED, "Judged metrics", &judged, comparison),
        metrics(DESCRIBED, &further, &described, comparison),
    ];
    let result = json!({
        "reference": names(&comparison.reference),
        "sample": names(&comparison.sample),
        "environment": comparison.environment.iter().map(|(name, ours, theirs)| json!({"name": name, "reference": ours, "sample": theirs})).collect::<Vec<_>>(),
        "settings": comparison.settings,
        "caveats": comparison.caveats,
        "margin": margin,
        "metrics": comparison.rows.iter().filter(|row| row.described.is_none()).map(|row| row_json(row, comparison)).collect::<Vec<_>>(),
        "described": comparison.rows.iter().filter(|row| row.described.is_some()).map(|row| row_json(row, comparison)).collect::<Vec<_>>(),
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

/// Replaces the table of rows without a verdict by a caveat, if other rows have one.
pub(super) fn brief(mut analysis: Analysis) -> Analysis {
    let place = |id: &str| analysis.tables.iter().position(|table| table.id == id);
    if let (Some(_), Some(described)) = (place(JUDGED), place(DESCRIBED)) {
        let count = analysis.tables.remove(described).rows.len();
        let words = format!("metrics without a verdict that are not shown: {count} (see --json or --markdown FILE)");
        analysis.caveats.push(words);
    }
    analysis
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
    let identical = match count("identical") {
        0 => String::new(),
        several => format!(" {several} identical,"),
    };
    format!(
        "{environment} Of {} compared{}: {} better, {} worse, {} equivalent,{identical} {} undecided, {} not \
         testable; {described} without a verdict.{gate}",
        number_of(comparison.rows.len() - described, "metric"),
        at_margin(comparison.margin),
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

fn text(row: &Row, comparison: &Comparison) -> String {
    let margin = comparison.margin;
    match (row.described, &row.decision, comparison.options.fail_on_regression) {
        (Some(why), ..) => why.into(),
        (None, Some(Decision { verdict: Verdict::Undecided { .. }, .. }), Some(limit)) => {
            let needed = needed_for_gate(row, limit).unwrap_or_default();
            format!("{}{needed}", row.decision.as_ref().map(|decision| decision.text_at(margin)).unwrap_or_default())
        }
        (None, Some(decision), _) => decision.text_at(margin),
        (None, None, _) => "described".into(),
    }
}

/// Names the units per side that would decide an undecided gate; `None` if no number would, or in rounds, whose ratios
/// are paired.
fn needed_for_gate(row: &Row, limit: f64) -> Option<String> {
    let (decision, gate) = (row.judged()?, row.gate?);
    let (interval, unit) = (decision.interval?, decision.unit.filter(|unit| *unit != Unit::Round)?);
    let needed = ratio(row).ok()?.repetitions_needed(1.0 - interval.confidence, limit)?;
    let needed = match needed > PRACTICAL_UNITS {
        true => format!("more than {PRACTICAL_UNITS}"),
        false => needed.to_string(),
    };
    (gate == Gate::Undecided)
        .then(|| format!("; {needed} {} per side would decide the gate of {} %", unit.plural(), trimmed(limit * 100.0)))
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

fn metrics(id: &str, title: &str, rows: &[&Row], comparison: &Comparison) -> Table {
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
            format!("{}{gate}", text(row, comparison)),
        ));
    }
    table
}

fn row_json(row: &Row, comparison: &Comparison) -> Value {
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
        (Some(decision), _) => fields_at(decision, comparison.margin),
        (None, described) => interval_fields(described.as_ref().and_then(|decision| decision.interval.as_ref())),
    };
    if let Some(all) = all.as_object_mut() {
        all.extend(said);
        all.insert("verdict".into(), json!(verdict(row)));
        all.insert("words".into(), json!(text(row, comparison)));
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
            ours.intervals.push(ratio.drawn_ends());
        }
        let level =
            Series::new("no change", Mark::Predicted, (0..valid.len()).map(|index| (index as f64, 1.0)).collect());
        let what = &rows[0].what;
        figures.push(Figure {
            id: format!("ratio-{}", what.metric.replace([' ', '.', '/'], "-")),
            title: format!("{}: sample over reference", what.metric),
            caption: format!(
                "Ratio of the geometric means with its interval, which holds for all compared metrics together. An interval that includes 1 shows no difference; one inside {:.2} to {:.2} excludes any relevant difference.",
                1.0 / (1.0 + comparison.margin),
                1.0 + comparison.margin
            ),
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

#[cfg(test)]
mod tests {
    use super::super::Options;
    use super::*;
    use senesce_core::Measurement;
    use senesce_stats::{Interval, Untestable};

    fn row(metric: &str, decision: Decision, described: Option<&'static str>) -> Row {
        let what = Measurement::new(metric, "", Better::Lower, 1.0).unwrap();
        let (sample, reference, decision) = (Vec::new(), Vec::new(), Some(decision));
        Row { what, sample, reference, runs: [1, 1], between_runs: 0.0, decision, described, gate: None }
    }

    fn undecided() -> Decision {
        let interval = Interval { value: 1.2, low: 0.9, high: 1.5, confidence: 0.999 };
        let verdict = Verdict::Undecided { detectable: 1.4, repetitions_needed: Some(9) };
        Decision { interval: Some(interval), unit: None, verdict }
    }

    fn not_testable() -> Decision {
        Decision { interval: None, unit: None, verdict: Verdict::NotTestable { why: Untestable::NotFinite } }
    }

    fn comparison(rows: Vec<Row>) -> Comparison {
        Comparison {
            sample: vec!["run".into()],
            reference: vec!["base".into()],
            environment: Vec::new(),
            settings: Vec::new(),
            rows,
            caveats: Vec::new(),
            margin: 0.3,
            shares_runs: false,
            options: Options::default(),
        }
    }

    #[test]
    fn verdict_names_the_margin_that_was_used() {
        let result = comparison(vec![row("discontinuities", undecided(), None)]).analysis().result;
        assert_eq!(result["margin"], 0.3);
        assert_eq!(result["metrics"][0]["words"], undecided().text_at(0.3));
    }

    #[test]
    fn number_of_runs_is_that_for_the_gate() {
        let noisy = |scale: f64| [0.9, 1.0, 1.1, 0.95, 1.05].map(|value| vec![value * scale]).to_vec();
        let mut row = row("time", Decision { unit: Some(Unit::Run), ..undecided() }, None);
        (row.sample, row.reference, row.runs, row.gate) = (noisy(1.0), noisy(1.01), [5, 5], Some(Gate::Undecided));
        let number = |limit| {
            let found = needed_for_gate(&row, limit).unwrap();
            found.split(' ').find_map(|word| word.parse::<u64>().ok()).unwrap()
        };
        assert!(number(0.5) < number(0.2), "{} {}", number(0.5), number(0.2));
        let passed = Row { gate: Some(Gate::Pass), ..row.clone() };
        assert_eq!(needed_for_gate(&passed, 0.2), None);
        let paired = Row { decision: Some(Decision { unit: Some(Unit::Round), ..undecided() }), ..row.clone() };
        assert_eq!(needed_for_gate(&paired, 0.2), None);
    }

    #[test]
    fn terminal_has_rows_with_a_verdict_first_and_only_the_number_of_the_others() {
        let others = |count: usize| (0..count).map(|_| row("metadata", undecided(), Some("described")));
        let rows = [row("broken", not_testable(), None), row("discontinuities", undecided(), None)];
        let comparison = comparison(rows.into_iter().chain(others(68)).collect());
        let ids = |analysis: &Analysis| analysis.tables.iter().map(|table| table.id.clone()).collect::<Vec<_>>();
        let (whole, brief) = (comparison.analysis(), comparison.brief_analysis());
        assert_eq!(ids(&whole), [JUDGED, DESCRIBED]);
        assert_eq!(ids(&brief), [JUDGED]);
        let metrics: Vec<&Value> = brief.tables[0].rows.iter().map(|row| &row[0]).collect();
        assert_eq!(metrics, ["discontinuities", "broken"]);
        assert_eq!(brief.caveats.len(), whole.caveats.len() + 1);
        assert!(brief.caveats.last().is_some_and(|caveat| caveat.contains(": 68 (see --json")));
        assert_eq!(brief.result["described"].as_array().map(Vec::len), Some(68));
    }

    #[test]
    fn rows_without_a_verdict_stay_if_there_are_no_others() {
        let only = comparison(vec![row("time", undecided(), Some("no verdict under emulation"))]);
        assert_eq!(only.brief_analysis().tables.len(), 1);
    }
}
