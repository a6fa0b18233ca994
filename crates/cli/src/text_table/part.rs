//! Some columns of a table: their widths, and the parts into which a wide table is split.

use super::{GAP, length, write_row};
use senesce_core::text::words;
use std::collections::BTreeSet;
use std::io::{self, Write};

/// Minimum width of a shrunk column of words, unless its longest word needs more.
const NARROWEST: usize = 10;

/// Columns with texts longer than `LONG_TEXT` keep at least `LEAST_OF_LONG`, so that a row has few lines.
const LONG_TEXT: usize = 60;
const LEAST_OF_LONG: usize = 20;

/// Longer words are broken.
const LONGEST_WORD: usize = 40;

/// Width for a column of words in one of several parts.
const COMFORTABLE: usize = 22;

/// Maximum number of columns that name a row.
const MOST_KEYS: usize = 4;

/// Columns of a table.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Part {
    pub heads: Vec<String>,
    pub rows: Vec<Vec<String>>,
    numeric: Vec<bool>,
}

fn longest_word(text: &str) -> usize {
    words(text, |_| true).into_iter().map(length).max().unwrap_or(0)
}

fn total(widths: &[usize]) -> usize {
    widths.iter().map(|width| width + GAP).sum()
}

impl Part {
    pub(super) fn of(heads: &[String], rows: &[Vec<String>], numeric: &[bool]) -> Self {
        Self { heads: heads.to_vec(), rows: rows.to_vec(), numeric: numeric.to_vec() }
    }

    fn select(&self, columns: &[usize]) -> Self {
        let pick = |row: &Vec<String>| -> Vec<String> {
            columns.iter().map(|column| row.get(*column).cloned().unwrap_or_default()).collect()
        };
        let numeric = columns.iter().map(|column| self.numeric[*column]).collect();
        Self { heads: pick(&self.heads), rows: self.rows.iter().map(pick).collect(), numeric }
    }

    fn cells(&self, column: usize) -> impl Iterator<Item = &str> {
        self.rows.iter().filter_map(move |row| row.get(column)).map(String::as_str)
    }

    fn natural_width(&self, column: usize) -> usize {
        self.cells(column).chain([self.heads[column].as_str()]).map(length).max().unwrap_or(0)
    }

    fn least_width(&self, column: usize) -> usize {
        let head = self.heads[column].as_str();
        if self.numeric[column] {
            return self.cells(column).map(length).chain([longest_word(head)]).max().unwrap_or(0);
        }
        let natural = self.natural_width(column);
        let longest = self.cells(column).chain([head]).map(longest_word).max().unwrap_or(0).min(LONGEST_WORD);
        let of_long = if natural > LONG_TEXT { LEAST_OF_LONG } else { 0 };
        natural.min(NARROWEST.max(longest).max(of_long))
    }

    fn comfortable_width(&self, column: usize) -> usize {
        let least = self.least_width(column);
        if self.numeric[column] { least } else { self.natural_width(column).min(COMFORTABLE).max(least) }
    }

    fn widths(&self, of: impl Fn(usize) -> usize) -> Vec<usize> {
        (0..self.heads.len()).map(of).collect()
    }

    /// Returns the width of each column without wrapping, if the sum is within the limit.
    pub(super) fn unwrapped(&self, limit: usize) -> Option<Vec<usize>> {
        Some(self.widths(|column| self.natural_width(column))).filter(|widths| total(widths) <= limit)
    }

    /// Computes the width of each column. First the headings of numbers shrink, then columns of words; the widest first.
    pub(super) fn fit(&self, limit: usize) -> Option<Vec<usize>> {
        let least = self.widths(|column| self.least_width(column));
        if total(&least) > limit {
            return None;
        }
        let mut widths = self.widths(|column| self.natural_width(column));
        while total(&widths) > limit {
            let shrinkable = (0..widths.len()).filter(|index| widths[*index] > least[*index]);
            let widest = shrinkable.max_by_key(|index| (self.numeric[*index], widths[*index]))?;
            widths[widest] -= 1;
        }
        Some(widths)
    }

