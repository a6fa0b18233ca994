//! `--vm`: runs the command in a guest as root; and the hint for a user without root.

mod shares;

use crate::Exit;
use crate::session::Session;
use clap::ArgMatches;
use senesce_core::environment::is_root;
use senesce_core::failure::failed;
use senesce_core::machine::guest_accelerator;
use senesce_core::{Bytes, ExitCode, Failure};
use senesce_guest::kernel::Engine;
use senesce_guest::{GuestRun, GuestTime, Keep};
use senesce_volume::TargetSpec;
use shares::Shares;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Runs the arguments of this process, without `--vm`, in a guest. Files below `--out` or `./senesce-runs` stay on the host.
pub fn run(verb: &str, arguments: &ArgMatches, session: &Session) -> Result<Exit, Failure> {
    check(verb, arguments)?;
    let mut command = vec![senesce_guest::carry::own_program()?];
    command.extend(words(verb, std::env::args_os().skip(1))?);
    let here = std::env::current_dir().map_err(failed("find", Path::new(".")))?;
    let is_virtual = has_time_scale(verb, arguments);
    let kernel = senesce_guest::kernel::choose(None, is_virtual.then_some(Engine::Uml))?;
    let image = image_of(verb, arguments).filter(|_| kernel.is_user_mode());
    let shares = Shares::of(verb, arguments, &here)?.with_image(image.as_deref(), &here)?;
    let guest = GuestRun {
        kernel,
        drives: Vec::new(),
        keep: Keep::default(),
        // One size for all, because layouts in virtual time depend on it.
        memory: if is_virtual { Bytes::gib(1) } else { Bytes::gib(2) },
        cpus: 2,
        accelerator: None,
        time: if is_virtual { GuestTime::Virtual } else { GuestTime::Real },
        command,
        shares: shares.folders.clone(),
        time_limit: None,
    };
    session.clear();
    let outcome = guest.run(&session.interrupt()?, &mut std::io::stdout(), &mut std::io::stderr())?;
    Ok(Exit::Command(outcome.exit_status))
}

/// Whether the verb needs virtual time, or makes a file system, which this user may not do here, and a user-mode kernel may.
/// Reports it.
pub fn is_needed(verb: &str, arguments: &ArgMatches, session: &Session) -> bool {
    let Some(why) = reason(verb, arguments) else { return false };
    let Ok(kernel) = senesce_guest::kernel::choose(None, Some(Engine::Uml)) else { return false };
    session.progress().say(&format!("{why}: in a user-mode kernel, Linux {}", kernel.version));
    true
}

fn reason(verb: &str, arguments: &ArgMatches) -> Option<&'static str> {
    let is_on_this_machine = guest_accelerator().is_none() && makes_file_system(verb, arguments);
    match () {
        () if !is_on_this_machine => None,
        () if has_time_scale(verb, arguments) => Some("virtual time"),
        () => (!is_root()).then_some("without root"),
    }
}

/// Whether an aging plays in virtual time.
fn has_time_scale(verb: &str, arguments: &ArgMatches) -> bool {
    verb == "age" && arguments.try_get_one::<f64>("time_scale").is_ok_and(|scale| scale.is_some())
}

fn makes_file_system(verb: &str, arguments: &ArgMatches) -> bool {
    let word = |id| arguments.try_get_one::<String>(id).ok().flatten();
    let is_set = |id| arguments.try_get_one::<bool>(id).ok().flatten().is_some_and(|set| *set);
    match verb {
        "demo" => word("on").is_none_or(|on| on == "image"),
        "age" => {
            let is_image = |target: &String| target.starts_with("image:") || target.starts_with("memory:");
            word("target").is_some_and(is_image) && !is_set("plan_only") && !is_set("dry_run")
        }
        _ => false,
    }
}

/// The image file that an aging writes.
fn image_of(verb: &str, arguments: &ArgMatches) -> Option<PathBuf> {
    let target = arguments.try_get_one::<String>("target").ok().flatten().filter(|_| verb == "age")?;
    match target.parse().ok()? {
        TargetSpec::Image { path, .. } => Some(path),
        _ => None,
    }
}

