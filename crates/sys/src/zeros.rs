//! Buffers of zeros: unwritten blocks and holes.

/// Returns whether all bytes are zero.
pub fn is_zero(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<16>();
    words.iter().all(|word| u128::from_ne_bytes(*word) == 0) && rest.iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_byte_anywhere_is_found() {
        for length in [0, 1, 15, 16, 17, 4096, 4099] {
            let mut bytes = vec![0; length];
            assert!(is_zero(&bytes));
            for place in 0..length {
                bytes[place] = 0x80;
                assert!(!is_zero(&bytes), "{place} of {length}");
                bytes[place] = 0;
            }
        }
    }
}
