//! What drives that are emulated were given, timed on simulated ones: a guest knows which commands its file system sends, in which
//! order and what it waits for, but not how long a drive takes.

mod commands;
mod drives;
mod host;
mod recording;
mod timed;

use senesce_claims::Facts;

pub use host::{HostSpeed, OVERWRITING, Place};
pub use recording::{Recording, Role, Traced, TracedDrive, Zones, now_ns};
pub use timed::{Host, Timed, hosts, time};

/// The simulated drives: what stands for the zoned and for the conventional one.
pub const ZONED_MODEL: &str = "zn540";
/// See [`ZONED_MODEL`].
pub const CONVENTIONAL_MODEL: &str = "nvme-a";
pub const NAMES: &str = "sim:zn540 and sim:nvme-a";
pub const CALLED: [&str; 2] = ["WD ZN540", "nvme-a"];

/// Facts of a run whose times are those of both models. What was measured in the guest itself is marked as such.
pub fn facts(facts: Facts) -> Facts {
    let drives = facts.drives.into_iter().chain(CALLED.map(String::from)).collect();
    Facts { emulated: false, model: Some(format!("sim:{ZONED_MODEL}")), drives, ..facts }
}

#[cfg(test)]
mod tests;
