//! Words of somebody else in reports, drawings and tables.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../shared/page.rs"]
mod page;

fuzz_target!(|bytes: &[u8]| page::exercise(bytes));
