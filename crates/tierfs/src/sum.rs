//! CRC32C of what is a few words long. A call of the general function costs more than such a sum, so where the processor has an
//! instruction for a word, its caller's words are summed in one function.

use crc32c::{crc32c, crc32c_append};

/// What is summed, in this order; all little-endian.
#[derive(Clone, Copy)]
struct Parts<'a> {
    head: Option<u64>,
    low: Option<u32>,
    words: &'a [u64],
    tail: &'a [u8],
}

/// The sum of 4 bytes.
#[inline]
pub fn of_half(value: u32) -> u32 {
    sum(Parts { head: None, low: Some(value), words: &[], tail: &[] })
}

/// The sum of a word.
#[inline]
pub fn of_word(value: u64) -> u32 {
    sum(Parts { head: Some(value), low: None, words: &[], tail: &[] })
}

/// The sum of a word, 4 bytes and more words.
#[inline]
pub fn of_words(head: u64, low: u32, words: &[u64]) -> u32 {
    sum(Parts { head: Some(head), low: Some(low), words, tail: &[] })
}

/// The sum of two words and bytes.
#[inline]
pub fn of_bytes(head: u64, second: u64, tail: &[u8]) -> u32 {
    sum(Parts { head: Some(head), low: None, words: &[second], tail })
}

#[inline]
fn sum(parts: Parts<'_>) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has the instruction.
        return unsafe { by_instruction(parts) };
    }
    by_library(parts)
}

fn by_library(parts: Parts<'_>) -> u32 {
    let mut sum = parts.head.map_or(0, |head| crc32c(&head.to_le_bytes()));
    sum = parts.low.map_or(sum, |low| crc32c_append(sum, &low.to_le_bytes()));
    sum = parts.words.iter().fold(sum, |sum, word| crc32c_append(sum, &word.to_le_bytes()));
    crc32c_append(sum, parts.tail)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn by_instruction(parts: Parts<'_>) -> u32 {
    use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u32, _mm_crc32_u64};
    let mut sum = u64::from(u32::MAX);
    if let Some(head) = parts.head {
        sum = _mm_crc32_u64(sum, head);
    }
    if let Some(low) = parts.low {
        sum = u64::from(_mm_crc32_u32(sum as u32, low));
    }
    for word in parts.words {
        sum = _mm_crc32_u64(sum, *word);
    }
    let (words, rest) = parts.tail.as_chunks::<8>();
    for word in words {
        sum = _mm_crc32_u64(sum, u64::from_le_bytes(*word));
    }
    !rest.iter().fold(sum as u32, |sum, byte| _mm_crc32_u8(sum, *byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn both_ways_agree(
            head in any::<Option<u64>>(), low in any::<Option<u32>>(),
            words in proptest::collection::vec(any::<u64>(), 0..9), tail in proptest::collection::vec(any::<u8>(), 0..40)
        ) {
            let parts = Parts { head, low, words: &words, tail: &tail };
            prop_assert_eq!(sum(parts), by_library(parts));
        }
    }

    #[test]
    fn the_sum_is_that_of_rfc_3720() {
        // Section B.4: 32 bytes of zeros.
        assert_eq!(of_words(0, 0, &[0, 0]), crc32c(&[0; 28]));
        assert_eq!(of_bytes(0, 0, &[0; 16]), 0x8a91_36aa);
    }
}
