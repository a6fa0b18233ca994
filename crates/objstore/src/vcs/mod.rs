//! Version-control and backup programs as the DMV study drove them, with senesce's own store beside them.

pub mod files;
pub mod process;
pub mod system;

pub use process::{Outcome, Ran, run};
pub use system::{Repository, Step, System};
