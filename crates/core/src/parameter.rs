//! Shared parameters of experiments: levels, value parsers, suggestions.

use crate::failure::{Classify, ExitCode};
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Scale of an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// At most 10 s: checks that every step works.
    Smoke,
    /// Minutes: shows the effect.
    Quick,
    /// As published, if the machine has enough space.
    Paper,
}

impl FromStr for Level {
    type Err = ParameterError;

    fn from_str(text: &str) -> Result<Self, ParameterError> {
        match text {
            "smoke" => Ok(Self::Smoke),
            "quick" => Ok(Self::Quick),
            "paper" => Ok(Self::Paper),
            _ => Err(ParameterError::Value {
                name: "scale".into(),
                value: text.into(),
                expected: "smoke, quick or paper".into(),
            }),
        }
    }
}

impl Level {
    /// Selects the value of this level.
    pub fn of<T>(self, [smoke, quick, paper]: [T; 3]) -> T {
        match self {
            Self::Smoke => smoke,
            Self::Quick => quick,
            Self::Paper => paper,
        }
    }

    /// Returns `smoke`, `quick` or `paper`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Smoke => "smoke",
            Self::Quick => "quick",
            Self::Paper => "paper",
        }
    }
}

/// Copies names into a list, for flags.
pub fn names(of: &[&str]) -> Vec<String> {
    of.iter().map(|name| (*name).to_string()).collect()
}

/// Returns a parser of real numbers in an inclusive range, for flags.
pub fn real(range: RangeInclusive<f64>) -> impl Fn(&str) -> Result<f64, String> + Clone + Send + Sync {
    move |text| {
        let number = text.parse::<f64>().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| format!("expected a number from {} to {}", range.start(), range.end()))
    }
}

/// Invalid parameter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParameterError {
    /// Invalid value.
    #[error("parameter '{name}' = '{value}': expected {expected}")]
    Value {
        /// Name of the parameter, such as `scale`.
        name: String,
        /// Value given.
        value: String,
        /// Values that the parameter accepts, in words.
        expected: String,
    },
}

impl Classify for ParameterError {
    fn exit_code(&self) -> ExitCode {
        ExitCode::Usage
    }
}

/// Returns `, did you mean 'x'?` if a known name is close to `word`, otherwise empty.
pub fn suggest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, known).map_or_else(String::new, |name| format!(", did you mean '{name}'?"))
}

/// Returns the known name nearest to `word`, if one is close.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(word, name), name))
        .filter(|(distance, name)| *distance <= 1 + name.len().max(word.len()) / 4)
        .min()
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_names_get_a_suggestion() {
        assert_eq!(suggest("round", ["rounds", "fs"]), ", did you mean 'rounds'?");
        assert_eq!(suggest("anything", ["rounds", "fs"]), "");
    }

    #[test]
    fn reals_out_of_range_are_refused() {
        let read = real(0.0..=1.0);
        assert_eq!(read("0.5"), Ok(0.5));
        assert_eq!(read("2"), Err("expected a number from 0 to 1".to_string()));
        assert!(read("NaN").is_err());
    }
}
