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
use senesce_sys::usage;
use senesce_volume::{FileSystem, OpenOptions, TargetSpec, open};
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
    let mut cpu = seconds.clone();
    for round in 0..rounds {
        for turn in 0..SYSTEMS.len() {
            let system = (turn + round) % SYSTEMS.len();
            let (wall, used) = measure(SYSTEMS[system], files)?;
            seconds[system].push(wall);
            cpu[system].push(used);
            eprintln!("round {}: {} {wall:.3} s, {used:.3} s of CPU", round + 1, SYSTEMS[system]);
        }
    }
    println!(
        "| system | seconds, each round | median | times as fast as git | CPU seconds | git's CPU / its |\n|-|-|-|-|-|-|"
    );
    let (git, git_cpu) = (median(&seconds[0]), median(&cpu[0]));
    for (index, name) in SYSTEMS.iter().enumerate() {
        let each: Vec<String> = seconds[index].iter().map(|value| format!("{value:.2}")).collect();
        let (wall, used) = (median(&seconds[index]), median(&cpu[index]));
        println!(
            "| {name} | {} | {wall:.2} | {:.2} | {used:.2} | {:.2} |",
            each.join(", "),
            git / wall,
            git_cpu / used
        );
    }
    Ok(())
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// Seconds of one commit of `files` fresh files of 1 KiB, on the clock and of CPU (without the kernel's write-back threads).
fn measure(system: &str, files: usize) -> Result<(f64, f64), Box<dyn Error>> {
    let options = OpenOptions { mkfs_options: "-N 700000".into(), ..OpenOptions::fresh(FileSystem::Ext4) };
    let target = open(&TargetSpec::Memory { size: Bytes::gib(2) }, &options)?;
    let work = target.mount_point().join("work");
    generate(&work, files)?;
    target.sync()?;
    let (elapsed, used) = if system == "git" {
        git(&work, &["init", "-q"])?;
        let before = cpu_seconds();
        let started = Instant::now();
        git(&work, &["add", "."])?;
        git(&work, &["-c", "user.name=bench", "-c", "user.email=bench@localhost", "commit", "-q", "-m", "all"])?;
        (started.elapsed(), cpu_seconds() - before)
    } else {
        let layout = if system == "packed" { Layout::Pack } else { Layout::Loose };
        let place = target.mount_point().join("store");
        let before = cpu_seconds();
        let started = Instant::now();
        let mut store = Store::create(&place, StoreSettings::default())?;
        let how = CommitOptions { layout, threads: 2, log_slower_than: None };
        let report = commit(&mut store, &work, &how, &Silent, &Interrupt::new())?;
        let spent = (started.elapsed(), cpu_seconds() - before);
        let sound = verify(&Store::open(&place)?, &Silent, &Interrupt::new())?.is_sound();
        if report.objects != files as u64 || !sound {
            return Err(format!("the commit does not hold the files: {report:?}").into());
        }
        spent
    };
    target.close()?;
    Ok((elapsed.as_secs_f64(), used))
}

/// User and system time of this process and of the children it has waited for.
fn cpu_seconds() -> f64 {
    [usage::this_process(), usage::ended_children()].map(|used| used.processor_time().as_secs_f64()).iter().sum()
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
