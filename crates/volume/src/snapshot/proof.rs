//! Verification of a restore: compares the content with the snapshot's digests and restores the differences.

use super::digests::Digests;
use super::medium::Medium;
use super::restore;
use crate::error::TargetError;
use crate::sparse::{NamedFile, Range, merge};
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// Up to this size all data is compared; beyond it only a part, unless all is requested.
const LIMIT_BYTES: u64 = 16 << 30;

/// One chunk in this number is compared beyond the limit, outside the trace.
const SAMPLE: u64 = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Verify {
    /// Everything that is allocated, up to 16 GiB; beyond that the writes of the command and one percent of the rest.
    #[default]
    Auto,
    Full,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// Everything that is allocated in the target or in the snapshot; the rest reads as zero in both.
    All,
    /// Writes according to the trace, and one percent of the rest.
    WrittenAndSample,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Verification {
    pub scope: Scope,
    pub compared_bytes: u64,
    /// Bytes, in chunks of 1 MiB, that differed and were restored from the snapshot.
    pub differing_bytes: u64,
    /// Whether all compared data now equals the snapshot. `false`: the snapshot itself is damaged.
    pub equal: bool,
    pub seconds: f64,
}

#[derive(Debug)]
pub(super) struct Proof {
    pub verification: Verification,
    pub restored: Vec<Range>,
    pub restore_seconds: f64,
}

/// Compares with the digests and restores the differences. `written`: ranges of a valid trace that were restored
/// before.
pub(super) fn prove(
    medium: &Medium,
    snapshot: NamedFile,
    digests: &Digests,
    written: Option<&[Range]>,
    verify: Verify,
) -> Result<Proof, TargetError> {
    let begin = Instant::now();
    let used = digests.used(medium.named())?;
    let (mut scope, mut chunks) = choose(digests, &used, written, verify);
    let mut differing = digests.differing(medium.named(), &chunks)?;
    if !differing.is_empty() && scope == Scope::WrittenAndSample {
        // The trace missed a write, so it proves nothing.
        (scope, chunks) = (Scope::All, used);
        differing = digests.differing(medium.named(), &chunks)?;
    }
    let (compared, restoring) = (begin.elapsed(), Instant::now());
    let restored = merge(differing.iter().map(|chunk| digests.range(*chunk)).collect());
    if !restored.is_empty() {
        restore::ranges(medium, snapshot, &restored)?;
    }
    let (restore_seconds, again) = (restoring.elapsed().as_secs_f64(), Instant::now());
    let equal = digests.differing(medium.named(), &differing)?.is_empty();
    let verification = Verification {
        scope,
        compared_bytes: digests.bytes(&chunks),
        differing_bytes: digests.bytes(&differing),
        equal,
        seconds: (compared + again.elapsed()).as_secs_f64(),
    };
    Ok(Proof { verification, restored, restore_seconds })
}

fn choose(digests: &Digests, used: &[u64], written: Option<&[Range]>, verify: Verify) -> (Scope, Vec<u64>) {
    let Some(written) = written.filter(|_| verify == Verify::Auto && digests.bytes(used) > LIMIT_BYTES) else {
        return (Scope::All, used.to_vec());
    };
    // A new sample every time, so that later restores find what one sample misses.
    let salt = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_nanos();
    let mut chunks = sample(used, salt);
    chunks.extend(digests.chunks_of(written));
    chunks.sort_unstable();
    chunks.dedup();
    (Scope::WrittenAndSample, chunks)
}

fn sample(chunks: &[u64], salt: u128) -> Vec<u64> {
    let chosen = |chunk: u64| {
        let digest = blake3::Hasher::new().update(&salt.to_le_bytes()).update(&chunk.to_le_bytes()).finalize();
        digest.as_bytes().iter().take(8).fold(0u64, |sum, byte| sum << 8 | u64::from(*byte)) % SAMPLE == 0
    };
    let mut found: Vec<u64> = chunks.iter().copied().filter(|chunk| chosen(*chunk)).collect();
    if found.is_empty() {
        found.extend(chunks.first());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_about_one_percent() {
        let chunks: Vec<u64> = (0..100_000).collect();
        for salt in 0..5 {
            let count = sample(&chunks, salt).len();
            assert!((800..1200).contains(&count), "{count}");
        }
        assert_ne!(sample(&chunks, 1), sample(&chunks, 2));
        assert_eq!(sample(&[77], 3), [77]);
    }
}
