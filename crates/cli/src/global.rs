//! The options that every command has, and the headings of the others.

use clap::{Arg, ArgAction, ArgMatches, Command};
use std::sync::atomic::{AtomicBool, Ordering};

/// Heading of the options of every command, which come last.
pub const HEADING: &str = "Global options";

/// Headings of options that have the same meaning wherever they occur. An option of one command names its own.
const HEADINGS: [(&str, &[&str]); 3] = [
    ("Target", &["create", "erase", "fs", "in-memory", "mkfs-options", "mount-options", "read-only"]),
    (
        "Measurement",
        &["again", "keep-caches", "max-time", "model", "reps", "seed", "threads", "until-decided", "warm-up"],
    ),
    ("Output", &["csv", "dry-run", "format", "html", "json", "out", "prometheus", "svg"]),
];

static FORCE: AtomicBool = AtomicBool::new(false);

/// Values of the global options. They may stand before and after the verb.
#[derive(Default)]
pub struct Global {
    pub quiet: bool,
    pub verbose: u8,
    pub label: Option<String>,
    force: bool,
}

impl Global {
    /// Collects the values from the command and the verbs below it.
    pub fn of(matches: &ArgMatches) -> Self {
        let below = matches.subcommand().map_or_else(Self::default, |(_, below)| Self::of(below));
        let flag = |name| matches.try_get_one::<bool>(name).ok().flatten().copied().unwrap_or(false);
        let count = matches.try_get_one::<u8>("verbose").ok().flatten().copied().unwrap_or(0);
        let label = matches.try_get_one::<String>("label").ok().flatten().cloned();
        Self {
            quiet: below.quiet || flag("quiet"),
            verbose: below.verbose + count,
            label: below.label.or(label),
            force: below.force || flag("force"),
        }
    }

    /// Lets the outputs of this process replace any file, if `--force` was given.
    pub fn apply_force(&self) {
        FORCE.store(self.force, Ordering::Relaxed);
    }
}

/// Returns whether `--force` was given.
pub(crate) fn is_forced() -> bool {
    FORCE.load(Ordering::Relaxed)
}

fn switch(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help).help_heading(HEADING)
}

/// Returns the global options of a command.
pub fn arguments() -> [Arg; 5] {
    [
        switch("quiet", "Show no progress").short('q'),
        switch("verbose", "Print more messages to standard error").short('v').action(ArgAction::Count),
        switch("label", "Label of the runs in their records").value_name("TEXT").action(ArgAction::Set),
        switch("force", "Overwrite output files of any format"),
        switch("help", "Print help").short('h').action(ArgAction::HelpShort),
    ]
}

/// Adds headings and the global options to a verb and the commands below it. Clap's own global options would come first.
pub(crate) fn complete(command: Command) -> Command {
    command.mut_args(with_heading).mut_subcommands(complete).disable_help_flag(true).args(arguments())
}

fn with_heading(arg: Arg) -> Arg {
    let is_flag = arg.get_long().is_some() && arg.get_help_heading().is_none();
    let heading = arg.get_long().filter(|_| is_flag).and_then(heading_of);
    match heading {
        Some(heading) => arg.help_heading(heading),
        None => arg,
    }
}

fn heading_of(flag: &str) -> Option<&'static str> {
    HEADINGS.iter().find(|(_, flags)| flags.contains(&flag)).map(|(heading, _)| *heading)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the commands that have options, without the experiments.
    fn leaves(command: &Command) -> Vec<&Command> {
        let below = command.get_subcommands().filter(|_| command.get_name() != "reproduce").flat_map(leaves);
        std::iter::once(command).chain(below).collect()
    }

    fn built() -> Command {
        let mut root = crate::command();
        root.build();
        root
    }

    #[test]
    fn every_option_of_a_verb_has_a_heading() {
        let root = built();
        for command in leaves(&root).into_iter().skip(1) {
            let options = command.get_arguments().filter(|arg| !arg.is_positional() && !arg.is_hide_set());
            let bare: Vec<_> = options.filter(|arg| arg.get_help_heading().is_none()).map(|arg| arg.get_id()).collect();
            assert!(bare.is_empty(), "{}: {bare:?}", command.get_name());
        }
    }

    #[test]
    fn global_options_come_last() {
        let root = built();
        for command in leaves(&root).into_iter().skip(1) {
            let own = command.get_arguments().filter(|arg| !arg.is_positional());
            let is_global: Vec<bool> = own.map(|arg| arg.get_help_heading() == Some(HEADING)).collect();
            assert!(is_global.is_sorted() && is_global.iter().any(|last| *last), "{}", command.get_name());
        }
    }

    #[test]
    fn options_take_one_line_of_80_columns_and_end_without_a_full_stop() {
        let root = built();
        for command in leaves(&root).into_iter().skip(1) {
            for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
                let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
                assert!(!help.is_empty() && !help.ends_with('.'), "{}: {}", command.get_name(), arg.get_id());
            }
            let mut narrow = command.clone().term_width(80);
            let help = narrow.render_help().to_string();
            let options = help.split("\n\n").filter(|part| !part.starts_with("Experiments:"));
            let long: Vec<&str> =
                options.flat_map(str::lines).filter(|line| line.len() > 40 && line.starts_with("          ")).collect();
            assert!(long.is_empty(), "{}:\n{}", command.get_name(), long.join("\n"));
        }
    }

    #[test]
    fn help_of_again_names_the_run_directory() {
        let root = built();
        let all = leaves(&root).into_iter().flat_map(|command| command.get_arguments());
        let again = all.filter(|arg| arg.get_id().as_str() == "again");
        let help: Vec<String> = again.filter_map(|arg| arg.get_help().map(ToString::to_string)).collect();
        assert!(help.len() > 2 && help.iter().all(|words| words.contains("--out")), "{help:?}");
    }

    #[test]
    fn global_options_work_before_and_after_the_verb() {
        let of = |words: &[&str]| Global::of(&crate::command().try_get_matches_from(words).expect("words"));
        let before = of(&["senesce", "-qv", "--label", "a", "runs", "list"]);
        let after = of(&["senesce", "-v", "runs", "list", "-qv", "--label", "b", "--force"]);
        assert!(before.quiet && before.label.as_deref() == Some("a") && !before.force);
        assert!(after.quiet && after.label.as_deref() == Some("b") && after.force && after.verbose == 2);
    }
}
