//! Rows whose quantities are declared once: measurements, fields of the JSON result and table columns follow.

use crate::analysis::{Better, Table};
use crate::measurement::Measurement;
use serde::Serialize;
use serde_json::{Map, Value};

/// Rows and their quantities. Add conditions first, then quantities in the order of the columns.
#[derive(Debug)]
pub struct Rows<R> {
    rows: Vec<R>,
    repetitions: Vec<u32>,
    conditions: Vec<(&'static str, Vec<String>)>,
    quantities: Vec<Quantity>,
}

/// One value per row, null if a row has no value, and where it appears.
#[derive(Debug, Default)]
struct Quantity {
    values: Vec<Value>,
    metric: Option<Metric>,
    column: Option<String>,
    field: Option<&'static str>,
}

#[derive(Debug)]
struct Metric {
    name: String,
    unit: &'static str,
    better: Better,
    conditions: Vec<&'static str>,
    own: Vec<(&'static str, String)>,
}

impl<R: Copy> Rows<R> {
    /// Creates rows without quantities.
    pub fn of(rows: impl IntoIterator<Item = R>) -> Self {
        let (repetitions, conditions, quantities) = Default::default();
        Self { rows: rows.into_iter().collect(), repetitions, conditions, quantities }
    }

    /// Sets the index of the repetition of each row's measurements.
    pub fn repetition(mut self, of: impl Fn(R) -> u32) -> Self {
        self.repetitions = self.rows.iter().map(|row| of(*row)).collect();
        self
    }

    /// Adds a condition of the measurements that are declared after it.
    pub fn condition<V: ToString>(mut self, name: &'static str, of: impl Fn(R) -> V) -> Self {
        let values = self.rows.iter().map(|row| of(*row).to_string()).collect();
        self.conditions.push((name, values));
        self
    }

    /// Adds a measured quantity. Rows without a finite number have no measurement.
    pub fn measured<V: Serialize>(
        mut self,
        name: impl Into<String>,
        unit: &'static str,
        better: Better,
        of: impl Fn(R) -> V,
    ) -> Self {
        let conditions = self.conditions.iter().map(|(name, _)| *name).collect();
        let metric = Some(Metric { name: name.into(), unit, better, conditions, own: Vec::new() });
        self.quantities.push(Quantity { metric, ..self.values(of) });
        self
    }

    /// Adds a table column; its heading contains the unit.
    pub fn column<V: Serialize>(mut self, head: impl Into<String>, of: impl Fn(R) -> V) -> Self {
        self.quantities.push(Quantity { column: Some(head.into()), ..self.values(of) });
        self
    }

    /// Adds a field of the JSON result.
    pub fn field<V: Serialize>(mut self, key: &'static str, of: impl Fn(R) -> V) -> Self {
        self.quantities.push(Quantity { field: Some(key), ..self.values(of) });
        self
    }

    /// Limits the conditions of the last quantity.
    pub fn under(mut self, names: &[&str]) -> Self {
        self.metric().conditions.retain(|name| names.contains(name));
        self
    }

    /// Adds a condition of the last quantity only, the same in all rows.
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.metric().own.push((name, value.into()));
        self
    }

    /// Shows the last quantity as a table column; an empty heading stands for its name and unit.
    pub fn shown(mut self, head: &str) -> Self {
        let last = self.last();
        last.column = Some(match &last.metric {
            Some(metric) if head.is_empty() && metric.unit.is_empty() => metric.name.clone(),
            Some(metric) if head.is_empty() => format!("{} ({})", metric.name, metric.unit),
            _ => head.into(),
        });
        self
    }

    /// Adds the last quantity to the JSON result.
    pub fn key(mut self, key: &'static str) -> Self {
        self.last().field = Some(key);
        self
    }

    fn metric(&mut self) -> &mut Metric {
        self.last().metric.as_mut().expect("a measured quantity")
    }

