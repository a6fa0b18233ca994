//! Runs that root made for the user who called sudo(8).

use super::RunDirectory;
use crate::output::Caller;
use crate::plan::shell_quote;
use crate::users::login;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

impl RunDirectory {
    /// Returns how the user who called sudo(8) gets a run of root in a folder of this user, who can otherwise only read it.
    pub fn remedy_for_caller(path: &Path) -> Option<String> {
        remedy_for(Caller::of_sudo()?, path)
    }
}

fn remedy_for(caller: Caller, run: &Path) -> Option<String> {
    let owner = |path: &Path| Some(path.metadata().ok()?.uid());
    let is_only_read = owner(run)? == 0 && owner(&run.join(".."))? == caller.user;
    let path = shell_quote(&run.to_string_lossy());
    is_only_read.then(|| format!("the run belongs to root; to own it: sudo chown -R {}: {path}", login(caller.user)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::lchown;

    const STRANGER: u32 = 65534;

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
        let spaced = room.path().join("theirs/a b");
        fs::create_dir(&spaced).unwrap();
        assert!(remedy_for(caller, &spaced).unwrap().ends_with("theirs/a b'"));
        lchown(&run, Some(STRANGER), None).unwrap();
        assert_eq!(remedy_for(caller, &run), None, "the run belongs to the caller");
    }
}
