//! Reading the extents of 100,000 files, against `filefrag` over the same files, interleaved in one run:
//! `cargo run --release -p senesce-benches --bin layout [FILES] [ROUNDS]` as root. Images lie in /dev/shm.

use rustix::fs::{FallocateFlags, Mode, OFlags};
use senesce_layout::{Layout, Method, Options};
use senesce_sys::usage;
use senesce_volume::{FileSystem, MountedTarget, OpenOptions, TargetSpec, open};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

const IMAGE: &str = "/dev/shm/senesce-bench-layout.img";
const THREADS: usize = 2;
const PER_DIRECTORY: usize = 500;
const COLD_ROUNDS: usize = 3;

/// A file system, how it is made, and the ways to read it.
struct Case {
    name: &'static str,
    file_system: FileSystem,
    mkfs_options: &'static str,
    methods: &'static [Method],
}

const CASES: &[Case] = &[
    Case {
        name: "ext4",
        file_system: FileSystem::Ext4,
        mkfs_options: "-N 200000 -O ^has_journal -E lazy_itable_init=0",
        methods: &[Method::InodeTables, Method::Fiemap],
    },
    Case {
        name: "xfs, rmapbt=1",
        file_system: FileSystem::Xfs,
        mkfs_options: "-m rmapbt=1",
        methods: &[Method::ReverseMap, Method::Fiemap],
    },
    Case {
        name: "btrfs",
        file_system: FileSystem::Btrfs,
        mkfs_options: "",
        methods: &[Method::TreeSearch, Method::Fiemap],
    },
];

/// Seconds on the clock and on the processors.
#[derive(Clone, Copy)]
struct Spent {
    wall: f64,
    cpu: f64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let argument = |place: usize, default: usize| std::env::args().nth(place).map_or(Ok(default), |text| text.parse());
    let (files, rounds) = (argument(1, 100_000)?, argument(2, 7)?);
    println!("{files} files, {THREADS} threads, {rounds} warm rounds, {COLD_ROUNDS} cold rounds; medians\n");
    println!(
        "| file system | method | s | s CPU | filefrag s | filefrag s CPU | ratio | ratio CPU | cold s | cold filefrag s |"
    );
    println!("|-|-|-|-|-|-|-|-|-|-|");
    let wanted = std::env::args().nth(3);
    for case in CASES.iter().filter(|case| wanted.as_ref().is_none_or(|name| case.name.starts_with(name.as_str()))) {
        let measured = measure(case, files, rounds);
        let _ = std::fs::remove_file(IMAGE);
        measured?;
    }
    Ok(())
}

fn measure(case: &Case, files: usize, rounds: usize) -> Result<(), Box<dyn Error>> {
    let spec = TargetSpec::Image { path: IMAGE.into(), size: Some(senesce_core::Bytes::gib(6)) };
    let options = OpenOptions { mkfs_options: case.mkfs_options.into(), ..OpenOptions::fresh(case.file_system) };
    let mut target = open(&spec, &options)?;
    grow(target.mount_point(), files)?;
    let list = list_files(target.mount_point())?;
    let mut warm = vec![Vec::new(); case.methods.len() + 1];
    let mut cold = vec![Vec::new(); case.methods.len() + 1];
    // The first round only warms the caches.
    for round in 0..=rounds {
        let spent = one_round(case, target.mount_point(), &list, || Ok(()))?;
        warm.iter_mut().zip(spent).filter(|_| round > 0).for_each(|(all, spent)| all.push(spent));
    }
    for _ in 0..COLD_ROUNDS {
        let point = target.mount_point().to_path_buf();
        let spent = one_round(case, &point, &list, || make_cold(&mut target))?;
        cold.iter_mut().zip(spent).for_each(|(all, spent)| all.push(spent));
    }
    print(case, warm, cold);
    target.close()?;
    Ok(())
}

