//! The ledger: what each process must undo, written down before it is set up. A folder for each process, named after it, with
//! a numbered file for each thing.

use super::owed::Owed;
use super::owner::{Life, Owner};
use crate::error::TargetError;
use crate::runtime;
use rustix::fs::FlockOperation;
use serde::Serialize;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long another process may take to undo what a third one left (it flushes and unmounts file systems).
const OTHERS_LIMIT: Duration = Duration::from_secs(60);

/// One thing in the ledger.
#[derive(Debug)]
pub(super) struct Entry {
    path: PathBuf,
    pub(super) owed: Owed,
}

/// What a sweep found that an ended process had left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Found {
    /// The process.
    pub process: u32,
    /// What it left.
    pub what: String,
    /// What became of it.
    pub outcome: Outcome,
}

/// What became of something that was left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It was undone.
    Undone,
    /// It was not there any more.
    Gone,
    /// It belongs to a process that runs.
    InUse,
    /// Its process lives in another container, or has ended there: nothing was done.
    OtherNamespace,
    /// Nobody claims it; nothing was done.
    Unclaimed,
    /// It could not be undone.
    Failed(String),
}

/// Where the ledger is.
pub(super) fn folder() -> Result<PathBuf, TargetError> {
    runtime::subfolder("owners")
}

impl Entry {
    /// Writes it down for this process.
    pub(super) fn write(owed: Owed) -> Result<Self, TargetError> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Self::write_in(&folder()?.join(Owner::current().to_string()), number, owed)
    }

    fn write_in(own: &Path, number: u64, owed: Owed) -> Result<Self, TargetError> {
        let path = own.join(format!("{number:08}"));
        let text = serde_json::to_vec(&owed).map_err(|error| {
            TargetError::Usage(format!("{owed} cannot be written down, to be undone: {error}; choose a name in UTF-8"))
        })?;
        // Two attempts: a thread that struck out the last entry may have removed the folder between the two calls.
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

    /// Nothing is owed any more.
    pub(super) fn strike_out(&self) {
        let _ = fs::remove_file(&self.path);
        // Only the last one removes the folder.
        let _ = self.path.parent().map(fs::remove_dir);
    }
}

/// Undoes what ended processes left and tells what was found. What belongs to living ones is not touched.
pub(super) fn sweep(ledger: &Path) -> Vec<Found> {
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
            Life::Unknown => found.extend(list(&folder.path()).into_iter().map(|(_, owed)| Found {
                process: owner.process,
                what: owed.map_or_else(|| "an unreadable entry".into(), |owed| owed.to_string()),
                outcome: Outcome::OtherNamespace,
            })),
            Life::Dead => found.extend(undo_all(&folder.path(), &owner)),
        }
    }
    found
}

/// How long a killed process may take to end by itself.
const NATURAL_END: Duration = Duration::from_secs(1);

/// How long a process may take to end once nothing holds it.
const END_LIMIT: Duration = Duration::from_secs(10);

