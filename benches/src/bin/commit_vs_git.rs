//! Commit of many small files: senesce's store, packed and loose, against `git add` + `git commit` at git's defaults.
//!
//! `cargo run --release -p senesce-benches --bin commit_vs_git -- [FILES] [ROUNDS]` as root. Every measurement has a fresh
//! ext4 in memory; the systems take turns, so that whatever else the machine does disturbs all of them. git is spared the
//! repacking that it would start in the background after the commit (gc.auto=0); all else is git's default.

use rand::RngExt;
use senesce_core::interrupt::Interrupt;
use senesce_core::{Bytes, Seed, Silent};
use senesce_objstore::store::commit::{CommitOptions, commit};
use senesce_objstore::store::verify::verify;
use senesce_objstore::{Layout, Store, StoreSettings};
use senesce_target::{FileSystem, OpenOptions, TargetSpec, open};
use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

const SYSTEMS: [&str; 3] = ["git", "packed", "loose 2x1"];

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).map(|word| word.parse::<usize>());
    let files = arguments.next().transpose()?.unwrap_or(100_000);
    let rounds = arguments.next().transpose()?.unwrap_or(3);
    let mut seconds = vec![Vec::new(); SYSTEMS.len()];
    for round in 0..rounds {
        for turn in 0..SYSTEMS.len() {
            let system = (turn + round) % SYSTEMS.len();
            seconds[system].push(measure(SYSTEMS[system], files)?);
            eprintln!("round {}: {} {:.3} s", round + 1, SYSTEMS[system], seconds[system][round]);
        }
    }
    println!("| system | seconds, each round | median | times as fast as git |\n|-|-|-|-|");
    let median = |values: &[f64]| {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() / 2]
    };
    let git = median(&seconds[0]);
    for (name, values) in SYSTEMS.iter().zip(&seconds) {
        let each: Vec<String> = values.iter().map(|value| format!("{value:.3}")).collect();
        println!("| {name} | {} | {:.3} | {:.2} |", each.join(", "), median(values), git / median(values));
    }
    Ok(())
}

/// Seconds of one commit of `files` fresh files of 1 KiB.
fn measure(system: &str, files: usize) -> Result<f64, Box<dyn Error>> {
    let options = OpenOptions { mkfs_options: "-N 700000".into(), ..OpenOptions::fresh(FileSystem::Ext4) };
    let target = open(&TargetSpec::Memory { size: Bytes::gib(2) }, &options)?;
    let work = target.mount_point().join("work");
    generate(&work, files)?;
    target.sync()?;
    let elapsed = if system == "git" {
        git(&work, &["init", "-q"])?;
        let started = Instant::now();
        git(&work, &["add", "."])?;
        git(&work, &["-c", "user.name=bench", "-c", "user.email=bench@localhost", "commit", "-q", "-m", "all"])?;
        started.elapsed()
    } else {
        let layout = if system == "packed" { Layout::Pack } else { Layout::Loose };
        let place = target.mount_point().join("store");
        let started = Instant::now();
        let mut store = Store::create(&place, StoreSettings::default())?;
        let how = CommitOptions { layout, threads: 2, log_slower_than: None };
        let report = commit(&mut store, &work, &how, &Silent, &Interrupt::new())?;
        let elapsed = started.elapsed();
        let sound = verify(&Store::open(&place)?, &Silent, &Interrupt::new())?.is_sound();
        if report.objects != files as u64 || !sound {
            return Err(format!("the commit does not hold the files: {report:?}").into());
        }
        elapsed
    };
    target.close()?;
    Ok(elapsed.as_secs_f64())
}

/// The many-files layout of the DMV study: the first two decimal digits of the index are the directory.
fn generate(work: &Path, files: usize) -> std::io::Result<()> {
    let mut random = Seed(1).stream("benches/commit");
    let width = files.to_string().len().max(3);
    for index in 0..files {
        let name = format!("{index:0width$}");
        let folder = work.join(&name[..2]);
        if index == 0 || name[2..].bytes().all(|digit| digit == b'0') {
            std::fs::create_dir_all(&folder)?;
        }
        let data: [u8; 1024] = random.random();
        std::fs::write(folder.join(&name[2..]), data)?;
    }
    Ok(())
}

fn git(work: &Path, arguments: &[&str]) -> Result<(), Box<dyn Error>> {
    let status =
        Command::new("git").arg("-C").arg(work).args(["-c", "gc.auto=0"]).args(arguments).env("HOME", work).status()?;
    if status.success() { Ok(()) } else { Err(format!("git {arguments:?}: {status}").into()) }
}
