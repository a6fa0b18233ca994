//! Joins a mutator of texts to libFuzzer: sometimes, and where a text cannot be changed by its words, bytes are changed.

use libfuzzer_sys::fuzzer_mutate;

/// Changes `data[..size]`; returns the new size.
pub fn join(
    data: &mut [u8],
    size: usize,
    max_size: usize,
    seed: u32,
    mutate: impl Fn(&str, u32) -> Option<String>,
) -> usize {
    let by_words = || if seed % 8 == 0 { None } else { mutate(std::str::from_utf8(&data[..size]).ok()?, seed / 8) };
    match by_words().filter(|text| text.len() <= max_size) {
        Some(text) => {
            data[..text.len()].copy_from_slice(text.as_bytes());
            text.len()
        }
        None => fuzzer_mutate(data, size, max_size),
    }
}
