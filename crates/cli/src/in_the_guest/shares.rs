//! Folders of the host that a command in the guest may write: its run, its output, or the runs directory. Only folders that the
//! command itself would create are created, and their parents.

use crate::session::runs_directory;
use clap::{ArgMatches, Command};
use senesce_core::failure::failed;
use senesce_core::output::OutputError;
use senesce_core::{Failure, output};
use std::fs;
use std::path::{Component, Path, PathBuf};

/// The options that name an output file, in addition to `--out`.
const OUTPUTS: [&str; 10] = ["csv", "html", "json", "jsonl", "junit", "markdown", "prometheus", "save", "svg", "text"];
/// Options that name an output of one verb and an input of others: the innermost verb, the option, and whether it names a file
/// instead of a folder.
const OUTPUTS_OF: [(&str, &str, bool); 4] =
    [("measure", "fit", true), ("fit", "model", true), ("report", "site", false), ("help", "man-pages", false)];

/// Folders for the guest. A folder created for it is removed if it stays empty.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    pub folders: Vec<PathBuf>,
    made: Vec<PathBuf>,
}

impl Drop for Shares {
    fn drop(&mut self) {
        self.made.iter().for_each(|folder| drop(fs::remove_dir(folder)));
    }
}

impl Shares {
    /// Returns the folders for this verb with these arguments, called in the folder `here`.
    ///
    /// # Errors
    /// The folder of an output is missing, or its name is taken.
    pub(crate) fn of(verb: &str, arguments: &ArgMatches, here: &Path) -> Result<Self, Failure> {
        let innermost = std::iter::successors(Some(arguments), |matches| Some(matches.subcommand()?.1)).last();
        let named = |id| innermost.and_then(|matches| matches.try_get_one::<PathBuf>(id).ok().flatten());
        let (runs, mut shares) = (here.join(runs_directory()), Self::default());
        match named("out").or_else(|| named("resume")) {
            Some(out) if !is_below(&here.join(out), &runs) => {
                // The verb may also read and write other runs.
                if runs.is_dir() {
                    shares.folders.push(runs);
                }
                shares.output(out, here, is_file(verb, arguments))?;
            }
            _ => shares.run(&runs)?,
        }
        if let Some(record) = named("record") {
            shares.output(record, here, false)?;
        }
        let innermost_verb = std::iter::successors(arguments.subcommand(), |(_, matches)| matches.subcommand()).last();
        let innermost_verb = innermost_verb.map_or(verb, |(name, _)| name);
        for (_, id, is_file) in OUTPUTS_OF.iter().filter(|(of, ..)| *of == innermost_verb) {
            named(id).map_or(Ok(()), |path| shares.output(path, here, *is_file))?;
        }
        for id in OUTPUTS {
            let file = named(id).filter(|file| **file != Path::new("-"));
            file.map_or(Ok(()), |file| shares.file(id, file, here))?;
        }
        Ok(shares)
    }

    /// Returns the folders for any command in a guest: the named ones, which must exist, or the runs directory.
    pub(crate) fn named(named: &[PathBuf], here: &Path) -> Result<Self, Failure> {
        let mut shares = Self::default();
        match named.is_empty() {
            true => shares.run(&here.join(runs_directory()))?,
            false => shares.folders = senesce_guest::share::existing(named, here)?,
        }
        Ok(shares)
    }

    /// Adds the folder of an image, which then stays on the host.
    pub(crate) fn with_image(mut self, image: Option<&Path>, here: &Path) -> Result<Self, Failure> {
        if let Some(image) = image {
            let path = here.join(image);
            let folder = path.parent().filter(|folder| folder.is_dir());
            let missing = || Failure::usage(format!("cannot create image {}: directory not found", image.display()));
            self.push(folder.ok_or_else(missing)?)?;
        }
        Ok(self)
    }

    fn output(&mut self, out: &Path, here: &Path, is_file: bool) -> Result<(), Failure> {
        match is_file {
            true => self.file("out", out, here),
            false => {
                let path = here.join(out);
                folder_of("out", &path)?;
                self.run(&path)
            }
        }
    }

    fn file(&mut self, id: &str, file: &Path, here: &Path) -> Result<(), Failure> {
        self.push(&folder_of(id, &here.join(file))?)
    }

    fn push(&mut self, folder: &Path) -> Result<(), Failure> {
        if folder.canonicalize().map_err(failed("find", folder))? == Path::new("/") {
            return Err(Failure::usage(
                "cannot share the root directory with a guest\nhint: choose a subdirectory with --out",
            ));
        }
        if !self.folders.iter().any(|known| known == folder) {
            self.folders.push(folder.into());
        }
        Ok(())
    }

    fn run(&mut self, folder: &Path) -> Result<(), Failure> {
        if let Some(found) = output::obstacle(folder) {
            return Err(OutputError::NoDirectory(found).into());
        }
        if !folder.is_dir() {
            fs::create_dir(folder).map_err(failed("create directory", folder))?;
            self.made.push(folder.into());
        }
        self.push(folder)
    }
}

fn folder_of(id: &str, path: &Path) -> Result<PathBuf, Failure> {
    let folder = path.parent().unwrap_or(path);
    match folder.is_dir() {
        true => Ok(folder.into()),
        false => {
            let (path, folder) = (path.display(), folder.display());
            Err(Failure::usage(format!(
                "--{id} {path}: directory {folder} not found\nhint: create it before a run with --vm"
            )))
        }
    }
}

fn is_below(path: &Path, folder: &Path) -> bool {
    path.starts_with(folder) && !path.components().any(|part| part == Component::ParentDir)
}

