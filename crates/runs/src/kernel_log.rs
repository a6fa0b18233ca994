//! Kernel messages about a device during a measurement.

use senesce_core::{ExitCode, Failure, number_of};

pub fn fail_on(warnings: Vec<String>) -> Result<(), Failure> {
    match warnings.first() {
        None => Ok(()),
        Some(first) => Err(Failure::new(
            ExitCode::RunFailed,
            format!("the kernel warned {}, first: {first}", number_of(warnings.len(), "time")),
        )),
    }
}
