//! What db_bench prints: any text is read or left out, never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| senesce_exp_zns::zns_rocksdb::check_output(&String::from_utf8_lossy(data)));
