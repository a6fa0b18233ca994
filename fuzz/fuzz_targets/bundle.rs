//! Bundles of run directories of somebody else.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::cell::OnceCell;
use tempfile::TempDir;

#[path = "../shared/bundle.rs"]
mod bundle;
// What only the pages need is not used here.
#[allow(dead_code)]
#[path = "../shared/page.rs"]
mod page;

thread_local! {
    static ROOM: OnceCell<TempDir> = const { OnceCell::new() };
}

fuzz_target!(|bytes: &[u8]| {
    ROOM.with(|room| {
        let made = || tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory");
        bundle::exercise(room.get_or_init(made).path(), bytes);
    });
});