fn make_cold(target: &mut MountedTarget) -> Result<(), Box<dyn Error>> {
    target.remount()?;
    target.drop_caches()?;
    Ok(())
}

/// filefrag, then each method.
fn one_round(
    case: &Case,
    point: &Path,
    list: &Path,
    mut before: impl FnMut() -> Result<(), Box<dyn Error>>,
) -> Result<Vec<Spent>, Box<dyn Error>> {
    before()?;
    let mut spent = vec![filefrag(list, point)?];
    for method in case.methods {
        before()?;
        spent.push(ours(point, *method)?);
    }
    Ok(spent)
}

fn filefrag(list: &Path, point: &Path) -> Result<Spent, Box<dyn Error>> {
    let (start, cpu) = (Instant::now(), usage::ended_children().processor_time().as_secs_f64());
    let mut command = Command::new("xargs");
    command.args(["-0", "-a"]).arg(list).args(["-n", "5000", "filefrag"]).current_dir(point).stdout(Stdio::null());
    if !command.status()?.success() {
        return Err("filefrag failed".into());
    }
    Ok(Spent { wall: start.elapsed().as_secs_f64(), cpu: usage::ended_children().processor_time().as_secs_f64() - cpu })
}

fn ours(point: &Path, method: Method) -> Result<Spent, Box<dyn Error>> {
    let options = Options { threads: THREADS, method: Some(method), ..Options::default() };
    let (start, cpu) = (Instant::now(), usage::this_process().processor_time().as_secs_f64());
    Layout::examine(point, &options)?;
    Ok(Spent { wall: start.elapsed().as_secs_f64(), cpu: usage::this_process().processor_time().as_secs_f64() - cpu })
}

fn print(case: &Case, warm: Vec<Vec<Spent>>, cold: Vec<Vec<Spent>>) {
    let wall = |rounds: &[Spent]| median(rounds.iter().map(|spent| spent.wall).collect());
    let cpu = |rounds: &[Spent]| median(rounds.iter().map(|spent| spent.cpu).collect());
    let (theirs, their_cpu) = (wall(&warm[0]), cpu(&warm[0]));
    for (index, method) in case.methods.iter().enumerate() {
        let (ours, our_cpu) = (wall(&warm[index + 1]), cpu(&warm[index + 1]));
        println!(
            "| {} | {method} | {ours:.3} | {our_cpu:.3} | {theirs:.3} | {their_cpu:.3} | {:.1} | {:.1} | {:.3} | {:.3} |",
            case.name,
            theirs / ours,
            their_cpu / our_cpu,
            wall(&cold[index + 1]),
            wall(&cold[0]),
        );
    }
}

/// Files of one to four blocks, allocated and not written, so that a big tree fits a small memory; every tenth in pieces.
fn grow(root: &Path, files: usize) -> Result<(), Box<dyn Error>> {
    for first in (0..files).step_by(PER_DIRECTORY) {
        let directory = root.join(format!("d{}", first / PER_DIRECTORY));
        std::fs::create_dir(&directory)?;
        let handle = std::fs::File::open(&directory)?;
        for number in first..(first + PER_DIRECTORY).min(files) {
            let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
            let file = rustix::fs::openat(&handle, format!("f{number}"), flags, Mode::from_raw_mode(0o644))?;
            let pieces = if number % 10 == 0 { 3 } else { 1 };
            for piece in 0..pieces {
                let length = 4096 * (1 + number as u64 % 4);
                rustix::fs::fallocate(&file, FallocateFlags::empty(), piece * 65536, length)?;
            }
        }
    }
    rustix::fs::syncfs(std::fs::File::open(root)?)?;
    Ok(())
}

/// The same files for filefrag, in find order, relative to the root and ended by zeros.
fn list_files(root: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let list = PathBuf::from("/dev/shm/senesce-bench-layout.list");
    let command = Command::new("find").args([".", "-type", "f", "-print0"]).current_dir(root).output()?;
    std::fs::write(&list, command.stdout)?;
    Ok(list)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
