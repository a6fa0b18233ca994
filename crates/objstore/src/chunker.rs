//! Where a stream of bytes is cut into chunks.

pub mod fast_cdc;
pub mod fixed;
pub mod law;
pub mod rolling_sum;
pub mod spec;
pub mod study;

pub use fast_cdc::FastCdc;
pub use fixed::Fixed;
pub use rolling_sum::RollingSum;
pub use spec::{ChunkerError, ChunkerSpec};

/// Cuts a stream. State may reach over cuts, so one value serves one stream.
pub trait Chunker: Send {
    /// The length of the next chunk, or `None` when more bytes are needed to know.
    ///
    /// `pending` holds the bytes since the last cut and, between two cuts, only ever grows. With `at_end` no more bytes
    /// follow, and any pending bytes are a chunk. Never returns `Some(0)`.
    fn cut(&mut self, pending: &[u8], at_end: bool) -> Option<usize>;
}

/// The chunk lengths of a whole slice.
pub fn lengths(chunker: &mut dyn Chunker, data: &[u8]) -> Vec<usize> {
    let mut lengths = Vec::new();
    let mut rest = data;
    while let Some(length) = chunker.cut(rest, true) {
        lengths.push(length);
        rest = &rest[length..];
    }
    lengths
}
