//! Model files: those that come with the program, and the user's.

use super::Model;
use crate::error::ZonedError;
use senesce_core::IoFailure;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where fitted constants come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FitSource {
    /// The drive that was measured.
    pub drive: String,
    /// The model whose constants stand where nothing was measured.
    pub start: String,
    /// Relative standard deviation of each constant that was determined.
    pub deviation: BTreeMap<String, f64>,
    /// Median absolute relative error at points that nothing was fitted to.
    pub median_error: f64,
    /// How many values that is the median of.
    pub errors: u32,
}

pub const BUILT_IN: [(&str, &str); 2] = [
    ("zn540", include_str!("../../../data/zoned/zn540.toml")),
    ("nvme-a", include_str!("../../../data/zoned/nvme-a.toml")),
];

impl Model {
    /// A built-in model by name, or a model file by its path (a name with `/` or `.toml`).
    ///
    /// # Errors
    /// [`ZonedError::Usage`] for an unknown name, with the nearest one and all that there are; [`ZonedError::Io`] when
    /// the file cannot be read; as [`Self::parse`].
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
                "there is no model '{name}'{suggestion}; there are {}, or give the path of a TOML file",
                names.join(", ")
            )));
        };
        Self::parse(text)
    }

    /// Reads and checks a model.
    ///
    /// # Errors
    /// [`ZonedError::Usage`] with the key that is unknown, missing or out of its range.
    pub fn parse(text: &str) -> Result<Self, ZonedError> {
        let model: Self = toml::from_str(text).map_err(|error| ZonedError::Usage(format!("model: {error}")))?;
        model.checked()
    }

    /// This model, if its numbers make sense together.
    pub fn checked(self) -> Result<Self, ZonedError> {
        self.check()?;
        Ok(self)
    }

    /// The text of a model file.
    pub fn to_toml(&self) -> Result<String, ZonedError> {
        toml::to_string(self).map_err(|error| ZonedError::Usage(format!("model {}: {error}", self.name)))
    }
}
