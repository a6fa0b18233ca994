//! File systems that senesce can make: their features and their programs.

mod free;
mod offered;
pub(crate) mod programs;
mod table;

use crate::claim::ClaimedDevice;
use crate::error::TargetError;
pub use free::FreeForFiles;
pub use offered::DirectoryFormat;
use programs::run;
use senesce_core::Bytes;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::os::fd::AsFd;
use std::path::Path;
use std::str::FromStr;
pub use table::{Defragmenter, ExtentsBy, FileSystem, FreeSpaceBy, TwinBy, remedy_of_mount_table};

/// Result of the file system's own checker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckReport {
    pub command: String,
    /// Whether the checker reported no problems.
    pub clean: bool,
    pub output: String,
}

impl FileSystem {
    pub fn name(self) -> &'static str {
        self.entry().name
    }

    /// Estimates the seconds for `operations` of an aging in memory, with allocated but unwritten files.
    pub fn seconds_of_operations(self, operations: u64) -> f64 {
        operations as f64 * f64::from(self.entry().operation_ns) * 1e-9
    }

    /// Returns the mount options for a copy while its original is mounted, here or in another mount namespace. `None`:
    /// `options` suffice.
    pub(crate) fn options_next_to_a_copy(self, options: &str) -> Option<String> {
        let of_copy = self.entry().copy_options;
        let has = |word: &str| options.split(',').any(|one| one == word);
        match (of_copy.is_empty() || has(of_copy), options.is_empty()) {
            (true, _) => None,
            (false, true) => Some(of_copy.into()),
            (false, false) => Some(format!("{options},{of_copy}")),
        }
    }

    pub(crate) fn is_in_kernel(self) -> bool {
        let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
        known.lines().any(|line| line.split('\t').next_back() == Some(self.name()))
    }

    pub fn minimum_size(self) -> Bytes {
        Bytes(self.entry().least_bytes)
    }

    pub fn package(self) -> &'static str {
        self.entry().package
    }

    /// Returns the program that makes it, with its Debian package.
    pub fn maker(self) -> (&'static str, &'static str) {
        (self.entry().mkfs.first().copied().unwrap_or_default(), self.package())
    }

    pub fn programs(self) -> impl Iterator<Item = (&'static str, String)> {
        let entry = self.entry();
        let first = |command: &'static [&'static str], purpose| Some((*command.first()?, format!("{purpose} {self}")));
        [first(entry.mkfs, "make"), first(entry.checker, "verify on")].into_iter().flatten()
    }

    /// Finds the file system by `f_type` of statfs(2).
    pub fn by_statfs_magic(magic: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|known| u64::from(known.entry().statfs_magic) == magic & 0xFFFF_FFFF)
    }

    pub fn of(file: impl AsFd) -> rustix::io::Result<Option<Self>> {
        Ok(Self::by_statfs_magic(rustix::fs::fstatfs(file)?.f_type as u64))
    }

    /// Returns whether the running kernel has it, built in or as a loadable module. Without root this cannot be tested:
    /// `true`.
    pub fn is_supported(self) -> bool {
        // mount(2) checks the type before the device, which does not exist: ENODEV refers to the type.
        let none = rustix::mount::MountFlags::empty();
        let tried = rustix::mount::mount("senesce-no-such-device", "/", self.name(), none, None);
        tried != Err(rustix::io::Errno::NODEV)
    }

    pub fn mkfs_version(self) -> Result<String, TargetError> {
        let output = run(self.entry().version, &[], self.package())?;
        let line = output.text.lines().map(str::trim).find(|line| line.chars().any(|c| c.is_ascii_digit()));
        Ok(line.unwrap_or("unknown").to_string())
    }

    /// Makes this file system on a claimed device, after another check that the device is free; `options` are split at
    /// blanks. Returns the command.
    pub fn make(self, device: &ClaimedDevice, options: &str) -> Result<String, TargetError> {
        device.check_again()?;
        let words = self.mkfs_words(options);
        let path = device.path().to_string_lossy();
        let arguments: Vec<&str> = words.iter().map(String::as_str).chain([&*path]).collect();
        let output = run(&self.entry().mkfs[..1], &arguments, self.package())?;
        match output.success {
            true => Ok(output.command),
            false => Err(output.failure()),
        }
    }

    fn mkfs_words(self, options: &str) -> Vec<String> {
        let own = self.entry().mkfs[1..].iter().copied();
        let words = own.chain(options.split_whitespace());
        match self {
            Self::Ext4 => merge_extended(words),
            _ => words.map(str::to_string).collect(),
        }
    }

    /// Runs its read-only checker on an unmounted device. `None` without a checker. Problems that it finds are in the
    /// report, not an error.
    pub(crate) fn check(self, device: &Path) -> Result<Option<CheckReport>, TargetError> {
        let checker = self.entry().checker;
        if checker.is_empty() {
            return Ok(None);
        }
        Ok(Some(run(checker, &[&device.to_string_lossy()], self.package())?.report()))
    }

    pub(crate) fn features(self, device: &Path, mount_point: &Path) -> Option<String> {
        let features = self.entry().features.as_ref()?;
        let target = if features.mounted { mount_point } else { device };
        let output = run(features.command, &[&target.to_string_lossy()], self.package()).ok()?;
        (features.parse)(&output.text).filter(|_| output.success)
    }
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

