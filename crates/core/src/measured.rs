//! The measured values in a finding, as one text: `fs=ext4: 2 times; fs=xfs: 3 times; and 7 more`.

use std::fmt;

/// Values of a claim by condition.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MeasuredList<'a> {
    /// Listed values with their conditions.
    pub values: Vec<&'a str>,
    /// Number of other values.
    pub omitted: usize,
}

impl<'a> MeasuredList<'a> {
    /// Splits the text of a finding.
    pub fn parse(text: &'a str) -> Self {
        let mut values: Vec<&str> = text.split("; ").filter(|value| !value.is_empty()).collect();
        let omitted = values.last().and_then(|last| last.strip_prefix("and ")?.strip_suffix(" more")?.parse().ok());
        if omitted.is_some() {
            values.pop();
        }
        Self { values, omitted: omitted.unwrap_or(0) }
    }

    /// Keeps the first `most` values.
    #[must_use]
    pub fn cut(mut self, most: usize) -> Self {
        self.omitted += self.values.len().saturating_sub(most);
        self.values.truncate(most);
        self
    }
}

impl fmt::Display for MeasuredList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.values.join("; "))?;
        match (self.omitted, self.values.is_empty()) {
            (0, _) => Ok(()),
            (omitted, true) => write!(f, "and {omitted} more"),
            (omitted, false) => write!(f, "; and {omitted} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn omitted_values_are_counted_once() {
        let text = "a: 1; b: 2; c: 3; and 7 more";
        let list = MeasuredList::parse(text);
        assert_eq!((list.values.len(), list.omitted), (3, 7));
        assert_eq!(list.to_string(), text);
        assert_eq!(list.clone().cut(1).to_string(), "a: 1; and 9 more");
        assert_eq!(list.clone().cut(3), list);
        assert_eq!(MeasuredList::parse(""), MeasuredList::default());
        assert_eq!(MeasuredList::parse("5 times").cut(3).to_string(), "5 times");
    }
}
