//! Microbenchmarks: single file operations, appends and random writes by size, cold reads.

pub(crate) mod calls;
pub mod cold_read;
pub mod file_ops;
pub(crate) mod macros;
pub mod operations;

pub use calls::{
    CallOptions, CallResult, SizeResult, SyncMode, Watch, WriteMode, measure_calls, measure_calls_watched,
};
pub use cold_read::{ColdRead, cold_read};
pub use file_ops::{FileOpsOptions, FileOpsResult, OperationResult, file_ops};
