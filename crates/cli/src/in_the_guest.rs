//! `--vm`: runs the command in a guest as root; and the hint for a user without root.

mod held_images;
mod shares;

use crate::Exit;
use crate::arguments::{Eligible, newest_since};
use crate::display::terminal_width;
use crate::messages::GuestMessages;
use crate::session::{Session, runs_directory};
use clap::{ArgMatches, FromArgMatches};
pub(crate) use held_images::hold;
use senesce_core::Record;
use senesce_core::environment::{USE_SUDO, is_root};
use senesce_core::failure::failed;
use senesce_core::machine::guest_accelerator;
use senesce_core::resume::{self, continue_with, same_command};
use senesce_core::{Bytes, ExitCode, Failure};
use senesce_exp_aging::age::{self, AgeSpec, RESUME, spec_of_run};
use senesce_guest::kernel::Engine;
use senesce_guest::{GuestRun, GuestTime, KeptFiles};
use senesce_volume::TargetSpec;
pub(crate) use shares::Shares;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Runs the arguments of this process, without `--vm` (which may be `given`), in a guest. Files below `--out` or
/// `./senesce-runs` stay on the host.
pub fn run(verb: &str, arguments: &ArgMatches, given: bool, session: &Session) -> Result<Exit, Failure> {
    check(verb, arguments)?;
    let mut command = vec![senesce_guest::carry::own_program()?];
    command.extend(words(verb, std::env::args_os().skip(1))?);
    let here = std::env::current_dir().map_err(failed("find", Path::new(".")))?;
    let aging = aging(verb, arguments);
    let _held = held_images::hold(&command, aging.as_ref().and_then(image), &here)?;
    let needs_virtual = aging.as_ref().is_some_and(Aging::needs_virtual_time);
    let kernel = senesce_guest::kernel::choose(None, needs_virtual.then_some(Engine::Uml))?;
    // The layout repeats then, at no cost.
    let may_be_virtual = kernel.has_virtual_time() && aging.as_ref().is_some_and(|aging| aging.spec.commits_by_plan());
    let is_virtual = needs_virtual || may_be_virtual;
    let image = aging.as_ref().and_then(image).filter(|_| kernel.is_user_mode());
    let shares = Shares::of(verb, arguments, &here)?.with_image(image, &here)?;
    let guest = GuestRun {
        kernel,
        drives: Vec::new(),
        keep: KeptFiles::default(),
        // One size for all images, because layouts in virtual time depend on it.
        memory: if is_virtual && image.is_some() { Bytes::gib(1) } else { Bytes::gib(2) },
        cpus: 2,
        accelerator: None,
        time: match is_virtual {
            false => GuestTime::Real,
            true if aging.as_ref().is_some_and(|aging| aging.spec.time_scale.is_none()) => GuestTime::Still,
            true => GuestTime::Virtual,
        },
        command,
        shares: shares.folders.clone(),
        time_limit: aging.as_ref().and_then(Aging::time_limit),
        columns: terminal_width(),
    };
    session.clear();
    let begun = SystemTime::now();
    let outcome = guest.run(&session.interrupt()?, &mut std::io::stdout(), &mut GuestMessages::default());
    let outcome = outcome.map_err(|error| {
        let eligible = if aging.is_some() { Eligible::AGINGS } else { Eligible::ANY };
        let written = newest_since(&runs_directory(), eligible, begun);
        interrupted(error.into(), &continued_by(aging.is_some(), given, arguments, written.as_deref()))
    })?;
    Ok(Exit::Command(outcome.exit_status))
}

