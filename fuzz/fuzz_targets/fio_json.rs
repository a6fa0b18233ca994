//! Results of fio: any text is read or refused with words, never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| drop(senesce_runs::import::fio::check(&String::from_utf8_lossy(data))));