    /// Removes the columns that are equal in all rows. Returns their names and values.
    pub(super) fn without_constants(&self) -> (Self, Vec<String>) {
        let first = |column: usize| self.cells(column).next();
        let is_constant =
            |column: &usize| self.rows.len() > 1 && self.cells(*column).all(|cell| Some(cell) == first(*column));
        let (constant, kept): (Vec<usize>, Vec<usize>) = (0..self.heads.len()).partition(is_constant);
        if kept.is_empty() {
            return (self.clone(), Vec::new());
        }
        let words = |column: usize| {
            let cell = first(column).filter(|cell| !cell.is_empty()).unwrap_or("-");
            format!("{}: {cell}", self.heads[column])
        };
        (self.select(&kept), constant.into_iter().map(words).collect())
    }

    /// Returns how many of the first columns distinguish all rows.
    fn keys(&self) -> Option<usize> {
        (1..=MOST_KEYS.min(self.heads.len().saturating_sub(1))).find(|count| {
            let names: BTreeSet<&[String]> = self.rows.iter().filter_map(|row| row.get(..*count)).collect();
            names.len() == self.rows.len()
        })
    }

    /// Splits the columns into parts that fit, each with the columns that name its rows. `None`: a column does not fit.
    pub(super) fn split(&self, limit: usize) -> Option<Vec<(Self, Vec<usize>)>> {
        if let Some(widths) = self.fit(limit) {
            return Some(vec![(self.clone(), widths)]);
        }
        let keys: Vec<usize> = (0..self.keys()?).collect();
        let mut parts: Vec<Vec<usize>> = vec![keys.clone()];
        for column in keys.len()..self.heads.len() {
            let last = parts.last_mut()?;
            last.push(column);
            let part = self.select(last);
            if last.len() > keys.len() + 1 && total(&part.widths(|column| part.comfortable_width(column))) > limit {
                last.pop();
                parts.push([keys.as_slice(), &[column]].concat());
            }
        }
        let fitted = |columns: &Vec<usize>| {
            let part = self.select(columns);
            let widths = part.fit(limit)?;
            Some((part, widths))
        };
        parts.iter().map(fitted).collect()
    }

    pub(super) fn write(&self, out: &mut impl Write, widths: &[usize]) -> io::Result<()> {
        write_row(out, &self.heads, &self.numeric, widths)?;
        self.rows.iter().try_for_each(|row| write_row(out, row, &self.numeric, widths))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(',').map(str::to_string).collect()
    }

    /// Returns a part whose third and further columns are numbers.
    fn part(heads: &str, rows: &[&str]) -> Part {
        let numeric: Vec<bool> = (0..words(heads).len()).map(|column| column > 1).collect();
        let rows: Vec<Vec<String>> = rows.iter().map(|row| words(row)).collect();
        Part::of(&words(heads), &rows, &numeric)
    }

    #[test]
    fn columns_that_are_equal_in_all_rows_become_words() {
        let table = part("fs,state,unit,mean,flags", &["ext4,aged,ops/s,1,", "xfs,aged,ops/s,2,"]);
        let (kept, constants) = table.without_constants();
        assert_eq!(
            (kept.heads, constants),
            (words("fs,mean"), ["state: aged", "unit: ops/s", "flags: -"].map(str::to_string).to_vec())
        );
        let one = part("fs,state", &["ext4,aged"]);
        assert_eq!(one.without_constants(), (one.clone(), Vec::new()), "one row has nothing in common with others");
    }

    #[test]
    fn wide_table_is_split_and_each_part_names_its_rows() {
        let heads = "fs,state,mean,median,lowest,highest,ratio";
        let table = part(heads, &["ext4,fresh,1,2,3,4,5", "ext4,aged,6,7,8,9,10"]);
        let parts = table.split(30).unwrap();
        let heads: Vec<String> = parts.iter().map(|(part, _)| part.heads.join(",")).collect();
        assert_eq!(heads, ["fs,state,mean,median", "fs,state,lowest,highest", "fs,state,ratio"]);
        assert!(parts.iter().all(|(_, widths)| total(widths) <= 30));
        assert_eq!(table.split(12), None);
        let unnamed = part("fs,state,mean", &["ext4,aged,1", "ext4,aged,1"]);
        assert_eq!(unnamed.split(14), None, "its parts could not be matched");
    }

    #[test]
    fn words_are_not_broken_before_a_table_is_split() {
        let table = part("run,command", &["senesce-runs/bench-1f64194b,senesce bench memory:1G varmail --time 30s"]);
        let widths = table.fit(60).unwrap();
        assert_eq!(widths[0], "senesce-runs/bench-1f64194b".len());
        assert_eq!(table.fit(30), None);
    }
}
