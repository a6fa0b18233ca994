//! Replays requests to emulated drives on simulated ones. A guest records which commands its file system sends, in
//! which order, and the dependencies; the model supplies the drive's times.

mod commands;
mod drives;
mod host;
mod recording;
mod timed;

use senesce_claims::Facts;

pub(crate) use host::{HostSpeed, MachineRole, OVERWRITING};
pub(crate) use recording::{Recording, Role, TracedDrives, now_ns};
#[cfg(test)]
pub(crate) use recording::{TracedDrive, Zones};
pub(crate) use timed::{Host, TimedReplay, hosts, time};

pub(crate) const ZONED_MODEL: &str = "zn540";
pub(crate) const CONVENTIONAL_MODEL: &str = "nvme-a";
pub(crate) const NAMES: &str = "sim:zn540 and sim:nvme-a";
pub(crate) const CALLED: [&str; 2] = ["WD ZN540", "nvme-a"];

/// Facts of a run whose times come from both models. Values measured in the guest itself are marked as emulated.
pub(crate) fn facts(facts: Facts) -> Facts {
    let drives = facts.drives.into_iter().chain(CALLED.map(String::from)).collect();
    Facts { emulated: false, model: Some(format!("sim:{ZONED_MODEL}")), drives, ..facts }
}

#[cfg(test)]
mod tests;
