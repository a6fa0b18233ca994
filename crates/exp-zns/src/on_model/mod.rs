//! Replays requests to emulated drives on simulated ones. A guest records which commands its file system sends, in
//! which order, and the dependencies; the model supplies the drive's times.

mod commands;
mod drives;
mod host;
mod recording;
mod timed;

use senesce_claims::Facts;

pub use host::{HostSpeed, MachineRole, OVERWRITING};
pub use recording::{Recording, Role, Traced, TracedDrive, Zones, now_ns};
pub use timed::{Host, Timed, hosts, time};

pub const ZONED_MODEL: &str = "zn540";
pub const CONVENTIONAL_MODEL: &str = "nvme-a";
pub const NAMES: &str = "sim:zn540 and sim:nvme-a";
pub const CALLED: [&str; 2] = ["WD ZN540", "nvme-a"];

/// Facts of a run whose times come from both models. Values measured in the guest itself are marked as emulated.
pub fn facts(facts: Facts) -> Facts {
    let drives = facts.drives.into_iter().chain(CALLED.map(String::from)).collect();
    Facts { emulated: false, model: Some(format!("sim:{ZONED_MODEL}")), drives, ..facts }
}

#[cfg(test)]
mod tests;