/// Waits for the end of a process that was killed, and lets go what holds it up; whether it has ended.
pub(super) fn see_end(folder: &Path, owner: &Owner) -> bool {
    if wait_while_ending(owner, NATURAL_END) == Life::Ending {
        list(folder).into_iter().rev().filter_map(|(_, owed)| owed).for_each(|owed| owed.let_go());
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

/// Undoes everything of one process that ended, the last thing first. Waits while another process is doing it.
pub(super) fn undo_all(folder: &Path, owner: &Owner) -> Vec<Found> {
    let Some(_lock) = lock(folder) else { return Vec::new() };
    let same_boot = owner.is_of_this_boot();
    let mut all = Vec::new();
    for (path, owed) in list(folder).into_iter().rev() {
        let Some(owed) = owed else {
            if is_cut_off(&path) {
                let _ = fs::remove_file(path);
            } else {
                let what = format!("an entry that this version does not know ({})", path.display());
                let outcome = Outcome::Failed("a newer version wrote it: start that once".into());
                all.push(Found { process: owner.process, what, outcome });
            }
            continue;
        };
        if !same_boot && owed.ends_with_boot() {
            let _ = fs::remove_file(path);
            continue;
        }
        let outcome = match owed.undo() {
            Ok(true) => Outcome::Undone,
            Ok(false) => Outcome::Gone,
            Err(error) => Outcome::Failed(senesce_core::failure::errno_message(&error)),
        };
        match &outcome {
            Outcome::Failed(why) => tracing::warn!("{owed}, left by process {}: {why}", owner.process),
            Outcome::Undone => tracing::info!("undone: {owed}, left by process {}", owner.process),
            _ => {}
        }
        if !matches!(outcome, Outcome::Failed(_)) {
            let _ = fs::remove_file(path);
        }
        all.push(Found { process: owner.process, what: owed.to_string(), outcome });
    }
    let _ = fs::remove_dir(folder);
    all
}

/// Whether an entry ends in its middle: what it was to stand for was not set up yet. One that is whole was written by a
/// version that knows more.
fn is_cut_off(path: &Path) -> bool {
    let text = fs::read(path).unwrap_or_default();
    serde_json::from_slice::<serde_json::Value>(&text).is_err()
}

/// The entries of a folder in the order in which they were written.
fn list(folder: &Path) -> Vec<(PathBuf, Option<Owed>)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    let read = |path: &PathBuf| fs::read(path).ok().and_then(|text| serde_json::from_slice(&text).ok());
    paths.into_iter().map(|path| (path.clone(), read(&path))).collect()
}

/// Whether processes that have ended owe the unmount of a point, and no other does.
pub(super) fn is_left_mount(ledger: &Path, point: &Path) -> bool {
    let mut owners = Vec::new();
    for folder in fs::read_dir(ledger).into_iter().flatten().flatten() {
        let Some(owner) = folder.file_name().to_str().and_then(|name| name.parse::<Owner>().ok()) else { continue };
        let owes = |owed: Option<Owed>| matches!(owed, Some(Owed::Mount { point: owed }) if owed == point);
        if list(&folder.path()).into_iter().any(|(_, owed)| owes(owed)) {
            owners.push(owner.life());
        }
    }
    !owners.is_empty() && owners.iter().all(|life| *life == Life::Dead)
}

/// What is written down for living processes.
pub(super) fn of_the_living(ledger: &Path) -> Vec<Found> {
    let folders = fs::read_dir(ledger).into_iter().flatten().flatten();
    let mut found = Vec::new();
    for folder in folders {
        let Some(owner) = folder.file_name().to_str().and_then(|name| name.parse::<Owner>().ok()) else { continue };
        if matches!(owner.life(), Life::Alive | Life::Ending) {
            let owed = list(&folder.path()).into_iter().filter_map(|(_, owed)| owed);
            found.extend(owed.map(|owed| Found {
                process: owner.process,
                what: owed.to_string(),
                outcome: Outcome::InUse,
            }));
        }
    }
    found
}

/// `None`: another process has done it meanwhile, or takes too long.
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
mod tests {
    use super::*;

    /// A ledger with the folder of a process that has ended, and one of this process.
    fn ledger() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let dead = Owner::of(child.id());
        child.wait().unwrap();
        let folder = |owner: &Owner| directory.path().join("owners").join(owner.to_string());
        fs::create_dir(directory.path().join("owners")).unwrap();
        let (dead, living) = (folder(&dead), folder(&Owner::current()));
        (directory, dead, living)
    }

    fn tree(path: &Path) -> Owed {
        fs::create_dir_all(path.join("content")).unwrap();
        Owed::Tree { path: path.into() }
    }

    #[test]
    fn what_the_dead_left_is_undone_in_reverse_and_the_living_are_spared() {
        let (directory, dead, living) = ledger();
        let path = |name: &str| directory.path().join(name);
        // A value in a tree is put back before the tree goes.
        Entry::write_in(&dead, 0, tree(&path("tree"))).unwrap();
        let file = path("tree/value");
        fs::write(&file, "ours").unwrap();
        let value = Owed::Value { path: file, value: "before".into(), ours: Some("ours".into()) };
        Entry::write_in(&dead, 1, value).unwrap();
        Entry::write_in(&living, 0, tree(&path("live"))).unwrap();
        let found = sweep(&path("owners"));
        let outcomes: Vec<_> = found.iter().map(|one| &one.outcome).collect();
        assert_eq!(outcomes, [&Outcome::Undone, &Outcome::Undone], "{found:?}");
        assert!(found[0].what.starts_with("setting"), "{found:?}");
        assert!(!path("tree").exists() && path("live/content").exists());
        assert!(!dead.exists() && living.exists());
        assert_eq!(sweep(&path("owners")), []);
        assert_eq!(of_the_living(&path("owners")).len(), 1);
    }

    #[test]
    fn what_a_process_left_that_was_just_killed_is_undone_by_the_first_sweep() {
        for round in 0..30 {
            let directory = tempfile::tempdir().unwrap();
            fs::create_dir(directory.path().join("owners")).unwrap();
            let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
            let folder = directory.path().join("owners").join(Owner::of(child.id()).to_string());
            Entry::write_in(&folder, 0, tree(&directory.path().join("tree"))).unwrap();
            child.kill().unwrap();
            let found = sweep(&directory.path().join("owners"));
            child.wait().unwrap();
            assert!(matches!(found[..], [Found { outcome: Outcome::Undone, .. }]), "round {round}: {found:?}");
        }
    }

    #[test]
    fn a_torn_entry_is_dropped_and_what_cannot_be_undone_stays_written_down() {
        let (directory, dead, _) = ledger();
        fs::create_dir(&dead).unwrap();
        fs::write(dead.join("00000000"), "{\"kind\":\"tr").unwrap();
        let busy = directory.path().join("busy");
        fs::create_dir_all(busy.join("file")).unwrap();
        Entry::write_in(&dead, 1, Owed::Directory { path: busy.clone() }).unwrap();
        let found = sweep(&directory.path().join("owners"));
        assert!(matches!(found[..], [Found { outcome: Outcome::Failed(_), .. }]), "{found:?}");
        assert_eq!(fs::read_dir(&dead).unwrap().count(), 1);
        fs::remove_dir(busy.join("file")).unwrap();
        assert_eq!(sweep(&directory.path().join("owners"))[0].outcome, Outcome::Undone);
        assert!(!dead.exists() && !busy.exists());
    }

    #[test]
    fn an_entry_of_a_newer_version_stays_and_a_path_that_cannot_be_written_is_an_error() {
        use std::os::unix::ffi::OsStringExt;
        let (directory, dead, _) = ledger();
        fs::create_dir(&dead).unwrap();
        fs::write(dead.join("00000000"), r#"{"kind":"of-tomorrow","path":"/x"}"#).unwrap();
        let found = sweep(&directory.path().join("owners"));
        assert!(matches!(found[..], [Found { outcome: Outcome::Failed(_), .. }]), "{found:?}");
        assert!(dead.join("00000000").exists());
        let odd = PathBuf::from(std::ffi::OsString::from_vec(b"/tmp/\xff".to_vec()));
        assert!(Entry::write_in(&dead, 1, Owed::Tree { path: odd }).is_err());
        assert!(!dead.join("00000001").exists());
    }

    #[test]
    fn another_boot_left_nothing_but_directories() {
        let (directory, dead, _) = ledger();
        let owner: Owner = dead.file_name().unwrap().to_str().unwrap().parse().unwrap();
        let before = directory.path().join("owners").join(owner.of_another_boot().to_string());
        let setting = directory.path().join("setting");
        fs::write(&setting, "new").unwrap();
        Entry::write_in(&before, 0, Owed::Value { path: setting.clone(), value: "old".into(), ours: None }).unwrap();
        Entry::write_in(&before, 1, tree(&directory.path().join("tree"))).unwrap();
        assert_eq!(sweep(&directory.path().join("owners")).len(), 1);
        assert_eq!(fs::read_to_string(setting).unwrap(), "new");
        assert!(!directory.path().join("tree").exists() && !before.exists());
    }

    #[test]
    fn a_mount_is_left_only_when_its_owner_has_ended() {
        let (directory, dead, living) = ledger();
        let left = |name: &str| is_left_mount(&directory.path().join("owners"), Path::new(name));
        Entry::write_in(&dead, 0, Owed::Mount { point: "/mnt/dead".into() }).unwrap();
        Entry::write_in(&living, 0, Owed::Mount { point: "/mnt/live".into() }).unwrap();
        assert!(left("/mnt/dead"));
        assert!(!left("/mnt/live"), "its run goes on");
        assert!(!left("/mnt/unknown"), "nobody wrote it down");
        Entry::write_in(&living, 1, Owed::Mount { point: "/mnt/dead".into() }).unwrap();
        assert!(!left("/mnt/dead"), "somebody else has the point too");
    }

    #[test]
    fn struck_out_entries_leave_nothing() {
        let (_directory, _, living) = ledger();
        let one = Entry::write_in(&living, 0, Owed::Mapping { name: "x".into() }).unwrap();
        let two = Entry::write_in(&living, 1, Owed::Mapping { name: "y".into() }).unwrap();
        one.strike_out();
        assert!(living.exists());
        two.strike_out();
        assert!(!living.exists());
    }
}
