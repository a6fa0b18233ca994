//! Treatments of an aged file system.

use senesce_core::{ExitCode, Failure};
use senesce_volume::FileSystem;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;
use std::process::Command;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Arm {
    /// nothing
    None,
    /// all files are copied in path order to a new file system
    Copy,
    /// e4defrag, xfs_fsr, or btrfs filesystem defragment
    Tool,
}

impl Arm {
    /// Returns whether the arm exists for a file system. F2FS has no program that defragments all files.
    pub(crate) fn exists_for(self, fs: FileSystem) -> bool {
        self != Self::Tool || tool(fs).is_some()
    }

    pub(crate) fn action(self) -> &'static str {
        match self {
            Self::None => "untreated",
            Self::Copy => "copied in path order",
            Self::Tool => "defragmented by its tool",
        }
    }
}

impl fmt::Display for Arm {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::None => "none",
            Self::Copy => "copy",
            Self::Tool => "tool",
        })
    }
}

fn tool(fs: FileSystem) -> Option<&'static [&'static str]> {
    match fs {
        FileSystem::Ext4 => Some(&["e4defrag"]),
        FileSystem::Xfs => Some(&["xfs_fsr"]),
        FileSystem::Btrfs => Some(&["btrfs", "filesystem", "defragment", "-r", "-f"]),
        _ => None,
    }
}

/// Defragments all files below a mount point.
///
/// # Errors
/// The file system has no such tool; it is not installed, or failed.
pub(crate) fn defragment(fs: FileSystem, point: &Path) -> Result<(), Failure> {
    let failed = |words: String| Failure::new(ExitCode::RunFailed, words);
    let [program, arguments @ ..] = tool(fs).unwrap_or_default() else {
        return Err(failed(format!("{fs} has no program that defragments it")));
    };
    let ended = Command::new(program).args(arguments).arg(point).output();
    let ended = ended.map_err(|error| failed(format!("cannot start {program}: {error}")))?;
    let said = String::from_utf8_lossy(&ended.stderr);
    match ended.status.success() {
        true => Ok(()),
        false => Err(failed(format!("{program} failed ({}): {}", ended.status, said.trim()))),
    }
}
