//! The table of verbs, the source of help, man pages, completions and dispatch.

use crate::Exit;
use crate::global;
use crate::session::Session;
use crate::verbs;
use clap::builder::Styles;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use senesce_core::Failure;
use senesce_core::parameter::suggest;
use std::fmt::Write;

/// One verb: its options and its action. Parsing has no effects.
pub(crate) trait Verb: Args + FromArgMatches {
    const NAME: &'static str;
    const ABOUT: &'static str;
    /// Commands that work when pasted, for the end of the help.
    const EXAMPLES: &'static [&'static str];
    fn run(self, session: &Session) -> Result<Exit, Failure>;
}

pub(crate) struct VerbEntry {
    /// The word on the command line.
    pub name: &'static str,
    pub command: fn() -> Command,
    pub run: fn(&ArgMatches, &Session) -> Result<Exit, Failure>,
}

impl VerbEntry {
    const fn of<V: Verb>() -> Self {
        Self { name: V::NAME, command: build::<V>, run: run::<V> }
    }
}

/// Builds the options of a verb on demand, because building those of all verbs takes longer than most commands.
fn build<V: Verb>() -> Command {
    Command::new(V::NAME)
        .about(V::ABOUT)
        .disable_help_subcommand(true)
        .after_help(examples(V::EXAMPLES))
        .defer(|command| global::complete(V::augment_args(command)).about(V::ABOUT))
}

pub(crate) fn examples(commands: &[&str]) -> String {
    commands.iter().fold("Examples:".into(), |text, command| format!("{text}\n  {command}"))
}

fn run<V: Verb>(matches: &ArgMatches, session: &Session) -> Result<Exit, Failure> {
    let options = V::from_arg_matches(matches).map_err(|error| Failure::usage(error.to_string()))?;
    options.run(session)
}

/// Verbs in the groups and the order of the help, the manual and the README.
pub(crate) const GROUPS: &[(&str, &[VerbEntry])] = &[
    ("Start", &[VerbEntry::of::<verbs::demo::Demo>(), VerbEntry::of::<verbs::doctor::Doctor>()]),
    (
        "Age",
        &[
            VerbEntry::of::<verbs::age::Age>(),
            VerbEntry::of::<verbs::verify::Verify>(),
            VerbEntry::of::<verbs::profile::ProfileVerb>(),
        ],
    ),
    (
        "Look",
        &[
            VerbEntry::of::<verbs::layout::Layout>(),
            VerbEntry::of::<verbs::trace::Trace>(),
            VerbEntry::of::<verbs::diagnose::Diagnose>(),
        ],
    ),
    (
        "Measure",
        &[
            VerbEntry::of::<verbs::bench::Bench>(),
            VerbEntry::of::<verbs::study::Study>(),
            VerbEntry { name: "reproduce", command: verbs::reproduce::command, run: verbs::reproduce::run },
        ],
    ),
    (
        "Compare",
        &[
            VerbEntry::of::<verbs::compare::Compare>(),
            VerbEntry::of::<verbs::report::Report>(),
            VerbEntry::of::<verbs::runs::Runs>(),
        ],
    ),
    (
        "Devices and images",
        &[
            VerbEntry::of::<verbs::device::Device>(),
            VerbEntry::of::<verbs::zoned::Zoned>(),
            VerbEntry::of::<verbs::image::Image>(),
            VerbEntry::of::<verbs::snapshot::Snapshot>(),
        ],
    ),
    ("Guests", &[VerbEntry::of::<verbs::vm::Vm>()]),
    ("Subjects of experiments", &[VerbEntry::of::<verbs::objects::Objects>(), VerbEntry::of::<verbs::tier::Tier>()]),
    ("Help", &[VerbEntry::of::<verbs::help::Help>(), VerbEntry::of::<verbs::completions::Completions>()]),
];

pub fn verbs() -> impl Iterator<Item = &'static VerbEntry> {
    GROUPS.iter().flat_map(|(_, verbs)| verbs.iter())
}

pub fn verb(name: &str) -> Option<&'static VerbEntry> {
    verbs().find(|verb| verb.name == name)
}

/// Words that are not verbs, most of them verbs of version 0.1, and the commands to use instead.
const RENAMED: [(&str, &str); 17] = [
    ("advise", "study --for` or `objects advise"),
    ("bundle", "report --format zip"),
    ("carry", "runs repeat"),
    ("doc", "help"),
    ("experiments", "reproduce --list"),
    ("export", "report --format csv"),
    ("gate", "study GATE.toml`; a gate is a study: `senesce help gate"),
    ("history", "runs history"),
    ("import", "runs import"),
    ("lab", "vm"),
    ("man", "help --man"),
    ("prognosis", "diagnose"),
    ("rollback", "snapshot restore"),
    ("run-and-rollback", "snapshot run"),
    ("twin", "image twin"),
    ("zns", "zoned measure"),
    ("zones", "zoned list"),
];

pub fn unknown_verb(word: &str) -> String {
    match RENAMED.iter().find(|(old, _)| *old == word) {
        Some((_, new)) => format!("unknown verb `{word}`: use `{new}`"),
        None => {
            let hint = suggest(word, verbs().map(|verb| verb.name));
            format!("unknown verb `{word}`{hint}\nhint: senesce --help lists the verbs")
        }
    }
}

pub fn list() -> String {
    let style = *Styles::styled().get_header();
    let literal = *Styles::styled().get_literal();
    let mut text = String::new();
    for (title, verbs) in GROUPS {
        let _ = writeln!(text, "{style}{title}:{style:#}");
        for verb in *verbs {
            let about = (verb.command)().get_about().map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {literal}{:<12}{literal:#}{about}", verb.name);
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn verbs_are_unique_and_renamed_ones_are_gone() {
        let names: BTreeSet<&str> = verbs().map(|verb| verb.name).collect();
        assert_eq!(names.len(), verbs().count());
        assert!(names.len() <= 23);
        assert!(RENAMED.iter().all(|(old, _)| !names.contains(old)));
    }

    #[test]
    fn lines_of_the_list_fit_80_columns() {
        assert!(list().lines().all(|line| line.len() <= 80 || line.contains('\u{1b}')), "{}", list());
        for verb in verbs() {
            let about = (verb.command)().get_about().map(ToString::to_string).unwrap_or_default();
            assert!(about.len() <= 66, "{}: {about}", verb.name);
        }
    }

    #[test]
    fn renamed_verbs_name_their_replacement() {
        assert_eq!(unknown_verb("zns"), "unknown verb `zns`: use `zoned measure`");
        assert!(unknown_verb("gate").ends_with("`senesce help gate`"));
        assert!(unknown_verb("lyout").contains("layout"));
    }
}
