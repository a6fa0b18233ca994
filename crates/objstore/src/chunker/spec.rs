//! Text form of chunkers: `rolling-sum:WINDOW:DIVISOR[:reset]`, `fastcdc:AVERAGE`, `fixed:SIZE`.

use super::{Chunker, FastCdc, Fixed, RollingSum};
use senesce_core::failure::{Classify, ExitCode};
use senesce_core::units::Bytes;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Chunker with parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum ChunkerSpec {
    /// The DMV study's.
    RollingSum {
        window: usize,
        divisor: u32,
        /// Empty the window after every cut.
        reset: bool,
    },
    /// FastCDC 2020.
    FastCdc {
        /// Requested mean in bytes.
        average: usize,
    },
    Fixed {
        size: usize,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{text}' is not a chunker: {problem}; write rolling-sum:WINDOW:DIVISOR[:reset], fastcdc:AVERAGE or fixed:SIZE, for example fastcdc:16K"
)]
pub struct ChunkerError {
    text: String,
    problem: String,
}

impl Classify for ChunkerError {
    fn exit_code(&self) -> ExitCode {
        ExitCode::Usage
    }
}

/// Maximum length of a chunk in a store, and so of an object. A rolling sum, whose chunks are otherwise unlimited, is cut there.
pub(crate) const LONGEST_STORED: usize = 16 << 20;

impl ChunkerSpec {
    pub fn build(&self) -> Box<dyn Chunker> {
        match *self {
            Self::RollingSum { window, divisor, reset } => {
                Box::new(RollingSum::new(window, divisor, reset).limited(LONGEST_STORED))
            }
            Self::FastCdc { average } => Box::new(FastCdc::new(average)),
            Self::Fixed { size } => Box::new(Fixed::new(size)),
        }
    }

    pub fn algorithm(&self) -> &'static str {
        match self {
            Self::RollingSum { .. } => "rolling-sum",
            Self::FastCdc { .. } => "fastcdc",
            Self::Fixed { .. } => "fixed",
        }
    }
}

impl fmt::Display for ChunkerSpec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RollingSum { window, divisor, reset } => {
                write!(formatter, "rolling-sum:{window}:{divisor}{}", if *reset { ":reset" } else { "" })
            }
            Self::FastCdc { average } => write!(formatter, "fastcdc:{average}"),
            Self::Fixed { size } => write!(formatter, "fixed:{size}"),
        }
    }
}

impl FromStr for ChunkerSpec {
    type Err = ChunkerError;

    fn from_str(text: &str) -> Result<Self, ChunkerError> {
        let error = |problem: String| ChunkerError { text: text.into(), problem };
        let size = |word: &str, range: std::ops::RangeInclusive<usize>| {
            let bytes = word.parse::<Bytes>().map_err(|cause| error(cause.to_string()))?.0 as usize;
            if range.contains(&bytes) {
                return Ok(bytes);
            }
            Err(error(format!("{bytes} is not within {} to {} bytes", range.start(), range.end())))
        };
        let words: Vec<&str> = text.split(':').collect();
        match words[..] {
            ["rolling-sum", window, divisor] | ["rolling-sum", window, divisor, "reset"] => Ok(Self::RollingSum {
                window: size(window, 1..=1 << 24)?,
                divisor: size(divisor, 1..=u32::MAX as usize)? as u32,
                reset: words.len() == 4,
            }),
            ["fastcdc", average] => Ok(Self::FastCdc { average: size(average, FastCdc::AVERAGES)? }),
            ["fixed", bytes] => Ok(Self::Fixed { size: size(bytes, 1..=LONGEST_STORED)? }),
            _ => Err(error("unknown form".into())),
        }
    }
}

senesce_core::text_form!(ChunkerSpec);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_invalid_ones_are_refused() {
        for text in ["rolling-sum:4096:1024", "rolling-sum:128:3:reset", "fastcdc:16384", "fixed:4096"] {
            assert_eq!(text.parse::<ChunkerSpec>().unwrap().to_string(), text);
        }
        for text in ["", "fastcdc", "fastcdc:16", "fixed:0", "rolling-sum:4096", "rolling-sum:1:0", "fixed:4K:reset"] {
            assert!(text.parse::<ChunkerSpec>().is_err(), "{text}");
        }
    }
}
