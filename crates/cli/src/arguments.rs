//! Words that mean the same to every verb, and the completions for them.

use crate::session::runs_directory;
use clap::builder::{PathBufValueParser, TypedValueParser};
use clap_complete::engine::CompletionCandidate;
use senesce_core::Failure;
use senesce_exp_aging::age::is_aging;
use senesce_runs::history::is_run;
use senesce_volume::FileSystem;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

const LEAST_PREFIX: usize = 3;

/// The runs among which `latest` chooses: those that the verb can use.
#[derive(Clone, Copy)]
pub(crate) struct Eligible {
    plural: &'static str,
    hint: &'static str,
    includes: fn(&Path) -> bool,
}

impl Eligible {
    pub(crate) const ANY: Self = Self { plural: "runs", hint: "name the run directory", includes: |_| true };
    pub(crate) const AGINGS: Self = Self { plural: "agings", hint: "name the run directory", includes: is_aging };
}

/// Reads a RUN: a run directory, `latest`, or a prefix of the name or the hash of a run in `senesce-runs`.
pub(crate) fn run() -> impl TypedValueParser<Value = PathBuf> {
    run_among(Eligible::ANY)
}

/// Reads a RUN as [`run`] does, with the last of the eligible runs as `latest`.
pub(crate) fn run_among(eligible: Eligible) -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(move |word| find_run(&word, &runs_directory(), eligible))
}

/// Resolves a word to a run. An existing path is taken literally. Any other word must match exactly one run, or the code
/// that opens it refuses it.
fn find_run(word: &Path, runs: &Path, eligible: Eligible) -> Result<PathBuf, String> {
    let Some(text) = word.to_str().filter(|_| !word.exists()) else {
        return Ok(word.into());
    };
    if text == "latest" {
        return newest(runs, eligible);
    }
    if text.len() < LEAST_PREFIX || text.contains('/') {
        return Ok(word.into());
    }
    let mut found: Vec<PathBuf> = run_paths(runs).into_iter().filter(|path| begins(path, text)).collect();
    match found.len() {
        0 => Ok(word.into()),
        1 => Ok(found.remove(0)),
        _ => {
            let names: Vec<String> = found.iter().map(|path| name(path).to_string()).collect();
            Err(format!("several runs match: {}\nhint: give more characters of the name", names.join(", ")))
        }
    }
}

/// Returns the most recently written of the eligible runs of a directory.
pub(crate) fn newest(runs: &Path, eligible: Eligible) -> Result<PathBuf, String> {
    let mut paths = run_paths(runs);
    paths.sort_by_cached_key(|path| changed(path));
    let newest = paths.into_iter().rev().find(|path| (eligible.includes)(path));
    newest.ok_or_else(|| format!("no {} in {}\nhint: {}", eligible.plural, runs.display(), eligible.hint))
}

/// Returns the most recently written of the eligible runs, if it was written after `begun`.
pub(crate) fn newest_since(runs: &Path, eligible: Eligible, begun: SystemTime) -> Option<PathBuf> {
    newest(runs, eligible).ok().filter(|path| changed(path) >= Some(begun))
}

fn begins(path: &Path, text: &str) -> bool {
    let name = name(path);
    name.starts_with(text) || name.rsplit_once('-').is_some_and(|(_, hash)| hash.starts_with(text))
}

fn name(path: &Path) -> &str {
    path.file_name().and_then(OsStr::to_str).unwrap_or_default()
}

fn changed(path: &Path) -> Option<SystemTime> {
    path.join("events.jsonl").symlink_metadata().and_then(|found| found.modified()).ok()
}

/// Lists the run directories in a directory, by name. Links are skipped, because the directory may belong to another
/// user.
pub(crate) fn run_paths(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path());
    let mut paths: Vec<PathBuf> = folders.filter(|path| is_run(path)).collect();
    paths.sort();
    paths
}

pub(crate) fn one_output(out: &Option<PathBuf>, runs: &[PathBuf]) -> Result<(), Failure> {
    match out {
        Some(_) if runs.len() > 1 => Err(Failure::usage("cannot write several runs to one file\nhint: omit --out")),
        _ => Ok(()),
    }
}

/// Completes runs of `senesce-runs`, `latest`, and directories.
pub(crate) fn complete_run(begun: &OsStr) -> Vec<CompletionCandidate> {
    let known = run_paths(&runs_directory()).into_iter().map(|path| path.display().to_string());
    let known = known.filter(|name| is_plain(name));
    matching(begun, known.chain(["latest".to_string()]))
}

/// Returns whether a shell treats a word literally. Names of our runs qualify; other names may contain commands.
fn is_plain(word: &str) -> bool {
    let is_plain = |sign: char| sign.is_ascii_alphanumeric() || "._-/".contains(sign);
    !word.starts_with('-') && word.chars().all(is_plain)
}

pub(crate) fn complete_profile(begun: &OsStr) -> Vec<CompletionCandidate> {
    let names = senesce_aging::profile::builtin_names();
    matching(begun, names.map(str::to_string))
}

