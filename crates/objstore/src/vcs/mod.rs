//! Version-control and backup programs as used by the DMV study, and senesce's own store.

pub mod files;
pub(crate) mod process;
pub(crate) mod system;

pub use process::{Outcome, ProcessResult, run};
pub use system::{Repository, Step, System};
