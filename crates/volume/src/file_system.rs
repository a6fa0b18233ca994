//! The file systems that can be made, with their programs.

use crate::claim::ClaimedDevice;
use crate::error::TargetError;
use senesce_core::Bytes;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::str::FromStr;

/// A file system that senesce can make, mount and check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileSystem {
    /// The fourth extended file system.
    Ext4,
    /// XFS.
    Xfs,
    /// btrfs.
    Btrfs,
    /// The flash-friendly file system.
    F2fs,
    /// The log-structured file system NILFS2.
    Nilfs2,
}

/// What its own checker said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckReport {
    /// The command line.
    pub command: String,
    /// Whether the checker found nothing to complain about.
    pub clean: bool,
    /// What it printed.
    pub output: String,
}

struct Programs {
    name: &'static str,
    package: &'static str,
    mkfs: &'static [&'static str],
    version: &'static [&'static str],
    checker: &'static [&'static str],
    inspect_mount: &'static str,
}

impl FileSystem {
    /// All of them.
    pub const ALL: [FileSystem; 5] = [Self::Ext4, Self::Xfs, Self::Btrfs, Self::F2fs, Self::Nilfs2];

    fn programs(self) -> Programs {
        match self {
            // Lazy initialisation would go on writing behind a measurement (mke2fs(8), -E lazy_itable_init). The group of a top
            // directory, and so where its files lie, follows from its name and this seed (fs/ext4/ialloc.c, find_group_orlov),
            // which is random where none is given: the same aging would not repeat.
            Self::Ext4 => Programs {
                name: "ext4",
                package: "e2fsprogs",
                mkfs: &[
                    "mkfs.ext4",
                    "-q",
                    "-F",
                    "-E",
                    "lazy_itable_init=0,lazy_journal_init=0,hash_seed=73656e65-7363-6521-8f00-000000000000",
                ],
                version: &["mkfs.ext4", "-V"],
                checker: &["e2fsck", "-fn"],
                inspect_mount: "ro,noload",
            },
            Self::Xfs => Programs {
                name: "xfs",
                package: "xfsprogs",
                mkfs: &["mkfs.xfs", "-q", "-f"],
                version: &["mkfs.xfs", "-V"],
                checker: &["xfs_repair", "-n"],
                inspect_mount: "ro,norecovery,nouuid",
            },
            Self::Btrfs => Programs {
                name: "btrfs",
                package: "btrfs-progs",
                mkfs: &["mkfs.btrfs", "-q", "-f"],
                version: &["mkfs.btrfs", "--version"],
                checker: &["btrfs", "check", "--readonly"],
                inspect_mount: "ro,rescue=nologreplay",
            },
            Self::F2fs => Programs {
                name: "f2fs",
                package: "f2fs-tools",
                mkfs: &["mkfs.f2fs", "-f"],
                version: &["mkfs.f2fs", "-V"],
                checker: &["fsck.f2fs", "--dry-run"],
                inspect_mount: "ro,norecovery",
            },
            Self::Nilfs2 => Programs {
                name: "nilfs2",
                package: "nilfs-tools",
                mkfs: &["mkfs.nilfs2", "-q", "-f"],
                version: &["mkfs.nilfs2", "-V"],
                checker: &[],
                inspect_mount: "ro,norecovery",
            },
        }
    }

