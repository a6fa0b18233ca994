//! File content, derived only from seed and file, so that any block can be checked.

use crate::planner::mix;
use senesce_core::Seed;

const BLOCK_WORDS: usize = 512;
/// Bytes generated, written or compared at a time.
pub(crate) const CHUNK: usize = 128 << 10;

/// Content of all files with the same seed. Word `j` of block `b` of a file is `pool[j] ^ mix(key of the file + b)`: all
/// blocks differ and none compresses, at the cost of one exclusive or per word.
#[derive(Debug, Clone)]
pub(crate) struct Content {
    seed: u64,
    pool: Box<[u64; BLOCK_WORDS]>,
}

impl Content {
    pub(crate) fn new(seed: Seed) -> Self {
        let seed = seed.child("aging/content").0;
        let mut pool = Box::new([0; BLOCK_WORDS]);
        for (index, word) in pool.iter_mut().enumerate() {
            *word = mix(seed.wrapping_add((index as u64 + 1).wrapping_mul(GOLDEN)));
        }
        Self { seed, pool }
    }

    /// Fills `buffer` with content of the file born at `birth`, from block `first_block` (of 4 KiB).
    pub(crate) fn fill(&self, birth: u64, first_block: u64, buffer: &mut [u8]) {
        let key = mix(self.seed ^ birth.wrapping_mul(GOLDEN));
        for (block, bytes) in buffer.chunks_mut(BLOCK_WORDS * 8).enumerate() {
            let mask = mix(key.wrapping_add(first_block + block as u64));
            let mut pool = self.pool.iter();
            let mut words = bytes.chunks_exact_mut(8);
            for (bytes, word) in words.by_ref().zip(pool.by_ref()) {
                bytes.copy_from_slice(&(word ^ mask).to_le_bytes());
            }
            let rest = words.into_remainder();
            if let Some(word) = pool.next() {
                rest.copy_from_slice(&(word ^ mask).to_le_bytes()[..rest.len()]);
            }
        }
    }
}

/// 2^64 divided by the golden ratio (Steele, Lea, Flood 2014).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_available_from_any_block() {
        let content = Content::new(Seed(7));
        let mut whole = vec![0; 5 * 4096 + 13];
        content.fill(99, 0, &mut whole);
        let mut tail = vec![0; 2 * 4096 + 13];
        content.fill(99, 3, &mut tail);
        assert_eq!(whole[3 * 4096..], tail);
        let mut other = vec![0; 4096];
        content.fill(100, 0, &mut other);
        assert_ne!(whole[..4096], other);
        assert_ne!(whole[..4096], whole[4096..8192]);
    }
}
