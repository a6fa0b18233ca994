//! The flowop engine: programs of flowops, executed by many threads on a back end.

pub(crate) mod account;
pub(crate) mod aio;
pub(crate) mod clock;
pub mod conduct;
mod data_flowops;
pub(crate) mod file_calls;
mod file_flowops;
pub(crate) mod intervals;
pub(crate) mod latency;
pub(crate) mod measure;
pub mod memory;
mod other_flowops;
pub(crate) mod program;
pub(crate) mod shared;
pub(crate) mod synchronize;
mod this_thread;
pub(crate) mod threads;
pub(crate) mod worker;
