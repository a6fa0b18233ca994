//! Profiles: histograms of sizes, depths and ages as the target of an aging.

mod builtin;
mod changes;
mod import;

pub use builtin::BUILTIN;
pub use changes::{ChangeRow, MOST_CHANGES};
pub(crate) use changes::{KINDS, ROUNDING};
pub use import::import_geriatrix;

use crate::error::AgingError;
use senesce_core::Bytes;
use senesce_core::parameter::suggest;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// A distribution of files. The three histograms are independent; weights need not be normalised.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Short name.
    pub name: String,
    /// Source of the numbers.
    #[serde(default)]
    pub source: String,
    /// Allocated bytes of files over the raw size of the volume, in (0, 1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fullness: Option<f64>,
    /// Temporal locality of births in [0, 1], see [`Births`](crate::plan::Births); `None` counts as 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locality: Option<f64>,
    /// Mean length of file names in bytes, from 1 to 255. Names of a plan have at least 13 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_bytes: Option<u8>,
    /// Operations that arrive at once if an aging has a pace or a time scale, at least 1; `None` counts as 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
    /// File sizes, ascending.
    pub sizes: Vec<SizeRow>,
    /// Depths of files, ascending.
    pub depths: Vec<DepthRow>,
    /// Relative ages of files, ascending.
    pub ages: Vec<AgeRow>,
    /// Changes of files between create and delete, by size, ascending; without any, files are never changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<ChangeRow>,
}

/// One bin of the size histogram: files above the previous row's size and at most this one's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SizeRow {
    /// Size of every file of the bin.
    pub bytes: Bytes,
    /// Share of files.
    pub weight: f64,
}

/// One depth: files with this many directories above them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DepthRow {
    /// Number of directories between the top and a file (0: directly in the top directory).
    pub depth: u32,
    /// Share of files.
    pub weight: f64,
    /// Total number of subdirectories in the directories of this depth.
    pub subdirectories: u32,
}

/// One bin of the age histogram: files older than the previous row's edge and at most this one's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgeRow {
    /// Right edge in any unit of time; only its ratio to the last edge counts.
    pub edge: f64,
    /// Share of files.
    pub weight: f64,
}

/// Maximum depth of a profile: longer paths would exceed PATH_MAX.
const DEPTH_LIMIT: u32 = 400;
/// Maximum number of directories of one depth.
const DIRECTORY_LIMIT: u32 = 10_000_000;
const BIN_LIMIT: usize = 2048;

pub fn builtin_names() -> impl Iterator<Item = &'static str> {
    BUILTIN.iter().map(|(name, _)| *name)
}

impl Profile {
    /// Loads a built-in profile.
    ///
    /// # Errors
    /// [`AgingError::Profile`] for an unknown name, with the nearest one and a list of all.
    pub fn builtin(name: &str) -> Result<Self, AgingError> {
        let text = BUILTIN.iter().find(|(known, _)| *known == name).map(|(_, text)| text).ok_or_else(|| {
            let known: Vec<&str> = BUILTIN.iter().map(|(name, _)| *name).collect();
            let problem = format!(
                "is not a built-in profile{}; use one of {}, or the path of a TOML file",
                suggest(name, known.iter().copied()),
                known.join(", ")
            );
            AgingError::profile(name, problem)
        })?;
        Self::parse(name, text)
    }

    /// Loads a built-in profile by name, or a TOML file by path (with a `/` or the suffix `.toml`).
    ///
    /// # Errors
    /// Those of [`Self::builtin`] and [`Self::parse`]; [`AgingError::Io`] when the file cannot be read.
    pub fn load(name_or_path: &str) -> Result<Self, AgingError> {
        if !name_or_path.contains('/') && !name_or_path.ends_with(".toml") {
            return Self::builtin(name_or_path);
        }
        let path = Path::new(name_or_path);
        let text = senesce_core::input::text(path).map_err(|source| AgingError::io("read profile", path, source))?;
        Self::parse(name_or_path, &text)
    }

    /// Reads TOML and validates it. Unknown keys are refused with line, caret and the nearest known name. `origin` is the
    /// file's name in error messages.
    ///
    /// # Errors
    /// [`AgingError::Profile`] with line and caret, or with the error of [`Self::validate`].
    pub fn parse(origin: &str, text: &str) -> Result<Self, AgingError> {
        let mut profile: Self =
            toml::from_str(text).map_err(|error| AgingError::profile(origin, explain(&error.to_string())))?;
        // The default need not be named: both are the same profile, with the same hash.
        profile.burst = profile.burst.filter(|burst| *burst != 1);
        profile.validate().map_err(|problem| AgingError::profile(origin, problem))?;
        Ok(profile)
    }

