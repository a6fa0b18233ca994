//! Planning, executing and capturing: own speed and ratios to a bare replay of the same system calls.
//!
//!     aging plan
//!     aging execute DIRECTORY [OPERATIONS]     an empty directory on the file system to measure
//!     aging capture DIRECTORY

use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags};
use senesce_aging::{
    AgingPlan, CaptureOptions, Data, DirectoryTarget, ExecuteOptions, Limit, NullTarget, Operation, OperationKind,
    PlanSpec, Profile, Truncate, capture, execute,
};
use senesce_core::interrupt::Interrupt;
use senesce_core::{Bytes, Seed};
use senesce_volume::ClaimedDirectory;
use std::error::Error;
use std::ffi::CString;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

const ROUNDS: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["plan"] => plan(),
        ["execute", directory] => replay(Path::new(directory), 60_000),
        ["execute", directory, operations] => replay(Path::new(directory), operations.parse()?),
        ["capture", directory] => walk(Path::new(directory)),
        _ => Err("usage: aging plan | execute DIRECTORY [OPERATIONS] | capture DIRECTORY".into()),
    }
}

fn spec(name: &str, size: Bytes) -> Result<PlanSpec, Box<dyn Error>> {
    Ok(PlanSpec { truncate: Truncate::Drop, ..PlanSpec::new(Profile::builtin(name)?, size, Seed(42)) })
}

/// The best of a few rounds: other work on the machine only ever adds.
fn least(rounds: usize, mut measure: impl FnMut() -> f64) -> f64 {
    (0..rounds).map(|_| measure()).fold(f64::INFINITY, f64::min)
}

/// Of larger plans the first of so many operations are played: the rate does not change any more.
const MOST_OPERATIONS: u64 = 150_000_000;

fn plan() -> Result<(), Box<dyn Error>> {
    println!(
        "| profile | size | K | operations | CPU-seconds | million operations per CPU-second | peak bytes per live file |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (name, _) in senesce_aging::profile::BUILTIN {
        row(name, Bytes::gib(1), if name == "douceur" { 1 } else { ROUNDS })?;
    }
    for (name, size) in [
        ("douceur", Bytes(10_000_000_000)),
        ("agrawal", Bytes::gib(100)),
        ("agrawal", Bytes::gib(1024)),
        ("douceur", Bytes::gib(1024)),
    ] {
        row(name, size, 1)?;
    }
    Ok(())
}

/// Speed of one plan, and the memory that planning, playing and the digest of the namespace take beside what there was.
fn row(name: &str, size: Bytes, rounds: usize) -> Result<(), Box<dyn Error>> {
    let before = forget_peak()?;
    let plan = Arc::new(AgingPlan::new(&spec(name, size)?)?);
    let operations = plan.len().min(MOST_OPERATIONS);
    let mut played = None;
    let seconds = least(rounds, || {
        drop(played.take());
        let begun = cpu_seconds();
        let planner = played.insert(plan.operations());
        planner.skip_to(operations);
        cpu_seconds() - begun
    });
    let planner = played.ok_or("no round")?;
    let (files, digest) = (planner.files_live(), planner.namespace_sha256());
    // What a process needs for itself is no matter of its files.
    let memory = match files {
        0..500_000 => "-".into(),
        _ => format!("{:.1} (namespace {})", (peak_bytes()? - before) as f64 / files as f64, &digest[..8]),
    };
    let rate = operations as f64 / seconds / 1e6;
    println!("| {name} | {size} | {files} | {operations} | {seconds:.3} | {rate:.1} | {memory} |");
    Ok(())
}

/// Begins anew to record the greatest resident memory (proc_pid_clear_refs(5)); what it is now.
fn forget_peak() -> Result<u64, Box<dyn Error>> {
    std::fs::write("/proc/self/clear_refs", "5")?;
    peak_bytes()
}

/// Greatest resident memory of this process so far.
fn peak_bytes() -> Result<u64, Box<dyn Error>> {
    Ok(senesce_sys::memory::peak_resident_bytes().ok_or("no VmHWM")?)
}

/// User and system seconds of this process.
fn cpu_parts() -> (f64, f64) {
    let used = senesce_sys::usage::this_process();
    (used.user.as_secs_f64(), used.system.as_secs_f64())
}

fn cpu_seconds() -> f64 {
    senesce_sys::clock::process_cpu_time().as_secs_f64()
}

#[derive(Clone, Copy)]
struct Cost {
    user: f64,
    cpu: f64,
    wall: f64,
}

fn timed(work: impl FnOnce() -> Result<(), Box<dyn Error>>) -> Result<Cost, Box<dyn Error>> {
    let (user, system) = cpu_parts();
    let begun = Instant::now();
    work()?;
    let wall = begun.elapsed().as_secs_f64();
    let (user_after, system_after) = cpu_parts();
    Ok(Cost { user: user_after - user, cpu: user_after + system_after - user - system, wall })
}

