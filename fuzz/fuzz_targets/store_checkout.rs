//! Stores of somebody else, checked out.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::cell::OnceCell;
use tempfile::TempDir;

#[path = "../shared/store_checkout.rs"]
mod store_checkout;

thread_local! {
    static SCENE: OnceCell<(TempDir, store_checkout::Scene)> = const { OnceCell::new() };
}

fuzz_target!(|bytes: &[u8]| {
    SCENE.with(|scene| {
        let made = || {
            let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory");
            let scene = store_checkout::Scene::new(folder.path());
            (folder, scene)
        };
        scene.get_or_init(made).1.exercise(bytes);
    });
});
