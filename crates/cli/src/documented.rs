//! Tests that commands in the documentation and the help have existing verbs, options and values.

use crate::{command, verb_table};
use clap::error::ErrorKind;
use senesce_guest::uml;
use std::fs;
use std::path::{Path, PathBuf};

fn pages(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let (folders, files): (Vec<PathBuf>, Vec<PathBuf>) = entries.partition(|path| path.is_dir());
    let here = files.into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    here.chain(folders.iter().flat_map(|folder| pages(folder))).collect()
}

/// Returns the commands in code blocks and in inline code. A line that ends with a backslash continues.
fn commands(page: &str) -> Vec<String> {
    let joined = page.replace("\\\n", " ");
    let mut found = Vec::new();
    let mut is_fenced = false;
    for line in joined.lines() {
        is_fenced ^= line.starts_with("```");
        let is_code = is_fenced || line.starts_with("    ");
        let parts: Vec<&str> = if is_code { vec![line] } else { line.split('`').skip(1).step_by(2).collect() };
        let starts = parts.iter().filter_map(|part| Some(&part[begin(part)?..]));
        found.extend(starts.map(str::to_string));
    }
    found
}

/// Finds the position of a command: at the start of a line, or after one of a few words.
fn begin(line: &str) -> Option<usize> {
    let at = line.find("senesce ")?;
    let before = line[..at].trim_end();
    let is_start =
        before.is_empty() || ["sudo", ";", "&&", "|", "do", "--", "if"].iter().any(|end| before.ends_with(end));
    is_start.then_some(at)
}

/// Splits a command into words up to a pipe, a redirection, a comment or the next command, without brackets around
/// optional parts.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    let mut last = ' ';
    for sign in command.chars() {
        match (quote, sign) {
            (Some(open), sign) if sign == open => quote = None,
            (None, '\'' | '"') => quote = Some(sign),
            (None, '|' | ';' | '>' | '<' | '&') => break,
            (None, '#') if last == ' ' => break,
            (None, '[' | ']') => {}
            (None, ' ') => words.push(String::new()),
            (_, sign) => words.last_mut().expect("a word").push(sign),
        }
        last = sign;
    }
    let words = words.into_iter().map(|word| word.trim_end_matches("...").to_string());
    words.filter(|word| !word.is_empty()).collect()
}

/// Returns whether the verb is a placeholder, as in `senesce VERB --help`.
fn is_pattern(words: &[String]) -> bool {
    let verb = words.iter().skip(1).find(|word| !word.starts_with('-'));
    verb.is_none_or(|verb| !verb.chars().all(|sign| sign.is_ascii_lowercase() || sign == '-'))
}

fn is_placeholder(word: &str) -> bool {
    word.chars().all(|sign| sign.is_ascii_uppercase())
}

fn error_of(line: &str) -> Option<String> {
    let words = words(line);
    if is_pattern(&words) {
        return None;
    }
    let error = command().try_get_matches_from(&words).err()?;
    let text = error.to_string();
    let is_wrong = match error.kind() {
        ErrorKind::UnknownArgument => true,
        ErrorKind::InvalidSubcommand => !words.iter().any(|word| is_placeholder(word)),
        // An option may be mentioned without its value.
        ErrorKind::InvalidValue => !text.contains("a value is required"),
        _ => false,
    };
    is_wrong.then_some(text)
}

#[test]
fn documented_commands_parse() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = pages(&root.join("docs"));
    // Generated; their claims are escaped.
    files.retain(|file| !file.starts_with(root.join("docs/results")));
    files.extend(["README.md", "CONTRIBUTING.md", "packaging/python/README.md"].map(|name| root.join(name)));
    let (mut wrong, mut count) = (Vec::new(), 0);
    for file in files {
        for line in commands(&fs::read_to_string(&file).expect("a page")) {
            count += 1;
            wrong.extend(error_of(&line).map(|error| format!("{}: {line}\n{error}", file.display())));
        }
    }
    assert!(count > 100, "{count} commands found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn examples_of_the_help_parse() {
    for verb in verb_table::verbs() {
        let help = (verb.command)().get_after_help().map(ToString::to_string).unwrap_or_default();
        let examples: Vec<&str> = help.lines().filter_map(|line| line.strip_prefix("  ")).collect();
        assert!(!examples.is_empty(), "{} has no example", verb.name);
        for example in examples {
            assert_eq!(error_of(example.trim_start_matches("sudo ")), None, "{example}");
        }
    }
}

/// Returns the packages of an array in `scripts/requirements`, whose items are `FILE=PACKAGE`.
fn packages_of<'s>(script: &'s str, array: &str) -> Vec<&'s str> {
    let (_, rest) = script.split_once(&format!("\n{array}=(")).expect("an array");
    let (items, _) = rest.split_once(')').expect("its end");
    items.split_whitespace().filter_map(|item| Some(item.split_once('=')?.1)).collect()
}

#[test]
fn requirements_list_the_packages_of_every_build() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &str| fs::read_to_string(root.join(path)).expect("a file");
    let (page, script) = (read("docs/guide/packages.md"), read("scripts/requirements"));
    let listed: Vec<&str> = page.split(|sign: char| !sign.is_ascii_alphanumeric() && sign != '-').collect();
    let of_kernels = uml::BUILD_PROGRAMS.iter().chain(uml::SOURCE_PROGRAMS.iter());
    let mut missing: Vec<&str> = of_kernels.flat_map(|(_, packages)| packages.split(' ')).collect();
    for array in ["demo", "dist", "mpi"] {
        missing.extend(packages_of(&script, array));
    }
    missing.retain(|package| !listed.contains(package));
    assert_eq!(missing, [""; 0]);
}

#[test]
fn unknown_options_are_found() {
    assert!(error_of("senesce layout --no-such-option x").is_some());
    assert!(error_of("senesce no-such-verb").is_some());
    assert!(error_of("senesce VERB --help").is_none());
    assert_eq!(commands("Use `senesce demo`:\n\n    sudo senesce age x\n"), ["senesce demo", "senesce age x"]);
}