    /// Its name, as in `mount -t`.
    pub fn name(self) -> &'static str {
        self.programs().name
    }

    /// The least size that its mkfs takes without options (xfsprogs 6.1, btrfs-progs 6.2, f2fs-tools 1.15, nilfs-tools 2.2;
    /// ext4 without a journal would do with less).
    pub fn least_size(self) -> Bytes {
        match self {
            Self::Ext4 => Bytes::mib(8),
            Self::Xfs => Bytes::mib(300),
            Self::Btrfs => Bytes::mib(109),
            Self::F2fs => Bytes::mib(64),
            Self::Nilfs2 => Bytes::mib(129),
        }
    }

    /// The Debian package that holds its programs.
    pub fn package(self) -> &'static str {
        self.programs().package
    }

    /// Mount options that read it without replaying its journal, so that the device is never written.
    pub fn inspect_options(self) -> &'static str {
        self.programs().inspect_mount
    }

    /// Options of mkfs for an image whose holes read as zeros: nothing is discarded, and no table or journal zeroed.
    pub(crate) fn unwritten_options(self) -> &'static str {
        match self {
            Self::Ext4 => {
                "-E nodiscard,lazy_itable_init=1,lazy_journal_init=1,hash_seed=73656e65-7363-6521-8f00-000000000000"
            }
            Self::Xfs | Self::Btrfs | Self::Nilfs2 => "-K",
            Self::F2fs => "-t 0",
        }
    }

    /// Mount options for such a file system: tables are not zeroed behind the run either.
    pub(crate) fn unwritten_mount_options(self) -> &'static str {
        match self {
            Self::Ext4 => "noinit_itable",
            _ => "",
        }
    }

    /// Whether the running kernel has it, built in or as a module that it can load. Without root nothing can be tried: `true`.
    pub fn is_supported(self) -> bool {
        // The type is looked up before the device, which does not exist: ENODEV is about the type (mount(2)).
        let none = rustix::mount::MountFlags::empty();
        let tried = rustix::mount::mount("senesce-no-such-device", "/", self.name(), none, None);
        tried != Err(rustix::io::Errno::NODEV)
    }

    /// What `mkfs` says about its version.
    pub fn mkfs_version(self) -> Result<String, TargetError> {
        let output = run(self.programs().version, &[], self.package())?;
        let line = output.text.lines().map(str::trim).find(|line| line.chars().any(|c| c.is_ascii_digit()));
        Ok(line.unwrap_or("unknown").to_string())
    }

    /// Makes this file system on a claimed device; `options` are split at blanks and passed on. Returns the command.
    pub fn make(self, device: &ClaimedDevice, options: &str) -> Result<String, TargetError> {
        device.check_again()?;
        let words = self.mkfs_words(options);
        let path = device.path().to_string_lossy();
        let arguments: Vec<&str> = words.iter().map(String::as_str).chain([&*path]).collect();
        let output = run(&self.programs().mkfs[..1], &arguments, self.package())?;
        match output.success {
            true => Ok(output.command),
            false => Err(output.failure()),
        }
    }

    /// The options of mkfs: ours, then those of `options`.
    fn mkfs_words(self, options: &str) -> Vec<String> {
        let own = self.programs().mkfs[1..].iter().copied();
        let words = own.chain(options.split_whitespace());
        match self {
            Self::Ext4 => merge_extended(words),
            _ => words.map(str::to_string).collect(),
        }
    }

    /// Runs its own checker, which writes nothing, on an unmounted device. `None`: it has no checker.
    pub fn check(self, device: &Path) -> Result<Option<CheckReport>, TargetError> {
        let checker = self.programs().checker;
        if checker.is_empty() {
            return Ok(None);
        }
        let output = run(checker, &[&device.to_string_lossy()], self.package())?;
        Ok(Some(CheckReport { command: output.command, clean: output.success, output: output.text }))
    }

    /// Its features as it tells them itself, if there is a way to ask.
    pub fn features(self, device: &Path, mount_point: &Path) -> Option<String> {
        let (command, target): (&[&str], &Path) = match self {
            Self::Ext4 => (&["dumpe2fs", "-h"], device),
            Self::Xfs => (&["xfs_info"], mount_point),
            Self::Btrfs => (&["btrfs", "inspect-internal", "dump-super"], device),
            Self::F2fs | Self::Nilfs2 => return None,
        };
        let output = run(command, &[&target.to_string_lossy()], self.package()).ok().filter(|output| output.success)?;
        Some(match self {
            Self::Ext4 => field(&output.text, "Filesystem features:")?,
            Self::Btrfs => btrfs_features(&output.text),
            _ => output.text.split_whitespace().collect::<Vec<_>>().join(" "),
        })
    }
}

/// Makes one list of all extended options: of several `-E` mke2fs takes the last alone (misc/mke2fs.c, `PRS`), and a user's would
/// take ours away. Within a list the last of a kind counts.
fn merge_extended<'a>(words: impl Iterator<Item = &'a str>) -> Vec<String> {
    let (mut kept, mut extended) = (Vec::new(), Vec::<&str>::new());
    let mut words = words.peekable();
    while let Some(word) = words.next() {
        let list = match word.strip_prefix("-E") {
            Some("") => words.next(),
            Some(list) => Some(list),
            None => None,
        };
        let Some(list) = list else {
            kept.push(word.to_string());
            continue;
        };
        for option in list.split(',') {
            let kind = |option: &str| option.split('=').next().map(str::to_string);
            extended.retain(|known| kind(known) != kind(option));
            extended.push(option);
        }
    }
    if !extended.is_empty() {
        kept.extend(["-E".to_string(), extended.join(",")]);
    }
    kept
}

