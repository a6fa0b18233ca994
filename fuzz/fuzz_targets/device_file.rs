//! Device files: whatever is accepted must give finite times.
#![no_main]

use libfuzzer_sys::fuzz_target;
use senesce_devmodel::DeviceModel;

fuzz_target!(|text: &str| {
    if let Ok(model) = DeviceModel::from_toml("fuzz", text) {
        assert!(model.exercise().is_finite());
    }
});
