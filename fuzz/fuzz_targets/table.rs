//! Tables of results: the map is the first line.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    if let Some((map, table)) = text.split_once('\n') {
        senesce_runs::import::results::table::check(map, table);
    }
});
