//! Files next to the study that a user's program uses. The program runs in the volume, which does not contain them. A
//! word may equal a file name by chance, so only explicit references count. They are resolved when the study is read,
//! so that the record names them.

use super::is_fio;
use std::path::{Path, PathBuf};

pub(crate) const FOLDER: &str = "SENESCE_STUDY";

/// fio options without an argument, so that the next word may be a job file (`no_argument`, `optional_argument` and
/// `FIO_OPT_STR_SET` in fio's init.c, parse.c and options.c).
const FLAGS_OF_FIO: [&str; 13] = [
    "append-terse",
    "exitall",
    "group_reporting",
    "minimal",
    "new_group",
    "norandommap",
    "parse-only",
    "readonly",
    "showcmd",
    "stonewall",
    "thread",
    "time_based",
    "warnings-fatal",
];

/// Expands the files of `folder` in commands: `$SENESCE_STUDY/data` or `${SENESCE_STUDY}/data` anywhere in a word, and
/// job files of fio. Sets `kept` to `folder` if a command has any of them.
pub(crate) fn resolve<const N: usize>(
    commands: [&mut Vec<String>; N],
    kept: &mut Option<PathBuf>,
    folder: &Path,
) -> Result<(), String> {
    if kept.is_some() {
        return Err("folder is set when the study is read: leave it out".into());
    }
    let mut names_one = false;
    for words in commands {
        let resolved = (0..words.len()).map(|place| match is_job(words, place, folder) {
            true => Ok(folder.join(&words[place]).to_string_lossy().into_owned()),
            false => whole(&words[place], folder),
        });
        let resolved = resolved.collect::<Result<Vec<String>, String>>()?;
        names_one |= resolved != *words || words.iter().any(|word| word.contains(FOLDER));
        *words = resolved;
    }
    *kept = names_one.then(|| folder.into());
    Ok(())
}

/// Returns whether a word is a job file of fio next to the study. A word after an option is its value, which may be an
/// output file.
fn is_job(words: &[String], place: usize, folder: &Path) -> bool {
    let takes_next = |word: &str| {
        let is_flag = FLAGS_OF_FIO.contains(&word.trim_start_matches('-'));
        word.starts_with('-') && !word.contains('=') && !is_flag
    };
    let (true, Some(before)) = (is_fio(&words[0]), place.checked_sub(1)) else { return false };
    !words[place].starts_with('-') && !takes_next(&words[before]) && folder.join(&words[place]).is_file()
}

fn whole(word: &str, folder: &Path) -> Result<String, String> {
    let (mut found, mut rest) = (String::new(), word);
    while let Some((before, _)) = rest.split_once('$') {
        found += before;
        let here = &rest[before.len()..];
        match after_variable(here) {
            Some(after) => {
                found += &folder.to_string_lossy();
                rest = after;
            }
            None if here.trim_start_matches(['$', '{']).starts_with(FOLDER) => {
                return Err(format!(
                    "{word}: the folder of the study is ${FOLDER} or ${{{FOLDER}}} and nothing else; give other \
                     variables other names"
                ));
            }
            None => {
                found.push('$');
                rest = &here[1..];
            }
        }
    }
    found += rest;
    match after_variable(word).is_some_and(|rest| !rest.contains(char::is_whitespace)) && !Path::new(&found).exists() {
        true => Err(format!("{word}: {found} not found")),
        false => Ok(found),
    }
}

