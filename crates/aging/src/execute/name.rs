//! File names as bytes.

use crate::plan::{MOST_NAME_BYTES, NAME_BYTES, PADDING, RENAMED};
use crate::planner::File;
use std::ffi::CStr;
use std::path::Path;

/// Longest name with its suffix, and the end of a C string.
const MOST: usize = MOST_NAME_BYTES + RENAMED.len() + 1;

pub(crate) struct Name {
    bytes: [u8; MOST],
    length: usize,
}

/// What a name holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parsed {
    pub birth: u64,
    pub renamed: bool,
    pub padding: u8,
}

impl Name {
    pub(crate) fn of(file: &File) -> Self {
        let mut bytes = [0; MOST];
        bytes[0] = b'f';
        for (index, byte) in bytes[1..NAME_BYTES].iter_mut().enumerate() {
            *byte = b"0123456789abcdef"[(file.birth >> (44 - 4 * index)) as usize & 15];
        }
        let end = (NAME_BYTES + usize::from(file.padding)).min(MOST_NAME_BYTES);
        bytes[NAME_BYTES..end].fill(PADDING);
        if !file.renamed {
            return Self { bytes, length: end };
        }
        let length = end + RENAMED.len();
        bytes[end..length].copy_from_slice(RENAMED.as_bytes());
        Self { bytes, length }
    }

    pub(crate) fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_with_nul(&self.bytes[..=self.length]).unwrap_or_default()
    }

    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }

    pub(crate) fn parse(name: &[u8]) -> Option<Parsed> {
        let first = name.strip_suffix(RENAMED.as_bytes());
        let (own, padding) = first.unwrap_or(name).split_at_checked(NAME_BYTES)?;
        let digits = own.strip_prefix(b"f")?;
        let lower = digits.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let birth = lower.then(|| u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok())??;
        let is_padded = padding.len() <= MOST_NAME_BYTES - NAME_BYTES && padding.iter().all(|byte| *byte == PADDING);
        is_padded.then_some(Parsed { birth, renamed: first.is_some(), padding: padding.len() as u8 })
    }
}

impl AsRef<Path> for Name {
    fn as_ref(&self) -> &Path {
        Path::new(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_the_plan_and_parse_back() {
        for birth in [0, 15, 16, 0xabc_def0, (1 << 48) - 1] {
            for (renamed, padding) in [(false, 0), (true, 0), (false, 1), (true, 240), (false, 240)] {
                let file = File { birth, size: 0, directory: 0, renamed, padding };
                let name = Name::of(&file);
                assert_eq!(name.as_str(), file.name());
                assert_eq!(name.as_c_str().to_bytes(), name.as_str().as_bytes());
                assert_eq!(Name::parse(name.as_str().as_bytes()), Some(Parsed { birth, renamed, padding }));
            }
        }
        assert_eq!(Name::parse(b"f00000000000G"), None);
        assert_eq!(Name::parse(b"f000000000001.x"), None);
        assert_eq!(Name::parse(b"f000000000001__x"), None);
        assert_eq!(Name::parse(b"lost+found"), None);
    }
}
