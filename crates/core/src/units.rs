//! Sizes and durations in user notation.

use crate::failure::{Classify, ExitCode};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A number of bytes. `K`, `M`, `G`, `T` (and `KiB` ...) are binary, `KB`, `MB`, `GB`, `TB` decimal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(pub u64);

impl Bytes {
    /// Converts `count` KiB to bytes.
    pub const fn kib(count: u64) -> Self {
        Self(count << 10)
    }

    /// Converts `count` MiB to bytes.
    pub const fn mib(count: u64) -> Self {
        Self(count << 20)
    }

    /// Converts `count` GiB to bytes.
    pub const fn gib(count: u64) -> Self {
        Self(count << 30)
    }

    /// Rounds up to a multiple of `block` bytes (`block` > 0).
    pub const fn round_up(self, block: u64) -> Self {
        Self(self.0.div_ceil(block) * block)
    }
}

/// Invalid size or duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// Not a size.
    #[error(
        "'{0}' is not a size: use a number with an optional suffix, binary K M G T (or KiB ...), decimal KB MB GB TB, for example 512M or 1.5GB; at most 8 EiB"
    )]
    Size(String),
    /// Not a duration.
    #[error("'{0}' is not a duration: use a number with a unit, for example 500ms, 10s, 5min, 2h")]
    Duration(String),
}

impl Classify for UnitError {
    fn exit_code(&self) -> ExitCode {
        ExitCode::Usage
    }
}

const SUFFIXES: [(&str, u64); 18] = [
    ("", 1),
    ("b", 1),
    ("k", 1 << 10),
    ("kib", 1 << 10),
    ("m", 1 << 20),
    ("mib", 1 << 20),
    ("g", 1 << 30),
    ("gib", 1 << 30),
    ("t", 1 << 40),
    ("tib", 1 << 40),
    ("p", 1 << 50),
    ("pib", 1 << 50),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("pb", 1_000_000_000_000_000),
    ("bytes", 1),
];

/// Maximum file size of Linux (off_t), and the largest number that TOML can represent.
const MOST_BYTES: u64 = i64::MAX as u64;

impl FromStr for Bytes {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let wrong = || UnitError::Size(text.to_string());
        let trimmed = text.trim();
        let split = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
        let (number, suffix) = trimmed.split_at(split);
        let suffix = suffix.trim().to_ascii_lowercase();
        let (_, unit) = SUFFIXES.iter().find(|(name, _)| *name == suffix).ok_or_else(wrong)?;
        if let Ok(whole) = number.parse::<u64>() {
            return whole.checked_mul(*unit).filter(|bytes| *bytes <= MOST_BYTES).map(Bytes).ok_or_else(wrong);
        }
        let fraction = number.parse::<f64>().map_err(|_| wrong())?;
        let bytes = fraction * *unit as f64;
        if bytes.is_finite() && bytes < MOST_BYTES as f64 { Ok(Bytes(bytes.round() as u64)) } else { Err(wrong()) }
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
        let mut value = self.0 as f64;
        let mut unit = 0;
        while value >= 1024.0 && unit + 1 < UNITS.len() {
            value /= 1024.0;
            unit += 1;
        }
        if unit == 0 || value.fract() == 0.0 {
            write!(formatter, "{value:.0} {}", UNITS[unit])
        } else {
            write!(formatter, "{value:.2} {}", UNITS[unit])
        }
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Number(u64),
            Text(String),
        }
        match Form::deserialize(deserializer)? {
            Form::Number(number) => Ok(Bytes(number)),
            Form::Text(text) => text.parse().map_err(serde::de::Error::custom),
        }
    }
}

/// Parses `500ms`, `10s`, `5min`, `2h`; refuses a bare number, because its unit is unknown.
///
/// # Errors
/// [`UnitError::Duration`] for other text.
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    humantime::parse_duration(text.trim()).map_err(|_| UnitError::Duration(text.to_string()))
}

/// A size parameter, stored in user notation, `64M`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Size(pub Bytes);

impl Size {
    /// Returns the size in bytes.
    pub const fn bytes(self) -> u64 {
        self.0.0
    }
}

impl FromStr for Size {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        text.parse().map(Self)
    }
}

impl fmt::Display for Size {
    /// Uses the largest suffix with a whole number, so that parsing gives the same value.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(&str, u64); 8] = [
            ("T", 1 << 40),
            ("G", 1 << 30),
            ("M", 1 << 20),
            ("K", 1 << 10),
            ("TB", 1_000_000_000_000),
            ("GB", 1_000_000_000),
            ("MB", 1_000_000),
            ("KB", 1_000),
        ];
        let bytes = self.bytes();
        match UNITS.iter().find(|(_, unit)| bytes > 0 && bytes.is_multiple_of(*unit)) {
            Some((suffix, unit)) => write!(formatter, "{}{suffix}", bytes / unit),
            None => write!(formatter, "{bytes}"),
        }
    }
}

/// A duration parameter, stored in user notation, `500ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span(pub Duration);

impl Span {
    /// Converts whole milliseconds.
    pub const fn from_millis(milliseconds: u64) -> Self {
        Self(Duration::from_millis(milliseconds))
    }

