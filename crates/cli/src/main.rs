//! `senesce` ages file systems, measures them fresh and aged, and explains the difference by their layout.

/// Ignores a closed or full standard error, which must not end a run (std's macro panics), escapes control characters of
/// foreign names, and wraps lines on a terminal.
macro_rules! eprintln {
    ($($words:tt)*) => { crate::messages::print(format_args!($($words)*)) };
}

/// Prints results and escapes control characters of foreign names. A closed pipe ends the process quietly, like any filter
/// (std's macro panics).
macro_rules! println {
    () => { crate::output::print(format_args!("")) };
    ($($words:tt)*) => { crate::output::print(format_args!($($words)*)) };
}

mod arguments;
mod display;
#[cfg(test)]
mod documented;
mod experiment_text;
mod global;
mod image_hint;
mod in_the_guest;
mod messages;
mod output;
mod pace;
mod pages;
mod ranks;
mod registry;
mod session;
mod text_table;
mod user;
mod verb_table;
mod verbs;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, Command};
use clap_complete::CompleteEnv;
use global::Global;
use senesce_core::{ExitCode, Failure, circumstances};
use session::Session;

fn command() -> Command {
    let root = Command::new("senesce")
        .version(ranks::VERSION)
        .about("Ages file systems, measures them fresh and aged, and explains the difference by their layout")
        .help_template(format!(
            "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}Options:\n{{options}}{{after-help}}",
            verb_table::list()
        ))
        .after_help(
            "Exit codes: 0 done, 1 negative verdict, 2 usage, 3 refused for safety,\n4 missing requirement, 5 I/O failure (record kept), 125 inconclusive or\nfailed guest, 130 interrupted (record kept).\n\n\
             Examples:\n  senesce demo\n  senesce age --help\n  senesce help age",
        )
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        .arg(
            // Only before the verb: an experiment has a parameter of this name.
            Arg::new(IN_A_GUEST)
                .long("vm")
                .help("Run the verb in a guest, without root")
                .help_heading(global::HEADING)
                .action(ArgAction::SetTrue),
        )
        .arg(
            // Only before the verb, as above.
            Arg::new(USER)
                .long("user")
                .value_name("NAME")
                .help("As root: drop privileges to this user")
                .help_heading(global::HEADING),
        )
        .disable_help_flag(true)
        .args(global::arguments());
    verb_table::verbs().fold(root, |root, verb| root.subcommand((verb.command)()))
}

const IN_A_GUEST: &str = "in a guest";

const USER: &str = "as another user";

fn main() -> std::process::ExitCode {
    // If this fails, a file that grows too large still ends the process.
    let _ = senesce_sys::signal::survive_file_size_limit();
    senesce_volume::guardian::enter_if_guardian();
    senesce_guest::guest::enter_if_guest();
    let _ = senesce_core::interrupt::end_on_signals();
    CompleteEnv::with_factory(command).var(verbs::completions::VARIABLE).complete();
    let matches = match understood() {
        Ok(matches) => matches,
        Err(failure) => {
            eprintln!("senesce: {failure}");
            return code(failure.exit_code());
        }
    };
    if let Some(Err(failure)) = matches.get_one::<String>(USER).map(|name| user::become_user(name)) {
        eprintln!("senesce: {failure}");
        return code(failure.exit_code());
    }
    circumstances::set_commit(env!("SENESCE_COMMIT"));
    let global = Global::of(&matches);
    global.apply_force();
    let (name, arguments) = matches.subcommand().unwrap_or(("help", &matches));
    let session = Session::new(global.quiet, global.verbose);
    if let Some(label) = global.label {
        circumstances::set_label(label);
    }
    let Some(verb) = verb_table::verb(name) else {
        return code(ExitCode::Usage);
    };
    if let Err(failure) = has_processes() {
        eprintln!("senesce: {failure}");
        return code(failure.exit_code());
    }
    let needs_guest = || !verbs::demo::is_stored(name, arguments) && in_the_guest::is_needed(name, arguments, &session);
    let given = matches.get_flag(IN_A_GUEST);
    if given || needs_guest() {
        return ended(in_the_guest::run(name, arguments, given, &session), &session);
    }
    let found = (verb.run)(arguments, &session).map_err(|failure| in_the_guest::hinted(name, failure));
    ended(found.map_err(|failure| image_hint::hinted(name, failure)), &session)
}

fn ended(found: Result<Exit, Failure>, session: &Session) -> std::process::ExitCode {
    match found {
        Ok(exit) => exit.into_process(),
        Err(failure) => {
            session.clear();
            eprintln!("senesce: {failure}");
            // A failure after a signal is a consequence of it: an ended program or an incomplete step.
            match failure.exit_code() {
                ExitCode::RunFailed if senesce_core::interrupt::requested() => code(ExitCode::Interrupted),
                exit => code(exit),
            }
        }
    }
}

/// Parses the command line. Help, version and most errors exit here with clap's messages.
fn understood() -> Result<ArgMatches, Failure> {
    command().try_get_matches().map_err(|error| match (error.kind(), error.get(ContextKind::InvalidSubcommand)) {
        (ErrorKind::InvalidSubcommand, Some(ContextValue::String(word))) if is_verb_position(word) => {
            Failure::usage(verb_table::unknown_verb(word))
        }
        _ => error.exit(),
    })
}

/// Fails without /proc, in which the guard checks mounts, processes and devices.
fn has_processes() -> Result<(), Failure> {
    match std::path::Path::new("/proc/self/exe").symlink_metadata() {
        Ok(_) => Ok(()),
        Err(_) => Err(Failure::new(ExitCode::Missing, "cannot find /proc\nhint: mount -t proc proc /proc")),
    }
}

fn is_verb_position(word: &str) -> bool {
    std::env::args().skip(1).find(|argument| !argument.starts_with('-')).is_some_and(|first| first == word)
}

fn code(exit: ExitCode) -> std::process::ExitCode {
    std::process::ExitCode::from(exit as u8)
}

pub enum Exit {
    Code(ExitCode),
    Command(u8),
}

impl Exit {
    fn into_process(self) -> std::process::ExitCode {
        match self {
            Self::Code(exit) => code(exit),
            Self::Command(status) => std::process::ExitCode::from(status),
        }
    }
}

impl From<ExitCode> for Exit {
    fn from(exit: ExitCode) -> Self {
        Self::Code(exit)
    }
}

#[cfg(test)]
mod tests {
    use clap::Command;

    #[test]
    fn command_line_is_consistent() {
        super::command().debug_assert();
    }

    fn out_is_o(command: &Command) {
        for argument in command.get_arguments() {
            let is_out = argument.get_long() == Some("out");
            assert_eq!(is_out, argument.get_short() == Some('o'), "{}: {}", command.get_name(), argument.get_id());
        }
        command.get_subcommands().for_each(out_is_o);
    }

    #[test]
    fn short_option_o_always_means_out() {
        let mut root = super::command();
        root.build();
        out_is_o(&root);
    }

    /// Keeps `--help` and `--version` fast.
    #[test]
    fn options_of_a_verb_are_built_on_demand() {
        let verbs = super::command();
        let has_flags = |command: &Command| command.get_arguments().count() > 0;
        assert!(!verbs.get_subcommands().filter(|verb| verb.get_name() != "reproduce").any(has_flags));
        let mut reproduce = crate::verbs::reproduce::command();
        assert!(!reproduce.get_subcommands().any(has_flags));
        reproduce.build();
        let mut experiments = reproduce.get_subcommands().filter(|command| command.get_name() != "help");
        assert!(experiments.all(has_flags));
    }
}
