//! Models of drives: any text is a drive that can be simulated or an error with its place, never a panic.
#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use senesce_zoned::sim::model::Model;
use senesce_zoned::sim::{SimDevice, SimOptions};

#[path = "../shared/mutator.rs"]
mod mutator;
#[path = "../shared/toml_mutator.rs"]
mod toml_mutator;

fuzz_target!(|data: &[u8]| {
    if let Ok(model) = Model::parse(&String::from_utf8_lossy(data)) {
        drop(SimDevice::new(&model, SimOptions::default(), senesce_core::Seed(0)));
    }
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutator::join(data, size, max_size, seed, toml_mutator::mutate)
});
