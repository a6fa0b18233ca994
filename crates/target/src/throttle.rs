//! Slows a block device down through control groups, so that a device in memory takes as long as a slow one: `io.max` of
//! version 2 (Documentation/admin-guide/cgroup-v2.rst, "IO Interface Files") where it has the controller, else the
//! throttle files of the version-1 controller blkio (Documentation/admin-guide/cgroup-v1/blkio-controller.rst).

use crate::block_device::BlockDevice;
use crate::error::TargetError;
use crate::limits::{AppliedLimits, version_2_has};
use senesce_core::Bytes;
use std::fs;
use std::path::{Path, PathBuf};

/// The root group of version 1: write-back by kernel threads belongs to it, whoever made the pages dirty. In version 2 it
/// belongs to the group that made them dirty, and the root group cannot be limited.
const FOLDER: &str = "/sys/fs/cgroup/blkio";

/// Limits of a device, for reads and for writes each. `None`: no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RateLimit {
    /// Bytes per second.
    pub bytes_per_second: Option<Bytes>,
    /// Requests per second.
    pub requests_per_second: Option<u64>,
}

/// A limit in force until it is dropped: of version 1 for everyone, of version 2 for this process.
#[derive(Debug, Default)]
pub struct AppliedRateLimit {
    undo: Vec<(PathBuf, String)>,
    _group: Option<AppliedLimits>,
}

impl RateLimit {
    /// Limits a device.
    pub fn apply(self, device: &BlockDevice) -> Result<AppliedRateLimit, TargetError> {
        if self == Self::default() {
            return Ok(AppliedRateLimit::default());
        }
        let (major, minor) = device.number();
        if version_2_has("io") {
            let mut group = AppliedLimits::default();
            // Without the memory controller, write-back would belong to the root group.
            group.enter("", &[("memory.max", "max"), ("io.max", &self.io_max(major, minor))])?;
            return Ok(AppliedRateLimit { undo: Vec::new(), _group: Some(group) });
        }
        let mut applied = AppliedRateLimit::default();
        let limits = [("bps", self.bytes_per_second.map(|bytes| bytes.0)), ("iops", self.requests_per_second)];
        for (unit, limit) in limits.into_iter().filter_map(|(unit, limit)| Some((unit, limit?))) {
            for direction in ["read", "write"] {
                let path = Path::new(FOLDER).join(format!("blkio.throttle.{direction}_{unit}_device"));
                fs::write(&path, format!("{major}:{minor} {limit}")).map_err(|error| match error.kind() {
                    std::io::ErrorKind::NotFound => TargetError::missing(
                        format!("the control-group file {}", path.display()),
                        "enable the io controller of control groups (or mount blkio of version 1), or leave out the rate limit",
                    ),
                    _ => TargetError::io("set a rate limit in", &path)(error),
                })?;
                applied.undo.push((path, format!("{major}:{minor} 0")));
            }
        }
        Ok(applied)
    }

    /// A line of `io.max`.
    fn io_max(self, major: u32, minor: u32) -> String {
        let limits = [("bps", self.bytes_per_second.map(|bytes| bytes.0)), ("iops", self.requests_per_second)];
        let words = limits.into_iter().filter_map(|(unit, limit)| Some((unit, limit?)));
        let words: Vec<String> = words.map(|(unit, limit)| format!("r{unit}={limit} w{unit}={limit}")).collect();
        format!("{major}:{minor} {}", words.join(" "))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_version_2_is_one_line() {
        let limit = RateLimit { bytes_per_second: Some(Bytes::mib(10)), requests_per_second: Some(200) };
        assert_eq!(limit.io_max(7, 3), "7:3 rbps=10485760 wbps=10485760 riops=200 wiops=200");
    }
}
