//! Workloads: a Filebench-compatible engine, file-operation microbenchmarks, cold reads.

pub mod bench;
pub mod builtin;
mod consistency;
pub mod engine;
mod error;
pub mod fileset;
pub mod micro;
pub mod model;
mod result;
pub mod together;
mod trusted;
mod wml;

pub use bench::{Bench, Execution, FinishedBench, Options, draw};
pub use builtin::{PERSONALITIES, builtin};
pub use engine::conduct::Length;
pub use error::WorkloadError;
pub use model::Workload;
pub use result::{BenchResult, FilesetSummary, FlowopResult, Interval, Repetition};
pub use trusted::check_trusted;
