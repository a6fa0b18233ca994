//! What many ranks cost: planning per rank, memory of the planner, waiting for each other. Null back end, 1 to 1,024
//! virtual shards in one process.
//!
//! `cargo run --release -p senesce-benches --bin mpi_scaling`

mod scaling;

use scaling::{Load, simulate};
use senesce_aging::execute::SingleRankPace;
use senesce_aging::parts::{part_capacity, part_seed};
use senesce_aging::{
    AgingPlan, ExecuteOptions, Interleaved, Limit, NullTarget, PlanSpec, Profile, Shard, Truncate, execute,
    execute_parts,
};
use senesce_core::interrupt::Interrupt;
use senesce_core::{Bytes, Seed};
use std::error::Error;
use std::ops::ControlFlow;
use std::process::Command;
use std::sync::Arc;

const RANKS: [u32; 6] = [1, 4, 16, 64, 256, 1024];
/// The volume of the whole plan: 1.9 million live files of the profile.
const CAPACITY: Bytes = Bytes(256 << 30);
const OPERATIONS: u64 = 8_000_000;
const MIB: f64 = 1048576.0;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => {
            memory_of_ranks()?;
            planning()?;
            waiting();
            Ok(())
        }
        ["memory", files] => memory(files.parse()?),
        ["planning"] => planning(),
        _ => Err("usage: mpi_scaling [memory FILES | planning]".into()),
    }
}

/// What planning costs ranks that all compute the whole plan, and ranks that compute a part each.
fn planning() -> Result<(), Box<dyn Error>> {
    println!(
        "\n## Planning\n\n| ranks | undivided: CPU per rank (s) | ns per operation of the plan | CPU of all ranks (s) | a part for each rank: CPU per rank (s) | CPU of all ranks (s) |"
    );
    println!("|---|---|---|---|---|---|");
    for ranks in RANKS {
        let (one, part) = (shard_of_the_plan(ranks)?, part_of_the_plan(ranks)?);
        let (per_operation, all) = (one / OPERATIONS as f64 * 1e9, f64::from(ranks));
        println!("| {ranks} | {one:.3} | {per_operation:.1} | {:.1} | {part:.4} | {:.1} |", one * all, part * all);
    }
    Ok(())
}

fn waiting() {
    println!(
        "\n## Waiting\n\n| ranks | even ranks: waiting (%) | operations/s | uneven: waiting (%) | operations/s | rank 0's coordinator (%) |\n|---|---|---|---|---|---|"
    );
    for ranks in RANKS {
        let even = Load {
            ranks,
            operations: 2048,
            rounds: 200,
            operation_seconds: 50e-6,
            slow_share: 0.0,
            slow_seconds: 0.0,
            message_seconds: 1.5e-3,
            handling_seconds: 2e-6,
        };
        let uneven = Load { slow_share: 1e-3, slow_seconds: 10e-3, ..even };
        let (calm, rough) = (simulate(&even, Seed(42)), simulate(&uneven, Seed(42)));
        println!(
            "| {ranks} | {:.1} | {:.0} | {:.1} | {:.0} | {:.1} |",
            calm.waiting * 100.0,
            calm.operations_per_second,
            rough.waiting * 100.0,
            rough.operations_per_second,
            calm.coordinator * 100.0
        );
    }
}

fn plan(ranks: u32) -> Result<Arc<AgingPlan>, Box<dyn Error>> {
    let capacity = part_capacity(CAPACITY, ranks);
    let mut spec = PlanSpec::new(Profile::builtin("agrawal")?, capacity, part_seed(Seed(42), 0, ranks));
    spec.truncate = Truncate::Drop;
    spec.limit = Limit::Operations(OPERATIONS / u64::from(ranks));
    Ok(Arc::new(AgingPlan::new(&spec)?))
}

/// What rank 0 of `ranks` spends on the whole plan without doing its operations.
fn shard_of_the_plan(ranks: u32) -> Result<f64, Box<dyn Error>> {
    let plan = plan(1)?;
    let before = cpu_seconds();
    let options = ExecuteOptions { shard: Some(Shard { index: 0, count: ranks }), ..ExecuteOptions::default() };
    let mut go_on = |_: &_, _| ControlFlow::Continue(());
    execute(&mut plan.operations(), &NullTarget, &options, &Interrupt::new(), &mut go_on).result?;
    Ok(cpu_seconds() - before)
}