/// Returns whether `--out` of this verb names a file; otherwise it names a run directory.
fn is_file(verb: &str, arguments: &ArgMatches) -> bool {
    let mut root = crate::command();
    root.build();
    let below =
        std::iter::successors(arguments.subcommand(), |(_, matches)| matches.subcommand()).map(|(name, _)| name);
    let find = |command: &Command, name| command.find_subcommand(name).cloned();
    let innermost = std::iter::once(verb).chain(below).try_fold(root, |command, name| find(&command, name));
    let names = |command: Command| {
        let out = command.get_arguments().find(|argument| argument.get_id() == "out")?;
        Some(out.get_value_names()? == ["FILE"])
    };
    innermost.and_then(names).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(here: &Path, words: &[&str]) -> Result<[Vec<String>; 3], String> {
        let matches = crate::command().try_get_matches_from([&["senesce", "--vm"], words].concat()).unwrap();
        let (verb, arguments) = matches.subcommand().unwrap();
        let names = || {
            let mut names: Vec<String> =
                fs::read_dir(here).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        };
        let shares = Shares::of(verb, arguments, here).map_err(|failure| {
            assert_eq!(failure.exit_code(), senesce_core::ExitCode::Usage);
            failure.to_string()
        })?;
        let relative = |folder: &PathBuf| folder.strip_prefix(here).unwrap().display().to_string();
        let (folders, meanwhile) = (shares.folders.iter().map(relative).collect(), names());
        drop(shares);
        Ok([folders, meanwhile, names()])
    }

    #[test]
    fn only_the_run_folder_is_created() {
        let folder = tempfile::tempdir().unwrap();
        let here = &folder.path().canonicalize().unwrap();
        let bench = ["bench", "auto", "webserver", "--out"];
        let with = |out| shared(here, &[&bench[..], &[out]].concat());
        let (run, runs) = ("run".to_string(), "senesce-runs".to_string());
        assert_eq!(with("run").unwrap(), [vec![run.clone()], vec![run], vec![]]);
        assert_eq!(with("senesce-runs/a/b").unwrap(), [vec![runs.clone()], vec![runs.clone()], vec![]]);
        assert_eq!(shared(here, &bench[..3]).unwrap(), [vec![runs.clone()], vec![runs], vec![]]);
        assert_eq!(with("senesce-runs/../run").unwrap_err().matches("senesce-runs/..").count(), 2);
        assert!(with("/").unwrap_err().contains("root directory"));
        assert!(with("deep/er/run").unwrap_err().contains("not found"));
        fs::write(here.join("file"), "").unwrap();
        assert!(with("file").unwrap_err().contains("file is a file"));
        assert!(with("file/run").unwrap_err().contains("not found"));
        fs::create_dir(here.join("there")).unwrap();
        let [folders, _, left] = with("there").unwrap();
        assert_eq!((folders, left), (vec!["there".to_string()], vec!["file".to_string(), "there".to_string()]));
    }

    #[test]
    fn runs_directory_for_a_command_remains_only_with_content() {
        let folder = tempfile::tempdir().unwrap();
        let here = &folder.path().canonicalize().unwrap();
        let runs = here.join(runs_directory());
        for content in [None, Some("result")] {
            let shares = Shares::named(&[], here).unwrap();
            assert_eq!(shares.folders, std::slice::from_ref(&runs));
            assert!(runs.is_dir(), "the guest may write there");
            content.iter().for_each(|name| fs::write(runs.join(name), "").unwrap());
            drop(shares);
            assert_eq!(runs.exists(), content.is_some());
        }
        assert_eq!(Shares::named(&["senesce-runs".into()], here).unwrap().folders, [runs]);
        assert!(Shares::named(&["missing".into()], here).is_err());
    }

    #[test]
    fn file_is_written_into_an_existing_folder() {
        let folder = tempfile::tempdir().unwrap();
        let here = &folder.path().canonicalize().unwrap();
        let with = |out| shared(here, &["report", "run", "--out", out]);
        assert_eq!(with("page.html").unwrap(), [vec![String::new()], vec![], vec![]]);
        assert!(with("missing/page.html").unwrap_err().contains("not found"));
        assert!(with("/page.html").unwrap_err().contains("root directory"));
    }

    #[test]
    fn every_output_option_has_its_folder_shared() {
        let folder = tempfile::tempdir().unwrap();
        let here = &folder.path().canonicalize().unwrap();
        fs::create_dir(here.join("there")).unwrap();
        let with = |file| shared(here, &["trace", ".", "--json", file, "--", "true"]);
        let runs = "senesce-runs".to_string();
        assert_eq!(with("there/result.json").unwrap()[0], [runs.clone(), "there".into()]);
        assert!(with("missing/result.json").unwrap_err().contains("--json"));
        assert_eq!(shared(here, &["runs", "history", "--csv", "-"]).unwrap()[0], [runs]);
        let mut commands = vec![crate::command()];
        while let Some(command) = commands.pop() {
            for argument in command.get_arguments() {
                let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
                let writes =
                    ["Write ", "write;", "is written", "to write", ", into "].iter().any(|word| help.contains(word));
                let is_place = argument.get_value_names().is_some_and(|names| names == ["FILE"] || names == ["DIR"]);
                let (id, of) = (argument.get_id().as_str(), command.get_name());
                let is_known = ["out", "record"].contains(&id)
                    || OUTPUTS.contains(&id)
                    || OUTPUTS_OF.iter().any(|(verb, option, _)| (*verb, *option) == (of, id));
                assert!(!(writes && is_place) || is_known, "{id} of {of}: {help}");
            }
            commands.extend(command.get_subcommands().cloned());
        }
    }
}
