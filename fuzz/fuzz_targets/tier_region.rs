//! Regions of the tier file system with changed bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../shared/tier_region.rs"]
mod tier_region;

fuzz_target!(|patches: &[u8]| {
    tier_region::exercise(patches);
});