    /// Returns the duration in seconds.
    pub fn seconds(self) -> f64 {
        self.0.as_secs_f64()
    }
}

impl FromStr for Span {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        parse_duration(text).map(Self)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", humantime::format_duration(self.0))
    }
}

/// Implements `String` conversions by `Display` and `FromStr`, for `#[serde(try_from = "String", into = "String")]`.
#[macro_export]
macro_rules! text_form {
    ($($name:ty),*) => {$(
        impl From<$name> for String {
            fn from(value: $name) -> Self {
                value.to_string()
            }
        }

        impl TryFrom<String> for $name {
            type Error = <$name as std::str::FromStr>::Err;

            fn try_from(text: String) -> Result<Self, Self::Error> {
                text.parse()
            }
        }
    )*};
}

/// Implements serialisation as user notation.
macro_rules! stored_as_text {
    ($($name:ty),*) => {$(
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )*};
}

stored_as_text!(Size, Span);

/// Formats at most four significant digits. Integer parts of up to six digits, and integers of up to seven, stay whole.
pub fn significant(value: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    let rounded = format!("{value:.3e}");
    let magnitude: i32 = rounded.split_once('e').and_then(|(_, power)| power.parse().ok()).unwrap_or(0);
    match magnitude {
        4..=5 => format!("{value:.0}"),
        6 if value.fract() == 0.0 => format!("{value}"),
        -4..=3 => without_trailing_zeros(&format!("{value:.*}", (3 - magnitude) as usize)),
        _ => rounded,
    }
}

fn without_trailing_zeros(number: &str) -> String {
    let is_fraction = number.contains('.');
    if is_fraction { number.trim_end_matches('0').trim_end_matches('.').into() } else { number.into() }
}

/// Formats a number with its noun: `1 run`, `2 runs`, `2 entries`.
pub fn number_of<N: fmt::Display + PartialEq + From<u8>>(count: N, noun: &str) -> String {
    if count == N::from(1) { format!("{count} {noun}") } else { format!("{count} {}", plural(noun)) }
}

fn plural(noun: &str) -> String {
    match noun.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{stem}ies"),
        _ if ["s", "x", "ch", "sh"].iter().any(|end| noun.ends_with(end)) => format!("{noun}es"),
        _ => format!("{noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn binary_and_decimal_suffixes_differ() {
        assert_eq!("1G".parse(), Ok(Bytes::gib(1)));
        assert_eq!("1GiB".parse(), Ok(Bytes::gib(1)));
        assert_eq!("1GB".parse(), Ok(Bytes(1_000_000_000)));
        assert_eq!("1.5K".parse(), Ok(Bytes(1536)));
        assert_eq!("4k".parse(), Ok(Bytes(4096)));
        assert_eq!("4096".parse(), Ok(Bytes(4096)));
        assert_eq!("9223372036854775807".parse(), Ok(Bytes(MOST_BYTES)));
    }

    #[test]
    fn nouns_have_the_number_of_their_count() {
        assert_eq!([0, 1, 2].map(|count: usize| number_of(count, "run")), ["0 runs", "1 run", "2 runs"]);
        let two = |noun: &str| number_of(2u64, noun);
        assert_eq!(["entry", "day", "process", "batch"].map(two), ["2 entries", "2 days", "2 processes", "2 batches"]);
    }

    #[test]
    fn numbers_have_at_most_four_significant_digits() {
        for (value, expected) in [
            (0.001234567, "0.001235"),
            (0.57, "0.57"),
            (12.0, "12"),
            (0.0, "0"),
            (37277.3334, "37277"),
            (-123456.7, "-123457"),
            (123456.0, "123456"),
            (9.9996, "10"),
            (0.99996, "1"),
            (12345678.0, "1.235e7"),
            (1234567.0, "1234567"),
            (1234567.8, "1.235e6"),
            (1.5e48, "1.500e48"),
            (2.5e-7, "2.500e-7"),
        ] {
            assert_eq!(significant(value), expected, "{value}");
        }
    }

    #[test]
    fn invalid_values_are_refused() {
        for text in ["1g5", "", "G", "-1K", "1.2.3M", "99999999999P", "1 furlong", "8192P", "9223372036854775808"] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
        assert!(parse_duration("10").is_err());
        assert_eq!(parse_duration("10ms"), Ok(Duration::from_millis(10)));
    }

    proptest! {
        #[test]
        fn whole_numbers_round_trip(count in 0u64..1 << 40) {
            prop_assert_eq!(format!("{count}").parse::<Bytes>(), Ok(Bytes(count)));
            prop_assert_eq!(format!("{count}K").parse::<Bytes>(), Ok(Bytes(count << 10)));
        }

        #[test]
        fn parameters_round_trip(count in 0u64..1 << 40, shift in 0u32..20, nanoseconds in any::<u64>()) {
            let size = Size(Bytes(count << shift));
            prop_assert_eq!(size.to_string().parse::<Size>(), Ok(size));
            let span = Span(Duration::from_nanos(nanoseconds));
            prop_assert_eq!(span.to_string().parse::<Span>(), Ok(span));
        }
    }
}
