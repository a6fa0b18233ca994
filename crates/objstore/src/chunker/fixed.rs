use super::{Chunker, ZeroChunks};

/// Cuts every `size` bytes.
#[derive(Debug, Clone)]
pub(crate) struct Fixed {
    size: usize,
}

impl Fixed {
    /// Treats a `size` of 0 as 1.
    pub(crate) fn new(size: usize) -> Self {
        Self { size: size.max(1) }
    }
}

impl Chunker for Fixed {
    fn cut(&mut self, pending: &[u8], at_end: bool) -> Option<usize> {
        if pending.len() >= self.size {
            Some(self.size)
        } else {
            (at_end && !pending.is_empty()).then_some(pending.len())
        }
    }

    fn zeros(&mut self, length: u64) -> Option<ZeroChunks> {
        ZeroChunks::new(self.size, length / self.size as u64)
    }
}
