//! Profiles in TOML: what is accepted has a finite mean size and survives being written and read again.
#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use senesce_aging::Profile;

#[path = "../shared/mutator.rs"]
mod mutator;
#[path = "../shared/toml_mutator.rs"]
mod toml_mutator;

fuzz_target!(|text: &str| {
    if let Ok(profile) = Profile::parse("fuzz", text) {
        assert!(profile.mean_size().is_finite());
        assert!(Profile::parse("again", &profile.to_toml()).is_ok());
    }
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutator::join(data, size, max_size, seed, toml_mutator::mutate)
});
