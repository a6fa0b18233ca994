#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| senesce_volume::foreign::image_pack(bytes));
