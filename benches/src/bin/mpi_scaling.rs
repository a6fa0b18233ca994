//! What many ranks cost: planning per rank, memory of the planner, waiting for each other. Null back end, 1 to 1,024
//! virtual shards in one process.
//!
//! `cargo run --release -p senesce-benches --bin mpi_scaling`

use senesce_aging::{AgingPlan, ExecuteOptions, Limit, NullBackEnd, PlanSpec, Profile, Shard, Truncate, execute};
use senesce_cluster::scaling::{Load, simulate};
use senesce_core::interrupt::Interrupt;
use senesce_core::{Bytes, Seed};
use std::error::Error;
use std::ops::ControlFlow;
use std::sync::Arc;

const RANKS: [u32; 6] = [1, 4, 16, 64, 256, 1024];
/// The volume of the whole plan: 1.9 million live files of the profile.
const CAPACITY: Bytes = Bytes(256 << 30);
const OPERATIONS: u64 = 8_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    // First, before freed memory of other steps is used again.
    let (files, bytes) = memory()?;
    let per_file = bytes as f64 / files as f64;
    println!("## Memory of the planner, on every rank\n");
    println!("| live files | memory (MiB) | bytes per live file | for 1e9 live files (GiB) |\n|---|---|---|---|");
    let billion = per_file * 1e9 / (1u64 << 30) as f64;
    println!("| {files} | {:.1} | {per_file:.1} | {billion:.1} |", bytes as f64 / (1u64 << 20) as f64);
    println!("\n## Planning\n\n| ranks | CPU per rank (s) | ns per operation of the plan | CPU of all ranks (s) |");
    println!("|---|---|---|---|");
    for ranks in RANKS {
        let one = shard_of_the_plan(ranks)?;
        let per_operation = one / OPERATIONS as f64 * 1e9;
        println!("| {ranks} | {one:.3} | {per_operation:.1} | {:.1} |", one * f64::from(ranks));
    }
    println!(
        "\n## Waiting\n\n| ranks | even ranks: waiting (%) | operations/s | uneven: waiting (%) | operations/s | rank 0's clerk (%) |\n|---|---|---|---|---|---|"
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
            calm.clerk * 100.0
        );
    }
    Ok(())
}

fn plan() -> Result<Arc<AgingPlan>, Box<dyn Error>> {
    let mut spec = PlanSpec::new(Profile::builtin("agrawal")?, CAPACITY, Seed(42));
    spec.truncate = Truncate::Drop;
    spec.limit = Limit::Operations(OPERATIONS);
    Ok(Arc::new(AgingPlan::new(&spec)?))
}

/// What rank 0 of `ranks` spends on the whole plan without doing its operations.
fn shard_of_the_plan(ranks: u32) -> Result<f64, Box<dyn Error>> {
    let plan = plan()?;
    let before = cpu_seconds();
    let options = ExecuteOptions { shard: Some(Shard { index: 0, count: ranks }), ..ExecuteOptions::default() };
    let mut go_on = |_: &_, _| ControlFlow::Continue(());
    execute(&mut plan.operations(), &NullBackEnd, &options, &Interrupt::new(), &mut go_on).result?;
    Ok(cpu_seconds() - before)
}

/// Live files, and the memory that the planner took at most.
fn memory() -> Result<(u64, u64), Box<dyn Error>> {
    let plan = plan()?;
    let before = rss_bytes();
    let mut planner = plan.operations();
    let mut most = 0;
    while planner.operations_done() < plan.len() {
        planner.skip_to(planner.operations_done() + plan.len() / 64 + 1);
        most = most.max(rss_bytes().saturating_sub(before));
    }
    Ok((planner.files_live(), most))
}

fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Resident memory of this process (proc_pid_statm(5), in pages).
fn rss_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split_whitespace().nth(1).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}
