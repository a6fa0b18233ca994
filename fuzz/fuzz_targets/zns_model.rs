//! Models of drives: any text is a drive that can be simulated or an error with its place, never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use senesce_zoned::sim::model::Model;
use senesce_zoned::sim::{SimDevice, SimOptions};

fuzz_target!(|data: &[u8]| {
    if let Ok(model) = Model::parse(&String::from_utf8_lossy(data)) {
        drop(SimDevice::new(&model, SimOptions::default(), senesce_core::Seed(0)));
    }
});
