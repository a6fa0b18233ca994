//! Undoing what a process set up, whatever happens to it.
//!
//! Everything that must be undone is written down in a ledger before it is set up, and struck out when it was undone. When a
//! process is killed, a second process that waits for its end does it at once; when that was killed too, the next start of any
//! senesce does it. A process is alive when a process with its number and start time runs. What was written under another
//! boot is undone when it is certainly older than this one.

mod boots;
mod ledger;
mod namespace;
mod owed;
mod owner;
mod watcher;

pub use ledger::{Found, Outcome};
pub(crate) use owed::{mounts, remove_group, unmount_tree};
pub(crate) use owner::stat_of;
pub use owner::{Life, Owner};
pub use watcher::enter_if_guardian;

use crate::command_group::{CommandGroup, Members};
use crate::error::TargetError;
use crate::{guard, runtime};
use ledger::Entry;
use owed::Owed;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};

/// Stands for one thing that will be undone: by its owner, who then dismisses this; when this is dropped; or after the end of
/// the process.
#[derive(Debug)]
pub struct Guardian {
    entry: Option<Entry>,
}

impl Guardian {
    /// Will unmount all on `point`, a directory of ours, and below it, and remove it. It need not be there yet, as with all the others.
    pub fn of_mount(point: &Path) -> Result<Self, TargetError> {
        Self::of(Owed::Mount { point: point.into() })
    }

    /// The same, after the command with which its file system wants to be unmounted.
    pub(crate) fn of_custom_mount(point: &Path, device: &Path, command: &str) -> Result<Self, TargetError> {
        Self::of(Owed::CustomMount { point: point.into(), device: device.into(), command: command.into() })
    }

    /// Will unmount a FUSE file system from a directory of the user's when its server is dead.
    pub fn of_fuse_mount(point: &Path) -> Result<Self, TargetError> {
        let point = point.canonicalize().map_err(TargetError::io("look at the mount point", point))?;
        Self::of(Owed::FuseMount { point })
    }

    /// Will remove an empty directory (an instance of tracefs).
    ///
    /// # Errors
    /// [`TargetError::Usage`] for a path that is not UTF-8, which the ledger cannot hold; [`TargetError::Refused`] when the
    /// ledger's folder is another user's; those of writing there.
    pub fn of_directory(path: &Path) -> Result<Self, TargetError> {
        Self::of(Owed::Directory { path: path.into() })
    }

    /// Will remove a directory of this process, which must have a name that nobody can guess, with everything in it.
    pub fn of_tree(path: &Path) -> Result<Self, TargetError> {
        Self::of(Owed::Tree { path: path.into() })
    }

    /// Will move what is left in a control group to the group `before` and remove it.
    pub fn of_control_group(path: &Path, before: &Path) -> Result<Self, TargetError> {
        Self::of(Owed::ControlGroup { path: path.into(), before: before.into() })
    }

    /// Will write `value` to a file of the kernel's, such as a limit of a control group.
    pub fn of_value(path: &Path, value: &str) -> Result<Self, TargetError> {
        Self::of(Owed::Value { path: path.into(), value: value.into(), ours: None })
    }

    /// Will write `before` to a file of the kernel's if its value is still `ours`.
    pub fn of_setting(path: &Path, ours: &str, before: &str) -> Result<Self, TargetError> {
        Self::of(Owed::Value { path: path.into(), value: before.into(), ours: Some(ours.into()) })
    }

    pub(crate) fn of_commands(members: Members) -> Result<Self, TargetError> {
        Self::of(Owed::Commands(members))
    }

    /// Will end a child. One that cannot be written down is ended at once.
    pub fn of_child(child: &mut Child) -> Result<Self, TargetError> {
        or_end(child, |process, start_ticks| Self::of(Owed::Process { process, start_ticks }))
    }

    /// Will detach a loop device while it has this file.
    pub fn of_loop(path: &Path, file: &File) -> Result<Self, TargetError> {
        let found = file.metadata().map_err(TargetError::io("look at the file of", path))?;
        Self::of(Owed::Loop { path: path.into(), device: found.dev(), inode: found.ino() })
    }

    /// Will remove a device of device mapper.
    pub fn of_mapping(name: &str) -> Result<Self, TargetError> {
        Self::of(Owed::Mapping { name: name.into() })
    }

    /// Will thaw the file system of a directory.
    pub fn of_frozen(point: &Path) -> Result<Self, TargetError> {
        Self::of(Owed::Frozen { point: point.into() })
    }

    fn of(owed: Owed) -> Result<Self, TargetError> {
        watcher::start_once();
        Ok(Self { entry: Some(Entry::write(owed)?) })
    }

    /// Everything is undone already.
    pub fn dismiss(&mut self) {
        if let Some(entry) = self.entry.take() {
            entry.strike_out();
        }
    }