/// What rank 0 of `ranks` spends on its part of a plan that is divided into a part for each.
fn part_of_the_plan(ranks: u32) -> Result<f64, Box<dyn Error>> {
    let plan = plan(ranks)?;
    let before = cpu_seconds();
    let mut planner = plan.operations();
    let mut parts = Interleaved::new(ranks, vec![(0, &mut planner)], 0, plan.len() * u64::from(ranks));
    let options = ExecuteOptions { window: 4096 * u64::from(ranks), ..ExecuteOptions::default() };
    let mut go_on = |_: &Interleaved<'_>, _| ControlFlow::Continue(());
    execute_parts(&mut parts, &[NullTarget], &options, &SingleRankPace, &Interrupt::new(), &mut go_on).result?;
    Ok(cpu_seconds() - before)
}

/// Memory of a rank of 1 to 1,024 that play 1e9 live files in a part for each, and of parts of 1e7 and 1e8 files.
fn memory_of_ranks() -> Result<(), Box<dyn Error>> {
    println!("## Memory of the planner of one part\n");
    println!(
        "| live files | planner (MiB) | with digest (MiB) | bytes per live file | CPU (s) |\n|---|---|---|---|---|"
    );
    let mut per_file = 0.0f64;
    let mut measured = Vec::new();
    for files in [976_563, 3_906_250, 10_000_000, 15_625_000, 62_500_000, 100_000_000] {
        // A process of its own, so that freed memory of others is not used again.
        let child = Command::new(std::env::current_exe()?).args(["memory", &files.to_string()]).output()?;
        let text = String::from_utf8(child.stdout)?;
        let numbers: Vec<f64> = text.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
        let [live, planner, digest, seconds] = numbers[..] else { return Err(format!("no numbers: {text}").into()) };
        per_file = digest / live;
        println!("| {live} | {:.1} | {:.1} | {per_file:.1} | {seconds:.1} |", planner / MIB, digest / MIB);
        measured.push((files, digest));
    }
    println!("\n## Memory for 1e9 live files, a part for each rank\n");
    println!("| ranks | live files per rank | planner of each rank (MiB) | |\n|---|---|---|---|");
    for ranks in RANKS {
        let files = 1_000_000_000u64.div_ceil(u64::from(ranks));
        let found = measured.iter().find(|(known, _)| *known == files);
        let (bytes, how) = found.map_or((per_file * files as f64, "computed"), |(_, bytes)| (*bytes, "measured"));
        println!("| {ranks} | {files} | {:.0} | {how} |", bytes / MIB);
    }
    Ok(())
}

/// Prints the live files of a part of about `files`, the memory that its planner took, that with the digest, and the
/// processor time.
fn memory(files: u64) -> Result<(), Box<dyn Error>> {
    let mut spec = PlanSpec::new(Profile::builtin("agrawal")?, CAPACITY, Seed(42));
    spec.truncate = Truncate::Drop;
    spec.limit = Limit::Overwrites(0.9);
    let mut plan = AgingPlan::new(&spec)?;
    // Larger volumes hold larger files, so that their number is met by steps.
    for _ in 0..4 {
        spec.capacity = Bytes((spec.capacity.0 as f64 * files as f64 / plan.summary().files as f64) as u64);
        plan = AgingPlan::new(&spec)?;
    }
    let (before, begun) = (rss_bytes(), cpu_seconds());
    let plan = Arc::new(plan);
    let mut planner = plan.operations();
    planner.skip_to(u64::MAX);
    let streamed = peak_bytes().saturating_sub(before);
    planner.namespace_sha256();
    let digested = peak_bytes().saturating_sub(before);
    println!("{} {streamed} {digested} {}", planner.files_live(), cpu_seconds() - begun);
    Ok(())
}

fn cpu_seconds() -> f64 {
    senesce_sys::clock::thread_cpu_time().as_secs_f64()
}

/// Greatest resident memory of this process so far.
fn peak_bytes() -> u64 {
    senesce_sys::memory::peak_resident_bytes().unwrap_or(0)
}

/// Resident memory of this process.
fn rss_bytes() -> u64 {
    senesce_sys::memory::resident_bytes().unwrap_or(0)
}
