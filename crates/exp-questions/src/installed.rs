//! The kernels of a run.

use senesce_core::{ExitCode, Failure};
use senesce_guest::kernel;
use senesce_volume::guest::Guest;

/// The build that a name stands for; the name itself if none is installed, such as in a guest.
pub(crate) fn resolve(name: &str) -> String {
    kernel::with_virtual_time(name).map_or_else(|_| name.into(), |kernel| kernel.version)
}

/// Checks the kernels of a run before it starts or continues. `used`: those of its record.
///
/// # Errors
/// One is not installed, or a name no longer stands for the kernel of the record.
pub(crate) fn check<'a>(names: &[String], used: impl IntoIterator<Item = &'a str>) -> Result<(), Failure> {
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
                "this run began with kernel {other}, and {} stands for {} now\nhint: begin another run with --out DIR",
                names.join(", "),
                installed.join(", ")
            ),
        )),
    }
}