/// Merges all extended options into one list: mke2fs uses only the last `-E` (misc/mke2fs.c, `PRS`), and a user's
/// option would remove ours. Within a list the last option of a kind wins.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn extended_options_of_a_user_join_ours() {
        let seed = "hash_seed=73656e65-7363-6521-8f00-000000000000";
        let words = FileSystem::Ext4.mkfs_words("-E stride=4 -O ^has_journal -Estripe-width=8");
        let all = format!("lazy_itable_init=0,lazy_journal_init=0,{seed},stride=4,stripe-width=8");
        assert_eq!(words, ["-q", "-F", "-O", "^has_journal", "-E", &all]);
        let unwritten = FileSystem::Ext4.mkfs_words(FileSystem::Ext4.entry().unwritten_options);
        let all = format!("nodiscard,lazy_itable_init=1,lazy_journal_init=1,{seed}");
        assert_eq!(unwritten, ["-q", "-F", "-E", &all]);
        assert_eq!(FileSystem::F2fs.mkfs_words("-E jpg -E gif"), ["-f", "-E", "jpg", "-E", "gif"]);
    }

    #[test]
    fn file_system_names_round_trip_and_others_are_refused() {
        for known in FileSystem::ALL {
            assert_eq!(known.name().parse::<FileSystem>().unwrap(), known);
            assert_eq!(serde_json::to_value(known).unwrap(), known.name(), "records and command line use one word");
            assert_eq!(FileSystem::by_statfs_magic(known.entry().statfs_magic.into()), Some(known));
        }
        assert!(matches!("zfs".parse::<FileSystem>(), Err(TargetError::Usage(_))));
        assert_eq!(FileSystem::by_statfs_magic(0x0102_1994), None);
    }

    #[test]
    fn entries_have_distinct_names_and_magics() {
        let distinct = |all: Vec<String>| all.iter().collect::<BTreeSet<_>>().len() == FileSystem::ALL.len();
        let of =
            |text: fn(&table::FileSystemEntry) -> String| FileSystem::ALL.map(|known| text(known.entry())).to_vec();
        assert!(distinct(of(|entry| entry.name.into())));
        assert!(distinct(of(|entry| entry.statfs_magic.to_string())));
        assert!(distinct(of(|entry| format!("{:?}", (entry.signature.offset, entry.signature.magic)))));
    }

    #[test]
    fn every_entry_is_consistent() {
        for known in FileSystem::ALL {
            let entry = known.entry();
            assert!(entry.inspect_options.starts_with("ro,"), "{known}: inspecting it would replay its journal");
            assert_eq!(entry.mkfs[0], format!("mkfs.{known}"));
            assert!(!entry.version.is_empty() && !entry.package.is_empty() && !entry.signature.magic.is_empty());
            assert_eq!(entry.offered.is_none(), entry.offered_source.is_empty(), "{known}");
            if let Some(offered) = entry.offered {
                let (small, large) = (offered(1 << 30), offered(1 << 34));
                assert!(small.bytes < large.bytes && large.bytes < 1 << 34, "{known}: {large:?}");
            }
        }
    }
}