/// Returns the text after the variable at the start, in either spelling.
fn after_variable(text: &str) -> Option<&str> {
    let name = text.strip_prefix('$')?;
    match name.strip_prefix('{') {
        Some(name) => name.strip_prefix(FOLDER)?.strip_prefix('}'),
        None => name.strip_prefix(FOLDER).filter(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_')),
    }
}

/// Returns words that are files next to the study or in the current directory, which the program will not find in the
/// volume.
pub(crate) fn left_behind<const N: usize>(commands: [&Vec<String>; N], folder: &Path) -> Vec<String> {
    let is_path = |place: usize, word: &str| place > 0 || word.contains('/');
    let words = commands.into_iter().flat_map(|words| words.iter().enumerate());
    let said = words.filter_map(|(place, word)| {
        let relative = Some(Path::new(word)).filter(|path| is_path(place, word) && path.is_relative())?;
        let (place, whole) = match (folder.join(relative).is_file(), relative.is_file()) {
            (true, _) => ("next to the study", format!("${FOLDER}/{word}")),
            (false, true) => ("here", std::path::absolute(relative).ok()?.display().to_string()),
            (false, false) => return None,
        };
        Some(format!("{word} is a file {place}, but the program runs in the volume: to use this file, write {whole}"))
    });
    said.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::WorkloadSpec;

    fn read(text: &str, folder: &Path) -> Result<WorkloadSpec, String> {
        let mut workload: WorkloadSpec = toml::from_str(text).unwrap();
        let commands = [&mut workload.prepare, &mut workload.command];
        resolve(commands, &mut workload.folder, folder).map(|()| workload)
    }

    fn directory(files: &[&str]) -> (tempfile::TempDir, impl Fn(&str) -> String) {
        let directory = tempfile::tempdir().unwrap();
        files.iter().for_each(|name| std::fs::write(directory.path().join(name), "").unwrap());
        let folder = directory.path().to_path_buf();
        (directory, move |name: &str| folder.join(name).display().to_string())
    }

    #[test]
    fn only_explicit_references_are_files_of_the_study() {
        let (directory, path) = directory(&["data", "job.fio"]);
        let of = |text: &str| read(text, directory.path()).map(|workload| workload.command);
        assert_eq!(of("command = ['cp', 'data', 'job.fio']").unwrap(), ["cp", "data", "job.fio"]);
        assert_eq!(of("command = ['cp', '$SENESCE_STUDY/data', '.']").unwrap(), ["cp", &path("data"), "."]);
        let script = of("command = ['sh', '-c', 'cat $SENESCE_STUDY/data >out']").unwrap().remove(2);
        assert_eq!(script, format!("cat {} >out", path("data")));
        assert!(of("command = ['cp', '$SENESCE_STUDY/none', '.']").is_err());
    }

    #[test]
    fn variable_has_two_spellings_and_exact_name() {
        let (directory, path) = directory(&["data"]);
        let of =
            |word: &str| read(&format!("command = ['sh', '-c', '{word}']"), directory.path()).map(|one| one.command);
        let folder = directory.path().display();
        assert_eq!(of("cat ${SENESCE_STUDY}/data >$HOME").unwrap()[2], format!("cat {} >$HOME", path("data")));
        assert_eq!(of("ls $SENESCE_STUDY; echo $").unwrap()[2], format!("ls {folder}; echo $"));
        for other in ["${SENESCE_STUDY}/none", "$SENESCE_STUDY_OLD/x", "${SENESCE_STUDY%/}/x", "$SENESCE_STUDY2"] {
            assert!(of(other).is_err(), "{other}");
        }
    }

    #[test]
    fn program_that_uses_the_folder_keeps_it() {
        let (directory, _) = directory(&["data", "job.fio"]);
        let folder = |text: &str| read(text, directory.path()).unwrap().folder;
        let here = Some(directory.path().to_path_buf());
        assert_eq!(folder("command = ['sh', '$SENESCE_STUDY/data']"), here);
        assert_eq!(folder("prepare = ['sh', '-c', 'printenv SENESCE_STUDY']\ncommand = ['true']"), here);
        assert_eq!(folder("command = ['fio', 'job.fio']"), here);
        assert_eq!(folder("command = ['cp', 'data', '.']"), None, "where it lies does not shape the run");
        assert!(read("command = ['true']\nfolder = '/'", directory.path()).unwrap_err().contains("leave it out"));
    }

    #[test]
    fn values_of_fio_options_are_not_job_files() {
        let (directory, path) = directory(&["result", "data", "job.fio", "jobs"]);
        for (words, expected) in [
            ("--output result --name data job.fio", format!("--output result --name data {}", path("job.fio"))),
            ("--output job.fio jobs", format!("--output job.fio {}", path("jobs"))),
            ("--name=data job.fio jobs", format!("--name=data {} {}", path("job.fio"), path("jobs"))),
            ("--minimal job.fio", format!("--minimal {}", path("job.fio"))),
        ] {
            let text = format!("command = ['fio', '{}']", words.replace(' ', "', '"));
            assert_eq!(read(&text, directory.path()).unwrap().command[1..].join(" "), expected);
        }
    }

    #[test]
    fn word_that_equals_a_file_name_gives_a_warning() {
        let (directory, _) = directory(&["run.sh"]);
        let said = |command: &str| {
            let workload: WorkloadSpec = toml::from_str(&format!("command = [{command}]")).unwrap();
            left_behind([&workload.command], directory.path())
        };
        let here = said("'touch', 'Cargo.toml', '/etc/passwd', 'out'");
        let whole = std::path::absolute("Cargo.toml").unwrap();
        assert!(here.len() == 1 && here[0].ends_with(&format!("write {}", whole.display())), "{here:?}");
        for command in ["'sh', 'run.sh'", "'./run.sh'"] {
            let remarks = said(command);
            assert!(remarks.len() == 1 && remarks[0].contains("write $SENESCE_STUDY/"), "{remarks:?}");
        }
        assert!(said("'run.sh'").is_empty(), "the shell's path is searched for it");
    }
}
