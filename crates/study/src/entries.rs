//! The entries of a study: file systems, states, workloads, and exceptions.

use crate::command::metric::MetricSpec;
use crate::device_state::DeviceState;
use senesce_aging::{Churn, CommitShare, Data, Truncate};
use senesce_core::parameter::suggest;
use senesce_core::{Bytes, Failure, Span};
use senesce_volume::{CustomFileSystem, FileSystem, MountedTarget, OpenOptions};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A file system with its options.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileSystemSpec {
    /// `ext4`, `xfs`, `btrfs`, `f2fs`, `nilfs2`; `zoned-btrfs` and `zoned-f2fs` on the zoned drive of a guest;
    /// `custom`: by its commands.
    pub kind: String,
    /// Name in tables; default: the kind.
    #[serde(default)]
    pub name: String,
    /// Options of mkfs; of a custom one the command that makes it on `$DEVICE`.
    #[serde(default)]
    pub mkfs: String,
    /// Mount options; of a custom one the command that mounts `$DEVICE` on `$MNT`.
    #[serde(default)]
    pub mount: String,
    /// Shell command after each mount: `$MNT`, `$DEVICE`, and `$SYSFS`, the folder of the file system's settings
    /// (`/sys/fs/ext4/loop0`).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub after_mount: String,
    /// Custom: the command that unmounts `$MNT`; default: umount(2).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unmount: String,
    /// Custom: the command that checks `$DEVICE` and changes nothing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub fsck: String,
    /// Kernel: `host` (also when empty), or a release of the guest.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kernel: String,
    /// Block device onto which its images are copied before every run; none: they are used as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<PathBuf>,
}

/// How an image gets its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StateKind {
    /// An empty file system.
    Fresh,
    /// Aged by a profile.
    Aged,
    /// The same files as in the state `of`, copied in order to an empty file system, with the same kind of extents.
    Copy,
    /// Filled once, nothing deleted.
    WriteOnce,
    /// A saved image.
    Image,
    /// Aged by a program.
    Command,
}

/// A state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StateSpec {
    /// How it is made.
    pub kind: StateKind,
    /// Name in tables; default: the kind.
    #[serde(default)]
    pub name: String,
    /// Profile (aged, write-once).
    #[serde(default)]
    pub profile: String,
    /// Fullness, a share of the size from 0 to 1 (aged, write-once).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fullness: Option<f64>,
    /// Overwrites, in multiples of the size (aged); default: until convergence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overwrites: Option<f64>,
    /// How files get their size.
    #[serde(default)]
    pub data: Data,
    /// Which sizes are replaced.
    #[serde(default)]
    pub churn: Churn,
    /// How to handle files larger than the volume.
    #[serde(default)]
    pub truncate: Truncate,
    /// Share of the free space that is freed between two commits, or `none` (aged).
    #[serde(default)]
    pub commit_share: CommitShare,
    /// How close in birth the files of a directory are, from 0 to 1 (aged); default: that of the profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locality: Option<f64>,
    /// The state whose files are copied (copy).
    #[serde(default)]
    pub of: String,
    /// The image file (image).
    #[serde(default)]
    pub path: String,
    /// A program and its arguments, started in the mounted volume (command).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Time after which the program is ended (command); default: 1h.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// Maximum bytes of the files that the program leaves (command).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<Bytes>,
    /// Folder of the study's file, if the command uses `SENESCE_STUDY` or a file there. Set when the study is read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<PathBuf>,
}

impl FileSystemSpec {
    pub fn named(kind: &str) -> Self {
        let (kind, name) = (kind.to_string(), kind.to_string());
        Self { kind, name, mkfs: String::new(), mount: String::new(), ..Self::default() }
    }
}

impl StateSpec {
    pub fn named(kind: StateKind, name: &str) -> Self {
        Self {
            kind,
            name: name.into(),
            profile: String::new(),
            fullness: None,
            overwrites: None,
            data: Data::default(),
            churn: Churn::default(),
            truncate: Truncate::default(),
            commit_share: CommitShare::default(),
            locality: None,
            of: String::new(),
            path: String::new(),
            command: Vec::new(),
            timeout: None,
            space: None,
            folder: None,
        }
    }
}