fn field(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn btrfs_features(text: &str) -> String {
    let wanted = ["csum_type", "sectorsize", "nodesize", "compat_ro_flags", "incompat_flags"];
    let mut lines = text.lines().peekable();
    let mut found = Vec::new();
    while let Some(line) = lines.next() {
        let mut words = line.split_whitespace();
        let Some(name) = words.next().filter(|name| wanted.contains(name)) else { continue };
        found.push(format!("{name}={}", words.collect::<Vec<_>>().join(" ")));
        while let Some(more) = lines.next_if(|line| line.starts_with("\t\t\t")) {
            found.push(more.trim().trim_matches(['(', ')', '|']).trim().to_string());
        }
    }
    found.retain(|word| !word.is_empty());
    found.join(" ")
}

impl fmt::Display for FileSystem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for FileSystem {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        Self::ALL.into_iter().find(|known| known.name() == text).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|known| known.name()).collect();
            TargetError::Usage(format!("'{text}' is not a file system senesce can make: it knows {}", names.join(", ")))
        })
    }
}

/// A program that has ended.
pub(crate) struct Ended {
    pub command: String,
    pub success: bool,
    pub status: String,
    pub text: String,
}

impl Ended {
    pub(crate) fn failure(self) -> TargetError {
        // Some programs add their whole usage to the reason.
        let reason = self.text.split("Usage:").next().filter(|reason| !reason.trim().is_empty()).unwrap_or(&self.text);
        let mut lines: Vec<&str> = reason.lines().filter(|line| !line.trim().is_empty()).rev().take(6).collect();
        lines.reverse();
        let output = lines.join(" / ");
        TargetError::Program { command: self.command, status: self.status, output }
    }
}

/// Runs a program without input, with its output and errors collected, in the C locale.
pub(crate) fn run(program: &[&str], arguments: &[&str], package: &str) -> Result<Ended, TargetError> {
    let words: Vec<&str> = program.iter().chain(arguments).copied().collect();
    let output = Command::new(words[0])
        .args(&words[1..])
        .env("LC_ALL", "C")
        .env("PATH", search_path())
        .stdin(Stdio::null())
        .output()
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => TargetError::missing(
                format!("the program {}", words[0]),
                format!("install the package {package} (apt-get install {package})"),
            ),
            _ => TargetError::io("run", Path::new(words[0]))(error),
        })?;
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    Ok(Ended {
        command: words.join(" "),
        success: output.status.success(),
        status: output.status.to_string(),
        text: text.trim().to_string(),
    })
}

/// Users' search paths often lack the directories where file-system programs live.
fn search_path() -> String {
    format!("{}:/usr/sbin:/sbin:/usr/local/sbin", std::env::var("PATH").unwrap_or_else(|_| "/usr/bin:/bin".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_others_refused() {
        for known in FileSystem::ALL {
            assert_eq!(known.name().parse::<FileSystem>().unwrap(), known);
        }
        assert!(matches!("zfs".parse::<FileSystem>(), Err(TargetError::Usage(_))));
    }

    #[test]
    fn extended_options_of_a_user_join_ours() {
        let seed = "hash_seed=73656e65-7363-6521-8f00-000000000000";
        let words = FileSystem::Ext4.mkfs_words("-E stride=4 -O ^has_journal -Estripe-width=8");
        let all = format!("lazy_itable_init=0,lazy_journal_init=0,{seed},stride=4,stripe-width=8");
        assert_eq!(words, ["-q", "-F", "-O", "^has_journal", "-E", &all]);
        let unwritten = FileSystem::Ext4.mkfs_words(FileSystem::Ext4.unwritten_options());
        let all = format!("nodiscard,lazy_itable_init=1,lazy_journal_init=1,{seed}");
        assert_eq!(unwritten, ["-q", "-F", "-E", &all]);
        assert_eq!(FileSystem::F2fs.mkfs_words("-E jpg -E gif"), ["-f", "-E", "jpg", "-E", "gif"]);
    }

    #[test]
    fn a_missing_program_names_its_package() {
        let error = run(&["mkfs.no-such-thing"], &[], "no-such-package").err().unwrap();
        assert!(error.to_string().contains("no-such-package"), "{error}");
        assert!(matches!(error, TargetError::Missing { .. }));
    }
}
