//! Bytes per second of hot files through the mount, of the evictor, and what a resident block costs outside the region.

use crate::scratch::Scratch;
use crate::{Outcome, median, private_bytes};
use rustix::fs::{Advice, OFlags, fadvise};
use senesce_core::Bytes;
use senesce_tierfs::evict::BATCH;
use senesce_tierfs::{Mode, NewInode, TierFs};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

const FILE: u64 = 256 << 20;
const CALL: usize = 1 << 20;
const BLOCK: u64 = 4096;

/// Sequential writes and reads of one hot file, by calls of 1 MiB.
pub fn sequential(rounds: usize, threads: usize) -> Outcome<()> {
    let scratch = Scratch::new("streams")?;
    let path = scratch.mount().join("file");
    let mut rates: [Vec<f64>; 5] = Default::default();
    for _ in 0..rounds {
        scratch.make(Bytes::mib(640))?;
        let server = scratch.serve(Mode::Anticache, threads)?;
        rates[0].push(write(File::create_new(&path)?)?);
        rates[1].push(write(File::options().write(true).open(&path)?)?);
        let direct = File::options().read(true).custom_flags(OFlags::DIRECT.bits() as i32).open(&path)?;
        rates[2].push(read(direct)?);
        let buffered = File::open(&path)?;
        fadvise(&buffered, 0, None, Advice::DontNeed)?;
        rates[3].push(read(buffered)?);
        rates[4].push(read(File::open(&path)?)?);
        server.stop()?;
    }
    println!("\n{threads} server threads, file of {} by calls of 1 MiB, {rounds} rounds\n", Bytes(FILE));
    println!("| hot file | median MB/s | best MB/s |\n|---|---|---|");
    let names =
        ["write, new", "write over", "read, O_DIRECT", "read, empty page cache", "read, page cache (no request)"];
    for (name, list) in names.iter().zip(&rates) {
        let best = list.iter().copied().fold(0.0, f64::max);
        println!("| {name} | {:.0} | {best:.0} |", median(list));
    }
    Ok(())
}

fn rate(start: Instant) -> f64 {
    FILE as f64 / 1e6 / start.elapsed().as_secs_f64()
}

fn write(mut file: File) -> Outcome<f64> {
    let data = vec![0x5a; CALL];
    let start = Instant::now();
    for _ in 0..FILE as usize / CALL {
        file.write_all(&data)?;
    }
    file.sync_all()?;
    Ok(rate(start))
}

fn read(mut file: File) -> Outcome<f64> {
    let mut memory = vec![0; CALL + BLOCK as usize];
    let shift = memory.as_ptr().align_offset(BLOCK as usize);
    let start = Instant::now();
    for _ in 0..FILE as usize / CALL {
        file.read_exact(&mut memory[shift..shift + CALL])?;
    }
    Ok(rate(start))
}

/// The evictor alone: every block of a file goes to the cold store, durable; memory outside the region on the way.
pub fn evictor(rounds: usize, disk: Option<&Path>) -> Outcome<()> {
    println!("\n| cold store | evicted | median MB/s | best MB/s | bytes per resident block |\n|---|---|---|---|---|");
    let mut stores = vec![("tmpfs".to_string(), None)];
    stores.extend(disk.map(|folder| (folder.display().to_string(), Some(folder.join("senesce-bench-cold")))));
    for (name, cold) in stores {
        let (mut rates, mut overhead) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            let (rate, bytes) = evict_all(cold.clone())?;
            rates.push(rate);
            overhead.push(bytes);
        }
        let best = rates.iter().copied().fold(0.0, f64::max);
        // The allocator keeps what the first round freed: the greatest is the true one.
        let overhead = overhead.into_iter().fold(0.0, f64::max);
        println!("| {name} | {} | {:.0} | {best:.0} | {overhead:.1} |", Bytes(FILE), median(&rates));
    }
    Ok(())
}

fn evict_all(cold: Option<PathBuf>) -> Outcome<(f64, f64)> {
    let scratch = match cold {
        Some(cold) => Scratch::with_cold("evictor", cold)?,
        None => Scratch::new("evictor")?,
    };
    scratch.make(Bytes::mib(384))?;
    let before = private_bytes()?;
    let fs = scratch.open()?;
    fill(&fs)?;
    let resident = fs.stats().resident_blocks;
    let overhead = private_bytes()?.saturating_sub(before) as f64 / resident as f64;
    let start = Instant::now();
    let mut left = resident;
    while left > 0 {
        match fs.evict(BATCH) as u64 {
            0 => return Err(format!("eviction stopped with {left} blocks in memory").into()),
            moved => left -= moved.min(left),
        }
    }
    let rate = rate(start);
    fs.close();
    Ok((rate, overhead))
}

fn fill(fs: &TierFs) -> Outcome<()> {
    let new = NewInode { mode: libc::S_IFREG | 0o644, uid: 0, gid: 0, rdev: 0, target: b"" };
    let ino = fs.create(1, b"file", &new)?.ino;
    let data = vec![0x5a; CALL];
    for at in (0..FILE).step_by(CALL) {
        fs.write(ino, at, &data, false)?;
    }
    fs.forget(ino, 1);
    Ok(())
}
