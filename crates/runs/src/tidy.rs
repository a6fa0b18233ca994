//! Removes run directories. It never follows links, and refuses directories that lack the marks of a record, hold other
//! files, are being written, or have something mounted inside.

use senesce_core::failure::{errno_message, failed};
use senesce_core::plan::shell_quote;
use senesce_core::record::files::{self, MARKS};
use senesce_core::record::{Overview, RecordError, RunLock};
use senesce_core::{Bytes, Environment, ExitCode, Failure, RunDirectory};
use senesce_volume::MARKER;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What senesce makes in a folder, by name: `*` stands for any text.
struct Content {
    files: &'static [&'static [&'static str]],
    /// None: the folder may hold anything.
    folders: &'static [(&'static str, Option<&'static Content>)],
}

/// What a kill leaves of a file being written.
const PART: &str = ".*.part";

/// The record, a report, block traces, shares of guests, and files of experiments.
static RUN: Content = Content {
    files: &[&files::FILES, &["report.html", "*.blocks", PART]],
    folders: &[
        ("histograms", Some(&Content { files: &[&["*.hdr", PART]], folders: &[] })),
        ("guest", Some(&SHARE)),
        ("guest-*", Some(&SHARE)),
        ("guests", Some(&Content { files: &[], folders: &[("*", Some(&SHARE))] })),
        ("db_bench", Some(&Content { files: &[&["*.txt"]], folders: &[] })),
        ("volume", Some(&VOLUME)),
        ("copy", Some(&VOLUME)),
        ("source", None),
        ("senesce-study-*", None),
    ],
};

static SHARE: Content = Content { files: &[&["plan.toml", "steps.json"]], folders: &[("run", Some(&RUN))] };

static VOLUME: Content = Content { files: &[&[MARKER]], folders: &[("data", None)] };

/// Maximum number of names in a refusal.
const MOST_NAMED: usize = 3;

#[derive(Debug)]
pub struct RemovableRun {
    path: PathBuf,
    bytes: u64,
    _lock: RunLock,
}

impl RemovableRun {
    /// Checks that it may be removed. Refuses a link, a run in progress, and a directory without all marks of a record. It also
    /// refuses one if a mount, a loop device's file or a file that senesce did not create is inside.
    pub fn claim(path: &Path) -> Result<Self, Failure> {
        let refused = |why: String| Failure::new(ExitCode::Refused, format!("{}: {why}", path.display()));
        let found = path.symlink_metadata().map_err(failed("inspect", path))?;
        if !found.is_dir() {
            return Err(refused("it is not a directory itself (links are not followed); name the run itself".into()));
        }
        let is_mark = |name: &&str| path.join(name).symlink_metadata().is_ok_and(|found| found.is_file());
        if let Some(missing) = MARKS.iter().find(|name| !is_mark(name)) {
            return Err(refused(format!("it is not a run directory: it has no file '{missing}'; nothing was removed")));
        }
        match Overview::read(path) {
            Ok(_) => {}
            Err(error) if error.is_damage() => {}
            // Of another version, whose plan this one cannot read.
            Err(RecordError::OtherFormat { found, .. }) if found.parse::<u32>().is_ok() => {}
            Err(error) => {
                return Err(refused(format!(
                    "it cannot be distinguished from other folders ({error}); nothing was removed"
                )));
            }
        }
        let lock = RunDirectory::hold(path).map_err(|error| match error {
            RecordError::InUse { .. } => refused("it is still running; end it first (Ctrl-C keeps its record)".into()),
            other => other.into(),
        })?;
        in_use(path, found.dev())?;
        refuse_others(path)?;
        Ok(Self { path: path.into(), bytes: size(path), _lock: lock })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn size(&self) -> Bytes {
        Bytes(self.bytes)
    }

    /// Removes it. Links in it are removed, their targets stay.
    pub fn remove(self) -> Result<(), Failure> {
        fs::remove_dir_all(&self.path).map_err(|error| {
            let message = format!("remove {}: {}; part of it may be gone", self.path.display(), errno_message(&error));
            Failure::new(ExitCode::RunFailed, message)
        })
    }
}

/// Refuses a directory with files or folders that senesce does not make there.
fn refuse_others(path: &Path) -> Result<(), Failure> {
    let others = others(path)?;
    if others.is_empty() {
        return Ok(());
    }
    let more = match others.len().saturating_sub(MOST_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let named: Vec<&str> = others.iter().take(MOST_NAMED).map(String::as_str).collect();
    // Another name than its own could be that of another directory.
    let removal = path.to_str().map(|path| format!(", or remove everything: rm -r -- {}", shell_quote(path)));
    let words = format!(
        "{}: it has files that senesce did not create: {}{more}; nothing was removed\n\
         hint: move them elsewhere{}",
        path.display(),
        named.join(", "),
        removal.unwrap_or_default()
    );
    Err(Failure::new(ExitCode::Refused, words))
}

/// Returns the paths below a run directory that senesce does not make there, in order.
fn others(path: &Path) -> Result<Vec<String>, Failure> {
    let mut found = Vec::new();
    add_others(path, "", &RUN, &mut found)?;
    found.sort();
    Ok(found)
}

fn add_others(path: &Path, below: &str, own: &Content, found: &mut Vec<String>) -> Result<(), Failure> {
    for entry in fs::read_dir(path).map_err(failed("list", path))? {
        let entry = entry.map_err(failed("list", path))?;
        let is_folder = entry.file_type().map_err(failed("inspect", &entry.path()))?.is_dir();
        let name = entry.file_name().to_string_lossy().into_owned();
        let folder = own.folders.iter().find(|(pattern, _)| is_folder && is_like(pattern, &name));
        match folder {
            Some((_, Some(content))) => add_others(&entry.path(), &format!("{below}{name}/"), content, found)?,
            Some((_, None)) => {}
            None if !is_folder && own.files.iter().copied().flatten().any(|pattern| is_like(pattern, &name)) => {}
            None => found.push(format!("{below}{name}")),
        }
    }
    Ok(())
}

/// Returns whether a name is `pattern`, in which one `*` may stand for any text.
fn is_like(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        Some((begin, end)) => name.strip_prefix(begin).is_some_and(|rest| rest.ends_with(end)),
        None => name == pattern,
    }
}

/// Refuses a directory with another file system mounted inside, or with a file that a loop device uses.
fn in_use(path: &Path, device: u64) -> Result<(), Failure> {
    let whole = path.canonicalize().map_err(failed("resolve", path))?;
    let refused = |why: String| Err(Failure::new(ExitCode::Refused, format!("{}: {why}", path.display())));
    let mounts = senesce_volume::guard::mounts()?;
    if let Some(mount) = mounts.iter().find(|mount| mount.mount_point.starts_with(&whole)) {
        let point = mount.mount_point.display();
        return refused(format!("something is mounted at {point}; unmount it first: umount {point}"));
    }
    for entry in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        let file = fs::read_to_string(entry.path().join("loop/backing_file")).unwrap_or_default();
        if Path::new(file.trim()).starts_with(&whole) {
            let name = entry.file_name();
            return refused(format!("/dev/{} uses a file in it; detach it first: losetup -d", name.to_string_lossy()));
        }
    }
    match whole.metadata().map(|found| found.dev()) {
        Ok(same) if same == device => Ok(()),
        _ => refused("it changed meanwhile; try again".into()),
    }
}

fn size(path: &Path) -> u64 {
    let of = |entry: fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => size(&entry.path()),
        Ok(found) => found.blocks() * 512,
        Err(_) => 0,
    };
    fs::read_dir(path).into_iter().flatten().flatten().map(of).sum()
}

