//! Profiles in TOML: what is accepted has a finite mean size and survives being written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use senesce_aging::Profile;

fuzz_target!(|text: &str| {
    if let Ok(profile) = Profile::parse("fuzz", text) {
        assert!(profile.mean_size().is_finite());
        assert!(Profile::parse("again", &profile.to_toml()).is_ok());
    }
});
