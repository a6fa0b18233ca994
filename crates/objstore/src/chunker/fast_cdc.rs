//! FastCDC as published in 2020 (Xia et al., IEEE TPDS 31(9)): gear hash, normalised chunking, two bytes per step.

use super::{Chunker, ZeroChunks};
use fastcdc::v2020;

/// FastCDC with the usual limits: a quarter to four times the requested mean.
#[derive(Debug, Clone)]
pub(crate) struct FastCdc {
    minimum: usize,
    average: usize,
    maximum: usize,
    mask_small: u64,
    mask_large: u64,
    /// Length of a chunk of zeros, once one was cut.
    zero_chunk: Option<usize>,
}

impl FastCdc {
    /// Chunks of about `average` bytes, within [`FastCdc::AVERAGES`].
    pub(crate) fn new(average: usize) -> Self {
        let (mask_small, mask_large) = v2020::select_masks(average, v2020::Normalization::Level1);
        Self { minimum: average / 4, average, maximum: average * 4, mask_small, mask_large, zero_chunk: None }
    }

    pub(crate) const AVERAGES: std::ops::RangeInclusive<usize> = 1024..=1 << 22;
}

impl Chunker for FastCdc {
    fn cut(&mut self, pending: &[u8], at_end: bool) -> Option<usize> {
        if pending.is_empty() || (pending.len() < self.maximum && !at_end) {
            return None;
        }
        let window = &pending[..pending.len().min(self.maximum)];
        let (_, length) = v2020::cut(
            window,
            self.minimum,
            self.average,
            self.maximum,
            self.mask_small,
            self.mask_large,
            self.mask_small << 1,
            self.mask_large << 1,
        );
        Some(length)
    }

    /// Repeats the first chunk of zeros, because a chunk depends only on its own bytes and on those up to the maximum
    /// length.
    fn zeros(&mut self, length: u64) -> Option<ZeroChunks> {
        let beyond = length.checked_sub(self.maximum as u64)?;
        let bytes = match self.zero_chunk {
            Some(bytes) => bytes,
            None => self.cut(&vec![0; self.maximum], false)?,
        };
        self.zero_chunk = Some(bytes);
        ZeroChunks::new(bytes, beyond / bytes as u64 + 1)
    }
}
