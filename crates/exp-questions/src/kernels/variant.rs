//! File systems with options that all kernels know, made by one mkfs.

use senesce_study::spec::FileSystemSpec;
use senesce_volume::FileSystem;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A file system under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Variant {
    /// ext4, mb_optimize_scan=1 (the default from 16 block groups on)
    Ext4,
    /// ext4, mb_optimize_scan=0
    Ext4LinearScan,
    Xfs,
    Btrfs,
    F2fs,
}

impl Variant {
    pub(crate) fn kind(self) -> FileSystem {
        match self {
            Self::Ext4 | Self::Ext4LinearScan => FileSystem::Ext4,
            Self::Xfs => FileSystem::Xfs,
            Self::Btrfs => FileSystem::Btrfs,
            Self::F2fs => FileSystem::F2fs,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ext4LinearScan => "ext4-linear-scan",
            other => other.kind().name(),
        }
    }

    pub(crate) fn spec(self) -> FileSystemSpec {
        let (mkfs, mount) = match self {
            // Without it, small images have 1 KiB blocks.
            Self::Ext4 => ("-b 4096", "mb_optimize_scan=1"),
            Self::Ext4LinearScan => ("-b 4096", "mb_optimize_scan=0"),
            _ => ("", ""),
        };
        FileSystemSpec {
            kind: self.kind().name().into(),
            name: self.name().into(),
            mkfs: mkfs.into(),
            mount: mount.into(),
            ..FileSystemSpec::default()
        }
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}
