//! A store next to a directory that is committed to it.

use senesce_core::interrupt::Interrupt;
use senesce_core::progress::Silent;
use senesce_objstore::store::checkout::{CheckoutOptions, CheckoutReport, checkout};
use senesce_objstore::store::commit::{CommitOptions, CommitReport, commit};
use senesce_objstore::store::verify::{VerifyReport, verify};
use senesce_objstore::{HashAlgorithm, Layout, Store, StoreError, StoreSettings};
use std::fs;
use std::path::{Path, PathBuf};

pub const LAYOUTS: [Layout; 2] = [Layout::Loose, Layout::Pack];

/// In memory if possible, because the tests sync often.
pub fn temporary_directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

pub struct Scene {
    pub folder: tempfile::TempDir,
    pub threads: usize,
}

impl Scene {
    pub fn new(chunker: &str) -> Self {
        let chunker = chunker.parse().unwrap();
        Self::with(StoreSettings { hash: HashAlgorithm::Blake3, chunker, ..Default::default() })
    }

    pub fn with(settings: StoreSettings) -> Self {
        let scene = Self { folder: temporary_directory(), threads: 1 };
        fs::create_dir(scene.work()).unwrap();
        Store::create(&scene.place(), settings).unwrap();
        scene
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn work(&self) -> PathBuf {
        self.path("work")
    }

    pub fn place(&self) -> PathBuf {
        self.path("store")
    }

    pub fn store(&self) -> Store {
        Store::open(&self.place()).unwrap()
    }

    pub fn commit_of(&self, source: &Path, layout: Layout) -> Result<CommitReport, StoreError> {
        let options = CommitOptions { layout, threads: self.threads, log_slower_than: None };
        commit(&mut self.store(), source, &options, &Silent, &Interrupt::new())
    }

    pub fn commit(&self, layout: Layout) -> CommitReport {
        self.commit_of(&self.work(), layout).unwrap()
    }

    pub fn verify(&self) -> VerifyReport {
        verify(&self.store(), &Silent, &Interrupt::new()).unwrap()
    }

    pub fn check_out(&self, snapshot: impl Into<Option<u64>>) -> CheckoutReport {
        let back = self.path("back");
        let _ = fs::remove_dir_all(&back);
        let options = CheckoutOptions::default();
        checkout(&self.store(), snapshot.into(), &back, options, &Silent, &Interrupt::new()).unwrap()
    }

    pub fn back(&self, name: &str) -> Vec<u8> {
        fs::read(self.path("back").join(name)).unwrap()
    }

    pub fn files(&self, folder: &str) -> Vec<PathBuf> {
        let (mut files, mut folders) = (Vec::new(), vec![self.place().join(folder)]);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap().flatten() {
                if entry.file_type().unwrap().is_dir() { folders.push(entry.path()) } else { files.push(entry.path()) }
            }
        }
        files.sort();
        files
    }
}
