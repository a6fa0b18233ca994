//! Measures the deduplication of a version history by a chunker.

use crate::chunker::ChunkerSpec;
use crate::object_id::{HashAlgorithm, ObjectId};
use senesce_sys::clock::thread_cpu_time;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// Counts over all versions so far.
#[derive(Debug)]
pub struct Deduplicator {
    spec: ChunkerSpec,
    seen: HashSet<ObjectId>,
    totals: Totals,
}

/// Result of a chunker on a history.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Bytes of all files of all versions.
    pub bytes: u64,
    /// Bytes of unique chunks.
    pub unique_bytes: u64,
    /// Chunks in all versions.
    pub chunks: u64,
    /// Number of unique chunks.
    pub unique_chunks: u64,
    /// CPU time of chunking only.
    pub cutting_seconds: f64,
}

impl Deduplicator {
    pub fn new(spec: ChunkerSpec) -> Self {
        Self { spec, seen: HashSet::new(), totals: Totals::default() }
    }

    pub fn add(&mut self, data: &[u8]) {
        let begun = thread_cpu_time();
        let lengths = crate::chunker::lengths(self.spec.build().as_mut(), data);
        self.totals.cutting_seconds += (thread_cpu_time() - begun).as_secs_f64();
        let mut rest = data;
        for length in lengths {
            let (chunk, after) = rest.split_at(length);
            rest = after;
            self.totals.chunks += 1;
            if self.seen.insert(HashAlgorithm::Blake3.name(chunk)) {
                self.totals.unique_chunks += 1;
                self.totals.unique_bytes += length as u64;
            }
        }
        self.totals.bytes += data.len() as u64;
    }

    pub fn totals(&self) -> Totals {
        self.totals
    }
}

impl Totals {
    /// Returns the bytes of all versions divided by the unique bytes.
    pub fn ratio(&self) -> f64 {
        self.bytes as f64 / self.unique_bytes.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_costs_nothing_and_an_inserted_byte_little() {
        let mut data = vec![0; 300_000];
        crate::chunker::study::XorShift::study().fill(&mut data);
        for (spec, most_kept) in [("fastcdc:4K", 1.1), ("fixed:4K", 2.01)] {
            let mut counts = Deduplicator::new(spec.parse().unwrap());
            counts.add(&data);
            counts.add(&data);
            assert_eq!(counts.totals().unique_bytes, 300_000);
            let mut shifted = vec![1];
            shifted.extend_from_slice(&data);
            counts.add(&shifted);
            let kept = counts.totals().unique_bytes as f64 / 300_000.0;
            assert!(kept <= most_kept && (spec.starts_with("fixed") == (kept > 1.9)), "{spec}: {kept}");
        }
    }
}
