//! The flowop engine: programs of flowops, executed by many threads on a back end.

pub mod account;
pub mod aio;
pub mod clock;
pub mod conduct;
pub mod course;
mod data_flowops;
pub mod file_calls;
mod file_flowops;
pub mod latency;
pub mod measure;
pub mod memory;
mod other_flowops;
pub mod program;
pub mod shared;
pub mod synchronize;
mod this_thread;
pub mod worker;