/// Sets the label of runs; empty removes it. All are checked before the first one is changed.
pub fn label(paths: &[PathBuf], text: &str) -> Result<(), Failure> {
    // One run may have several names; hundreds of them are not held open at once.
    let runs: BTreeSet<PathBuf> =
        paths.iter().map(|path| path.canonicalize().unwrap_or_else(|_| path.clone())).collect();
    runs.iter().try_for_each(|run| RunDirectory::resume(run).map(drop))?;
    let mut facts = Environment::default();
    facts.put("run.label", text);
    Ok(runs.iter().try_for_each(|run| RunDirectory::resume(run)?.add_environment(&facts))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_core::{Plan, Seed};
    use std::collections::BTreeMap;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;

    fn run(path: &Path) -> RunDirectory {
        let plan = Plan::of_spec("age", Seed(1), &BTreeMap::<String, u32>::new()).unwrap();
        RunDirectory::open(path, &plan, &Environment::default()).unwrap()
    }

    fn refusal(path: &Path) -> String {
        let failure = RemovableRun::claim(path).unwrap_err();
        assert_eq!(failure.exit_code(), ExitCode::Refused, "{failure}");
        failure.to_string()
    }

    #[test]
    fn only_complete_run_directories_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let (path, other) = (directory.path().join("run"), directory.path().join("precious"));
        drop(run(&path));
        fs::create_dir(&other).unwrap();
        fs::write(other.join("file"), "text").unwrap();
        assert!(refusal(&other).contains("it has no file 'format'"));
        for mark in MARKS {
            fs::write(other.join(mark), "not of ours").unwrap();
        }
        assert!(refusal(&other).contains("cannot be distinguished from other folders"));
        symlink(&path, directory.path().join("link")).unwrap();
        assert!(refusal(&directory.path().join("link")).contains("links are not followed"));
        symlink(&other, path.join("histograms/away.hdr")).unwrap();
        RemovableRun::claim(&path).unwrap().remove().unwrap();
        assert!(!path.exists() && other.join("file").exists());
    }

    #[test]
    fn run_with_files_of_the_user_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run");
        drop(run(&path));
        let at = |name: &str| path.join(name);
        for own in ["report.html", "trace-1.blocks", ".report.html.0123.part"] {
            fs::write(at(own), "").unwrap();
        }
        for own in ["histograms/read.hdr", "guest-2/run/plan.toml", "guests/a/run/histograms/b.hdr", "source/1/any"] {
            fs::create_dir_all(at(own).parent().unwrap()).unwrap();
            fs::write(at(own), "").unwrap();
        }
        assert_eq!(others(&path).unwrap(), Vec::<String>::new());
        let below = ["guest-2/mine", "guests/a/run/mine", "guests/mine", "histograms/mine.txt", "volume/mine"];
        fs::create_dir(at("volume")).unwrap();
        below.iter().for_each(|name| fs::write(at(name), "").unwrap());
        assert_eq!(others(&path).unwrap(), below);
        below.iter().for_each(|name| fs::remove_file(at(name)).unwrap());
        fs::write(at("precious.txt"), "").unwrap();
        fs::create_dir_all(at("sub/b")).unwrap();
        fs::write(at("copy"), "a file, not the folder of an experiment").unwrap();
        symlink("elsewhere", at("link")).unwrap();
        assert_eq!(others(&path).unwrap(), ["copy", "link", "precious.txt", "sub"]);
        let words = refusal(&path);
        assert!(words.contains(": copy, link, precious.txt and 1 more;") && words.contains("rm -r -- "), "{words}");
        let unprintable = directory.path().join(OsStr::from_bytes(b"run-\xff"));
        fs::rename(&path, &unprintable).unwrap();
        let words = refusal(&unprintable);
        assert!(words.contains(": copy, link, ") && !words.contains("rm -r"), "{words}");
        fs::rename(&unprintable, &path).unwrap();
        assert!(at("precious.txt").exists() && at("sub/b").exists());
    }

    #[test]
    fn running_run_is_refused_until_it_ends() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run");
        let going_on = run(&path);
        assert!(refusal(&path).contains("still running"));
        drop(going_on);
        assert!(RemovableRun::claim(&path).is_ok() && path.exists(), "a check removes nothing");
    }

    #[test]
    fn a_label_is_given_and_replaced() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("run");
        let mut directory = run(&path);
        directory.append("caveat", &"a quiet machine").unwrap();
        directory.finish(&serde_json::json!({"answer": 1})).unwrap();
        let other = temporary.path().join("other");
        drop(run(&other));
        let both = [other.clone(), path.clone(), temporary.path().join("./run")];
        assert!(label(&both, "main").is_err(), "it is still running");
        assert_eq!(Overview::read(&other).unwrap().fact("run.label"), None, "none of them is labelled");
        drop(directory);
        for word in ["main", "other"] {
            label(&both, word).unwrap();
            let found = Overview::read(&path).unwrap();
            assert_eq!((found.fact("run.label"), found.is_partial()), (Some(word), false));
        }
    }
}
