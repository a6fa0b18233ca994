//! Runs that a verb starts (not published experiments): one file or folder per verb.

pub mod age;
pub mod bench;
mod bench_analysis;
mod bench_measurements;
mod bench_plan;
pub mod bench_ranks;
pub mod trace;
pub mod zns;
