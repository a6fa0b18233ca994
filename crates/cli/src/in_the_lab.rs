//! `--lab`: the same command in the lab's guest, where it is root; and the hint where root is missing.

mod shares;

use crate::Exit;
use crate::session::Session;
use clap::ArgMatches;
use senesce_core::environment::is_root;
use senesce_core::failure::failed;
use senesce_core::{Bytes, ExitCode, Failure};
use senesce_lab::{Keep, LabRun};
use shares::Shares;
use std::ffi::OsString;
use std::path::Path;

/// Runs the words of this process in a guest, without `--lab`. What the guest writes to `--out`, or into `./senesce-runs`, stays.
pub fn run(verb: &str, arguments: &ArgMatches, session: &Session) -> Result<Exit, Failure> {
    check(verb, arguments)?;
    let mut command = vec![senesce_runs::run::own_program()?];
    command.extend(words(verb, std::env::args_os().skip(1))?);
    let here = std::env::current_dir().map_err(failed("find", Path::new(".")))?;
    let shares = Shares::of(verb, arguments, &here)?;
    let lab = LabRun {
        kernel: senesce_lab::kernel::choose(None)?,
        drives: Vec::new(),
        keep: Keep::default(),
        memory: Bytes::gib(2),
        cpus: 2,
        accelerator: None,
        command,
        shares: shares.folders.clone(),
        time_limit: None,
    };
    session.clear();
    let outcome = lab.run(&session.interrupt()?, &mut std::io::stdout(), &mut std::io::stderr())?;
    Ok(Exit::Command(outcome.exit_status))
}

/// Refuses what a guest of its own makes no sense of.
fn check(verb: &str, arguments: &ArgMatches) -> Result<(), Failure> {
    match (verb, arguments.subcommand_name()) {
        ("lab", _) => Err(Failure::usage("'senesce lab' boots guests itself; leave out --lab")),
        ("tier", Some("mount")) => Err(Failure::usage(
            "a mount in the guest is seen by nobody here and ends with the guest, as does its --log; leave out --lab, or give the guest \
             what uses the mount as well: senesce lab run -- sh -c 'senesce tier mount ... && ...'",
        )),
        _ => Ok(()),
    }
}

/// The words without our `--lab`, the first: one behind the verb belongs to that. Nor does the guest hear of `--user` before the verb,
/// as whom this process runs already: the guest's root can write there no more than this user may.
fn words(verb: &str, all: impl Iterator<Item = OsString>) -> Result<Vec<String>, Failure> {
    let (mut kept, mut is_found, mut is_user) = (Vec::new(), false, false);
    let mut is_before_verb = true;
    for word in all {
        let word = word.into_string().map_err(|_| Failure::usage("--lab: the words of the command must be UTF-8"))?;
        if std::mem::take(&mut is_user) {
            continue;
        }
        is_before_verb &= word != verb;
        match () {
            () if !is_found && word == "--lab" => is_found = true,
            () if is_before_verb && word == "--user" => is_user = true,
            () if is_before_verb && word.starts_with("--user=") => {}
            () => kept.push(word),
        }
    }
    Ok(kept)
}

/// A failure for want of root says that the lab could do it, where there is one.
pub fn hinted(failure: Failure) -> Failure {
    let wants_root = failure.exit_code() == ExitCode::Missing && !is_root() && failure.to_string().contains("root");
    if !wants_root || !is_set_up() {
        return failure;
    }
    Failure::new(ExitCode::Missing, format!("{failure}; or run it in the lab's guest: senesce --lab VERB ..."))
}

fn is_set_up() -> bool {
    senesce_lab::cached_kernels().is_ok_and(|kernels| !kernels.is_empty()) && senesce_lab::qemu::version().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_that_ends_with_its_guest_is_refused() {
        let checked = |words: &[&str]| {
            let matches =
                crate::command().try_get_matches_from([&["senesce", "--lab", "tier"], words].concat()).unwrap();
            matches.subcommand().map(|(verb, arguments)| check(verb, arguments)).unwrap()
        };
        let refused = checked(&["mount", "--nvm", "anonymous", "--cold", "c", "--log", "file", "/mnt"]).unwrap_err();
        assert_eq!(refused.exit_code(), ExitCode::Usage);
        assert!(refused.to_string().contains("lab run -- sh -c"), "{refused}");
        assert!(checked(&["check", "--nvm", "n", "--cold", "c"]).is_ok());
    }

    #[test]
    fn only_our_own_flag_is_taken_away() {
        let all = ["--lab", "reproduce", "frag-intra", "--lab", "f2fs"].map(OsString::from);
        assert_eq!(words("reproduce", all.into_iter()).unwrap(), ["reproduce", "frag-intra", "--lab", "f2fs"]);
    }

    #[test]
    fn the_guest_is_root_whoever_started_it() {
        for ours in [&["--user", "nobody", "--lab"][..], &["--lab", "--user=nobody"]] {
            let all = ours.iter().chain(&["bench", "--user", "x"]).map(OsString::from);
            assert_eq!(words("bench", all).unwrap(), ["bench", "--user", "x"]);
        }
    }

    #[test]
    fn other_failures_stay_as_they_are() {
        let failure = || Failure::usage("the root of all");
        assert_eq!(hinted(failure()).to_string(), failure().to_string());
    }
}
