//! The disk that file systems in memory are compared with.

use rustix::fs::statfs;
use senesce_core::failure::failed;
use senesce_core::{ExitCode, Failure};
use senesce_volume::ScratchDirectory;
use serde::{Deserialize, Serialize};
use std::convert::Infallible;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Disk(PathBuf);

/// Magic numbers of file systems in memory: tmpfs and ramfs (linux/magic.h).
const IN_MEMORY: [i64; 2] = [0x0102_1994, 0x8584_58f6];

impl Default for Disk {
    fn default() -> Self {
        Self("/var/tmp".into())
    }
}

impl FromStr for Disk {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.into()))
    }
}

impl fmt::Display for Disk {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.0.display())
    }
}

impl Disk {
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let found = statfs(&self.0).map_err(|error| failed("inspect", &self.0)(error.into()))?;
        if IN_MEMORY.contains(&found.f_type) {
            let words = format!("--disk {self} is in memory; name a directory on a disk");
            return Err(Failure::new(ExitCode::Missing, words));
        }
        Ok(())
    }

    pub(crate) fn scratch_directory(&self) -> Result<ScratchDirectory, Failure> {
        self.check()?;
        Ok(ScratchDirectory::create(&self.0, "tier")?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_in_memory_is_not_a_disk() {
        let disk = |text: &str| text.parse::<Disk>().unwrap();
        let failure = disk("/dev/shm").check().unwrap_err();
        assert_eq!(failure.exit_code(), ExitCode::Missing);
        assert!(failure.to_string().contains("is in memory"), "{failure}");
        assert!(disk("/no/such/place").check().is_err());
    }
}
