//! `senesce man`: the manual pages.

use crate::Exit;
use crate::groups::{GROUPS, verbs};
use crate::output::Output;
use crate::session::Session;
use crate::table::Verb;
use crate::verbs::report::output_failed;
use clap::{Args, Command};
use clap_mangen::Man as Page;
use senesce_core::output::{self, Format};
use senesce_core::parameter::suggest;
use senesce_core::{ExitCode, Failure};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Print a manual page in roff, or write all
#[derive(Args)]
pub struct Man {
    /// The verb to describe; without it, senesce itself
    verb: Option<String>,
    /// Write all pages into this directory, as senesce.1, senesce-age.1 and so on
    #[arg(long, value_name = "DIR", conflicts_with = "verb")]
    dir: Option<PathBuf>,
}

impl Verb for Man {
    const NAME: &'static str = "man";
    const ABOUT: &'static str = "Print the manual page in roff (senesce man | man -l -)";

    fn run(self, _session: &Session) -> Result<Exit, Failure> {
        let root = complete(crate::command());
        if let Some(directory) = &self.dir {
            return write_all(root, directory);
        }
        let mut out = io::stdout().lock();
        match &self.verb {
            None => render_root(root, &mut out),
            Some(name) => Page::new(of_verb(&root, name)?).render(&mut out),
        }
        .map_err(output_failed)?;
        Ok(ExitCode::Done.into())
    }
}

/// Names pages `senesce-age` and not `age`, and leaves out the help of helps.
fn complete(root: Command) -> Command {
    let mut root = root.disable_help_subcommand(true);
    root.build();
    root
}

fn of_verb(root: &Command, name: &str) -> Result<Command, Failure> {
    let mut known = root.get_subcommands();
    known.find(|command| command.get_name() == name).map(named).ok_or_else(|| {
        let hint = suggest(name, root.get_subcommands().map(Command::get_name));
        Failure::usage(format!("there is no verb '{name}'{hint}; `senesce --help` lists them"))
    })
}

/// A command under the name of its page.
fn named(command: &Command) -> Command {
    let name = command.get_display_name().unwrap_or(command.get_name()).to_string();
    command.clone().name(name)
}

fn render_root(root: Command, out: &mut dyn Write) -> io::Result<()> {
    let page = Page::new(root);
    page.render_title(out)?;
    page.render_name_section(out)?;
    page.render_synopsis_section(out)?;
    page.render_description_section(out)?;
    page.render_options_section(out)?;
    for (title, names) in GROUPS {
        writeln!(out, ".SH \"{}\"", title.to_uppercase())?;
        for verb in verbs(names) {
            let about = (verb.command)().get_about().map(ToString::to_string).unwrap_or_default();
            writeln!(out, ".TP\n\\fBsenesce\\-{}\\fR(1)\n{}", escaped(verb.name), escaped(&about))?;
        }
    }
    page.render_extra_section(out)?;
    page.render_version_section(out)
}

/// Hyphens that stay hyphens; a leading point or apostrophe would be a request (groff_char(7), groff(7)).
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('-', "\\-");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

/// Nothing is written when one of the pages would be refused.
fn write_all(root: Command, directory: &Path) -> Result<Exit, Failure> {
    let mut page = Vec::new();
    render_root(root.clone(), &mut page).map_err(output_failed)?;
    let mut pages = vec![(file_of(directory, "senesce"), page)];
    add_below(&root, directory, &mut pages)?;
    let planned: Vec<_> = pages.iter().map(|(file, page)| (Some(&**file), Format::Text, &**page)).collect();
    Output::default().check_below(directory, &planned)?;
    output::directory(directory)?;
    pages.iter().try_for_each(|(file, page)| Output::default().write(file, Format::Text, page))?;
    Ok(ExitCode::Done.into())
}

fn add_below(parent: &Command, directory: &Path, pages: &mut Vec<(PathBuf, Vec<u8>)>) -> Result<(), Failure> {
    for command in parent.get_subcommands().filter(|command| !command.is_hide_set()) {
        let command = named(command);
        let mut page = Vec::new();
        Page::new(command.clone()).render(&mut page).map_err(output_failed)?;
        pages.push((file_of(directory, command.get_name()), page));
        add_below(&command, directory, pages)?;
    }
    Ok(())
}

fn file_of(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{name}.1"))
}
