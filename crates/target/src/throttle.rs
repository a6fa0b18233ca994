//! Slows a block device down through the version-1 control-group controller blkio
//! (Documentation/admin-guide/cgroup-v1/blkio-controller.rst), so that a device in memory takes as long as a slow one.

use crate::block_device::BlockDevice;
use crate::error::TargetError;
use senesce_core::Bytes;
use std::fs;
use std::path::{Path, PathBuf};

/// The root group: write-back by kernel threads belongs to it, whoever made the pages dirty.
const FOLDER: &str = "/sys/fs/cgroup/blkio";

/// Limits of a device, for reads and for writes each. `None`: no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RateLimit {
    /// Bytes per second.
    pub bytes_per_second: Option<Bytes>,
    /// Requests per second.
    pub requests_per_second: Option<u64>,
}

/// A limit in force until it is dropped.
#[derive(Debug)]
pub struct AppliedRateLimit {
    undo: Vec<(PathBuf, String)>,
}

impl RateLimit {
    /// Limits a device.
    pub fn apply(self, device: &BlockDevice) -> Result<AppliedRateLimit, TargetError> {
        let (major, minor) = device.number();
        let mut applied = AppliedRateLimit { undo: Vec::new() };
        let limits = [("bps", self.bytes_per_second.map(|bytes| bytes.0)), ("iops", self.requests_per_second)];
        for (unit, limit) in limits.into_iter().filter_map(|(unit, limit)| Some((unit, limit?))) {
            for direction in ["read", "write"] {
                let path = Path::new(FOLDER).join(format!("blkio.throttle.{direction}_{unit}_device"));
                fs::write(&path, format!("{major}:{minor} {limit}")).map_err(|error| match error.kind() {
                    std::io::ErrorKind::NotFound => TargetError::missing(
                        format!("the control-group file {}", path.display()),
                        "mount the version-1 blkio controller, or leave out the rate limit",
                    ),
                    _ => TargetError::io("set a rate limit in", &path)(error),
                })?;
                applied.undo.push((path, format!("{major}:{minor} 0")));
            }
        }
        Ok(applied)
    }
}

impl Drop for AppliedRateLimit {
    fn drop(&mut self) {
        for (path, none) in &self.undo {
            // The rule goes with the device at the latest.
            let _ = fs::write(path, none);
        }
    }
}
