//! Studies: any text is a study that expands within its limits or an error, never a panic.
#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};

#[path = "../shared/mutator.rs"]
mod mutator;
#[path = "../shared/study.rs"]
mod study;
#[path = "../shared/toml_mutator.rs"]
mod toml_mutator;

fuzz_target!(|text: &str| {
    study::exercise(text);
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutator::join(data, size, max_size, seed, toml_mutator::mutate)
});
