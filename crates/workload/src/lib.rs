//! Workloads: a Filebench-compatible engine, file-operation microbenchmarks, cold reads.

pub mod builtin;
pub mod error;
pub mod fileset;
pub mod model;
pub mod wml;

pub use error::WorkloadError;
pub use model::Workload;
