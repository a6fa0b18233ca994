//! Slows a block device down by control groups, so that a device in memory takes as long as a slow one. It uses
//! `io.max` of version 2 if it has the controller (Documentation/admin-guide/cgroup-v2.rst, "IO Interface Files"), else
//! the throttle files of version 1 (Documentation/admin-guide/cgroup-v1/blkio-controller.rst).

use crate::block_device::BlockDevice;
use crate::error::TargetError;
use crate::guardian::Guardian;
use crate::limits::{AppliedLimits, version_2_has};
use senesce_core::Bytes;
use std::fs;
use std::path::{Path, PathBuf};

/// The root group of version 1 includes all write-back by kernel threads. In version 2 write-back belongs to the group
/// that dirtied the pages, and the root group cannot be limited.
const FOLDER: &str = "/sys/fs/cgroup/blkio";

/// Limits of a device, for reads and for writes each. `None`: unlimited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RateLimit {
    pub bytes_per_second: Option<Bytes>,
    pub requests_per_second: Option<u64>,
}

/// A limit in force until it is dropped: of version 1 for all programs, of version 2 for this process.
#[derive(Debug, Default)]
pub struct AppliedRateLimit {
    rules: Vec<Rule>,
    _group: Option<AppliedLimits>,
}

/// A line in a throttle file of version 1. It applies to all programs and outlives its device.
#[derive(Debug)]
struct Rule {
    path: PathBuf,
    none: String,
    guardian: Guardian,
}

impl RateLimit {
    /// Applies the limit. [`TargetError::Missing`] without the io controller of control groups (or blkio of version 1).
    pub fn apply(self, device: &BlockDevice) -> Result<AppliedRateLimit, TargetError> {
        if self == Self::default() {
            return Ok(AppliedRateLimit::default());
        }
        let (major, minor) = device.number();
        if version_2_has("io") {
            let mut group = AppliedLimits::default();
            // Without the memory controller, write-back would belong to the root group.
            group.enter("", &[("memory.max", "max"), ("io.max", &self.io_max(major, minor))])?;
            return Ok(AppliedRateLimit { rules: Vec::new(), _group: Some(group) });
        }
        let mut applied = AppliedRateLimit::default();
        let limits = [("bps", self.bytes_per_second.map(|bytes| bytes.0)), ("iops", self.requests_per_second)];
        for (unit, limit) in limits.into_iter().filter_map(|(unit, limit)| Some((unit, limit?))) {
            for direction in ["read", "write"] {
                let path = Path::new(FOLDER).join(format!("blkio.throttle.{direction}_{unit}_device"));
                applied.rules.push(Rule::set(path, (major, minor), limit)?);
            }
        }
        Ok(applied)
    }

    fn io_max(self, major: u32, minor: u32) -> String {
        let limits = [("bps", self.bytes_per_second.map(|bytes| bytes.0)), ("iops", self.requests_per_second)];
        let words = limits.into_iter().filter_map(|(unit, limit)| Some((unit, limit?)));
        let words: Vec<String> = words.map(|(unit, limit)| format!("r{unit}={limit} w{unit}={limit}")).collect();
        format!("{major}:{minor} {}", words.join(" "))
    }
}

impl Rule {
    fn set(path: PathBuf, (major, minor): (u32, u32), limit: u64) -> Result<Self, TargetError> {
        let none = format!("{major}:{minor} 0");
        let guardian = Guardian::of_value(&path, &none)?;
        // Made first, so that its drop undoes a failed write.
        let rule = Self { path, none, guardian };
        match fs::write(&rule.path, format!("{major}:{minor} {limit}")) {
            Ok(()) => Ok(rule),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(TargetError::missing(
                format!("the control-group file {}", rule.path.display()),
                "enable the io controller of control groups (or mount blkio of version 1), or leave out the rate limit",
            )),
            Err(error) => Err(TargetError::io("set a rate limit in", &rule.path)(error)),
        }
    }
}

impl Drop for Rule {
    fn drop(&mut self) {
        // If this fails, the guardian tries again when it ends.
        if fs::write(&self.path, &self.none).is_ok() || !self.path.exists() {
            self.guardian.dismiss();
        }
    }
}

/// Lifts rules that other programs left on a device that is now ours. A rule outlives its loop device and would slow
/// the next one with that number.
pub(crate) fn lift_all(device: &BlockDevice) -> Result<(), TargetError> {
    let (major, minor) = device.number();
    for direction in ["read", "write"] {
        for unit in ["bps", "iops"] {
            let path = Path::new(FOLDER).join(format!("blkio.throttle.{direction}_{unit}_device"));
            let rules = fs::read_to_string(&path).unwrap_or_default();
            if has_rule(&rules, (major, minor)) {
                fs::write(&path, format!("{major}:{minor} 0"))
                    .map_err(TargetError::io("lift a rate limit in", &path))?;
            }
        }
    }
    Ok(())
}

fn has_rule(rules: &str, (major, minor): (u32, u32)) -> bool {
    rules.lines().any(|line| line.split_whitespace().next() == Some(&format!("{major}:{minor}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loop_device::LoopDevice;

    #[test]
    fn rule_is_matched_by_full_device_number() {
        assert!(has_rule("8:0 100\n7:1 60\n", (7, 1)));
        assert!(!has_rule("7:10 60\n", (7, 1)));
        assert!(!has_rule("", (7, 1)));
    }

    #[test]
    #[ignore = "needs control groups, loop devices"]
    fn stale_throttle_rule_does_not_slow_next_loop_device() {
        let path = Path::new(FOLDER).join("blkio.throttle.read_iops_device");
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        let device = LoopDevice::attach(&file, "stale", false).unwrap();
        let found = BlockDevice::open(device.path()).unwrap();
        let rules = || fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("{}:{} 100000", found.number().0, found.number().1)).unwrap();
        assert!(has_rule(&rules(), found.number()));
        lift_all(&found).unwrap();
        assert!(!has_rule(&rules(), found.number()));
        let limit = RateLimit { bytes_per_second: None, requests_per_second: Some(100_000) };
        let applied = limit.apply(&found).unwrap();
        assert!(has_rule(&rules(), found.number()));
        drop(applied);
        assert!(!has_rule(&rules(), found.number()));
    }

    #[test]
    fn limit_of_cgroup_version_2_is_one_line() {
        let limit = RateLimit { bytes_per_second: Some(Bytes::mib(10)), requests_per_second: Some(200) };
        assert_eq!(limit.io_max(7, 3), "7:3 rbps=10485760 wbps=10485760 riops=200 wiops=200");
    }
}
