//! Device files: whatever is accepted must give finite times.
#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use senesce_devmodel::DeviceModel;

#[path = "../shared/mutator.rs"]
mod mutator;
#[path = "../shared/toml_mutator.rs"]
mod toml_mutator;

fuzz_target!(|text: &str| {
    if let Ok(model) = DeviceModel::from_toml("fuzz", text) {
        assert!(model.exercise().is_ok_and(f64::is_finite));
    }
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutator::join(data, size, max_size, seed, toml_mutator::mutate)
});