fn replay(directory: &Path, operations: u64) -> Result<(), Box<dyn Error>> {
    let spec = PlanSpec { limit: Limit::Operations(operations), ..spec("agrawal", Bytes::gib(1))? };
    let plan = Arc::new(AgingPlan::new(&spec)?);
    let list: Vec<Operation> = plan.operations().collect();
    let count = list.len() as f64;
    let names: Vec<CString> = list
        .iter()
        .map(|operation| CString::new(senesce_aging::plan::file_name(operation.file.birth)))
        .collect::<Result<_, _>>()?;
    let null = timed(|| {
        let options = ExecuteOptions::default();
        let mut planner = plan.operations();
        execute(&mut planner, &NullTarget, &options, &Interrupt::new(), &mut |_, _| ControlFlow::Continue(()));
        Ok(())
    })?;
    println!("planning and handing out alone: {:.3} us of CPU per operation", null.cpu / count * 1e6);
    let mut costs: [Vec<Cost>; 3] = Default::default();
    for round in 0..ROUNDS {
        // Interleaved in turning order, each in a fresh directory of the same file system.
        for step in 0..3 {
            let kind = (round + step) % 3;
            let aged = directory.join(format!("aged-{round}-{kind}"));
            let target = ClaimedDirectory::claim(&aged, None)?;
            let cost = match kind {
                0 => bare(&plan, &target, &list, &names)?,
                threads => played(&plan, &target, threads)?,
            };
            costs[kind].push(cost);
            std::fs::remove_dir_all(&aged)?;
            rustix::fs::syncfs(std::fs::File::open(directory)?)?;
        }
    }
    println!("| what | user us/op | CPU us/op | wall us/op |\n|---|---|---|---|");
    let best =
        |costs: &[Cost], pick: fn(&Cost) -> f64| costs.iter().map(pick).fold(f64::INFINITY, f64::min) / count * 1e6;
    for (name, costs) in ["bare replay", "senesce, 1 thread", "senesce, 2 threads"].iter().zip(&costs) {
        let [user, cpu, wall] = [best(costs, |c| c.user), best(costs, |c| c.cpu), best(costs, |c| c.wall)];
        println!("| {name} | {user:.2} | {cpu:.2} | {wall:.2} |");
    }
    let ratio = |a: usize, b: usize, pick: fn(&Cost) -> f64| best(&costs[a], pick) / best(&costs[b], pick);
    println!("CPU, 1 thread over bare replay: {:.3}", ratio(1, 0, |c| c.cpu));
    println!("speed, 2 threads over 1: {:.2}", ratio(1, 2, |c| c.wall));
    Ok(())
}

fn played(plan: &Arc<AgingPlan>, target: &ClaimedDirectory, threads: usize) -> Result<Cost, Box<dyn Error>> {
    let backend = DirectoryTarget::new(plan.clone(), target, Data::Fallocate);
    senesce_aging::execute::PlanTarget::prepare(&backend)?;
    timed(|| {
        let options = ExecuteOptions { threads, ..ExecuteOptions::default() };
        let mut planner = plan.operations();
        let outcome =
            execute(&mut planner, &backend, &options, &Interrupt::new(), &mut |_, _| ControlFlow::Continue(()));
        outcome.result?;
        Ok(())
    })
}

/// The same system calls on descriptors and names made beforehand.
fn bare(
    plan: &Arc<AgingPlan>,
    target: &ClaimedDirectory,
    list: &[Operation],
    names: &[CString],
) -> Result<Cost, Box<dyn Error>> {
    let backend = DirectoryTarget::new(plan.clone(), target, Data::Fallocate);
    senesce_aging::execute::PlanTarget::prepare(&backend)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    let open =
        |directory| rustix::fs::open(target.path().join(plan.directories().path(directory)), flags, Mode::empty());
    let directories: Vec<OwnedFd> = (0..plan.directories().count()).map(open).collect::<Result<_, _>>()?;
    timed(|| {
        for (operation, name) in list.iter().zip(names) {
            let above = &directories[operation.file.directory as usize];
            if operation.kind == OperationKind::Delete {
                rustix::fs::unlinkat(above, name, AtFlags::empty())?;
                continue;
            }
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
            let made = rustix::fs::openat(above, name, flags, Mode::from_raw_mode(0o644))?;
            if operation.file.size > 0 {
                rustix::fs::fallocate(&made, FallocateFlags::empty(), 0, operation.file.size)?;
            }
        }
        Ok(())
    })
}

fn walk(directory: &Path) -> Result<(), Box<dyn Error>> {
    for threads in [1, 2] {
        let options = CaptureOptions { threads, ..CaptureOptions::default() };
        let warm = capture(directory, &options)?;
        let mut walls = f64::INFINITY;
        let cpu = least(ROUNDS, || {
            let (begun, wall) = (cpu_seconds(), Instant::now());
            if let Err(error) = capture(directory, &options) {
                eprintln!("{error}");
            }
            walls = walls.min(wall.elapsed().as_secs_f64());
            cpu_seconds() - begun
        });
        let files = warm.files as f64;
        println!(
            "{threads} threads: {} files, {:.0} files per CPU-second, {:.0} files per second",
            warm.files,
            files / cpu,
            files / walls
        );
    }
    Ok(())
}
