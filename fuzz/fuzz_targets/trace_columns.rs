//! Block traces in columns: the pattern is the first line.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| senesce_volume::foreign::trace_columns(bytes));
