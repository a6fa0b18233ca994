//! File sets: how they are laid out, written, and how files are chosen while a workload runs.

pub mod layout;
pub mod pick;
pub mod populate;
mod states;

pub use layout::{Layout, Population};
