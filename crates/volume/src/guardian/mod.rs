//! Clean-up after a process, however it ends.
//!
//! Every resource is recorded in a ledger before it is set up, and removed from the ledger after its clean-up. When a
//! process is killed, its guardian, a second process, cleans up at once. If both were killed, the next start of any
//! senesce does. A process counts as running if one with its number and start time exists. Entries of another boot are
//! processed if they are certainly older than this boot.

mod boots;
mod cleanup;
mod ledger;
mod namespace;
mod owner;
mod watcher;

pub(crate) use cleanup::{mounts, remove_group, unmount_tree};
pub use ledger::{Outcome, SweptLeftover};
pub(crate) use owner::stat_of;
pub(crate) use owner::{Life, Owner};
pub use watcher::enter_if_guardian;

use crate::command_group::{CommandGroup, Members};
use crate::error::TargetError;
use crate::{guard, runtime};
use cleanup::Cleanup;
use ledger::LedgerEntry;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};

/// One pending clean-up. It happens on drop or after the end of the process, unless the owner does it and calls
/// `dismiss`.
#[derive(Debug)]
pub struct Guardian {
    entry: Option<LedgerEntry>,
}

impl Guardian {
    /// Unmounts everything on and below `point`, a directory of ours, and removes it. As for all guardians, it need not
    /// exist yet.
    pub(crate) fn of_mount(point: &Path) -> Result<Self, TargetError> {
        Self::of(Cleanup::Mount { point: point.into() })
    }

    /// Unmounts like [`Self::of_mount`], after the file system's own unmount command.
    pub(crate) fn of_custom_mount(point: &Path, device: &Path, command: &str) -> Result<Self, TargetError> {
        Self::of(Cleanup::CustomMount { point: point.into(), device: device.into(), command: command.into() })
    }

    pub fn of_fuse_mount(point: &Path) -> Result<Self, TargetError> {
        let point = point.canonicalize().map_err(TargetError::io("check the mount point", point))?;
        Self::of(Cleanup::FuseMount { point })
    }

    /// Removes an empty directory (an instance of tracefs). [`TargetError::Usage`] for a path that is not UTF-8, which
    /// the ledger cannot hold.
    pub(crate) fn of_directory(path: &Path) -> Result<Self, TargetError> {
        Self::of(Cleanup::Directory { path: path.into() })
    }

    /// Removes a directory tree of this process, whose name must be unguessable.
    pub(crate) fn of_tree(path: &Path) -> Result<Self, TargetError> {
        Self::of(Cleanup::Tree { path: path.into() })
    }

    pub(crate) fn of_control_group(path: &Path, before: &Path) -> Result<Self, TargetError> {
        Self::of(Cleanup::ControlGroup { path: path.into(), before: before.into() })
    }

    pub(crate) fn of_value(path: &Path, value: &str) -> Result<Self, TargetError> {
        Self::of(Cleanup::Value { path: path.into(), value: value.into(), ours: None })
    }

    pub(crate) fn of_setting(path: &Path, ours: &str, before: &str) -> Result<Self, TargetError> {
        Self::of(Cleanup::Value { path: path.into(), value: before.into(), ours: Some(ours.into()) })
    }

    pub(crate) fn of_commands(members: Members) -> Result<Self, TargetError> {
        Self::of(Cleanup::Commands(members))
    }

    /// Kills a child. A child that cannot be recorded is killed at once.
    pub fn of_child(child: &mut Child) -> Result<Self, TargetError> {
        or_end(child, |process, start_ticks| Self::of(Cleanup::Process { process, start_ticks }))
    }

    /// Asks a child to end (SIGTERM), because it ends its own children first.
    pub fn of_supervisor(child: &Child) -> Result<Self, TargetError> {
        let start_ticks = owner::stat_of(child.id()).map_or(0, |(_, start)| start);
        Self::of(Cleanup::Supervisor { process: child.id(), start_ticks })
    }

    pub(crate) fn of_loop(path: &Path, file: &File) -> Result<Self, TargetError> {
        let found = file.metadata().map_err(TargetError::io("check the file of", path))?;
        Self::of(Cleanup::Loop { path: path.into(), device: found.dev(), inode: found.ino() })
    }

    pub(crate) fn of_mapping(name: &str) -> Result<Self, TargetError> {
        Self::of(Cleanup::Mapping { name: name.into() })
    }

    pub fn of_frozen(point: &Path) -> Result<Self, TargetError> {
        Self::of(Cleanup::Frozen { point: point.into() })
    }

    fn of(owed: Cleanup) -> Result<Self, TargetError> {
        watcher::start_once();
        Ok(Self { entry: Some(LedgerEntry::write(owed)?) })
    }

    pub(crate) fn dismiss(&mut self) {
        if let Some(entry) = self.entry.take() {
            entry.strike_out();
        }
    }

    pub fn undo(&mut self) -> std::io::Result<()> {
        if let Some(entry) = &self.entry {
            entry.owed.undo()?;
        }
        self.dismiss();
        Ok(())
    }
}

/// Runs a program until it ends and captures piped output. The program ends with this process, even after `kill -9`.
pub fn output(command: &mut Command) -> std::io::Result<Output> {
    CommandGroup::marked().map_err(std::io::Error::other)?.output(command)
}