/// Returns the command that continues a run whose guest was ended. `written`: the run that the guest wrote in `./senesce-runs`.
fn continued_by(is_aging: bool, given: bool, arguments: &ArgMatches, written: Option<&Path>) -> String {
    let innermost = std::iter::successors(Some(arguments), |matches| Some(matches.subcommand()?.1)).last();
    let path = |id| innermost.and_then(|matches| matches.try_get_one::<PathBuf>(id).ok().flatten());
    let named = ["resume", "out"].into_iter().find_map(path).map(PathBuf::as_path);
    match named.or(written) {
        // A guest that ended early has made no record; the same command starts it.
        Some(run) if is_aging && age::is_aging(run) => {
            let verb = if given { format!("--vm {RESUME}") } else { RESUME.into() };
            resume::command(&verb, run)
        }
        _ => same_command(written.filter(|_| named.is_none())),
    }
}

fn interrupted(failure: Failure, command: &str) -> Failure {
    match failure.exit_code() {
        code @ ExitCode::Interrupted => Failure::new(code, format!("{failure}\nhint: {}", continue_with(command))),
        _ => failure,
    }
}

/// Returns whether the verb needs virtual time, or makes a file system, which this user may not do here, and a
/// user-mode kernel may. Prints the reason.
pub fn is_needed(verb: &str, arguments: &ArgMatches, session: &Session) -> bool {
    let Some(why) = reason(verb, arguments) else { return false };
    let Ok(kernel) = senesce_guest::kernel::choose(None, Some(Engine::Uml)) else { return false };
    session.progress().say(&format!("{why}: in a user-mode kernel, Linux {}", kernel.version));
    true
}

fn reason(verb: &str, arguments: &ArgMatches) -> Option<&'static str> {
    let aging = aging(verb, arguments);
    match aging {
        _ if guest_accelerator().is_some() => None,
        Some(aging) if aging.needs_virtual_time() => Some(VIRTUAL),
        _ if is_root() => None,
        aging => (aging.is_some() || is_demo_of_an_image(verb, arguments)).then_some("without root"),
    }
}

const VIRTUAL: &str = "all times are virtual";

fn is_demo_of_an_image(verb: &str, arguments: &ArgMatches) -> bool {
    let on = arguments.try_get_one::<String>("on").ok().flatten();
    verb == "demo" && on.is_none_or(|on| on == "image")
}

/// The aging of an image or of memory, which makes a file system, that the arguments start or continue.
#[derive(Debug)]
struct Aging {
    spec: AgeSpec,
    is_continued: bool,
    /// It continues a run of virtual time.
    is_virtual: bool,
}

/// Time for the boot, and for the layout and its costs after the last operation, which `--max-time` does not limit.
const AFTER_MAX_TIME: Duration = Duration::from_secs(600);

impl Aging {
    fn needs_virtual_time(&self) -> bool {
        self.spec.time_scale.is_some() || self.is_virtual
    }

    /// Returns the time after which a guest that ignores `--max-time` must hang. A continued run may first compare all contents.
    fn time_limit(&self) -> Option<Duration> {
        let most = self.spec.limits.max_time().filter(|_| !self.is_continued)?;
        Some(most + AFTER_MAX_TIME.max(most))
    }
}

fn aging(verb: &str, arguments: &ArgMatches) -> Option<Aging> {
    let is_set = |id| arguments.try_get_one::<bool>(id).ok().flatten().is_some_and(|set| *set);
    if verb != "age" || is_set("plan_only") || is_set("dry_run") {
        return None;
    }
    let resumed = arguments.get_one::<PathBuf>("resume");
    let is_continued = resumed.is_some();
    let (spec, is_virtual) = match resumed {
        // A path without an aging is reported by the verb.
        Some(run) => (spec_of_run(run).ok()?, Record::open(run).ok()?.environment.has_virtual_clock()),
        None => {
            let target = arguments.get_one::<String>("target")?.parse().ok()?;
            (AgeSpec { target: Some(target), ..AgeSpec::from_arg_matches(arguments).ok()? }, false)
        }
    };
    let makes = matches!(spec.target, Some(TargetSpec::Image { .. } | TargetSpec::Memory { .. }));
    makes.then_some(Aging { spec, is_continued, is_virtual })
}

