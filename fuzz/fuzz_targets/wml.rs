//! The workload language: any text is a workload or an error with its place, never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::collections::BTreeMap;

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    match senesce_workload::Workload::parse("fuzz.f", &text, &BTreeMap::new()) {
        Ok(workload) => drop(workload.thread_count()),
        Err(error) => drop(error.to_string()),
    }
});
