//! Makes tables, figures and findings from recorded values.

use super::subject::SubjectKind;
use senesce_core::analysis::Better;
use senesce_core::{Axis, Figure, FigureKind, Mark, Measurement, Series, Table};
use senesce_stats::{MedianEstimate, middle};
use serde_json::json;
use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Value {
    pub subject: String,
    pub condition: String,
    pub round: u64,
    pub value: f64,
}

impl Value {
    pub(crate) fn of<'m>(measured: impl Iterator<Item = &'m Measurement>, metric: &str, key: &str) -> Vec<Self> {
        let value = |one: &Measurement| {
            Some(Self {
                subject: one.condition.get("subject")?.clone(),
                condition: one.condition.get(key)?.clone(),
                round: u64::from(one.repetition),
                value: one.value.get(),
            })
        };
        measured.filter(|one| one.metric == metric).filter_map(value).collect()
    }
}

pub(crate) struct Medians {
    pub conditions: Vec<String>,
    pub subjects: Vec<String>,
    cells: BTreeMap<(String, String), Vec<f64>>,
}

impl Medians {
    pub(crate) fn new(values: &[Value]) -> Self {
        let (mut conditions, mut subjects) = (Vec::new(), Vec::new());
        let mut cells: BTreeMap<_, Vec<f64>> = BTreeMap::new();
        for value in values {
            if !conditions.contains(&value.condition) {
                conditions.push(value.condition.clone());
            }
            if !subjects.contains(&value.subject) {
                subjects.push(value.subject.clone());
            }
            cells.entry((value.condition.clone(), value.subject.clone())).or_default().push(value.value);
        }
        subjects.sort();
        Self { conditions, subjects, cells }
    }

    pub(crate) fn values(&self, condition: &str, subject: &str) -> &[f64] {
        self.cells.get(&(condition.to_string(), subject.to_string())).map_or(&[], Vec::as_slice)
    }

    /// Returns the median over the rounds, with its interval if there are enough rounds.
    pub(crate) fn estimate(&self, condition: &str, subject: &str) -> Option<MedianEstimate> {
        middle(self.values(condition, subject))
    }

    pub(crate) fn ratio(&self, condition: &str, subject: &str, reference: &str) -> Option<f64> {
        let (ours, theirs) = (self.estimate(condition, subject)?, self.estimate(condition, reference)?);
        (theirs.value > 0.0).then(|| ours.value / theirs.value)
    }

    /// Makes a row per condition, with median and interval per subject, and the ratio of anticache to bpfs mode.
    pub(crate) fn table(&self, id: &str, title: &str, condition: &str, unit: &str) -> Table {
        let mut columns = vec![condition.to_string()];
        for subject in &self.subjects {
            columns.extend([format!("{subject} ({unit})"), format!("{subject}, 95 % interval ({unit})")]);
        }
        columns.push("anticache / bpfs".into());
        let mut table = Table { id: id.into(), title: title.into(), columns, ..Table::default() };
        for condition in &self.conditions {
            let mut row = vec![json!(condition)];
            for subject in &self.subjects {
                let estimate = self.estimate(condition, subject);
                row.push(json!(estimate.map(|estimate| estimate.value)));
                row.push(json!(estimate.and_then(|e| e.interval).map(|e| format!("{:.2} to {:.2}", e.low, e.high))));
            }
            row.push(json!(self.ratio(condition, "anticache", "bpfs")));
            table.row(row);
        }
        table
    }

    pub(crate) fn series(&self, x: impl Fn(usize, &str) -> f64) -> Vec<Series> {
        self.subjects
            .iter()
            .map(|subject| {
                let mut series =
                    Series { name: SubjectKind::label(subject).into(), mark: Mark::Measured, ..Series::default() };
                for (index, condition) in self.conditions.iter().enumerate() {
                    if let Some(estimate) = self.estimate(condition, subject) {
                        series.points.push((x(index, condition), estimate.value));
                        series.intervals.push(estimate.ends());
                    }
                }
                series
            })
            .collect()
    }

    pub(crate) fn bars(&self, id: &str, title: &str, caption: &str, unit: &str) -> Figure {
        let x = Axis::categories("operation", self.conditions.clone());
        let series = self.series(|index, _| index as f64);
        let y = Axis::linear(unit).log10();
        Figure {
            id: id.into(),
            title: title.into(),
            caption: caption.into(),
            device: "file systems in memory".into(),
            better: Better::Lower,
            kind: FigureKind::Bars { x, y, series },
        }
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        let mut all = serde_json::Map::new();
        for condition in &self.conditions {
            let cells = self
                .subjects
                .iter()
                .filter_map(|subject| Some((subject.clone(), json!(self.estimate(condition, subject)?.value))));
            all.insert(condition.clone(), serde_json::Value::Object(cells.collect()));
        }
        serde_json::Value::Object(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_ratios() {
        let value =
            |subject: &str, round, value| Value { subject: subject.into(), condition: "create".into(), round, value };
        let values =
            [value("bpfs", 0, 10.0), value("bpfs", 1, 12.0), value("anticache", 0, 11.0), value("anticache", 1, 11.0)];
        let medians = Medians::new(&values);
        assert_eq!(medians.ratio("create", "anticache", "bpfs"), Some(1.0));
        assert_eq!(medians.table("t", "", "operation", "us").rows[0].len(), 6);
        assert_eq!(medians.json()["create"]["anticache"], 11.0);
        assert_eq!(medians.ratio("missing", "anticache", "bpfs"), None);
    }
}