    fn last(&mut self) -> &mut Quantity {
        self.quantities.last_mut().expect("a quantity")
    }

    fn values<V: Serialize>(&self, of: impl Fn(R) -> V) -> Quantity {
        let value = |row: &R| serde_json::to_value(of(*row)).expect("a value without maps of other keys than text");
        Quantity { values: self.rows.iter().map(value).collect(), ..Quantity::default() }
    }

    /// Returns the columns as a table.
    pub fn table(&self, id: &str, title: &str) -> Table {
        let columns: Vec<_> = self.quantities.iter().filter_map(|one| Some((one.column.as_ref()?, one))).collect();
        Table {
            id: id.into(),
            title: title.into(),
            columns: columns.iter().map(|(head, _)| (*head).clone()).collect(),
            rows: (0..self.rows.len())
                .map(|row| columns.iter().map(|(_, one)| one.values[row].clone()).collect())
                .collect(),
            leads: false,
        }
    }

    /// Returns the fields as one JSON object per row.
    pub fn json(&self) -> Value {
        let fields = |row: usize| {
            let of = |one: &Quantity| Some((one.field?.to_string(), one.values[row].clone()));
            Value::Object(self.quantities.iter().filter_map(of).collect::<Map<_, _>>())
        };
        (0..self.rows.len()).map(fields).collect()
    }

    /// Returns the measured quantities, row by row.
    pub fn measurements(&self) -> Vec<Measurement> {
        (0..self.rows.len())
            .flat_map(|row| self.quantities.iter().filter_map(move |one| self.measurement(one, row)))
            .collect()
    }

    fn measurement(&self, quantity: &Quantity, row: usize) -> Option<Measurement> {
        let Metric { name, unit, better, conditions, own } = quantity.metric.as_ref()?;
        let one = Measurement::new(name, unit, *better, quantity.values[row].as_f64()?).ok()?;
        let shared = self.conditions.iter().filter(|(name, _)| conditions.contains(name));
        let one = shared.fold(one, |one, (name, values)| one.under(name, &*values[row]));
        let one = own.iter().fold(one, |one, (name, value)| one.under(name, &**value));
        Some(Measurement { repetition: self.repetitions.get(row).copied().unwrap_or(0), ..one })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rows() -> Rows<(&'static str, Option<f64>)> {
        Rows::of([("ext4", Some(2.0)), ("xfs", None), ("zfs", Some(f64::NAN))])
            .repetition(|_| 3)
            .condition("fs", |(fs, _)| fs)
            .field("name", |(fs, _)| fs)
            .column("file system", |(fs, _)| fs)
            .condition("state", |_| "aged")
            .measured("read time", "s", Better::Lower, |(_, time)| time)
            .shown("")
            .key("seconds")
            .measured("files", "", Better::Neither, |_| 7_u64)
            .under(&["state"])
            .with("part", "first")
    }

    #[test]
    fn one_declaration_gives_column_field_and_measurement() {
        let table = rows().table("reads", "Reads");
        assert_eq!(table.columns, ["file system", "read time (s)"]);
        assert_eq!(table.rows[0], [json!("ext4"), json!(2.0)]);
        assert_eq!(table.rows[1], [json!("xfs"), Value::Null]);
        assert_eq!(rows().json()[0], json!({"name": "ext4", "seconds": 2.0}));
        let first = &rows().measurements()[0];
        assert_eq!((first.metric.as_str(), first.value.get(), first.repetition), ("read time", 2.0, 3));
        assert_eq!(first.condition_text(), "fs=ext4 state=aged");
    }

    #[test]
    fn missing_values_are_not_measured() {
        let all = rows().measurements();
        let names: Vec<&str> = all.iter().map(|one| one.metric.as_str()).collect();
        assert_eq!(names, ["read time", "files", "files", "files"]);
        assert_eq!(all[1].condition_text(), "part=first state=aged");
    }
}
