//! File names as bytes.

use crate::planner::{File, RENAMED};
use std::ffi::CStr;
use std::path::Path;

pub(crate) struct Name {
    bytes: [u8; 16],
    length: usize,
}

const FIRST: usize = 13;

impl Name {
    pub(crate) fn of(file: &File) -> Self {
        let mut bytes = [0; 16];
        bytes[0] = b'f';
        for (index, byte) in bytes[1..FIRST].iter_mut().enumerate() {
            *byte = b"0123456789abcdef"[(file.birth >> (44 - 4 * index)) as usize & 15];
        }
        if !file.renamed {
            return Self { bytes, length: FIRST };
        }
        let length = FIRST + RENAMED.len();
        bytes[FIRST..length].copy_from_slice(RENAMED.as_bytes());
        Self { bytes, length }
    }

    pub(crate) fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_with_nul(&self.bytes[..=self.length]).unwrap_or_default()
    }

    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }

    pub(crate) fn parse(name: &[u8]) -> Option<(u64, bool)> {
        let first = name.strip_suffix(RENAMED.as_bytes());
        let digits = first.unwrap_or(name).strip_prefix(b"f").filter(|digits| digits.len() == 12)?;
        let lower = digits.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let birth = lower.then(|| u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok())??;
        Some((birth, first.is_some()))
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
            for renamed in [false, true] {
                let file = File { birth, size: 0, directory: 0, renamed };
                let name = Name::of(&file);
                assert_eq!(name.as_str(), file.name());
                assert_eq!(name.as_c_str().to_bytes(), name.as_str().as_bytes());
                assert_eq!(Name::parse(name.as_str().as_bytes()), Some((birth, renamed)));
            }
        }
        assert_eq!(Name::parse(b"f00000000000G"), None);
        assert_eq!(Name::parse(b"f000000000001.x"), None);
        assert_eq!(Name::parse(b"lost+found"), None);
    }
}
