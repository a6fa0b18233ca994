//! Model files: built-in ones and the user's.

use super::Model;
use crate::error::ZonedError;
use senesce_core::IoFailure;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Source of fitted constants.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FitSource {
    /// The drive that was measured.
    pub drive: String,
    /// Start model, which supplies constants that were not measured.
    pub start: String,
    /// Relative standard deviation of each determined constant.
    pub deviation: BTreeMap<String, f64>,
    /// Median absolute relative error at held-out points.
    pub median_error: f64,
    /// Number of values of that median.
    pub errors: u32,
}

pub(crate) const BUILT_IN: [(&str, &str); 2] = [
    ("zn540", include_str!("../../../data/zoned/zn540.toml")),
    ("nvme-a", include_str!("../../../data/zoned/nvme-a.toml")),
];

impl Model {
    /// Loads a built-in model by name, or a model file by path (contains `/` or ends in `.toml`).
    pub fn load(name: &str) -> Result<Self, ZonedError> {
        if name.contains('/') || name.ends_with(".toml") {
            let text = senesce_core::input::text(name.as_ref()).map_err(|source| {
                ZonedError::Io(
                    IoFailure::new("read the model", name, source)
                        .with_remedy("give the path of a model file or the name of a built-in model"),
                )
            })?;
            return Self::parse(&text);
        }
        let names: Vec<&str> = BUILT_IN.iter().map(|(name, _)| *name).collect();
        let Some((_, text)) = BUILT_IN.iter().find(|(known, _)| *known == name) else {
            let suggestion = senesce_core::parameter::suggest(name, names.iter().copied());
            return Err(ZonedError::Usage(format!(
                "unknown model '{name}'{suggestion}; choose from {}, or give the path of a TOML file",
                names.join(", ")
            )));
        };
        Self::parse(text)
    }

    pub fn parse(text: &str) -> Result<Self, ZonedError> {
        let model: Self = toml::from_str(text).map_err(|error| ZonedError::Usage(format!("model: {error}")))?;
        model.checked()
    }

    /// Returns this model if its numbers are consistent.
    pub fn checked(self) -> Result<Self, ZonedError> {
        self.check()?;
        Ok(self)
    }

    pub fn to_toml(&self) -> Result<String, ZonedError> {
        toml::to_string(self).map_err(|error| ZonedError::Usage(format!("model {}: {error}", self.name)))
    }
}
