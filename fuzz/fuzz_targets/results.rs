//! Results of hyperfine, IOR and mdtest: any text is read or refused with words, never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| senesce_runs::import::results::check(&String::from_utf8_lossy(data)));
