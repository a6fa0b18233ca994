//! Runs that another user can only read: complete ones are shown, never continued or changed.

use super::RunDirectory;
use super::folder::RunFolder;
use super::overview::Overview;
use crate::machine::owner_here;
use crate::output::{Caller, Folder, belongs_there};
use crate::plan::Plan;
use crate::users::{login, user_words};
use rustix::fs::{Access, AtFlags, Stat};
use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const FILES: [&str; 4] = ["plan.toml", "env.json", "events.jsonl", "summary.json"];

impl RunDirectory {
    /// Describes the owner of the complete run of `plan` in `path`, if this user may only read it. Such a run needs no lock: it is
    /// shown and not changed. A run that another user than its owner and root may have put there is left out.
    pub fn owner_of_complete(path: &Path, plan: &Plan) -> Option<String> {
        let place = RunFolder::open(path).ok()?;
        let owner = other_owner(place.folder())?;
        let found = Overview::read_in(&place.within().ok()?, path).ok()?;
        (!found.is_partial() && found.plan.differences(plan).is_empty()).then(|| user_words(owner))
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

/// Returns the owner of a run that this user may not continue, if only root or the owner can have put it there.
fn other_owner(folder: &Folder) -> Option<u32> {
    let run = rustix::fs::fstat(folder).ok()?;
    let is_own = owner_here(run.st_uid) == rustix::process::geteuid().as_raw();
    if is_own && rustix::fs::accessat(folder, ".", Access::WRITE_OK, AtFlags::empty()).is_ok() {
        return None;
    }
    let files: Vec<Stat> = FILES.iter().map(|name| folder.stat_of(OsStr::new(name)).ok()).collect::<Option<_>>()?;
    let is_of_owner = |found: &Stat| found.st_uid == run.st_uid && found.st_mode & 0o002 == 0;
    let above = folder.stat_of(OsStr::new("..")).ok()?;
    let is_safe = run.st_uid == 0 || belongs_there(run.st_uid, above.st_uid, above.st_mode);
    (is_safe && is_of_owner(&run) && files.iter().all(is_of_owner)).then_some(run.st_uid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Environment, Seed};
    use std::collections::BTreeMap;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, lchown};

    const STRANGER: u32 = 65534;

    fn plan(size: &str) -> Plan {
        Plan::of_spec("age", Seed(1), &BTreeMap::from([("size", size)])).unwrap()
    }

    /// Gives a run with all its files away; `false` if this user may not.
    fn give_away(run: &Path) -> bool {
        let files = fs::read_dir(run).unwrap().map(|entry| entry.unwrap().path());
        let mut all = files.chain([run.to_path_buf()]);
        rustix::process::geteuid().is_root() && all.all(|path| lchown(path, Some(STRANGER), None).is_ok())
    }

    #[test]
    fn complete_run_of_another_user_is_shown_unless_planted() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("run");
        let mut run = RunDirectory::open(&path, &plan("1G"), &Environment::default()).unwrap();
        run.append("sample", &1).unwrap();
        run.finish(&1).unwrap();
        drop(run);
        let shown = || RunDirectory::owner_of_complete(&path, &plan("1G")).is_some();
        assert!(!shown(), "own runs are opened with their lock");
        if !give_away(&path) {
            return eprintln!("files cannot be given away here");
        }
        assert!(shown());
        assert!(RunDirectory::owner_of_complete(&path, &plan("2G")).is_none(), "another plan");
        let events = path.join("events.jsonl");
        for (changed, mode) in [(room.path(), 0o1777), (path.as_path(), 0o777), (events.as_path(), 0o666)] {
            let before = changed.metadata().unwrap().permissions();
            fs::set_permissions(changed, Permissions::from_mode(mode)).unwrap();
            assert!(!shown(), "{}", changed.display());
            fs::set_permissions(changed, before).unwrap();
        }
        lchown(&events, Some(STRANGER + 1), None).unwrap();
        assert!(!shown(), "a file of a third user");
        lchown(&events, Some(STRANGER), None).unwrap();
        fs::remove_file(path.join("summary.json")).unwrap();
        assert!(!shown(), "it is not complete");
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
