//! Runs of root that a user can only read: complete ones are shown, never continued or changed.

use super::RunDirectory;
use super::folder::RunFolder;
use super::overview::Overview;
use crate::output::{Caller, Folder};
use crate::plan::Plan;
use crate::users::login;
use rustix::fs::Stat;
use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const FILES: [&str; 4] = ["plan.toml", "env.json", "events.jsonl", "summary.json"];

impl RunDirectory {
    /// Returns whether `path` holds the complete run of `plan` by root, which this user may only read. Such a run needs no lock: it
    /// is shown and not changed. Runs of other users are left out, because their owner may have written any result there.
    pub fn is_complete_of_root(path: &Path, plan: &Plan) -> bool {
        let Ok(place) = RunFolder::open(path) else { return false };
        let found = is_only_readable(place.folder()).then(|| Overview::read_in(&place.within().ok()?, path).ok());
        found.flatten().is_some_and(|run| !run.is_partial() && run.plan.differences(plan).is_empty())
    }

    /// Returns how the user who called sudo(8) gets a run of root in a folder of this user, who can otherwise only read it.
    pub fn remedy_for_caller(path: &Path) -> Option<String> {
        remedy_for(Caller::of_sudo()?, path)
    }
}

fn remedy_for(caller: Caller, run: &Path) -> Option<String> {
    let owner = |path: &Path| Some(path.metadata().ok()?.uid());
    let is_only_read = owner(run)? == 0 && owner(&run.join(".."))? == caller.user;
    let path = run.display();
    is_only_read.then(|| format!("the run belongs to root; to own it: sudo chown -R {}: {path}", login(caller.user)))
}

/// Returns whether a run and its files belong to root, no other user may write there, and this user may not continue it.
fn is_only_readable(run: &Folder) -> bool {
    if rustix::process::geteuid().is_root() {
        return false;
    }
    let files = FILES.iter().map(|name| run.stat_of(OsStr::new(name)).ok());
    let found: Option<Vec<Stat>> = files.chain([rustix::fs::fstat(run).ok()]).collect();
    found.is_some_and(|found| found.iter().all(is_only_of_root))
}

fn is_only_of_root(file: &Stat) -> bool {
    file.st_uid == 0 && file.st_mode & 0o022 == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Environment, Seed};
    use std::collections::BTreeMap;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, lchown};

    const STRANGER: u32 = 65534;

    #[test]
    fn only_files_that_root_alone_writes_are_of_root() {
        let room = tempfile::tempdir().unwrap();
        let file = room.path().join("file");
        fs::write(&file, "").unwrap();
        let is_of_root = |mode| {
            fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            is_only_of_root(&rustix::fs::stat(&file).unwrap())
        };
        let by_root = rustix::process::geteuid().is_root();
        assert_eq!([0o644, 0o664, 0o646].map(is_of_root), [by_root, false, false]);
        if by_root && lchown(&file, Some(STRANGER), None).is_ok() {
            assert!(!is_of_root(0o644));
        }
    }

    #[test]
    fn own_runs_are_opened_with_their_lock() {
        let room = tempfile::tempdir().unwrap();
        let (path, plan) =
            (room.path().join("run"), Plan::of_spec("age", Seed(1), &BTreeMap::from([("size", "1G")])).unwrap());
        let mut run = RunDirectory::open(&path, &plan, &Environment::default()).unwrap();
        run.append("sample", &1).unwrap();
        run.finish(&1).unwrap();
        drop(run);
        assert!(!RunDirectory::is_complete_of_root(&path, &plan));
    }

    #[test]
    fn remedy_names_the_command_that_gives_a_run_to_the_caller_of_sudo() {
        let room = tempfile::tempdir().unwrap();
        let (theirs, run) = (room.path().join("theirs"), room.path().join("theirs/run"));
        fs::create_dir_all(&run).unwrap();
        let caller = Caller { user: STRANGER, group: STRANGER };
        assert_eq!(remedy_for(caller, &run), None, "the folder does not belong to the caller");
        if !rustix::process::geteuid().is_root() || lchown(&theirs, Some(STRANGER), None).is_err() {
            return eprintln!("files cannot be given away here");
        }
        assert!(remedy_for(caller, &run).unwrap().contains("chown -R"));
        lchown(&run, Some(STRANGER), None).unwrap();
        assert_eq!(remedy_for(caller, &run), None, "the run belongs to the caller");
    }
}
