//! Published experiments on object stores.

mod chunk_size;
pub mod io_scheduler;
pub mod object_dirs;
mod vcs_scaling;

use senesce_core::Environment;
use senesce_runner::{Reproducible, experiment};

#[rustfmt::skip]
pub const EXPERIMENTS: &[&dyn Reproducible] = &[
    experiment::<object_dirs::ObjectDirs>(),
    experiment::<chunk_size::ChunkSize>(),
    experiment::<io_scheduler::IoScheduler>(),
    experiment::<vcs_scaling::VcsScaling>(),
];

/// Returns whether a run wrote to the drive with this model name of the kernel.
fn is_on(environment: &Environment, model: &str) -> bool {
    let stated = environment.0.get("device.model").and_then(serde_json::Value::as_str);
    stated.is_some_and(|stated| stated.contains(model))
}
