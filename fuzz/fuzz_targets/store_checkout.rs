//! Stores of somebody else, checked out.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::cell::OnceCell;
use tempfile::TempDir;

#[path = "../shared/store_checkout.rs"]
mod store_checkout;

thread_local! {
    static ROOM: OnceCell<(TempDir, store_checkout::Room)> = const { OnceCell::new() };
}

fuzz_target!(|bytes: &[u8]| {
    ROOM.with(|room| {
        let made = || {
            let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory");
            let room = store_checkout::Room::new(folder.path());
            (folder, room)
        };
        room.get_or_init(made).1.exercise(bytes);
    });
});