fn image(aging: &Aging) -> Option<&Path> {
    match aging.spec.local_target() {
        Some(TargetSpec::Image { path, .. }) => Some(path),
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

/// Returns the arguments without the first `--vm`, and without a `--user` before the verb. This process already runs as
/// that user, and root in the guest has that user's rights on the host.
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

pub fn hinted(verb: &str, failure: Failure) -> Failure {
    let accelerator = guest_accelerator();
    if accelerator.as_deref() == Some("uml") {
        return hinted_in_user_mode(failure);
    }
    let text = failure.to_string();
    let wants_root = failure.exit_code() == ExitCode::Missing
        && !is_root()
        && ["root", USE_SUDO].iter().any(|word| text.contains(word));
    let hint = if wants_root && !names_device(std::env::args_os()) { guest_hint(verb, is_set_up()) } else { None };
    match hint {
        Some(hint) => Failure::new(ExitCode::Missing, format!("{failure}\nhint: {hint}")),
        None => failure,
    }
}

/// Returns whether the arguments of a verb name a device of this machine, which a guest does not have.
pub(crate) fn names_device(arguments: impl Iterator<Item = OsString>) -> bool {
    arguments.take_while(|word| word != "--").any(|word| word.as_encoded_bytes().starts_with(b"/dev/"))
}

/// Returns how to run a verb in a guest. Without a kernel, only experiments and agings get the hint: other verbs often need the host itself.
fn guest_hint(verb: &str, is_set_up: bool) -> Option<String> {
    match (is_set_up, verb) {
        (true, _) => Some(format!("run it in a guest: senesce --vm {verb} ...")),
        (false, "reproduce") => Some("run it in a guest: senesce vm setup, then senesce --vm reproduce ...".into()),
        (false, "age") => {
            Some("without root, a user-mode kernel ages images: senesce vm setup, then the same command".into())
        }
        (false, _) => None,
    }
}

/// Adds a hint to a failure to find a file. A user-mode kernel shows only a part of the host's files.
fn hinted_in_user_mode(failure: Failure) -> Failure {
    let text = failure.to_string();
    let lacks_driver = ["tracefs", "/dev/fuse"].iter().any(|part| text.contains(part));
    if failure.exit_code() == ExitCode::Missing && lacks_driver && !text.contains("hint:") {
        let hint = "the kernel of this guest lacks it; one of senesce vm build 6.12 has it";
        return Failure::new(ExitCode::Missing, format!("{text}\nhint: {hint}"));
    }
    if !text.contains("(ENOENT)") || text.contains("hint:") {
        return failure;
    }
    let hint = "a guest can access only the current directory and those given with --share; \
                change to the directory of the file first";
    Failure::new(failure.exit_code(), format!("{text}\nhint: {hint}"))
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
            (&["age", "--resume", "nonexistent"], false),
            (&["doctor"], false),
        ] {
            let matches = crate::command().try_get_matches_from([&["senesce"], words].concat()).unwrap();
            let (verb, arguments) = matches.subcommand().unwrap();
            let aging = aging(verb, arguments);
            assert_eq!(aging.is_some() || is_demo_of_an_image(verb, arguments), expected, "{words:?}");
            let is_image = words.iter().any(|word| word.starts_with("image:"));
            assert_eq!(aging.as_ref().and_then(image), is_image.then(|| Path::new("a.img")));
        }
    }

    #[test]
    fn layout_repeats_if_the_plan_commits() {
        for (words, needs, may) in [
            (&["--time-scale", "1/min"][..], true, false),
            (&[], false, true),
            (&["--sync-every", "5"], false, true),
            (&["--commit-share", "none"], false, false),
            (&["--pace", "10", "--commit-share", "1%"], false, false),
        ] {
            let words = [&["senesce", "age", "image:a.img,size=1G"], words].concat();
            let matches = crate::command().try_get_matches_from(words.clone()).unwrap();
            let (verb, arguments) = matches.subcommand().unwrap();
            let aging = aging(verb, arguments).unwrap();
            assert_eq!((aging.needs_virtual_time(), aging.spec.commits_by_plan()), (needs, may), "{words:?}");
        }
    }

    #[test]
    fn ended_guest_has_a_command_that_continues_its_run() {
        use senesce_core::{Environment, Plan, RunDirectory, Seed};
        let directory = tempfile::tempdir().unwrap();
        let [aged, missing] = ["run", "missing"].map(|name| directory.path().join(name));
        drop(RunDirectory::open(&aged, &Plan::default_of("age", Seed(1)), &Environment::default()).unwrap());
        let [run, unmade] = [&aged, &missing].map(|path| path.to_str().unwrap());
        let continued = |words: &[&str], written: Option<&Path>| {
            let words = [&["senesce"], words].concat();
            let matches = crate::command().try_get_matches_from(words).unwrap();
            let (verb, arguments) = matches.subcommand().unwrap();
            continued_by(verb == "age", matches.get_flag(crate::IN_A_GUEST), arguments, written)
        };
        let age = ["age", "image:a.img,size=1G"];
        let named = [&age[..], &["--out", run]].concat();
        let resumed = format!("senesce age --resume {run}");
        assert_eq!(continued(&age, Some(&aged)), resumed);
        assert_eq!(continued(&named, Some(&missing)), resumed);
        assert_eq!(continued(&["age", "--resume", run], None), resumed);
        let in_a_guest = continued(&[&["--vm"], &named[..]].concat(), None);
        assert_eq!(in_a_guest, format!("senesce --vm age --resume {run}"));
        assert_eq!(continued(&age, None), same_command(None), "it has no record");
        let unmade = [&age[..], &["--out", unmade]].concat();
        assert_eq!(continued(&unmade, None), same_command(None), "it has no record yet");
        let zoned = ["zoned", "measure", "auto", "--op", "append"];
        assert_eq!(continued(&zoned, Some(&aged)), same_command(Some(&aged)));
        assert_eq!(continued(&[&zoned[..], &["--out", "run"]].concat(), Some(&aged)), same_command(None));
    }

    #[test]
    fn only_the_global_vm_flag_is_removed() {
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
    fn missing_file_in_a_user_mode_kernel_has_a_hint() {
        let missing = Failure::new(ExitCode::RunFailed, "cannot open ../a.img: No such file or directory (ENOENT)");
        let hinted = hinted_in_user_mode(missing);
        assert!(hinted.to_string().contains("\nhint: a guest can access only the current directory"), "{hinted}");
        assert_eq!(hinted.exit_code(), ExitCode::RunFailed);
        let other = hinted_in_user_mode(Failure::usage("no such file"));
        assert!(!other.to_string().contains("hint"));
    }

    #[test]
    fn other_failures_are_unchanged() {
        let failure = || Failure::usage("the root of all");
        assert_eq!(hinted("reproduce", failure()).to_string(), failure().to_string());
    }

    #[test]
    fn devices_are_not_named_to_a_guest() {
        let names = |line: &str| names_device(line.split(' ').map(OsString::from));
        assert!(names("senesce layout /dev/sdb"));
        assert!(!names("senesce snapshot run old.img clean -- cat /dev/null") && !names("senesce layout old.img"));
    }

    #[test]
    fn experiments_get_the_hint_also_without_a_kernel() {
        assert_eq!(guest_hint("snapshot", false), None);
        assert!(guest_hint("snapshot", true).unwrap().contains("senesce --vm snapshot"));
        let hints = [false, true].map(|is_set_up| guest_hint("reproduce", is_set_up).unwrap());
        assert!(hints.iter().all(|hint| hint.contains("senesce --vm reproduce")), "{hints:?}");
        assert_eq!(hints.map(|hint| hint.contains("vm setup")), [true, false]);
    }
}
