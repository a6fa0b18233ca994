//! Figures of points: one line per set of conditions, with the published lines.

use super::compare::Comparison;
use super::condition::Condition;
use super::measure::DeviceValues;
use senesce_core::{Axis, Better, Figure, FigureKind, Mark, Series};

pub(crate) struct Line<'a> {
    pub name: String,
    pub of: Vec<(&'a str, &'a str)>,
}

impl<'a> Line<'a> {
    pub(crate) fn new(name: impl Into<String>, of: &[(&'a str, &'a str)]) -> Self {
        Self { name: name.into(), of: of.to_vec() }
    }
}

pub(crate) struct Chart<'a> {
    pub id: &'a str,
    pub title: &'a str,
    pub caption: &'a str,
    /// The metric on the vertical axis.
    pub metric: &'a str,
    pub axes: (Axis, Axis),
    /// The condition on the horizontal axis, and the divisor of its values.
    pub along: (&'a str, f64),
    pub better: Better,
}

impl Chart<'_> {
    pub(crate) fn draw(self, lines: &[Line<'_>], measured: &DeviceValues, comparison: &[Comparison]) -> Figure {
        let mark = if measured.simulated { Mark::Modelled } else { Mark::Measured };
        let mut series = Vec::new();
        for line in lines {
            let ours = measured.all().filter_map(|values| {
                let x = self.position(&values.key, line)?;
                Some((x, values.inside(self.metric)?))
            });
            push(&mut series, line.name.clone(), mark, ours.collect());
            let published = comparison.iter().filter(|point| point.metric == self.metric);
            let published =
                published.filter_map(|point| Some((self.position(&point.condition, line)?, point.published)));
            push(&mut series, format!("{} (published)", line.name), Mark::Published, published.collect());
        }
        Figure {
            id: self.id.into(),
            title: self.title.into(),
            caption: self.caption.into(),
            device: measured.device.clone(),
            better: self.better,
            kind: FigureKind::Lines { x: self.axes.0, y: self.axes.1, series },
        }
    }

    fn position(&self, key: &str, line: &Line<'_>) -> Option<f64> {
        let condition = Condition::parse(key)?;
        (condition.is(&line.of) && !condition.word(self.along.0).is_empty())
            .then(|| condition.number(self.along.0) as f64 / self.along.1)
    }
}

fn push(series: &mut Vec<Series>, name: String, mark: Mark, mut points: Vec<(f64, f64)>) {
    if !points.is_empty() {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points.dedup();
        series.push(Series::new(name, mark, points));
    }
}
