//! Job files: any text is a job that fits the drive or an error with its place, never a panic.
#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use senesce_zoned::job::Job;
use senesce_zoned::run::{DeviceName, plan_job};

#[path = "../shared/mutator.rs"]
mod mutator;
#[path = "../shared/toml_mutator.rs"]
mod toml_mutator;

fuzz_target!(|data: &[u8]| {
    if let Ok(job) = Job::parse(&String::from_utf8_lossy(data)) {
        drop(plan_job(&DeviceName::Sim("zn540".into()), &job));
    }
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutator::join(data, size, max_size, seed, toml_mutator::mutate)
});
