//! The data of a figure as a table.

use senesce_core::analysis::{Axis, CellRow, Figure, FigureKind, Series, Table};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Makes one row per x value and one column per series if series share x values, otherwise one row per point. Runs of
/// equal cells are one row.
pub fn of_figure(figure: &Figure) -> Table {
    let mut table = match &figure.kind {
        FigureKind::Lines { x, y, series }
        | FigureKind::Scatter { x, y, series }
        | FigureKind::Bars { x, y, series }
        | FigureKind::Steps { x, y, series } => of_series(x, y, series),
        FigureKind::Cells { rows, heads, legend, unit } => of_cells(rows, heads, legend, unit),
    };
    table.id = figure.id.clone();
    table.title = figure.title.clone();
    table
}

fn of_series(x: &Axis, y: &Axis, series: &[Series]) -> Table {
    if share_places(series) { wide(x, y, series) } else { long(x, y, series) }
}

/// Returns whether every series has each x value at most once, and the union is not much longer than the longest
/// series.
fn share_places(series: &[Series]) -> bool {
    let mut places = BTreeMap::new();
    for one in series {
        let own: std::collections::BTreeSet<u64> = one.points.iter().map(|point| key(point.0)).collect();
        if own.len() < one.points.len() || !one.intervals.is_empty() || !one.labels.is_empty() {
            return false;
        }
        for place in own {
            *places.entry(place).or_insert(0) += 1;
        }
    }
    let longest = series.iter().map(|one| one.points.len()).max().unwrap_or(0);
    series.len() <= 8 && places.len() <= longest + longest / 2
}

/// Returns a key that sorts like the numbers.
fn key(value: f64) -> u64 {
    let bits = (value + 0.0).to_bits();
    if bits >> 63 == 0 { bits ^ (1 << 63) } else { !bits }
}

fn wide(x: &Axis, y: &Axis, series: &[Series]) -> Table {
    let heads: Vec<String> =
        std::iter::once(x.label.clone()).chain(series.iter().map(|one| one.name.clone())).collect();
    let mut rows: BTreeMap<u64, Vec<Value>> = BTreeMap::new();
    for (column, one) in series.iter().enumerate() {
        for &(place, value) in &one.points {
            let row = rows.entry(key(place)).or_insert_with(|| {
                let mut row = vec![Value::Null; series.len() + 1];
                row[0] = place_value(x, place);
                row
            });
            row[column + 1] = number(value);
        }
    }
    let mut table = Table { columns: heads, rows: rows.into_values().collect(), ..Table::default() };
    if series.len() == 1 && !y.label.is_empty() {
        table.columns[1] = y.label.clone();
    }
    table
}

fn long(x: &Axis, y: &Axis, series: &[Series]) -> Table {
    let intervals = series.iter().any(|one| !one.intervals.is_empty());
    let labels = series.iter().any(|one| !one.labels.is_empty());
    let mut columns = vec!["series".to_string(), x.label.clone(), y.label.clone()];
    if intervals {
        columns.extend(["95 % interval from".into(), "to".into()]);
    }
    if labels {
        columns.push("written at the point".into());
    }
    let mut rows = Vec::new();
    for one in series {
        for (index, &(place, value)) in one.points.iter().enumerate() {
            let mut row = vec![json!(one.name), place_value(x, place), number(value)];
            if intervals {
                let ends = one.intervals.get(index);
                row.push(ends.map_or(Value::Null, |ends| number(ends.0)));
                row.push(ends.map_or(Value::Null, |ends| number(ends.1)));
            }
            if labels {
                row.push(one.labels.get(index).map_or(Value::Null, |label| json!(label)));
            }
            rows.push(row);
        }
    }
    Table { columns, rows, ..Table::default() }
}

fn place_value(axis: &Axis, place: f64) -> Value {
    match axis.categories.get(place.round().max(0.0) as usize) {
        Some(name) => json!(name),
        None => number(place),
    }
}

/// Returns a JSON number: whole numbers without a fraction, null if not finite.
fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 9e15 { json!(value as i64) } else { json!(value) }
}

fn of_cells(rows: &[CellRow], heads: &[(usize, String)], legend: &[String], unit: &str) -> Table {
    let count = if unit.is_empty() { "cells".to_string() } else { format!("cells (each {unit})") };
    let columns = vec!["strip".into(), "first cell".into(), count, "what".into(), "full (%)".into()];
    let mut table = Table { columns, ..Table::default() };
    for row in rows {
        let fill = |index: usize| row.fill.get(index).copied().unwrap_or(1.0);
        let mut from = 0;
        while from < row.cells.len() {
            let same = |index: &usize| row.cells[*index] == row.cells[from] && fill(*index) == fill(from);
            let count = (from..row.cells.len()).take_while(same).count();
            let what = usize::try_from(row.cells[from]).ok().map_or("empty".to_string(), |index| {
                legend.get(index).cloned().unwrap_or_else(|| format!("value {index}"))
            });
            let full =
                if row.cells[from] < 0 { Value::Null } else { number(f64::from((fill(from) * 1000.0).round()) / 10.0) };
            if row.cells[from] >= -1 {
                let strip = match heads.iter().rfind(|head| head.0 <= from) {
                    Some((_, head)) => format!("{}, {head}", row.name),
                    None => row.name.clone(),
                };
                table.rows.push(vec![json!(strip), json!(from), json!(count), json!(what), full]);
            }
            from += count;
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_core::analysis::{Better, Mark};

    fn figure(kind: FigureKind) -> Figure {
        Figure {
            id: "f".into(),
            title: "F".into(),
            caption: String::new(),
            device: String::new(),
            better: Better::Neither,
            kind,
        }
    }

    #[test]
    fn series_with_the_same_x_values_share_rows() {
        let series = vec![
            Series::new("target", Mark::Predicted, vec![(0.0, 0.5), (1.0, 0.25)]),
            Series::new("reached", Mark::Measured, vec![(0.0, 0.5), (1.0, f64::NAN)]),
        ];
        let x = Axis::categories("size", vec!["4 KiB".into(), "8 KiB".into()]);
        let table = of_figure(&figure(FigureKind::Bars { x, y: Axis::linear("share"), series }));
        assert_eq!(table.columns, ["size", "target", "reached"]);
        assert_eq!(table.rows[0], [json!("4 KiB"), json!(0.5), json!(0.5)]);
        assert_eq!(table.rows[1][2], Value::Null);
    }

    #[test]
    fn equal_cells_are_one_row() {
        let rows = vec![CellRow { name: "zone 0".into(), cells: vec![0, 0, 1, -1], fill: vec![] }];
        let legend = vec!["data".into(), "metadata".into()];
        let table = of_figure(&figure(FigureKind::Cells { rows, heads: Vec::new(), legend, unit: "one block".into() }));
        assert_eq!(table.rows.len(), 3);
        assert_eq!(table.rows[0][2], json!(2));
        assert_eq!(table.rows[2][3], json!("empty"));
    }
}
