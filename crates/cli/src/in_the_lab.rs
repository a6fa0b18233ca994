//! `--lab`: the same command in the lab's guest, where it is root; and the hint where root is missing.

use crate::Exit;
use crate::session::{Session, runs_directory};
use clap::ArgMatches;
use senesce_core::environment::is_root;
use senesce_core::failure::failed;
use senesce_core::{Bytes, ExitCode, Failure};
use senesce_lab::LabRun;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Runs the words of this process in a guest, without `--lab`. What the guest writes into `./senesce-runs` and beside `--out` stays.
pub fn run(verb: &str, arguments: &ArgMatches, session: &Session) -> Result<Exit, Failure> {
    if verb == "lab" {
        return Err(Failure::usage("'senesce lab' boots guests itself; leave out --lab"));
    }
    let mut command = vec![senesce_runs::run::own_program()?];
    command.extend(words(std::env::args_os().skip(1))?);
    let here = std::env::current_dir().map_err(failed("find", Path::new(".")))?;
    let shares = shares(arguments).into_iter().map(|share| here.join(share));
    let lab = LabRun {
        kernel: senesce_lab::kernel::choose(None)?,
        drives: Vec::new(),
        memory: Bytes::gib(2),
        cpus: 2,
        accelerator: None,
        command,
        shares: shares.collect(),
        time_limit: None,
    };
    session.clear();
    let outcome = lab.run(&session.interrupt()?, &mut std::io::stdout(), &mut std::io::stderr())?;
    Ok(Exit::Command(outcome.exit_status))
}

/// The words without our `--lab`, the first: one behind the verb belongs to that.
fn words(all: impl Iterator<Item = OsString>) -> Result<Vec<String>, Failure> {
    let (mut kept, mut is_found) = (Vec::new(), false);
    for word in all {
        let word = word.into_string().map_err(|_| Failure::usage("--lab: the words of the command must be UTF-8"))?;
        match !is_found && word == "--lab" {
            true => is_found = true,
            false => kept.push(word),
        }
    }
    Ok(kept)
}

/// Folders that the guest may write: where runs are kept, and where `--out` is.
fn shares(arguments: &ArgMatches) -> Vec<PathBuf> {
    let innermost = std::iter::successors(Some(arguments), |matches| Some(matches.subcommand()?.1)).last();
    let out = innermost.and_then(|matches| matches.try_get_one::<PathBuf>("out").ok().flatten());
    let beside = out.and_then(|out| out.parent()).filter(|folder| !folder.as_os_str().is_empty());
    std::iter::once(runs_directory()).chain(beside.map(PathBuf::from)).collect()
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
    fn only_our_own_flag_is_taken_away() {
        let all = ["--lab", "reproduce", "frag-intra", "--lab", "f2fs"].map(OsString::from);
        assert_eq!(words(all.into_iter()).unwrap(), ["reproduce", "frag-intra", "--lab", "f2fs"]);
    }

    #[test]
    fn other_failures_stay_as_they_are() {
        let failure = || Failure::usage("the root of all");
        assert_eq!(hinted(failure()).to_string(), failure().to_string());
    }
}