    /// Undoes it now.
    ///
    /// # Errors
    /// Those of what is undone; it then stays written down, for the end of the process.
    pub fn undo(&mut self) -> std::io::Result<()> {
        if let Some(entry) = &self.entry {
            entry.owed.undo()?;
        }
        self.dismiss();
        Ok(())
    }
}

/// Runs a program to its end and collects what it prints where that is piped. It ends with this process, also by `kill -9`.
///
/// # Errors
/// Those of the ledger, and of starting the program and waiting for it.
pub fn output(command: &mut Command) -> std::io::Result<Output> {
    CommandGroup::marked().map_err(std::io::Error::other)?.output(command)
}

/// Nobody would know of a child that is not in the ledger.
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
            tracing::warn!("{}: {error}; it is tried again at the end and by `senesce doctor --sweep`", entry.owed);
            return;
        }
        self.dismiss();
    }
}

/// Undoes what ended processes of this user left, and tells what was found; what belongs to running ones is spared. It
/// happens before a target is mounted or claimed.
pub fn sweep() -> Vec<Found> {
    ledger::folder().map(|folder| ledger::sweep(&folder)).unwrap_or_default()
}

/// Whether a mount was left by a process that has ended, according to the ledger.
pub(crate) fn is_left_mount(point: &Path) -> bool {
    ledger::folder().is_ok_and(|folder| ledger::is_left_mount(&folder, point))
}

/// [`sweep()`], and everything else that looks like ours: what running processes hold, and what nobody claims.
///
/// # Errors
/// Where the ledger's folder is another user's, or the mounts cannot be read. What could not be undone is no error: it is among
/// what was found.
pub fn sweep_and_list() -> Result<Vec<Found>, TargetError> {
    let ledger = ledger::folder()?;
    let mut found = ledger::sweep(&ledger);
    let living = ledger::of_the_living(&ledger);
    let known = |path: &Path| living.iter().any(|one| one.path().is_some_and(|known| path.starts_with(known)));
    let unclaimed = |what: String| Found { process: 0, what, outcome: Outcome::Unclaimed };
    let own = runtime::folder()?;
    for line in guard::mounts()?.iter().filter(|line| line.mount_point.starts_with(&own) && !known(&line.mount_point)) {
        found.push(unclaimed(format!("mount {}", line.mount_point.display())));
    }
    found.extend(directories().into_iter().filter(|path| !known(path)).map(|path| without_entry(&path)));
    found.extend(living);
    Ok(found)
}

/// Scratch directories whose owner began in another boot.
pub fn left_by_other_boots() -> Vec<PathBuf> {
    let is_of_other_boot = |path: &PathBuf| {
        let owner = path.file_name().and_then(|name| Owner::of_name(&name.to_string_lossy()));
        owner.is_some_and(|owner| owner.life() == Life::OtherBoot)
    };
    directories().into_iter().filter(is_of_other_boot).collect()
}

/// A scratch directory that is in no ledger, as after a boot that cleared /run.
fn without_entry(path: &Path) -> Found {
    let owner = path.file_name().and_then(|name| Owner::of_name(&name.to_string_lossy()));
    let owed = Owed::Tree { path: path.into() };
    let outcome = match owner.as_ref().map(Owner::life) {
        Some(Life::OtherBoot) if !boots::is_older_than_this_boot(path) => Outcome::OtherKernel,
        Some(Life::OtherBoot) => match owed.undo() {
            Ok(true) => Outcome::Undone,
            Ok(false) => Outcome::Gone,
            Err(error) => Outcome::Failed(senesce_core::failure::errno_message(&error)),
        },
        _ => Outcome::Unclaimed,
    };
    Found { process: owner.map_or(0, |owner| owner.process), what: owed.to_string(), outcome }
}

/// Scratch directories of this user in the places where they are made.
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
    fn a_child_that_cannot_be_written_down_is_ended() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let failed = or_end(&mut child, |_, _| Err::<(), _>(TargetError::Usage("no space".into())));
        assert!(failed.is_err());
        assert!(child.try_wait().unwrap().is_some_and(|status| !status.success()));
    }

    #[test]
    fn a_program_is_written_down_while_it_runs() {
        let own = ledger::folder().unwrap().join(Owner::current().to_string());
        let script = r#"grep -lsr "\"$SENESCE_COMMAND_GROUP\"" "$0""#;
        let ran =
            output(Command::new("sh").args(["-c", script]).arg(&own).stdout(std::process::Stdio::piped())).unwrap();
        let entry = String::from_utf8(ran.stdout).unwrap();
        assert!(ran.status.success() && entry.lines().count() == 1, "{entry}");
        assert!(!Path::new(entry.trim()).exists(), "struck out at its end");
    }
}
