//! Names of objects: the hash of their content.

use serde::{Deserialize, Serialize};
use sha1::{Digest, Sha1};
use std::fmt;
use std::str::FromStr;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HashAlgorithm {
    /// SHA-1, 20 bytes, as in git and the DMV study. Not collision-resistant.
    Sha1,
    /// BLAKE3, 32 bytes.
    Blake3,
}

impl HashAlgorithm {
    pub(crate) fn name(self, data: &[u8]) -> ObjectId {
        match self {
            Self::Sha1 => ObjectId::new(&Sha1::digest(data)),
            Self::Blake3 => ObjectId::new(blake3::hash(data).as_bytes()),
        }
    }

    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Blake3 => 32,
        }
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Sha1 => "sha1",
            Self::Blake3 => "blake3",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId {
    length: u8,
    bytes: [u8; 32],
}

impl ObjectId {
    /// Keeps at most 32 bytes of the name and ignores the rest.
    pub(crate) fn new(name: &[u8]) -> Self {
        let length = name.len().min(32);
        let mut bytes = [0; 32];
        bytes[..length].copy_from_slice(&name[..length]);
        Self { length: length as u8, bytes }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// Returns the bytes of the name, padded with zeros to 32.
    pub(crate) fn padded(&self) -> &[u8; 32] {
        &self.bytes
    }

    pub(crate) fn hex(&self) -> String {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let digit = |nibble: u8| DIGITS[usize::from(nibble)] as char;
        self.as_bytes().iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.hex())
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.hex())
    }
}

impl FromStr for ObjectId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is not an object name");
        if !matches!(text.len(), 40 | 64) || !text.is_ascii() {
            return Err(wrong());
        }
        let bytes: Option<Vec<u8>> =
            (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect();
        bytes.map(|bytes| Self::new(&bytes)).filter(|id| id.hex() == text).ok_or_else(wrong)
    }
}

impl Serialize for ObjectId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.hex())
    }
}

impl<'de> Deserialize<'de> for ObjectId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_known_hashes() {
        assert_eq!(HashAlgorithm::Sha1.name(b"").hex(), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
        assert!(HashAlgorithm::Blake3.name(b"").hex().starts_with("af1349b9f5f9a1a6"));
        let id = HashAlgorithm::Blake3.name(b"x");
        assert_eq!(id.hex().parse(), Ok(id));
        for text in ["", "da", "+a39a3ee5e6b4b0d3255bfef95601890afd80709", "DA39A3EE5E6B4B0D3255BFEF95601890AFD80709"] {
            assert!(text.parse::<ObjectId>().is_err(), "{text}");
        }
    }
}
