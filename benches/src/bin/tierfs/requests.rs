//! Create, write of 4 KiB and fsync against FUSE file systems that do nothing. Every other file is opened for reading too.

use crate::nothing::{InodeKind, with_nothing};
use crate::scratch::Scratch;
use crate::{Outcome, median};
use senesce_core::Bytes;
use senesce_tierfs::Mode;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::Instant;

const FILES: usize = 1000;
const WRITES: usize = 8;
const SYSTEMS: [&str; 4] = ["nothing, bare", "nothing, same requests", "bpfs", "anticache"];
const COLUMNS: [&str; 5] = ["create", "first write", "first write, O_RDWR", "later write", "fsync"];

/// Nanoseconds of every call, by column.
type Times = [Vec<f64>; COLUMNS.len()];

/// Prints a table; the file systems take turns, and every round starts with another one.
pub fn run(rounds: usize, threads: usize) -> Outcome<()> {
    let scratch = Scratch::new("requests")?;
    let mut all: [Times; SYSTEMS.len()] = Default::default();
    for turn in 0..SYSTEMS.len() * rounds {
        let system = (turn + turn / SYSTEMS.len()) % SYSTEMS.len();
        let (mount, times) = (scratch.mount(), &mut all[system]);
        match system {
            0 => with_nothing(&mount, threads, InodeKind::Bare, || measure(&mount, times))?,
            1 => with_nothing(&mount, threads, InodeKind::Posix, || measure(&mount, times))?,
            _ => {
                scratch.make(Bytes::mib(128))?;
                let server = scratch.serve(if system == 2 { Mode::Bpfs } else { Mode::Anticache }, threads)?;
                measure(&mount, times)?;
                server.stop()?;
            }
        }
    }
    println!(
        "\n{threads} server threads, {rounds} rounds of {FILES} files with {WRITES} writes of 4 KiB each; p50 in us"
    );
    println!("(ratio to nothing, bare; to nothing, same requests)\n");
    println!("| file system | {} |\n|{}", COLUMNS.join(" | "), "---|".repeat(COLUMNS.len() + 1));
    let p50: Vec<Vec<f64>> = all.iter().map(|times| times.iter().map(|list| median(list) / 1e3).collect()).collect();
    for (name, row) in SYSTEMS.iter().zip(&p50) {
        let cell = |column: usize| {
            let us = row[column];
            format!("{us:.1} ({:.2}; {:.2})", us / p50[0][column], us / p50[1][column])
        };
        println!("| {name} | {} |", (0..COLUMNS.len()).map(cell).collect::<Vec<_>>().join(" | "));
    }
    Ok(())
}

fn measure(mount: &Path, times: &mut Times) -> io::Result<()> {
    let data = [7; 4096];
    for number in 0..FILES {
        let path = mount.join(format!("f{number}"));
        let readable = number % 2 == 1;
        let mut options = File::options();
        options.write(true).read(readable).create_new(true);
        let mut file = timed(&mut times[0], || options.open(path))?;
        timed(&mut times[if readable { 2 } else { 1 }], || file.write_all(&data))?;
        for _ in 1..WRITES {
            timed(&mut times[3], || file.write_all(&data))?;
        }
        timed(&mut times[4], || file.sync_all())?;
    }
    Ok(())
}

fn timed<T>(times: &mut Vec<f64>, call: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let start = Instant::now();
    let result = call();
    times.push(start.elapsed().as_nanos() as f64);
    result
}
