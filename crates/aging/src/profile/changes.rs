//! How often files are changed between their create and their delete.

use senesce_core::Bytes;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Changes of files in a class of sizes: above the previous row's size and at most this one's; the last row also holds for
/// larger ones. Rates are changes per created file. The sum of a row's rates is at most 100; up to 1, a file is changed at
/// most once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChangeRow {
    /// Maximum size of the class.
    pub bytes: Bytes,
    /// Appends: the file is smaller before.
    #[serde(default)]
    pub appends: f64,
    /// Truncations: the file is larger before.
    #[serde(default)]
    pub truncations: f64,
    /// Overwrites of a part of a file in place.
    #[serde(default)]
    pub overwrites: f64,
    /// Renames within a directory; a second one restores the name.
    #[serde(default)]
    pub renames: f64,
    /// Punches: the blocks of a part of a file are freed, and the part is written again.
    #[serde(default)]
    pub punches: f64,
}

impl ChangeRow {
    pub(crate) fn rates(&self) -> [f64; KINDS] {
        [self.appends, self.truncations, self.overwrites, self.renames, self.punches]
    }

    pub(crate) fn of(rows: &[Self], bytes: u64) -> Option<&Self> {
        rows.iter().find(|row| bytes <= row.bytes.0).or(rows.last())
    }
}

impl fmt::Display for ChangeRow {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [appends, truncations, overwrites, renames, punches] = self.rates();
        write!(
            formatter,
            "bytes = {}, appends = {appends:?}, truncations = {truncations:?}, overwrites = {overwrites:?}, renames = {renames:?}, \
             punches = {punches:?}",
            self.bytes.0
        )
    }
}

/// Kinds of changes.
pub(crate) const KINDS: usize = 5;
pub(crate) const ROUNDING: f64 = 1e-9;

/// Maximum mean number of changes of a file.
pub const MOST_CHANGES: u32 = 100;

pub(super) fn check(rows: &[ChangeRow]) -> Result<(), String> {
    if rows.len() > super::BIN_LIMIT {
        return Err(format!("changes has {} rows; the maximum is {}", rows.len(), super::BIN_LIMIT));
    }
    super::check_ascending("changes", "bytes", rows.iter().map(|row| row.bytes.0))?;
    for (number, row) in (1..).zip(rows) {
        if let Some(rate) = row.rates().into_iter().find(|rate| !(rate.is_finite() && *rate >= 0.0)) {
            return Err(format!("changes, row {number}: a rate is {rate}; it must be 0 or more"));
        }
        let sum: f64 = row.rates().iter().sum();
        if sum > f64::from(MOST_CHANGES) + ROUNDING {
            return Err(format!(
                "changes, row {number} (files up to {}): {sum:.3} changes for each created file; the maximum is {MOST_CHANGES}",
                row.bytes
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(bytes: u64, appends: f64, renames: f64) -> ChangeRow {
        ChangeRow { bytes: Bytes(bytes), appends, renames, ..ChangeRow::default() }
    }

    #[test]
    fn too_many_changes_are_refused_with_their_row() {
        assert_eq!(check(&[]), Ok(()));
        assert_eq!(check(&[row(4096, 0.7, 0.3), row(8192, 60.0, 40.0)]), Ok(()));
        let error = check(&[row(4096, 0.1, 0.0), row(65536, 60.0, 40.2)]).unwrap_err();
        assert!(error.contains("row 2 (files up to 64 KiB): 100.200"), "{error}");
        assert!(check(&[row(4096, -0.1, 0.0)]).unwrap_err().contains("row 1"));
        assert!(check(&[row(4096, f64::NAN, 0.0)]).is_err());
        assert!(check(&[row(4096, 0.1, 0.0), row(4096, 0.1, 0.0)]).unwrap_err().contains("row 2"));
    }

    #[test]
    fn last_row_applies_to_larger_files() {
        let rows = [row(4096, 0.1, 0.0), row(8192, 0.2, 0.0)];
        let appends = |bytes| ChangeRow::of(&rows, bytes).unwrap().appends;
        assert_eq!([appends(0), appends(4096), appends(4097), appends(1 << 40)], [0.1, 0.1, 0.2, 0.2]);
        assert_eq!(ChangeRow::of(&[], 1), None);
    }
}
