//! `senesce` ages file systems, measures them fresh and aged, and explains the difference by their layout.

/// Messages are for who listens: that standard error is closed or full must not end a run, as std's macro would. Control
/// characters of foreign names are written out.
macro_rules! eprintln {
    ($($words:tt)*) => {{
        let words = format!("{}\n", format_args!($($words)*));
        let _ = std::io::Write::write_all(&mut std::io::stderr(), senesce_core::text::visible(&words).as_bytes());
    }};
}

/// Results, with the control characters of foreign names written out. The end of a pipe's reader ends the process quietly.
macro_rules! println {
    () => { crate::output::print(format_args!("")) };
    ($($words:tt)*) => { crate::output::print(format_args!($($words)*)) };
}

mod display;
mod output;
mod ranks;
mod registry;
mod session;
mod table;
mod verbs;

use clap::{Arg, ArgAction, Command};
use senesce_core::{ExitCode, circumstances};
use session::Session;

/// The whole command line: global flags and one subcommand per verb.
fn command() -> Command {
    let root = Command::new("senesce")
        .version(ranks::VERSION)
        .about("Ages file systems, measures them fresh and aged, and explains the difference by their layout")
        .after_help(
            "Exit codes: 0 done, 1 negative verdict, 2 usage, 3 refused for safety, 4 a requirement is missing, \
             5 I/O failure (record kept), 125 the lab failed, 130 interrupted (record kept).\n\
             Begin with `senesce doctor`, then `senesce age image:/tmp/old.img,size=1G --profile agrawal`.",
        )
        .subcommand_required(true)
        .arg_required_else_help(true)
        .arg(flag("quiet", 'q', "No progress display"))
        .arg(flag("verbose", 'v', "More messages on standard error").action(ArgAction::Count))
        .arg(
            Arg::new("label")
                .long("label")
                .value_name("TEXT")
                .help("Name the runs of this command in their records")
                .global(true),
        );
    table::VERBS.iter().fold(root, |root, verb| root.subcommand((verb.command)()))
}

fn flag(name: &'static str, short: char, help: &'static str) -> Arg {
    Arg::new(name).long(name).short(short).help(help).global(true).action(ArgAction::SetTrue)
}

fn main() -> std::process::ExitCode {
    senesce_volume::guardian::enter_if_guardian();
    senesce_lab::guest::enter_if_guest();
    restore_broken_pipe();
    let matches = command().get_matches();
    circumstances::set_commit(env!("SENESCE_COMMIT"));
    if let Some(label) = matches.get_one::<String>("label") {
        circumstances::set_label(label.clone());
    }
    let (name, arguments) = matches.subcommand().unwrap_or(("help", &matches));
    let session = Session::new(matches.get_flag("quiet"), matches.get_count("verbose"));
    let Some(verb) = table::VERBS.iter().find(|verb| verb.name == name) else {
        return code(ExitCode::Usage);
    };
    // What killed processes left; `doctor --sweep` does it itself, to tell what it finds.
    if name != "doctor" {
        senesce_volume::guardian::sweep();
    }
    match (verb.run)(arguments, &session) {
        Ok(exit) => exit.into_process(),
        Err(failure) => {
            session.clear();
            eprintln!("senesce: {failure}");
            code(failure.exit_code())
        }
    }
}

fn code(exit: ExitCode) -> std::process::ExitCode {
    std::process::ExitCode::from(exit as u8)
}

/// What a verb ends with: one of ours, or the status of a command that it ran.
pub enum Exit {
    /// One of the documented codes.
    Code(ExitCode),
    /// The exit status of the COMMAND of `trace`, `lab run` and the like.
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

/// `senesce ... | head` ends quietly, as with every other filter: Rust ignores SIGPIPE at start.
fn restore_broken_pipe() {
    use std::panic;
    let default = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let text = info.payload().downcast_ref::<String>().map(String::as_str).unwrap_or_default();
        if text.contains("failed printing to stdout") {
            std::process::exit(0);
        }
        default(info);
    }));
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_line_is_consistent() {
        super::command().debug_assert();
    }
}
