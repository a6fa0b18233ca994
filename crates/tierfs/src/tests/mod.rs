//! Tests of the core with simulated memory and cold store.

mod bits;
mod corruption;
mod corruption_bytes;
mod corruption_directed;
mod corruption_table;
mod crafted;
mod crash;
mod dump;
mod faults;
mod frozen;
mod model;
mod posix;
mod region;
mod repairing;
mod sim;
mod space;
mod syncs;
mod threads;

use crate::attr::SetAttr;
use crate::check::{CheckReport, check};
use crate::error::FsResult;
use crate::format::{BLOCK, Inode, Pointer, ROOT_INO};
use crate::open::Options;
use crate::region::{Region, byte};
use crate::repair::{RepairReport, repair};
use crate::{NewInode, Promotion, TierError, TierFs, table};
use dump::{Dump, dump};
use model::{new, pattern, resolve};
use rand_pcg::rand_core::Rng;
use rustix::io::Errno;
use senesce_core::{Bytes, Seed};
use sim::{SimCold, SimNvm, Survivors, anonymous, empty_image, open_image, open_nvm, small};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const FILE: u32 = libc::S_IFREG | 0o644;
const DIRECTORY: u32 = libc::S_IFDIR | 0o755;

fn file(fs: &TierFs, parent: u32, name: &str) -> u32 {
    fs.create(parent, name.as_bytes(), &new(FILE)).unwrap().ino
}

fn folder(fs: &TierFs, parent: u32, name: &str) -> u32 {
    fs.create(parent, name.as_bytes(), &new(DIRECTORY)).unwrap().ino
}

/// Creates a file of `pattern(_, seed)` in the root.
fn filled(fs: &TierFs, name: &str, blocks: usize, seed: u8) -> u32 {
    let ino = file(fs, ROOT_INO, name);
    assert_eq!(fs.write(ino, 0, &pattern(blocks * BLOCK, seed), false), Ok(blocks * BLOCK));
    ino
}

fn remove(fs: &TierFs, name: &str, ino: u32) {
    fs.unlink(ROOT_INO, name.as_bytes()).unwrap();
    fs.forget(ino, 1);
}

/// Appends blocks of `byte` until a write fails; returns the size.
fn fill_memory(fs: &TierFs, ino: u32, byte: u8) -> u64 {
    let mut size = 0;
    loop {
        match fs.write(ino, size, &[byte; BLOCK], false) {
            Ok(_) => size += BLOCK as u64,
            Err(error) => {
                assert_eq!(error, Errno::NOSPC);
                return size;
            }
        }
    }
}

fn read_all(fs: &TierFs, ino: u32) -> FsResult<Vec<u8>> {
    let mut data = vec![0xaa; fs.get_attr(ino)?.size as usize];
    assert_eq!(fs.read(ino, 0, &mut data)?, data.len());
    Ok(data)
}

fn entries(fs: &TierFs, folder: u32) -> FsResult<BTreeMap<Vec<u8>, u32>> {
    let mut found = BTreeMap::new();
    fs.read_directory(folder, 0, &mut |entry, name, _| {
        if name != b"." && name != b".." {
            found.insert(name.to_vec(), entry.ino);
        }
        true
    })?;
    Ok(found)
}

/// Evicts until the cold store has `count` blocks.
fn evict_to(fs: &TierFs, count: u64) {
    while fs.stats().cold_blocks < count {
        let evicted = fs.evict(count as usize);
        let stats = fs.stats();
        assert!(evicted > 0 || stats.cold_blocks < count && !stats.cold_store_full, "{stats:?}");
    }
}

/// Checks an image without its cold store.
fn check_image(image: &[u8]) -> CheckReport {
    let report = check(anonymous(image), None, Path::new("image")).unwrap();
    assert!(report.problems.is_empty(), "{report:?}");
    report
}
