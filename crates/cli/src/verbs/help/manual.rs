//! `senesce help --man`: manual pages in roff.

use crate::Exit;
use crate::output::{Output, output_failed};
use crate::verb_table::GROUPS;
use clap::Command;
use clap_mangen::Man as Page;
use senesce_core::output::{self, Format};
use senesce_core::parameter::suggest;
use senesce_core::{ExitCode, Failure};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

pub(crate) fn print(verb: Option<&str>) -> Result<(), Failure> {
    let root = complete(crate::command());
    let mut out = io::stdout().lock();
    match verb {
        None => render_root(root, &mut out),
        Some(name) => Page::new(of_verb(&root, name)?).render(&mut out),
    }
    .map_err(output_failed)
}

/// Builds all options, which are deferred, and sets the names of pages: `senesce-age`.
fn complete(root: Command) -> Command {
    let mut root = root;
    root.build();
    root
}

fn of_verb(root: &Command, name: &str) -> Result<Command, Failure> {
    let mut known = root.get_subcommands();
    known.find(|command| command.get_name() == name).map(named).ok_or_else(|| {
        let hint = suggest(name, root.get_subcommands().map(Command::get_name));
        Failure::usage(format!("unknown verb '{name}'{hint}\nhint: senesce --help lists the verbs"))
    })
}

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
    for (title, verbs) in GROUPS {
        writeln!(out, ".SH \"{}\"", title.to_uppercase())?;
        for verb in *verbs {
            let about = (verb.command)().get_about().map(ToString::to_string).unwrap_or_default();
            writeln!(out, ".TP\n\\fBsenesce\\-{}\\fR(1)\n{}", escaped(verb.name), escaped(&about))?;
        }
    }
    page.render_extra_section(out)?;
    page.render_version_section(out)
}

/// Escapes hyphens, and a leading point or apostrophe, which would be a request (groff_char(7), groff(7)).
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('-', "\\-");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

pub(crate) fn write_all(directory: &Path) -> Result<Exit, Failure> {
    let root = complete(crate::command());
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
