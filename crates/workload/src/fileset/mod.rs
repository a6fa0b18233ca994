//! File sets: layout, population, and selection of files during a run.

pub mod layout;
pub mod pick;
pub mod populate;
mod states;

pub use layout::{Layout, Population};
