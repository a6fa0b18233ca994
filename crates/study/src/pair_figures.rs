//! Figure of the ratios of file-system pairs with their intervals.

use crate::figures::places;
use crate::results::Results;
use crate::verdicts::Answer;
use senesce_core::analysis::*;

pub(crate) fn of(results: &Results) -> Vec<Figure> {
    let mut metrics: Vec<&str> = Vec::new();
    for answer in pairs(results) {
        if !metrics.contains(&answer.what.metric.as_str()) {
            metrics.push(&answer.what.metric);
        }
    }
    metrics.into_iter().enumerate().map(|(index, metric)| figure(index, results, metric)).collect()
}

fn pairs(results: &Results) -> impl Iterator<Item = &Answer> {
    let is_drawn = |answer: &&Answer| answer.question.is_pair() && answer.decision.interval.is_some();
    results.answers.iter().filter(is_drawn)
}

fn figure(index: usize, results: &Results, metric: &str) -> Figure {
    let of: Vec<&Answer> = pairs(results).filter(|answer| answer.what.metric == metric).collect();
    let names = of.iter().map(|answer| name(results, answer)).collect();
    let mut ratios = Series::new("ratio", Mark::Measured, Vec::new());
    for (place, interval) in of.iter().filter_map(|answer| answer.decision.interval).enumerate() {
        ratios.points.push((place as f64, interval.value));
        ratios.intervals.push(interval.drawn_ends());
    }
    ratios.labels = of.iter().map(|answer| answer.decision.verdict.word().to_string()).collect();
    let systems = of.iter().flat_map(|answer| [answer.question.sample.fs, answer.question.reference.fs]).collect();
    let same = (0..of.len()).map(|place| (place as f64, 1.0)).collect();
    Figure {
        id: format!("pairs-{index}"),
        title: format!("{metric}: pairs of file systems, the first over the second"),
        caption: "Ratio of the geometric means with its interval; all intervals of the study hold together. An interval that includes 1 shows no difference."
            .into(),
        device: places(&results.spec, &systems),
        better: of.first().map_or(Better::Neither, |answer| answer.what.better),
        kind: FigureKind::Scatter {
            x: Axis::categories("", names),
            y: Axis::linear(&format!("Ratio of {metric}")),
            series: vec![ratios, Series::new("no difference", Mark::Predicted, same)],
        },
    }
}

fn name(results: &Results, answer: &Answer) -> String {
    let id = answer.question.sample;
    let (a, state, workload) = results.spec.names((id.fs, id.state, id.workload));
    let b = &results.spec.file_system[answer.question.reference.fs].name;
    format!("{workload}, {state}: {a} / {b}")
}
