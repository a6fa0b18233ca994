#![no_main]

use libfuzzer_sys::fuzz_target;
use senesce_objstore::store;

fuzz_target!(|bytes: &[u8]| {
    for entry in store::snapshot::decode(1, bytes).entries {
        if let Some(path) = entry.safe_path() {
            assert!(path.is_relative());
        }
    }
});
