//! The three text files of Geriatrix, separated by the unit separator.
#![no_main]

use libfuzzer_sys::fuzz_target;
use senesce_aging::profile::import_geriatrix;

fuzz_target!(|text: &str| {
    let mut parts = text.splitn(3, '\x1f');
    let [age, size, directory] = [parts.next(), parts.next(), parts.next()].map(Option::unwrap_or_default);
    let _ = import_geriatrix("fuzz", age, size, directory);
});
