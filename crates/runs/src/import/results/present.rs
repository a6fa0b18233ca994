//! Tables and figures of imported results, from their values alone.

use super::table::TABLE;
use super::{Results, Spec};
use senesce_core::analysis::*;
use senesce_core::order::ByNumbers;
use senesce_core::{Analysis, Measurement, number_of};
use senesce_runner::Recorded;
use serde_json::json;
use std::collections::BTreeMap;

type Metric<'a> = (&'a str, &'a str);

type Conditions<'a> = BTreeMap<ByNumbers, Vec<&'a Measurement>>;

pub(super) fn analysis(spec: &Spec, recorded: &Recorded<Results>) -> Analysis {
    let mut metrics: BTreeMap<Metric<'_>, Conditions<'_>> = BTreeMap::new();
    for one in recorded.measurements() {
        let conditions = metrics.entry((&one.metric, &one.unit)).or_default();
        conditions.entry(ByNumbers(one.condition_text())).or_default().push(one);
    }
    let count = recorded.measurements().count();
    let measurer = if spec.format == TABLE { "another program" } else { &spec.format };
    Analysis {
        title: format!("{}: {}", spec.format, spec.source),
        summary: format!("{} that {measurer} measured.", number_of(count, "value")),
        figures: figures(&metrics, spec),
        tables: vec![table(&metrics)],
        findings: Vec::new(),
        caveats: vec![format!(
            "imported: measured by {measurer}, not by senesce; the environment has only the facts in the file"
        )],
        result: json!({"format": spec.format, "source": spec.source, "values": recorded.measurements().collect::<Vec<_>>()}),
    }
}

const MOST_FIGURES: usize = 40;

fn figures(metrics: &BTreeMap<Metric<'_>, Conditions<'_>>, spec: &Spec) -> Vec<Figure> {
    let shown = metrics.iter().enumerate().take(MOST_FIGURES);
    shown.map(|(index, (metric, of))| figure(index, spec, *metric, of)).collect()
}

fn values(of: &[&Measurement]) -> Vec<f64> {
    of.iter().map(|one| one.value.get()).collect()
}

fn table(metrics: &BTreeMap<Metric<'_>, Conditions<'_>>) -> Table {
    let columns = ["metric", "condition", "values", "least", "median", "mean", "most", "unit"];
    let mut table = Table::new("values", "Values", &columns);
    for ((metric, unit), conditions) in metrics {
        for (condition, of) in conditions {
            let values = values(of);
            table.row((
                metric,
                &condition.0,
                values.len(),
                values.iter().copied().reduce(f64::min),
                senesce_stats::median(&values),
                senesce_stats::mean(&values),
                values.iter().copied().reduce(f64::max),
                unit,
            ));
        }
    }
    table
}

fn figure(index: usize, spec: &Spec, (metric, unit): Metric<'_>, conditions: &Conditions<'_>) -> Figure {
    let at = |(place, of): (usize, &Vec<&Measurement>)| {
        values(of).into_iter().map(move |value| (place as f64, value)).collect::<Vec<_>>()
    };
    let points = conditions.values().enumerate().flat_map(at).collect();
    let unit = if unit.is_empty() { String::new() } else { format!(" ({unit})") };
    Figure {
        id: format!("metric-{index}"),
        title: metric.to_string(),
        caption: "Each mark is one value from the file.".into(),
        device: format!("the machine on which {} ran", spec.format),
        better: conditions.values().flatten().next().map_or(Better::Neither, |one| one.better),
        kind: FigureKind::Scatter {
            x: Axis::categories("", conditions.keys().map(|condition| condition.0.clone()).collect()),
            y: Axis::linear(&format!("{metric}{unit}")),
            series: vec![Series::new("value", Mark::Measured, points)],
        },
    }
}
