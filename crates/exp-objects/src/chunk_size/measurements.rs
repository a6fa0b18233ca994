//! Values of chunk-size: trials of the rolling sum with the study's number of chunks.

use super::Cell;
use super::analysis::law_mean;
use senesce_core::{Better, Measurement};
use senesce_objstore::ChunkerSpec;
use senesce_objstore::chunker::study;

pub(super) fn measurements<'a>(cells: impl Iterator<Item = &'a Cell>) -> Vec<Measurement> {
    cells.filter(|cell| cell.chunks == study::CHUNKS as u64).flat_map(of_cell).collect()
}

fn of_cell(cell: &Cell) -> Vec<Measurement> {
    let ChunkerSpec::RollingSum { window, divisor, reset } = cell.chunker else { return Vec::new() };
    let one = |metric: &str, unit: &str, value: f64| {
        let one = Measurement::new(metric, unit, Better::Neither, value).ok()?;
        Some(one.under("window", window.to_string()).under("reset", if reset { "yes" } else { "no" }))
    };
    let named = |metric: &str, value: f64| {
        let smaller = if f64::from(divisor) < window as f64 { "divisor" } else { "window" };
        let one = one(metric, "bytes", value)?.under("divisor", divisor.to_string());
        Some(one.under("chunker", cell.chunker.to_string()).under("smaller", smaller))
    };
    let divisor_of = |one: Measurement| one.under("divisor", divisor.to_string());
    let all = [
        cell.mean.and_then(|mean| named("mean_chunk_size", mean)),
        cell.sd.and_then(|sd| named("sd_chunk_size", sd)),
        named("window plus divisor", window as f64 + f64::from(divisor)),
        named("divisor", f64::from(divisor)),
        law_mean(cell).and_then(|mean| named("mean by the law", mean)),
        // Without the chunker as a condition, which would make each divisor a series of its own.
        cell.mean.and_then(|mean| one("mean chunk by divisor", "bytes", mean)).map(divisor_of),
        cell.differ.and_then(|count| one("chunks that differ", "chunks", count as f64)).map(divisor_of),
    ];
    all.into_iter().flatten().collect()
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
