//! File sets: layout, population, and selection of files during a run.

pub(crate) mod layout;
pub(crate) mod pick;
pub(crate) mod populate;
mod states;

pub use layout::{Layout, Population};
