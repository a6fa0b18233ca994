//! Pages of the kernel's trace ring buffer.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|page: &[u8]| senesce_volume::foreign::trace_page(page));
