//! Tables of measurements: comma-separated, `#` begins a comment line, the first other line names the columns.

use crate::error::ZonedError;

/// Plausibility limit of commands per second and of microseconds per command.
const MOST: f64 = 1e9;
/// Plausibility limit: minimum latency, microseconds.
const LEAST_US: f64 = 0.01;

#[derive(Debug)]
pub(crate) struct MeasuredTable<'a> {
    name: &'a str,
    columns: Vec<&'a str>,
    rows: Vec<(usize, Vec<&'a str>)>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Row<'a> {
    table: &'a str,
    line: usize,
    columns: &'a [&'a str],
    cells: &'a [&'a str],
}

fn wrong(table: &str, line: usize, problem: String) -> ZonedError {
    ZonedError::Usage(format!("table {table}, line {line}: {problem}"))
}

impl<'a> MeasuredTable<'a> {
    /// Requires at least the columns `needed`.
    pub(crate) fn parse(name: &'a str, text: &'a str, needed: &[&str]) -> Result<Self, ZonedError> {
        let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim_end()));
        let mut lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let no_header = || ZonedError::Usage(format!("table {name}: no line with column names"));
        let (line, header) = lines.next().ok_or_else(no_header)?;
        let columns: Vec<&str> = header.split(',').collect();
        if let Some(twice) = columns.iter().enumerate().find(|(index, column)| columns[..*index].contains(column)) {
            return Err(wrong(name, line, format!("the column {} occurs twice", twice.1)));
        }
        if let Some(missing) = needed.iter().find(|column| !columns.contains(column)) {
            return Err(wrong(name, line, format!("the column {missing} is missing")));
        }
        let mut rows = Vec::new();
        for (line, text) in lines {
            let cells: Vec<&str> = text.split(',').collect();
            if cells.len() != columns.len() {
                let problem = format!("{} cells under {} columns", cells.len(), columns.len());
                return Err(wrong(name, line, problem));
            }
            rows.push((line, cells));
        }
        Ok(Self { name, columns, rows })
    }

    /// Requires one column of each pair of names.
    pub(crate) fn with_either(self, pairs: &[(&str, &str)]) -> Result<Self, ZonedError> {
        let lacks = |(one, other): &&(&str, &str)| !self.columns.contains(one) && !self.columns.contains(other);
        match pairs.iter().find(lacks) {
            Some((one, other)) => {
                Err(ZonedError::Usage(format!("table {}: the column {one}, or {other}, is missing", self.name)))
            }
            None => Ok(self),
        }
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.rows.iter().map(|(line, cells)| Row { table: self.name, line: *line, columns: &self.columns, cells })
    }
}

impl<'a> Row<'a> {
    /// Returns a cell; empty if the table does not have the column.
    pub(crate) fn text(&self, column: &str) -> &'a str {
        self.columns.iter().position(|known| *known == column).map_or("", |index| self.cells[index])
    }

    /// Reads a positive number, plausible as a rate per second or a latency in microseconds; `None` for an empty cell.
    pub(crate) fn positive(&self, column: &str) -> Result<Option<f64>, ZonedError> {
        let text = self.text(column);
        if text.is_empty() {
            return Ok(None);
        }
        match text.parse::<f64>() {
            Ok(value) if value > 0.0 && value <= MOST => Ok(Some(value)),
            _ => Err(self.wrong(column, "a number above 0 and up to 1e9")),
        }
    }

    /// Reads a latency in microseconds as [`Self::positive`], at least 0.01.
    pub(crate) fn latency(&self, column: &str) -> Result<Option<f64>, ZonedError> {
        match self.positive(column)? {
            Some(value) if value < LEAST_US => Err(self.wrong(column, "a plausible latency in microseconds")),
            found => Ok(found),
        }
    }

    /// Reads a required number above 0.
    pub(crate) fn needed(&self, column: &str) -> Result<f64, ZonedError> {
        self.positive(column)?.ok_or_else(|| self.wrong(column, "a number above 0"))
    }

    /// Reads a whole number from 1 to 2^32 - 1.
    pub(crate) fn whole(&self, column: &str) -> Result<u32, ZonedError> {
        let value = self.text(column).parse().ok().filter(|value| *value > 0);
        value.ok_or_else(|| self.wrong(column, "a whole number above 0"))
    }

    pub(crate) fn place(&self) -> String {
        format!("table {}, line {}", self.table, self.line)
    }

    pub(crate) fn wrong(&self, column: &str, wanted: &str) -> ZonedError {
        let words = format!("{column} is '{}', not {wanted}", self.text(column));
        wrong(self.table, self.line, words)
    }
}