fn check(verb: &str, arguments: &ArgMatches) -> Result<(), Failure> {
    match (verb, arguments.subcommand_name()) {
        ("vm", _) => Err(Failure::usage("cannot run `senesce vm` in a guest\nhint: omit --vm")),
        ("tier", Some("mount")) => Err(Failure::usage(
            "cannot mount in a guest: the mount ends with the guest\nhint: omit --vm, or run the whole job in one guest: \
             senesce vm run -- sh -c 'senesce tier mount ... && ...'",
        )),
        _ => Ok(()),
    }
}

/// The arguments without the first `--vm`, and without a `--user` before the verb: this process already runs as that user, and
/// root in the guest has that user's rights on the host.
fn words(verb: &str, all: impl Iterator<Item = OsString>) -> Result<Vec<String>, Failure> {
    let (mut kept, mut is_found, mut is_user) = (Vec::new(), false, false);
    let mut is_before_verb = true;
    for word in all {
        let word =
            word.into_string().map_err(|_| Failure::usage("cannot pass arguments to a guest: they are not UTF-8"))?;
        if std::mem::take(&mut is_user) {
            continue;
        }
        is_before_verb &= word != verb;
        match () {
            () if !is_found && word == "--vm" => is_found = true,
            () if is_before_verb && word == "--user" => is_user = true,
            () if is_before_verb && word.starts_with("--user=") => {}
            () => kept.push(word),
        }
    }
    Ok(kept)
}

pub fn hinted(failure: Failure) -> Failure {
    let wants_root = failure.exit_code() == ExitCode::Missing && !is_root() && failure.to_string().contains("root");
    if !wants_root || !is_set_up() {
        return failure;
    }
    Failure::new(ExitCode::Missing, format!("{failure}\nhint: run it in a guest: senesce --vm VERB ..."))
}

fn is_set_up() -> bool {
    let kernels = senesce_guest::cached_kernels().unwrap_or_default();
    kernels.iter().any(|kernel| kernel.is_user_mode() || senesce_guest::qemu::version().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_that_ends_with_its_guest_is_refused() {
        let checked = |words: &[&str]| {
            let matches =
                crate::command().try_get_matches_from([&["senesce", "--vm", "tier"], words].concat()).unwrap();
            matches.subcommand().map(|(verb, arguments)| check(verb, arguments)).unwrap()
        };
        let refused = checked(&["mount", "--nvm", "anonymous", "--cold", "c", "--log", "file", "/mnt"]).unwrap_err();
        assert_eq!(refused.exit_code(), ExitCode::Usage);
        assert!(refused.to_string().contains("vm run -- sh -c"), "{refused}");
        assert!(checked(&["check", "--nvm", "n", "--cold", "c"]).is_ok());
    }

    #[test]
    fn only_new_file_systems_need_a_guest() {
        for (words, expected) in [
            (&["demo"][..], true),
            (&["demo", "--on", "image"], true),
            (&["demo", "--on", "directory"], false),
            (&["age", "image:a.img,size=1G"], true),
            (&["age", "memory:1G"], true),
            (&["age", "memory:1G", "--dry-run"], false),
            (&["age", "directory"], false),
            (&["age", "--plan-only", "--size", "1G"], false),
            (&["doctor"], false),
        ] {
            let matches = crate::command().try_get_matches_from([&["senesce"], words].concat()).unwrap();
            let (verb, arguments) = matches.subcommand().unwrap();
            assert_eq!(makes_file_system(verb, arguments), expected, "{words:?}");
            let is_image = words.iter().any(|word| word.starts_with("image:"));
            assert_eq!(image_of(verb, arguments), is_image.then(|| PathBuf::from("a.img")));
        }
    }

    #[test]
    fn only_our_own_flag_is_removed() {
        let all = ["--vm", "reproduce", "frag-intra", "--vm", "f2fs"].map(OsString::from);
        assert_eq!(words("reproduce", all.into_iter()).unwrap(), ["reproduce", "frag-intra", "--vm", "f2fs"]);
    }

    #[test]
    fn user_option_is_removed_for_the_guest() {
        for ours in [&["--user", "nobody", "--vm"][..], &["--vm", "--user=nobody"]] {
            let all = ours.iter().chain(&["bench", "--user", "x"]).map(OsString::from);
            assert_eq!(words("bench", all).unwrap(), ["bench", "--user", "x"]);
        }
    }

    #[test]
    fn other_failures_are_unchanged() {
        let failure = || Failure::usage("the root of all");
        assert_eq!(hinted(failure()).to_string(), failure().to_string());
    }
}