    pub fn to_toml(&self) -> String {
        let quoted = |text: &str| toml::Value::String(text.into()).to_string();
        let mut text = format!("name = {}\nsource = {}\n", quoted(&self.name), quoted(&self.source));
        if let Some(fullness) = self.fullness {
            text += &format!("fullness = {fullness:?}\n");
        }
        if let Some(locality) = self.locality {
            text += &format!("locality = {locality:?}\n");
        }
        if let Some(bytes) = self.name_bytes {
            text += &format!("name_bytes = {bytes}\n");
        }
        if let Some(burst) = self.burst {
            text += &format!("burst = {burst}\n");
        }
        let rows = |head: &str, rows: Vec<String>| format!("\n{head} = [\n{}]\n", rows.concat());
        text += &rows(
            "sizes",
            self.sizes
                .iter()
                .map(|row| format!("    {{ bytes = {}, weight = {:?} }},\n", row.bytes.0, row.weight))
                .collect(),
        );
        text += &rows(
            "depths",
            self.depths
                .iter()
                .map(|row| {
                    format!(
                        "    {{ depth = {}, weight = {:?}, subdirectories = {} }},\n",
                        row.depth, row.weight, row.subdirectories
                    )
                })
                .collect(),
        );
        text += &rows(
            "ages",
            self.ages
                .iter()
                .map(|row| format!("    {{ edge = {:?}, weight = {:?} }},\n", row.edge, row.weight))
                .collect(),
        );
        if !self.changes.is_empty() {
            text += &rows("changes", self.changes.iter().map(|row| format!("    {{ {row} }},\n")).collect());
        }
        text
    }

    pub fn mean_size(&self) -> f64 {
        let total: f64 = self.sizes.iter().map(|row| row.weight).sum();
        self.sizes.iter().map(|row| row.weight * row.bytes.0 as f64).sum::<f64>() / total
    }

    /// Checks the constraints that types do not enforce; the message names the row and the problem.
    pub fn validate(&self) -> Result<(), String> {
        if self.name.is_empty() {
            return Err("name is empty".into());
        }
        if let Some(fullness) = self.fullness.filter(|value| !(*value > 0.0 && *value < 1.0)) {
            return Err(format!("fullness is {fullness}; it must be above 0 and below 1"));
        }
        if let Some(locality) = self.locality.filter(|value| !(0.0..=1.0).contains(value)) {
            return Err(format!("locality is {locality}; it must be between 0 and 1"));
        }
        if self.name_bytes == Some(0) {
            return Err("name_bytes is 0; it must be between 1 and 255".into());
        }
        if self.burst == Some(0) {
            return Err("burst is 0; it must be at least 1".into());
        }
        check_weights("sizes", self.sizes.iter().map(|row| row.weight))?;
        check_weights("depths", self.depths.iter().map(|row| row.weight))?;
        check_weights("ages", self.ages.iter().map(|row| row.weight))?;
        check_ascending("sizes", "bytes", self.sizes.iter().map(|row| row.bytes.0))?;
        check_ascending("depths", "depth", self.depths.iter().map(|row| row.depth))?;
        check_ascending("ages", "edge", self.ages.iter().map(|row| row.edge))?;
        if let Some(row) = self.sizes.iter().find(|row| row.bytes.0 > 1 << 60) {
            return Err(format!("sizes: {} is larger than any file", row.bytes));
        }
        if let Some(row) = self.depths.iter().find(|row| row.depth > DEPTH_LIMIT) {
            return Err(format!(
                "depths: {} exceeds the maximum depth of a path, {DEPTH_LIMIT} directories",
                row.depth
            ));
        }
        if let Some(row) = self.depths.iter().find(|row| row.subdirectories > DIRECTORY_LIMIT) {
            return Err(format!(
                "depths: {} subdirectories; the maximum per depth is {DIRECTORY_LIMIT}",
                row.subdirectories
            ));
        }
        changes::check(&self.changes)?;
        let edges_good = self.ages.iter().all(|row| row.edge.is_finite() && row.edge > 0.0);
        if edges_good { Ok(()) } else { Err("ages: every edge must be a finite number above 0".into()) }
    }
}

fn check_weights(histogram: &str, weights: impl Iterator<Item = f64>) -> Result<(), String> {
    let (mut sum, mut count) = (0.0, 0);
    for (row, weight) in weights.enumerate() {
        if !weight.is_finite() || weight < 0.0 {
            return Err(format!("{histogram}, row {}: weight is {weight}; it must be 0 or more", row + 1));
        }
        sum += weight;
        count += 1;
    }
    if count == 0 {
        return Err(format!("{histogram} is empty"));
    }
    if count > BIN_LIMIT {
        return Err(format!("{histogram} has {count} rows; the maximum is {BIN_LIMIT}"));
    }
    if !(sum > 0.0 && sum.is_finite()) {
        return Err(format!("{histogram}: the sum of all weights is {sum}; at least one must be above 0"));
    }
    Ok(())
}

fn check_ascending<T: PartialOrd + std::fmt::Display + Copy>(
    histogram: &str,
    key: &str,
    values: impl Iterator<Item = T>,
) -> Result<(), String> {
    let mut before: Option<T> = None;
    for (row, value) in values.enumerate() {
        if let Some(previous) = before.filter(|previous| previous.partial_cmp(&value) != Some(std::cmp::Ordering::Less))
        {
            return Err(format!("{histogram}, row {}: {key} {value} is not larger than {previous}", row + 1));
        }
        before = Some(value);
    }
    Ok(())
}

/// Adds the nearest known name to serde's "unknown field `x`, expected one of `a`, `b`".
fn explain(message: &str) -> String {
    let message = message.trim_end();
    let near = message.split_once("unknown field `").and_then(|(_, rest)| {
        let (word, expected) = rest.split_once('`')?;
        let known = expected.split('`').skip(1).step_by(2);
        senesce_core::parameter::nearest(word, known)
    });
    near.map_or_else(|| message.to_string(), |name| format!("{message}\ndid you mean `{name}`?"))
}
