//! The ledger of pending clean-up. An entry is written before its resource is set up. Each process has a folder, with a
//! numbered file for each entry.

use super::boots::is_older_than_this_boot;
use super::cleanup::Cleanup;
use super::namespace;
use super::owner::{Life, Owner};
use crate::error::TargetError;
use crate::runtime;
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long another process may take for the clean-up after a third one (it flushes and unmounts file systems).
const OTHERS_LIMIT: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct LedgerEntry {
    path: PathBuf,
    pub(super) owed: Cleanup,
}

/// A leftover of an ended process that a sweep found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SweptLeftover {
    pub process: u32,
    pub what: String,
    pub outcome: Outcome,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    Undone,
    Gone,
    InUse,
    /// Its process lives or lived in another container: nothing was done.
    OtherNamespace,
    /// It may belong to a running process of another kernel that shares the directory: nothing was done.
    OtherKernel,
    /// It has no owner; nothing was done.
    Unclaimed,
    Failed(String),
}

impl SweptLeftover {
    pub(super) fn path(&self) -> Option<&Path> {
        Some(Path::new(&self.what[self.what.find('/')?..]))
    }
}

pub(super) fn folder() -> Result<PathBuf, TargetError> {
    runtime::subfolder("owners")
}

impl LedgerEntry {
    pub(super) fn write(owed: Cleanup) -> Result<Self, TargetError> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Self::write_in(&folder()?.join(Owner::current().to_string()), number, owed)
    }

    fn write_in(own: &Path, number: u64, owed: Cleanup) -> Result<Self, TargetError> {
        let path = own.join(format!("{number:08}"));
        let text = written(&owed).map_err(|error| {
            TargetError::Usage(format!("{owed} cannot be recorded for clean-up: {error}; choose a name in UTF-8"))
        })?;
        // A thread that removed the last entry may have removed the folder between the two calls.
        for attempt in 0..16 {
            runtime::private(own)?;
            let flags = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
            let made = File::options().write(true).create_new(true).mode(0o600).custom_flags(flags).open(&path);
            match made.and_then(|mut file| file.write_all(&text)) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound && attempt < 15 => {}
                Err(error) => return Err(TargetError::io("write down in the ledger", &path)(error)),
                Ok(()) => break,
            }
        }
        Ok(Self { path, owed })
    }

    pub(super) fn strike_out(&self) {
        let _ = fs::remove_file(&self.path);
        // Only the last one removes the folder.
        let _ = self.path.parent().map(fs::remove_dir);
    }
}

const NAMESPACE: &str = "mount_namespace";

fn written(owed: &Cleanup) -> serde_json::Result<Vec<u8>> {
    let mut value = serde_json::to_value(owed)?;
    value[NAMESPACE] = namespace::own().into();
    serde_json::to_vec(&value)
}

struct Written {
    owed: Cleanup,
    /// 0: written by a version without this field.
    mount_namespace: u64,
}

impl Written {
    fn read(text: &[u8]) -> Option<Self> {
        let mut value: Value = serde_json::from_slice(text).ok()?;
        let number = value.as_object_mut()?.remove(NAMESPACE);
        let mount_namespace = number.and_then(|number| number.as_u64()).unwrap_or(0);
        Some(Self { owed: Cleanup::deserialize(value).ok()?, mount_namespace })
    }

    fn undo(&self) -> Outcome {
        let undone = match self.owed.is_of_a_mount_namespace() {
            true => namespace::within(self.mount_namespace, || self.owed.undo()),
            false => Some(self.owed.undo()),
        };
        match undone {
            Some(Ok(true)) => Outcome::Undone,
            Some(Ok(false)) => Outcome::Gone,
            Some(Err(error)) => Outcome::Failed(senesce_core::failure::errno_message(&error)),
            None => Outcome::OtherNamespace,
        }
    }

    /// Undoes resources of a process of another boot that outlive a boot, if they are certainly older. All others ended
    /// with it.
    fn undo_after_boot(&self, entry_is_older: bool) -> Outcome {
        match &self.owed {
            _ if !entry_is_older => Outcome::OtherKernel,
            Cleanup::Tree { path } if path.exists() && !is_older_than_this_boot(path) => Outcome::OtherKernel,
            Cleanup::Tree { .. } => self.undo(),
            _ => Outcome::Gone,
        }
    }
}

/// Cleans up after ended processes and reports the leftovers. Never touches resources of running processes.
pub(super) fn sweep(ledger: &Path) -> Vec<SweptLeftover> {
    let mut found = Vec::new();
    for folder in fs::read_dir(ledger).into_iter().flatten().flatten() {
        let Some(owner) = folder.file_name().to_str().and_then(|name| name.parse::<Owner>().ok()) else { continue };
        match owner.life() {
            Life::Alive => {}
            Life::Ending => {
                if see_end(&folder.path(), &owner) {
                    found.extend(undo_all(&folder.path(), &owner));
                }
            }
            Life::Unknown => found.extend(list(&folder.path()).into_iter().map(|(_, written)| SweptLeftover {
                process: owner.process,
                what: written.map_or_else(|| "an unreadable entry".into(), |written| written.owed.to_string()),
                outcome: Outcome::OtherNamespace,
            })),
            Life::Dead | Life::OtherBoot => found.extend(undo_all(&folder.path(), &owner)),
        }
    }
    found
}

