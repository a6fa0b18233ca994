//! Text forms of values in job files: zones, durations, rates.

use crate::error::ZonedError;
use senesce_core::units::{Bytes, parse_duration};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Zones of an actor or a step
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Zones {
    /// A number of zones after those of the previous actors.
    Count(u32),
    /// First and one past the last.
    Range(u32, u32),
}

impl Zones {
    pub fn count(self) -> u32 {
        match self {
            Self::Count(count) => count,
            Self::Range(first, end) => end - first,
        }
    }
}

impl Default for Zones {
    fn default() -> Self {
        Self::Count(1)
    }
}

impl FromStr for Zones {
    type Err = ZonedError;

    fn from_str(text: &str) -> Result<Self, ZonedError> {
        let wrong = || {
            ZonedError::Usage(format!("'{text}' does not name zones: use a number of zones, or a range such as 0..8"))
        };
        let text = text.trim();
        match text.split_once("..") {
            None => text.parse().map(Self::Count).map_err(|_| wrong()),
            Some((first, end)) => {
                let inclusive = end.strip_prefix('=');
                let first: u32 = first.trim().parse().map_err(|_| wrong())?;
                let last: u32 = inclusive.unwrap_or(end).trim().parse().map_err(|_| wrong())?;
                let end = if inclusive.is_some() { last.checked_add(1).ok_or_else(wrong)? } else { last };
                if end <= first {
                    return Err(wrong());
                }
                Ok(Self::Range(first, end))
            }
        }
    }
}

impl fmt::Display for Zones {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => write!(formatter, "{count}"),
            Self::Range(first, end) => write!(formatter, "{first}..{end}"),
        }
    }
}

impl Serialize for Zones {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Zones {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Number(u32),
            Text(String),
        }
        match Form::deserialize(deserializer)? {
            Form::Number(count) => Ok(Self::Count(count)),
            Form::Text(text) => text.parse().map_err(serde::de::Error::custom),
        }
    }
}

/// A duration such as `10s` or `500ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Default)]
pub struct Span(pub Duration);

impl Span {
    pub fn is_zero(&self) -> bool {
        self.0.is_zero()
    }

    pub fn seconds(seconds: f64) -> Self {
        Self(Duration::from_secs_f64(seconds.max(0.0)))
    }

    /// Nanoseconds, at most `u64::MAX / 4` so that sums do not overflow.
    pub fn ns(self) -> u64 {
        u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX).min(u64::MAX / 4)
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{}ns", self.0.as_nanos()))
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse_duration(&text).map(Span).map_err(serde::de::Error::custom)
    }
}

/// Bytes per second: `100MiB/s`, `100M`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate(pub Bytes);

impl FromStr for Rate {
    type Err = ZonedError;

    fn from_str(text: &str) -> Result<Self, ZonedError> {
        let size = text.trim().strip_suffix("/s").unwrap_or(text).trim();
        size.parse().map(Rate).map_err(|_| {
            ZonedError::Usage(format!("'{text}' is not a rate: write bytes per second, for example 100MiB/s"))
        })
    }
}

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{}/s", self.0.0))
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}
