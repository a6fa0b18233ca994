//! Refuses job files of fio whose result could not be used.

use senesce_core::input;
use std::path::Path;

/// Options that let a job begin after the jobs before it (fio, options.c: one is an alias of the other).
pub(crate) const STONEWALLS: [&str; 2] = ["stonewall", "wait_for_previous"];

type Section<'a> = (&'a str, Vec<(&'a str, &'a str)>);

/// Refuses jobs whose rates cannot be added, and jobs without statistics. Ignores words that are not files here.
pub(crate) fn check(command: &[String]) -> Result<(), String> {
    let paths = command.iter().skip(1).filter(|word| !word.starts_with('-')).map(Path::new);
    for path in paths.filter(|path| path.is_absolute() && path.is_file()) {
        let Ok(text) = input::text(path) else { continue };
        check_text(&text).map_err(|problem| format!("{}: {problem}", path.display()))?;
    }
    Ok(())
}

pub(super) fn check_text(text: &str) -> Result<(), String> {
    let mut global = Vec::new();
    let mut jobs: Vec<Section<'_>> = Vec::new();
    for (name, options) in sections(text) {
        // A global section applies to the jobs after it.
        if name == "global" { global.extend(options) } else { jobs.push((name, [global.clone(), options].concat())) }
    }
    let has = |options: &[(&str, &str)], wanted: &str| options.iter().any(|(name, _)| *name == wanted);
    let hint = "their rates did not hold at the same time: give each a workload of its own";
    for (index, (name, options)) in jobs.iter().enumerate() {
        if index > 0 && STONEWALLS.iter().any(|option| has(options, option)) {
            return Err(format!("job '{name}' waits for those before it (stonewall): {hint}"));
        }
        if has(options, "wait_for") {
            return Err(format!("job '{name}' waits for another (wait_for): {hint}"));
        }
    }
    let is_silent =
        |(_, options): &Section<'_>| options.iter().rfind(|(name, _)| *name == "stats") == Some(&("stats", "0"));
    match !jobs.is_empty() && jobs.iter().all(is_silent) {
        true => Err("fio shows no statistics of these jobs (stats=0): leave it out of one".into()),
        false => Ok(()),
    }
}

fn sections(text: &str) -> Vec<Section<'_>> {
    let mut all: Vec<Section<'_>> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with([';', '#'])) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            all.push((name, Vec::new()));
        } else if let Some((_, options)) = all.last_mut().filter(|_| !line.is_empty()) {
            let (name, value) = line.split_once('=').unwrap_or((line, ""));
            options.push((name.trim(), value.trim()));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_file_is_checked_before_it_runs() {
        let two = |options: &str| format!("# a comment\n[global]\nrw=write\n[a]\nsize=1m\n[b]\nsize=1m\n{options}\n");
        for fine in ["", "new_group=1", "stats=0", "stats = 1", ";stonewall"] {
            assert_eq!(check_text(&two(fine)), Ok(()), "{fine}");
        }
        for (options, word) in [("stonewall", "job 'b' waits for those"), ("wait_for=a", "job 'b' waits for another")] {
            assert!(check_text(&two(options)).unwrap_err().contains(word), "{options}");
        }
        assert!(check_text("[global]\nstats=0\n[a]\nrw=read\n").unwrap_err().contains("no statistics"));
        assert_eq!(check_text("[a]\nstonewall\nrw=read\n"), Ok(()), "no job before it");
    }

    #[test]
    fn words_that_are_not_job_files_are_ignored() {
        assert_eq!(check(&["fio".into(), "--name=a".into(), "missing.fio".into()]), Ok(()));
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "[a]\n[b]\nstonewall\n").unwrap();
        let path = file.path().display().to_string();
        assert!(check(&["fio".into(), path]).unwrap_err().contains("stonewall"));
    }
}