pub(crate) fn complete_file_system(begun: &OsStr) -> Vec<CompletionCandidate> {
    matching(begun, FileSystem::ALL.iter().map(ToString::to_string))
}

pub(crate) fn complete_page(begun: &OsStr) -> Vec<CompletionCandidate> {
    matching(begun, crate::pages::names().into_iter().map(str::to_string))
}

pub(crate) fn complete_kernel(begun: &OsStr) -> Vec<CompletionCandidate> {
    let kernels = senesce_guest::cached_kernels().unwrap_or_default();
    matching(begun, kernels.into_iter().map(|kernel| kernel.version))
}

fn matching(begun: &OsStr, known: impl Iterator<Item = String>) -> Vec<CompletionCandidate> {
    let begun = begun.to_string_lossy();
    known.filter(|name| name.starts_with(&*begun)).map(CompletionCandidate::new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_core::{Environment, Plan, RunDirectory, Seed};
    use senesce_exp_aging::age::{Age, demo};
    use senesce_runner::new_plan;
    use std::fs::{self, File};
    use std::time::Duration;

    fn runs(directory: &Path) {
        for (age, name) in ["age-1f2e3d4c", "zns-1f2e0000", "bench-77aa00ff"].iter().enumerate() {
            let path = directory.join(name);
            fs::create_dir(&path).unwrap();
            fs::write(path.join("plan.toml"), "").unwrap();
            let events = File::create(path.join("events.jsonl")).unwrap();
            events.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(100 - age as u64)).unwrap();
        }
    }

    #[test]
    fn run_is_found_by_name_hash_or_time() {
        let directory = tempfile::tempdir().unwrap();
        runs(directory.path());
        let find = |word: &str| find_run(Path::new(word), directory.path(), Eligible::ANY);
        for (word, run) in
            [("latest", "age-1f2e3d4c"), ("1f2e3", "age-1f2e3d4c"), ("77a", "bench-77aa00ff"), ("zns", "zns-1f2e0000")]
        {
            assert_eq!(find(word), Ok(directory.path().join(run)), "{word}");
        }
        let several = find("1f2e").unwrap_err();
        assert!(several.contains("age-1f2e3d4c, zns-1f2e0000"), "{several}");
        for word in ["1f", "nothing", "a/77aa"] {
            assert_eq!(find(word), Ok(PathBuf::from(word)), "is refused when it is opened");
        }
        assert_eq!(find(&directory.path().to_string_lossy()), Ok(directory.path().into()), "a path is itself");
        assert!(find_run(Path::new("latest"), Path::new("/nonexistent"), Eligible::ANY).is_err());
    }

    /// Writes a run that changed this number of seconds after the epoch.
    fn write_run(path: &Path, plan: &Plan, is_complete: bool, seconds: u64) {
        let mut run = RunDirectory::open(path, plan, &Environment::default()).unwrap();
        run.append("interrupted", &()).unwrap();
        if is_complete {
            run.finish(&serde_json::json!({})).unwrap();
        }
        let events = File::options().append(true).open(path.join("events.jsonl")).unwrap();
        events.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
    }

    #[test]
    fn latest_is_the_last_run_that_the_verb_can_use() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let latest = |eligible| find_run(Path::new("latest"), directory.path(), eligible);
        let spec = demo::spec(demo::SMALL).unwrap();
        let (aging, bench) = (new_plan::<Age>(&spec, spec.seed).unwrap(), Plan::default_of("bench", Seed(1)));
        write_run(&at("bench-1"), &bench, false, 1);
        assert!(latest(Eligible::AGINGS).unwrap_err().contains("\nhint: "));
        write_run(&at("age-2"), &aging, false, 2);
        write_run(&at("age-3"), &aging, true, 3);
        write_run(&at("bench-4"), &bench, false, 4);
        assert_eq!(latest(Eligible::ANY), Ok(at("bench-4")));
        assert_eq!(latest(Eligible::AGINGS), Ok(at("age-3")));
        let since = |seconds| {
            newest_since(directory.path(), Eligible::AGINGS, SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
        };
        assert_eq!((since(3), since(4)), (Some(at("age-3")), None));
    }

    #[test]
    fn links_among_the_runs_are_skipped() {
        let (directory, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        runs(elsewhere.path());
        runs(directory.path());
        for run in run_paths(elsewhere.path()) {
            let link = directory.path().join(format!("link-to-{}", name(&run)));
            std::os::unix::fs::symlink(run, link).unwrap();
        }
        assert_eq!(run_paths(directory.path()).len(), 3);
        assert_eq!(newest(directory.path(), Eligible::ANY), Ok(directory.path().join("age-1f2e3d4c")));
    }

    #[test]
    fn names_with_shell_syntax_are_not_offered() {
        assert!(is_plain("senesce-runs/age-1f2e3d4c") && is_plain("./latest_2.0"));
        for word in ["age-$(touch x)", "a b", "a;b", "`id`", "a&b", "-o", "a'b", "a\nb", "é"] {
            assert!(!is_plain(word), "{word}");
        }
    }
}
