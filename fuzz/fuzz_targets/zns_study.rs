//! The text files of the zoned study: operation times and bandwidth logs.
#![no_main]

use libfuzzer_sys::fuzz_target;
use senesce_exp_zns::zns_study::{bandwidth_log, operations};

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    drop((operations(&text), bandwidth_log(&text)));
});