const NATURAL_END: Duration = Duration::from_secs(1);

const END_LIMIT: Duration = Duration::from_secs(10);

/// Waits until a killed process has ended, and releases whatever blocks it. Returns whether it has ended.
pub(super) fn see_end(folder: &Path, owner: &Owner) -> bool {
    if wait_while_ending(owner, NATURAL_END) == Life::Ending {
        list(folder).into_iter().rev().filter_map(|(_, written)| written).for_each(|written| written.owed.let_go());
        wait_while_ending(owner, END_LIMIT);
    }
    owner.life() == Life::Dead
}

fn wait_while_ending(owner: &Owner, limit: Duration) -> Life {
    let deadline = Instant::now() + limit;
    loop {
        match owner.life() {
            Life::Ending if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
            life => return life,
        }
    }
}

/// Undoes everything of one ended process in reverse order. Waits while another process does it.
pub(super) fn undo_all(folder: &Path, owner: &Owner) -> Vec<SweptLeftover> {
    let is_of_other_boot = owner.life() == Life::OtherBoot;
    let Some(_lock) = lock(folder) else { return Vec::new() };
    let mut all = Vec::new();
    for (path, written) in list(folder).into_iter().rev() {
        let is_older = is_of_other_boot && is_older_than_this_boot(&path);
        let Some(written) = written else {
            if is_of_other_boot && !is_older {
                continue;
            }
            if is_cut_off(&path) {
                let _ = fs::remove_file(path);
            } else {
                let what = format!("an entry that this version does not know ({})", path.display());
                let outcome = Outcome::Failed("a newer version wrote it: run that version once".into());
                all.push(SweptLeftover { process: owner.process, what, outcome });
            }
            continue;
        };
        let outcome = match is_of_other_boot {
            true => written.undo_after_boot(is_older),
            false => written.undo(),
        };
        let owed = &written.owed;
        match &outcome {
            Outcome::Failed(why) => tracing::warn!("{owed}, left by process {}: {why}", owner.process),
            Outcome::Undone => tracing::info!("undone: {owed}, left by process {}", owner.process),
            _ => {}
        }
        if matches!(outcome, Outcome::Undone | Outcome::Gone) {
            let _ = fs::remove_file(path);
        }
        all.push(SweptLeftover { process: owner.process, what: owed.to_string(), outcome });
    }
    let _ = fs::remove_dir(folder);
    all
}

/// Returns whether an entry is truncated, so that its resource was not set up yet. A complete entry that cannot be read
/// is from a newer version.
fn is_cut_off(path: &Path) -> bool {
    let text = fs::read(path).unwrap_or_default();
    serde_json::from_slice::<serde_json::Value>(&text).is_err()
}

fn list(folder: &Path) -> Vec<(PathBuf, Option<Written>)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    let read = |path: &PathBuf| fs::read(path).ok().and_then(|text| Written::read(&text));
    paths.into_iter().map(|path| (path.clone(), read(&path))).collect()
}

/// Returns whether every process that must unmount `point` has ended.
pub(super) fn is_left_mount(ledger: &Path, point: &Path) -> bool {
    let mut owners = Vec::new();
    for folder in fs::read_dir(ledger).into_iter().flatten().flatten() {
        let Some(owner) = folder.file_name().to_str().and_then(|name| name.parse::<Owner>().ok()) else { continue };
        let owes =
            |written: Written| matches!(written.owed, Cleanup::Mount { point: owed } if point.starts_with(&owed));
        if list(&folder.path()).into_iter().any(|(_, written)| written.is_some_and(owes)) {
            owners.push(owner.life());
        }
    }
    !owners.is_empty() && owners.iter().all(|life| *life == Life::Dead)
}

pub(super) fn of_the_living(ledger: &Path) -> Vec<SweptLeftover> {
    let folders = fs::read_dir(ledger).into_iter().flatten().flatten();
    let mut found = Vec::new();
    for folder in folders {
        let Some(owner) = folder.file_name().to_str().and_then(|name| name.parse::<Owner>().ok()) else { continue };
        if matches!(owner.life(), Life::Alive | Life::Ending) {
            let written = list(&folder.path()).into_iter().filter_map(|(_, written)| written);
            found.extend(written.map(|written| SweptLeftover {
                process: owner.process,
                what: written.owed.to_string(),
                outcome: Outcome::InUse,
            }));
        }
    }
    found
}

/// Locks the folder. `None`: another process did the clean-up, or takes too long.
fn lock(folder: &Path) -> Option<File> {
    let file = File::open(folder).ok()?;
    let deadline = Instant::now() + OTHERS_LIMIT;
    loop {
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Some(file),
            Err(_) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
            Err(_) => return None,
        }
    }
}

#[cfg(test)]
mod tests;
