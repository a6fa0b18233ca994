//! Directory schemes: map the hexadecimal name of an object to a path.

use senesce_core::failure::{Classify, ExitCode};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// `digits` hexadecimal digits per directory level, `depth` levels: git's is 2x1, flat is 0x0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Scheme {
    digits: u32,
    depth: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemeError {
    #[error("'{0}' is not a directory scheme: use DIGITSxDEPTH, for example 2x1, or 0x0 for none")]
    Form(String),
    #[error("directory scheme {0}x{1}: digits and depth are both zero (flat) or both at least 1")]
    HalfZero(u32, u32),
    #[error("directory scheme {0}x{1} takes {total} hexadecimal digits, but a SHA-1 name has only 40; use at most 40", total = u64::from(*.0) * u64::from(*.1))]
    TooLong(u32, u32),
}

impl Classify for SchemeError {
    fn exit_code(&self) -> ExitCode {
        ExitCode::Usage
    }
}

/// Hexadecimal digits of a SHA-1 name, the shortest in a store.
const NAME_DIGITS: u64 = 40;

impl Scheme {
    pub(crate) const FLAT: Self = Self { digits: 0, depth: 0 };
    pub const GIT: Self = Self { digits: 2, depth: 1 };

    /// Creates a scheme whose `digits` x `depth` is at most 40.
    pub(crate) fn new(digits: u32, depth: u32) -> Result<Self, SchemeError> {
        if (digits == 0) != (depth == 0) {
            return Err(SchemeError::HalfZero(digits, depth));
        }
        if u64::from(digits) * u64::from(depth) > NAME_DIGITS {
            return Err(SchemeError::TooLong(digits, depth));
        }
        Ok(Self { digits, depth })
    }

    pub fn digits(self) -> u32 {
        self.digits
    }

    pub fn depth(self) -> u32 {
        self.depth
    }

    /// Returns the number of possible directories of level `level` (1 to depth): 16^(digits x level).
    pub(crate) fn directories_at(self, level: u32) -> f64 {
        16f64.powi((self.digits * level) as i32)
    }

    /// Returns the directories of an object named `hex`, outermost first, and its file name. If the directories use up
    /// the name, the file name is `_`.
    pub(crate) fn split(self, hex: &str) -> (impl Iterator<Item = &str>, &str) {
        let used = (self.digits * self.depth) as usize;
        let (directories, rest) = hex.split_at(used.min(hex.len()));
        let step = self.digits.max(1) as usize;
        let parts = (0..directories.len() / step).map(move |level| &directories[level * step..(level + 1) * step]);
        (parts, if rest.is_empty() { "_" } else { rest })
    }

    /// Returns the directory of an object named `hex`, relative to the objects' root; empty for a flat store.
    pub(crate) fn directory(self, hex: &str) -> String {
        self.split(hex).0.collect::<Vec<_>>().join("/")
    }

    /// Returns the path of an object named `hex`, relative to the objects' root.
    pub(crate) fn path(self, hex: &str) -> String {
        let (directories, name) = self.split(hex);
        directories.chain([name]).collect::<Vec<_>>().join("/")
    }

    /// Lists the schemes of the DMV study: flat, then 1 to 6 digits x 1 to 16 levels with at most 40 digits in all.
    pub fn published() -> Vec<Self> {
        let pairs = (1..=6).flat_map(|digits| (1..=16).map(move |depth| (digits, depth)));
        std::iter::once(Self::FLAT).chain(pairs.filter_map(|(digits, depth)| Self::new(digits, depth).ok())).collect()
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}x{}", self.digits, self.depth)
    }
}

impl FromStr for Scheme {
    type Err = SchemeError;

    fn from_str(text: &str) -> Result<Self, SchemeError> {
        let form = || SchemeError::Form(text.to_string());
        let (digits, depth) = text.trim().split_once('x').ok_or_else(form)?;
        Self::new(digits.parse().map_err(|_| form())?, depth.parse().map_err(|_| form())?)
    }
}

senesce_core::text_form!(Scheme);

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "da39a3ee5e6b4b0d3255bfef95601890afd80709";

    #[test]
    fn paths_follow_the_scheme() {
        let path = |text: &str| text.parse::<Scheme>().unwrap().path(NAME);
        assert_eq!(path("2x1"), "da/39a3ee5e6b4b0d3255bfef95601890afd80709");
        assert_eq!(path("3x2"), "da3/9a3/ee5e6b4b0d3255bfef95601890afd80709");
        assert_eq!(path("0x0"), NAME);
        assert!(path("4x10").ends_with("0709/_"));
        assert_eq!("2x2".parse::<Scheme>().unwrap().directory(NAME), "da/39");
    }

    #[test]
    fn impossible_schemes_are_refused_with_the_reason() {
        assert!(matches!("7x6".parse::<Scheme>(), Err(SchemeError::TooLong(7, 6))));
        assert!(matches!("0x3".parse::<Scheme>(), Err(SchemeError::HalfZero(0, 3))));
        assert!(matches!("4294967295x4294967295".parse::<Scheme>(), Err(SchemeError::TooLong(..))));
        for text in ["", "2", "2x", "x1", "-1x1", "2x1x1"] {
            assert!(matches!(text.parse::<Scheme>(), Err(SchemeError::Form(_))), "{text}");
        }
        assert_eq!(Scheme::published().len(), 1 + 16 + 16 + 13 + 10 + 8 + 6);
    }
}
