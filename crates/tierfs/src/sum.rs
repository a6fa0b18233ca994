//! CRC32C of a few words. A call of the general function costs more than such a checksum, so each kind of structure has its own
//! function if the processor has a CRC instruction.

#[inline]
pub(crate) fn of_half(value: u32) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if instruction::exists() {
        // SAFETY: the processor has the instruction.
        return unsafe { instruction::of_half(value) };
    }
    library::of_half(value)
}

#[inline]
pub(crate) fn of_word(value: u64) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if instruction::exists() {
        // SAFETY: the processor has the instruction.
        return unsafe { instruction::of_word(value) };
    }
    library::of_word(value)
}

/// Returns the CRC of a word, 4 bytes and more words.
#[inline]
pub(crate) fn of_words<const COUNT: usize>(head: u64, low: u32, words: &[u64; COUNT]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if instruction::exists() {
        // SAFETY: the processor has the instruction.
        return unsafe { instruction::of_words(head, low, words) };
    }
    library::of_words(head, low, words)
}

#[inline]
pub(crate) fn of_bytes(head: u64, second: u64, tail: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if instruction::exists() {
        // SAFETY: the processor has the instruction.
        return unsafe { instruction::of_bytes(head, second, tail) };
    }
    library::of_bytes(head, second, tail)
}

pub(crate) const fn constant(value: u64, bits: u32) -> u32 {
    const REFLECTED: u32 = 0x82f6_3b78;
    let (mut sum, mut bit) = (u32::MAX, 0);
    while bit < bits {
        let differs = (sum ^ (value >> bit) as u32) & 1 == 1;
        sum = sum >> 1 ^ if differs { REFLECTED } else { 0 };
        bit += 1;
    }
    !sum
}

mod library {
    use crc32c::{crc32c, crc32c_append};

    pub(crate) fn of_half(value: u32) -> u32 {
        crc32c(&value.to_le_bytes())
    }

    pub(crate) fn of_word(value: u64) -> u32 {
        crc32c(&value.to_le_bytes())
    }

    pub(crate) fn of_words<const COUNT: usize>(head: u64, low: u32, words: &[u64; COUNT]) -> u32 {
        let sum = crc32c_append(of_word(head), &low.to_le_bytes());
        words.iter().fold(sum, |sum, word| crc32c_append(sum, &word.to_le_bytes()))
    }

    pub(crate) fn of_bytes(head: u64, second: u64, tail: &[u8]) -> u32 {
        crc32c_append(crc32c_append(of_word(head), &second.to_le_bytes()), tail)
    }
}

#[cfg(target_arch = "x86_64")]
mod instruction {
    use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u32, _mm_crc32_u64};

    const BEGIN: u64 = u32::MAX as u64;

    #[inline]
    pub(crate) fn exists() -> bool {
        std::arch::is_x86_feature_detected!("sse4.2")
    }

    #[target_feature(enable = "sse4.2")]
    pub(crate) fn of_half(value: u32) -> u32 {
        !_mm_crc32_u32(u32::MAX, value)
    }

    #[target_feature(enable = "sse4.2")]
    pub(crate) fn of_word(value: u64) -> u32 {
        !(_mm_crc32_u64(BEGIN, value) as u32)
    }

    #[target_feature(enable = "sse4.2")]
    pub(crate) fn of_words<const COUNT: usize>(head: u64, low: u32, words: &[u64; COUNT]) -> u32 {
        let sum = u64::from(_mm_crc32_u32(_mm_crc32_u64(BEGIN, head) as u32, low));
        !(words.iter().fold(sum, |sum, word| _mm_crc32_u64(sum, *word)) as u32)
    }

    #[target_feature(enable = "sse4.2")]
    pub(crate) fn of_bytes(head: u64, second: u64, tail: &[u8]) -> u32 {
        let mut sum = _mm_crc32_u64(_mm_crc32_u64(BEGIN, head), second);
        let (words, rest) = tail.as_chunks::<8>();
        for word in words {
            sum = _mm_crc32_u64(sum, u64::from_le_bytes(*word));
        }
        !rest.iter().fold(sum as u32, |sum, byte| _mm_crc32_u8(sum, *byte))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn implementations_agree(
            head in any::<u64>(), low in any::<u32>(), words in any::<[u64; 7]>(),
            tail in proptest::collection::vec(any::<u8>(), 0..40)
        ) {
            prop_assert_eq!(of_half(low), library::of_half(low));
            prop_assert_eq!(of_word(head), library::of_word(head));
            prop_assert_eq!(of_words(head, low, &words), library::of_words(head, low, &words));
            prop_assert_eq!(of_words(head, low, &[]), library::of_words(head, low, &[]));
            prop_assert_eq!(of_bytes(head, words[0], &tail), library::of_bytes(head, words[0], &tail));
            prop_assert_eq!(of_half(low), constant(u64::from(low), 32));
            prop_assert_eq!(of_word(head), constant(head, 64));
        }
    }

    #[test]
    fn sum_matches_rfc_3720() {
        // Section B.4: 32 bytes of zeros.
        assert_eq!(of_bytes(0, 0, &[0; 16]), 0x8a91_36aa);
    }
}
