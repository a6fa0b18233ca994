//! Splits streams into chunks.

pub(crate) mod fast_cdc;
pub(crate) mod fixed;
pub mod law;
pub(crate) mod rolling_sum;
pub(crate) mod spec;
pub mod study;

pub(crate) use fast_cdc::FastCdc;
pub(crate) use fixed::Fixed;
pub(crate) use rolling_sum::RollingSum;
pub use spec::ChunkerSpec;

/// Splits one stream; state may persist across cuts.
pub trait Chunker: Send {
    /// Returns the length of the next chunk, or `None` if more bytes are needed.
    ///
    /// `pending` holds the bytes since the last cut and only grows between two cuts. With `at_end` no more bytes follow, and any
    /// pending bytes are a chunk. Never returns `Some(0)`.
    fn cut(&mut self, pending: &[u8], at_end: bool) -> Option<usize>;

    /// Returns how many chunks of which size come first if the next `length` bytes are zeros. It is called between two
    /// cuts. `None`: use [`cut`](Self::cut).
    fn zeros(&mut self, length: u64) -> Option<ZeroChunks>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ZeroChunks {
    pub bytes: usize,
    /// At least 1.
    pub count: u64,
}

impl ZeroChunks {
    fn new(bytes: usize, count: u64) -> Option<Self> {
        (count > 0).then_some(Self { bytes, count })
    }
}

pub fn lengths(chunker: &mut dyn Chunker, data: &[u8]) -> Vec<usize> {
    let mut lengths = Vec::new();
    let mut rest = data;
    while let Some(length) = chunker.cut(rest, true) {
        lengths.push(length);
        rest = &rest[length..];
    }
    lengths
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Splits runs of bytes, using the shortcut for zeros if there is one.
    fn lengths_by_runs(spec: &ChunkerSpec, data: &[u8]) -> Vec<usize> {
        let mut chunker = spec.build();
        let (mut lengths, mut rest) = (Vec::new(), data);
        loop {
            let zeros = rest.iter().take_while(|byte| **byte == 0).count();
            if let Some(ZeroChunks { bytes, count }) = chunker.zeros(zeros as u64) {
                lengths.extend(std::iter::repeat_n(bytes, count as usize));
                rest = &rest[bytes * count as usize..];
            }
            let Some(length) = chunker.cut(rest, true) else { return lengths };
            lengths.push(length);
            rest = &rest[length..];
        }
    }

    proptest! {
        #[test]
        fn zeros_are_cut_like_other_bytes(
            parts in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..3000), 0usize..40_000), 1..5),
            kind in 0usize..6,
        ) {
            let specs = ["fixed:1000", "fastcdc:1K", "fastcdc:4K", "rolling-sum:300:7", "rolling-sum:4096:1024:reset", "rolling-sum:1:3:reset"];
            let spec: ChunkerSpec = specs[kind].parse().unwrap();
            let data: Vec<u8> = parts.into_iter().flat_map(|(mut part, zeros)| {
                part.resize(part.len() + zeros, 0);
                part
            }).collect();
            prop_assert_eq!(lengths_by_runs(&spec, &data), lengths(spec.build().as_mut(), &data));
        }
    }

    #[test]
    fn zeros_of_a_whole_disk_are_cut_without_reading() {
        for (spec, bytes) in [("fixed:4K", 4096), ("fastcdc:16K", 65_536), ("rolling-sum:64:7:reset", 64)] {
            let found = spec.parse::<ChunkerSpec>().unwrap().build().zeros(1 << 60).unwrap();
            assert_eq!(found.bytes, bytes, "{spec}");
            assert!((1 << 60) - found.bytes as u64 * found.count < bytes as u64, "{spec}");
        }
    }
}
