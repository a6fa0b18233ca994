//! The verbs that measure, import, compare and list runs.

pub mod bench;
pub mod cold;
mod cold_self_test;
pub mod compare;
pub mod decided;
pub mod die_map;
pub mod doctor;
pub mod export;
pub mod history;
pub mod import;
pub mod kernel_log;
pub mod measurements;
pub mod scoreboard;
pub mod shared_directory;
pub mod simulated;
pub mod thread_memory;
pub mod tidy;
pub mod trace;
pub mod tree;
pub mod write_order;

use senesce_runner::{RunKind, verb};

#[rustfmt::skip]
pub const VERBS: &[&dyn RunKind] = &[
    verb::<bench::Bench>(),
    verb::<import::fio::Fio>(),
    verb::<import::results::Results>(),
    verb::<trace::BlockTraceRun>(),
];
