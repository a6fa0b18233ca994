//! Permanent settings of a store, in `store.json` with a checksum.

use crate::chunker::ChunkerSpec;
use crate::error::{StoreError, io};
use crate::object_id::HashAlgorithm;
use crate::scheme::Scheme;
use senesce_core::input;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreSettings {
    pub hash: HashAlgorithm,
    pub chunker: ChunkerSpec,
    /// Location of loose objects.
    pub scheme: Scheme,
}

impl fmt::Display for StoreSettings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "hash {}, chunker {}, scheme {}", self.hash.word(), self.chunker, self.scheme)
    }
}

impl Default for StoreSettings {
    fn default() -> Self {
        Self { hash: HashAlgorithm::Blake3, chunker: ChunkerSpec::FastCdc { average: 16 << 10 }, scheme: Scheme::GIT }
    }
}

/// Settings requested by the user; the others are the existing store's, or the defaults for a new one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoreChoice {
    pub hash: Option<HashAlgorithm>,
    pub chunker: Option<ChunkerSpec>,
    pub scheme: Option<Scheme>,
}

impl StoreChoice {
    pub(super) fn over(self, base: StoreSettings) -> StoreSettings {
        StoreSettings {
            hash: self.hash.unwrap_or(base.hash),
            chunker: self.chunker.unwrap_or(base.chunker),
            scheme: self.scheme.unwrap_or(base.scheme),
        }
    }
}

pub(super) const FILE: &str = "store.json";
const FORMAT: u32 = 2;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoreFile {
    senesce_store: u32,
    hash: HashAlgorithm,
    chunker: ChunkerSpec,
    scheme: Scheme,
    sum: String,
}

/// Common part of all formats of `store.json`.
#[derive(Deserialize)]
struct AnyFormat {
    senesce_store: u32,
}

pub(super) fn encode(settings: &StoreSettings) -> String {
    let StoreSettings { hash, chunker, scheme } = *settings;
    let sum = blake3::hash(format!("format {FORMAT}, {settings}").as_bytes()).to_hex()[..16].to_string();
    format!("{:#}\n", serde_json::json!(StoreFile { senesce_store: FORMAT, hash, chunker, scheme, sum }))
}

/// Reads `store.json` of the store at `path`. Accepts only the exact bytes that [`encode`] writes.
pub(super) fn read(path: &Path) -> Result<StoreSettings, StoreError> {
    let place = path.join(FILE);
    let text = match input::regular(&place) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(StoreError::NotAStore { path: path.into(), problem: format!("it has no {FILE}") });
        }
        other => other.map_err(io("read", &place))?,
    };
    let found = serde_json::from_slice(&text).map_or(FORMAT, |file: AnyFormat| file.senesce_store);
    if found != FORMAT {
        return Err(StoreError::OtherFormat { path: path.into(), found, known: FORMAT });
    }
    let settings = serde_json::from_slice(&text).ok().map(|StoreFile { hash, chunker, scheme, .. }| StoreSettings {
        hash,
        chunker,
        scheme,
    });
    let intact = settings.filter(|settings| encode(settings).as_bytes() == text);
    intact.ok_or_else(|| StoreError::Damaged { path: path.into(), problem: format!("the checksum of {FILE} is wrong") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flipped_bits_of_the_settings_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join(FILE);
        for chunker in ["fastcdc:16K", "fixed:4K", "rolling-sum:4096:1024:reset"] {
            let settings = StoreSettings { chunker: chunker.parse().unwrap(), ..StoreSettings::default() };
            let whole = encode(&settings).into_bytes();
            std::fs::write(&place, &whole).unwrap();
            assert_eq!(read(directory.path()).unwrap(), settings);
            for bit in 0..whole.len() * 8 {
                let mut text = whole.clone();
                text[bit / 8] ^= 1 << (bit % 8);
                std::fs::write(&place, &text).unwrap();
                assert!(read(directory.path()).is_err(), "bit {bit}: {}", String::from_utf8_lossy(&text));
            }
        }
    }

    #[test]
    fn earlier_format_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let old = r#"{"senesce_store":1,"hash":"blake3","chunker":"fastcdc:16384","scheme":"2x1"}"#;
        std::fs::write(directory.path().join(FILE), old).unwrap();
        assert!(matches!(read(directory.path()), Err(StoreError::OtherFormat { found: 1, .. })));
        std::fs::write(directory.path().join(FILE), "").unwrap();
        assert!(matches!(read(directory.path()), Err(StoreError::Damaged { .. })));
        std::fs::remove_file(directory.path().join(FILE)).unwrap();
        assert!(matches!(read(directory.path()), Err(StoreError::NotAStore { .. })));
    }
}
