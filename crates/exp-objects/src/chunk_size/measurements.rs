//! Values of chunk-size: trials of the rolling sum with the study's number of chunks.

use super::Cell;
use super::analysis::{PublishedBounds, quantities};
use senesce_core::Measurement;
use senesce_objstore::ChunkerSpec;
use senesce_objstore::chunker::study;

pub(super) fn measurements<'a>(cells: impl Iterator<Item = &'a Cell>) -> Vec<Measurement> {
    let is_studied =
        |cell: &&Cell| cell.chunks == study::CHUNKS as u64 && matches!(cell.chunker, ChunkerSpec::RollingSum { .. });
    quantities(cells.filter(is_studied), &PublishedBounds::default()).measurements()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk_size::ChunkSize;
    use crate::chunk_size::tests::cell;
    use senesce_claims::{ClaimSet, untested};
    use senesce_runner::Run;

    #[test]
    fn every_claim_finds_its_values() {
        let set = ClaimSet::parse(ChunkSize::CLAIMS, ChunkSize::PUBLISHED).unwrap();
        let windows = [256, 4096, 32_768];
        let divisors = [256, 8192, 16_384, 32_768];
        let mut cells = Vec::new();
        for (window, divisor) in windows.iter().flat_map(|window| divisors.map(|divisor| (window, divisor))) {
            cells.extend(["", ":reset"].map(|reset| cell(&format!("rolling-sum:{window}:{divisor}{reset}"), 100)));
        }
        assert_eq!(untested(&set, &measurements(cells.iter())), Vec::<String>::new());
    }

    #[test]
    fn trials_of_other_lengths_are_not_compared_with_published_ones() {
        assert!(measurements([cell("rolling-sum:256:256", 1000)].iter()).is_empty());
    }
}
