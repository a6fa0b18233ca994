//! One directory with very many files: making them, mounting, listing, finding and removing them.

use crate::scratch::Scratch;
use crate::{Outcome, private_bytes};
use rand::Rng;
use senesce_core::{Bytes, Seed};
use senesce_tierfs::{Mode, NewInode};
use std::time::Instant;

const SAMPLE: usize = 10_000;

/// Prints a table for a directory of `files` files.
pub fn run(files: u64) -> Outcome<()> {
    let scratch = Scratch::new("many")?;
    scratch.make(Bytes::mib(512))?;
    println!("\n| step | seconds |\n|---|---|");
    let fs = scratch.open()?;
    let new = NewInode { mode: libc::S_IFREG | 0o644, uid: 0, gid: 0, rdev: 0, target: b"" };
    let start = Instant::now();
    for number in 0..files {
        let made = fs.create(1, format!("file-{number}").as_bytes(), &new)?;
        fs.forget(made.ino, 1);
    }
    report(&format!("{files} files made in one directory (core, one thread)"), start);
    fs.close();
    drop(fs);

    let before = private_bytes()?;
    let start = Instant::now();
    let server = scratch.serve(Mode::Anticache, 2)?;
    report("mounted", start);
    println!("| private memory after the mount (MB) | {:.1} |", private_bytes()?.saturating_sub(before) as f64 / 1e6);
    let start = Instant::now();
    let found = std::fs::read_dir(scratch.mount())?.count() as u64;
    report("listed through the mount", start);
    if found != files {
        return Err(format!("{found} names were listed, {files} made").into());
    }
    let mut random = Seed(42).stream("bench/tierfs-many");
    let names: Vec<_> =
        (0..SAMPLE).map(|_| scratch.mount().join(format!("file-{}", random.next_u64() % files))).collect();
    let start = Instant::now();
    for name in &names {
        std::fs::symlink_metadata(name)?;
    }
    report(&format!("{SAMPLE} random names found"), start);
    let start = Instant::now();
    for number in 0..SAMPLE {
        std::fs::remove_file(scratch.mount().join(format!("file-{number}")))?;
    }
    report(&format!("{SAMPLE} files removed"), start);
    server.stop().map_err(Into::into)
}

fn report(step: &str, start: Instant) {
    println!("| {step} | {:.3} |", start.elapsed().as_secs_f64());
}