/// Ends the child if the entry in the ledger cannot be written, because nothing else would end it.
fn or_end<T>(child: &mut Child, write: impl FnOnce(u32, u64) -> Result<T, TargetError>) -> Result<T, TargetError> {
    let start_ticks = owner::stat_of(child.id()).map_or(0, |(_, start)| start);
    write(child.id(), start_ticks).inspect_err(|_| {
        let _ = child.kill();
        let _ = child.wait();
    })
}

impl Drop for Guardian {
    fn drop(&mut self) {
        if let Some(entry) = &self.entry
            && let Err(error) = entry.owed.undo()
        {
            tracing::warn!("{}: {error}; senesce tries again at its end and with `senesce doctor --sweep`", entry.owed);
            return;
        }
        self.dismiss();
    }
}

/// Cleans up after ended processes of this user and reports the leftovers. Runs before a target is mounted or claimed.
/// Never touches resources of running processes.
pub fn sweep() -> Vec<SweptLeftover> {
    ledger::folder().map(|folder| ledger::sweep(&folder)).unwrap_or_default()
}

pub(crate) fn is_left_mount(point: &Path) -> bool {
    ledger::folder().is_ok_and(|folder| ledger::is_left_mount(&folder, point))
}

/// Runs [`sweep()`] and lists everything else that appears to be ours: resources of running processes and those without
/// an owner. A failed clean-up is in the list, not an error.
pub fn sweep_and_list() -> Result<Vec<SweptLeftover>, TargetError> {
    let ledger = ledger::folder()?;
    let mut found = ledger::sweep(&ledger);
    let living = ledger::of_the_living(&ledger);
    let known = |path: &Path| living.iter().any(|one| one.path().is_some_and(|known| path.starts_with(known)));
    let unclaimed = |what: String| SweptLeftover { process: 0, what, outcome: Outcome::Unclaimed };
    let own = runtime::folder()?;
    for line in guard::mounts()?.iter().filter(|line| line.mount_point.starts_with(&own) && !known(&line.mount_point)) {
        found.push(unclaimed(format!("mount {}", line.mount_point.display())));
    }
    found.extend(directories().into_iter().filter(|path| !known(path)).map(|path| without_entry(&path)));
    found.extend(living);
    Ok(found)
}

pub fn left_by_other_boots() -> Vec<PathBuf> {
    let is_of_other_boot = |path: &PathBuf| {
        let owner = path.file_name().and_then(|name| Owner::of_name(&name.to_string_lossy()));
        owner.is_some_and(|owner| owner.life() == Life::OtherBoot)
    };
    directories().into_iter().filter(is_of_other_boot).collect()
}

/// Describes a scratch directory without an entry, for example after a boot that cleared /run.
fn without_entry(path: &Path) -> SweptLeftover {
    let owner = path.file_name().and_then(|name| Owner::of_name(&name.to_string_lossy()));
    let owed = Cleanup::Tree { path: path.into() };
    let outcome = match owner.as_ref().map(Owner::life) {
        Some(Life::OtherBoot) if !boots::is_older_than_this_boot(path) => Outcome::OtherKernel,
        Some(Life::OtherBoot) => match owed.undo() {
            Ok(true) => Outcome::Undone,
            Ok(false) => Outcome::Gone,
            Err(error) => Outcome::Failed(senesce_core::failure::errno_message(&error)),
        },
        _ => Outcome::Unclaimed,
    };
    SweptLeftover { process: owner.map_or(0, |owner| owner.process), what: owed.to_string(), outcome }
}

fn directories() -> Vec<PathBuf> {
    let mut places = vec![std::env::temp_dir(), PathBuf::from(crate::scratch_directory::MEMORY)];
    places.extend(runtime::folder());
    places.dedup();
    let user = rustix::process::geteuid().as_raw();
    let ours = |entry: &fs::DirEntry| {
        let name = entry.file_name();
        name.to_string_lossy().starts_with(crate::scratch_directory::PREFIX)
            && entry.metadata().is_ok_and(|found| found.is_dir() && found.uid() == user)
            && name.to_str() != Some(&format!("{}{user}", crate::scratch_directory::PREFIX))
    };
    let entries = places.iter().filter_map(|place| fs::read_dir(place).ok()).flatten().flatten();
    entries.filter(ours).map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn child_without_ledger_entry_is_killed() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let failed = or_end(&mut child, |_, _| Err::<(), _>(TargetError::Usage("no space".into())));
        assert!(failed.is_err());
        assert!(child.try_wait().unwrap().is_some_and(|status| !status.success()));
    }

    #[test]
    fn running_program_has_a_ledger_entry() {
        let own = ledger::folder().unwrap().join(Owner::current().to_string());
        let script = r#"grep -lsr "\"$SENESCE_COMMAND_GROUP\"" "$0""#;
        let ran =
            output(Command::new("sh").args(["-c", script]).arg(&own).stdout(std::process::Stdio::piped())).unwrap();
        let entry = String::from_utf8(ran.stdout).unwrap();
        assert!(ran.status.success() && entry.lines().count() == 1, "{entry}");
        assert!(!Path::new(entry.trim()).exists(), "struck out at its end");
    }
}
