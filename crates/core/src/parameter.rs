//! Declared parameters of an experiment: one definition feeds flags, help, validation and the record.

use crate::failure::{Classify, ExitCode};
use crate::seed::{DEFAULT_SEED, Seed};
use crate::units::{Bytes, parse_duration};
use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

/// How much of the published experiment is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// At most 10 s: proves that every step works.
    Smoke,
    /// Minutes: shows the effect.
    Quick,
    /// As published, where the machine has room.
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
    /// `smoke`, `quick` or `paper`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Smoke => "smoke",
            Self::Quick => "quick",
            Self::Paper => "paper",
        }
    }
}

/// What values a parameter takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ParameterKind {
    /// A size, `4K`.
    Size,
    /// A duration, `10s`.
    Duration,
    /// A whole number in a range, both ends included.
    Integer {
        /// Least value.
        min: u64,
        /// Greatest value.
        max: u64,
    },
    /// A real number in a range, both ends included.
    Real {
        /// Least value.
        min: f64,
        /// Greatest value.
        max: f64,
    },
    /// `true` or `false`.
    Flag,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A comma-separated list of these words.
    Choices(&'static [&'static str]),
    /// Free text; the experiment checks it in `plan`.
    Text,
}

/// One parameter of an experiment.
#[derive(Debug, Clone, Copy)]
pub struct Parameter {
    /// Its name in kebab case: `--name VALUE` and `--set name=VALUE`.
    pub name: &'static str,
    /// One line of help with unit and meaning.
    pub help: &'static str,
    /// What values it takes.
    pub kind: ParameterKind,
    /// Defaults at smoke, quick and paper level.
    pub defaults: [&'static str; 3],
}

/// Every experiment has these too.
pub const COMMON: &[Parameter] = &[Parameter {
    name: "seed",
    help: "root seed of everything random",
    kind: ParameterKind::Integer { min: 0, max: u64::MAX },
    defaults: ["42", "42", "42"],
}];

/// A parameter that was not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParameterError {
    /// No such parameter.
    #[error("there is no parameter '{name}'{suggestion}; it has: {known}")]
    Unknown {
        /// The word that was given.
        name: String,
        /// `, did you mean 'x'?` or nothing.
        suggestion: String,
        /// The names there are.
        known: String,
    },
    /// A value that does not fit.
    #[error("parameter '{name}' = '{value}': expected {expected}")]
    Value {
        /// Parameter.
        name: String,
        /// Value given.
        value: String,
        /// What would fit.
        expected: String,
    },
}

impl Classify for ParameterError {
    fn exit_code(&self) -> ExitCode {
        ExitCode::Usage
    }
}

/// `, did you mean 'x'?` when a known name is close to `word`, else an empty string.
pub fn suggest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, known).map_or_else(String::new, |name| format!(", did you mean '{name}'?"))
}

/// The known name nearest to `word`, if one is near.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(word, name), name))
        .filter(|(distance, name)| *distance <= 1 + name.len().max(word.len()) / 4)
        .min()
        .map(|(_, name)| name)
}

/// The values of an experiment's parameters: defaults of the level, overridden and validated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    level: Level,
    values: BTreeMap<String, String>,
}

impl Settings {
    /// Defaults of `level` with `overrides` on top; every name and value is checked.
    pub fn resolve(
        declared: &[Parameter],
        level: Level,
        overrides: &BTreeMap<String, String>,
    ) -> Result<Self, ParameterError> {
        let all: Vec<&Parameter> = declared.iter().chain(COMMON).collect();
        let mut values: BTreeMap<String, String> =
            all.iter().map(|p| (p.name.to_string(), p.defaults[level as usize].to_string())).collect();
        for (name, value) in overrides {
            let parameter = all.iter().find(|p| p.name == name).ok_or_else(|| unknown(name, &all))?;
            check(parameter, value)?;
            values.insert(name.clone(), value.clone());
        }
        Ok(Self { level, values })
    }

    /// Settings read back from a plan; names are not checked again.
    pub fn from_plan(settings: &BTreeMap<String, String>) -> Self {
        let level = settings.get("scale").and_then(|text| text.parse().ok()).unwrap_or(Level::Quick);
        Self { level, values: settings.clone() }
    }

    /// The level.
    pub fn level(&self) -> Level {
        self.level
    }

    /// All values with the level under the name `scale`, as a plan stores them.
    pub fn to_map(&self) -> BTreeMap<String, String> {
        let mut map = self.values.clone();
        map.insert("scale".into(), self.level.name().into());
        map
    }

    /// The raw text of a value; an undeclared name is the empty text.
    pub fn text(&self, name: &str) -> &str {
        self.values.get(name).map_or("", String::as_str)
    }