/// A workload: exactly one of `personality`, `file`, `microbenchmark`, `ready`, `command`, `cold_read`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadSpec {
    /// Name in tables; default: its kind.
    #[serde(default)]
    pub name: String,
    /// A built-in personality.
    #[serde(default)]
    pub personality: String,
    /// A file in the workload language.
    #[serde(default)]
    pub file: String,
    /// One file operation, each on its own ("create", "unlink" ...).
    #[serde(default)]
    pub microbenchmark: String,
    /// Read all existing files from a cold cache.
    #[serde(default)]
    pub cold_read: bool,
    /// Factor for the file sets of a personality.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<f64>,
    /// Seconds of measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// A built-in workload that is not a personality ("build", "database" ...).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub ready: String,
    /// A program and its arguments, started in the mounted volume.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// A program that runs before, and is not measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prepare: Vec<String>,
    /// Folder of the study's file, if a command uses `SENESCE_STUDY` or a file there. Set when the study is read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<PathBuf>,
    /// Time after which the program is ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// Maximum bytes that the program writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<Bytes>,
    /// How the program is measured; default: by its own time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<MetricSpec>,
    /// Variables of the workload.
    #[serde(default)]
    pub set: BTreeMap<String, String>,
    /// Starts many ranks that run it together: `mpirun -n 4`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub launcher: String,
}

/// An exception: its cells and their settings.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CellSpec {
    /// Only this file system.
    #[serde(default)]
    pub file_system: String,
    /// Only this state.
    #[serde(default)]
    pub state: String,
    /// Only this workload.
    #[serde(default)]
    pub workload: String,
    /// Leave them out.
    #[serde(default)]
    pub skip: bool,
    /// Memory of the run, page cache included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Bytes>,
    /// CPUs of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<f64>,
    /// Run them in the guest.
    #[serde(default)]
    pub vm: bool,
    /// Kernel: `host`, or a release of the guest.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kernel: String,
    /// Preparation of the device below before every run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_state: Option<DeviceState>,
    /// Factor for the file sets of a personality, or the size of a ready workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<f64>,
    /// Variables of the workload, over its own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, String>,
}

pub const CUSTOM: &str = "custom";

const ZONED_KINDS: [(&str, FileSystem); 2] = [("zoned-btrfs", FileSystem::Btrfs), ("zoned-f2fs", FileSystem::F2fs)];

impl FileSystemSpec {
    pub(crate) fn is_zoned(&self) -> bool {
        ZONED_KINDS.iter().any(|(word, _)| *word == self.kind)
    }

    pub(crate) fn custom(&self) -> Option<CustomFileSystem> {
        (self.kind == CUSTOM).then(|| CustomFileSystem {
            mkfs: self.mkfs.clone(),
            mount: self.mount.clone(),
            unmount: self.unmount.clone(),
            check: self.fsck.clone(),
        })
    }

    /// Options to make it or, with `keep_existing`, to mount it again; `before` are mkfs options before its own.
    pub fn run_hook(&self, target: &MountedTarget) -> Result<(), Failure> {
        if self.after_mount.is_empty() {
            return Ok(());
        }
        Ok(target.run_hook(&self.after_mount)?)
    }

    pub fn open_options(&self, before: &str) -> Result<OpenOptions, String> {
        Ok(match self.custom() {
            Some(custom) => OpenOptions { custom: Some(custom), ..OpenOptions::default() },
            None => OpenOptions {
                mkfs_options: [before, &self.mkfs].join(" ").trim().to_string(),
                mount_options: self.mount.clone(),
                ..OpenOptions::fresh(self.kind()?)
            },
        })
    }

    pub fn kind(&self) -> Result<FileSystem, String> {
        let zoned = ZONED_KINDS.iter().find(|(word, _)| *word == self.kind).map(|(_, kind)| Ok(*kind));
        zoned.unwrap_or_else(|| self.kind.parse()).map_err(|_| {
            let known: Vec<&str> = FileSystem::ALL
                .map(FileSystem::name)
                .into_iter()
                .chain(ZONED_KINDS.map(|(word, _)| word))
                .chain([CUSTOM])
                .collect();
            format!(
                "unknown kind '{}'{}; choose from {}",
                self.kind,
                suggest(&self.kind, known.iter().copied()),
                known.join(", ")
            )
        })
    }
}

impl StateKind {
    pub fn word(self) -> &'static str {
        match self {
            Self::Fresh => "fresh",
            Self::Aged => "aged",
            Self::Copy => "copy",
            Self::WriteOnce => "write-once",
            Self::Image => "image",
            Self::Command => "command",
        }
    }
}
