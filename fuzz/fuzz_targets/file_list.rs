//! Lists of files to capture a profile from: both passes agree on what is readable.
#![no_main]

use libfuzzer_sys::fuzz_target;
use senesce_aging::capture::list;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(newest) = list::newest(bytes) {
        let tally = list::tally(bytes, newest).unwrap();
        let _ = tally.profile("fuzz", "", None, 100.0);
    }
});