    /// The root seed.
    pub fn seed(&self) -> Seed {
        self.text("seed").parse().map_or(DEFAULT_SEED, Seed)
    }

    /// A value as size.
    pub fn size(&self, name: &str) -> Result<Bytes, ParameterError> {
        self.read(name, "a size", |text| text.parse().ok())
    }

    /// A value as duration.
    pub fn duration(&self, name: &str) -> Result<Duration, ParameterError> {
        self.read(name, "a duration", |text| parse_duration(text).ok())
    }

    /// A value as whole number.
    pub fn integer(&self, name: &str) -> Result<u64, ParameterError> {
        self.read(name, "a whole number", |text| text.parse().ok())
    }

    /// A value as real number.
    pub fn real(&self, name: &str) -> Result<f64, ParameterError> {
        self.read(name, "a number", |text| text.parse().ok())
    }

    /// A value as truth.
    pub fn flag(&self, name: &str) -> Result<bool, ParameterError> {
        self.read(name, "true or false", |text| text.parse().ok())
    }

    /// A comma-separated value as words; empty words are dropped.
    pub fn list(&self, name: &str) -> Vec<String> {
        self.text(name).split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_string).collect()
    }

    fn read<T>(&self, name: &str, expected: &str, parse: impl Fn(&str) -> Option<T>) -> Result<T, ParameterError> {
        parse(self.text(name)).ok_or_else(|| ParameterError::Value {
            name: name.into(),
            value: self.text(name).into(),
            expected: expected.into(),
        })
    }
}

fn unknown(name: &str, all: &[&Parameter]) -> ParameterError {
    let names: Vec<&str> = all.iter().map(|p| p.name).collect();
    ParameterError::Unknown {
        name: name.into(),
        suggestion: suggest(name, names.iter().copied()),
        known: names.join(", "),
    }
}

/// Checks one value against its declaration.
pub fn check(parameter: &Parameter, value: &str) -> Result<(), ParameterError> {
    let (fits, expected) = match parameter.kind {
        ParameterKind::Size => (value.parse::<Bytes>().is_ok(), "a size such as 4K or 1GB".to_string()),
        ParameterKind::Duration => (parse_duration(value).is_ok(), "a duration such as 10s".to_string()),
        ParameterKind::Integer { min, max } => (
            value.parse::<u64>().is_ok_and(|number| (min..=max).contains(&number)),
            if max == u64::MAX {
                format!("a whole number from {min}")
            } else {
                format!("a whole number from {min} to {max}")
            },
        ),
        ParameterKind::Real { min, max } => (
            value.parse::<f64>().is_ok_and(|number| number >= min && number <= max),
            format!("a number from {min} to {max}"),
        ),
        ParameterKind::Flag => (value == "true" || value == "false", "true or false".to_string()),
        ParameterKind::Choice(words) => (words.contains(&value), format!("one of {}", words.join(", "))),
        ParameterKind::Choices(words) => (
            value.split(',').all(|word| words.contains(&word.trim())),
            format!("a comma-separated list of {}", words.join(", ")),
        ),
        ParameterKind::Text => (true, String::new()),
    };
    if fits {
        return Ok(());
    }
    Err(ParameterError::Value { name: parameter.name.into(), value: value.into(), expected })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DECLARED: &[Parameter] = &[
        Parameter {
            name: "rounds",
            help: "rounds",
            kind: ParameterKind::Integer { min: 1, max: 100 },
            defaults: ["2", "10", "100"],
        },
        Parameter {
            name: "fs",
            help: "file systems",
            kind: ParameterKind::Choices(&["ext4", "xfs"]),
            defaults: ["ext4", "ext4,xfs", "ext4,xfs"],
        },
    ];

    fn overrides(name: &str, value: &str) -> BTreeMap<String, String> {
        BTreeMap::from([(name.to_string(), value.to_string())])
    }

    #[test]
    fn defaults_follow_the_level_and_overrides_win() {
        let settings = Settings::resolve(DECLARED, Level::Quick, &overrides("rounds", "7")).unwrap();
        assert_eq!(settings.integer("rounds"), Ok(7));
        assert_eq!(settings.list("fs"), vec!["ext4", "xfs"]);
        assert_eq!(Settings::from_plan(&settings.to_map()).level(), Level::Quick);
    }

    #[test]
    fn unknown_names_get_a_suggestion() {
        let error = Settings::resolve(DECLARED, Level::Smoke, &overrides("round", "7")).unwrap_err();
        assert!(error.to_string().contains("did you mean 'rounds'"), "{error}");
    }

    #[test]
    fn values_out_of_range_are_refused() {
        assert!(Settings::resolve(DECLARED, Level::Smoke, &overrides("rounds", "0")).is_err());
        assert!(Settings::resolve(DECLARED, Level::Smoke, &overrides("fs", "ext4,zfs")).is_err());
    }
}
