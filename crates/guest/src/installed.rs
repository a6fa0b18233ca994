//! What the kernels and images of a run must be.

use crate::kernel;
use senesce_core::{ExitCode, Failure, Size};
use senesce_volume::FileSystem;
use senesce_volume::guest::Guest;

/// Checks that an image of this size is large enough for each file system.
///
/// # Errors
/// An image of this size is too small for one of the file systems.
pub fn check_size(size: Size, file_systems: impl IntoIterator<Item = FileSystem>) -> Result<(), Failure> {
    match file_systems.into_iter().find(|fs| size.0 < fs.minimum_size()) {
        None => Ok(()),
        Some(fs) => {
            let least = fs.minimum_size();
            Err(Failure::usage(format!("--size {size}: too small for {fs}, which needs {least}")))
        }
    }
}

/// Returns the build that a name stands for, or the name itself if the build is not installed, such as in a guest.
pub fn resolve(name: &str) -> String {
    kernel::with_virtual_time(name).map_or_else(|_| name.into(), |kernel| kernel.version)
}

/// Checks the kernels of a run before it starts or continues. `used`: those of its record.
///
/// # Errors
/// One is not installed, or a name no longer stands for the kernel of the record.
pub fn check<'a>(names: &[String], used: impl IntoIterator<Item = &'a str>) -> Result<(), Failure> {
    if Guest::here().is_some() {
        return Ok(());
    }
    let installed: Vec<String> =
        names.iter().map(|name| Ok(kernel::with_virtual_time(name)?.version)).collect::<Result<_, Failure>>()?;
    match used.into_iter().find(|used| !installed.iter().any(|one| one == used)) {
        None => Ok(()),
        Some(other) => Err(Failure::new(
            ExitCode::Missing,
            format!(
                "this run began with kernel {other}, but {} now refers to {}\nhint: begin another run with --out DIR",
                names.join(", "),
                installed.join(", ")
            ),
        )),
    }
}
