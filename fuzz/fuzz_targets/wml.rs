//! The workload language: any text is a workload or an error with its place, never a panic.
#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use std::collections::BTreeMap;

#[path = "../shared/mutator.rs"]
mod mutator;
#[path = "../shared/wml_mutator.rs"]
mod wml_mutator;

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    match senesce_workload::Workload::parse("fuzz.f", &text, &BTreeMap::new()) {
        Ok(workload) => drop(workload.thread_count()),
        Err(error) => drop(error.to_string()),
    }
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutator::join(data, size, max_size, seed, |text, seed| Some(wml_mutator::mutate(text, seed)))
});
