#![no_main]

use libfuzzer_sys::fuzz_target;
use senesce_objstore::{HashAlgorithm, store};

fuzz_target!(|bytes: &[u8]| {
    for algorithm in [HashAlgorithm::Sha1, HashAlgorithm::Blake3] {
        let (entries, problem) = store::pack::decode(bytes, algorithm);
        for entry in entries {
            let end = entry.offset.checked_add(entry.length.into());
            assert!(end.is_some_and(|end| end <= bytes.len() as u64), "{problem:?}");
        }
    }
});
