//! Systems and their command lines.

use crate::scheme::Scheme;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum System {
    Git,
    Hg,
    /// bup: git's format, rolling hash, packs only.
    Bup,
    /// `cp -r`.
    Copy,
    Restic,
    Borg,
    /// senesce's store with pack files.
    OwnPack,
    /// senesce's store with loose objects in git's scheme.
    Own2x1,
    /// senesce's store with loose objects in the first scheme of the study.
    Own2x2,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Init,
    FirstCommit,
    Status,
    SecondCommit,
    Gc,
    /// Write the last version to `Repository::restored`.
    Restore,
}

#[derive(Debug, Clone)]
pub struct Repository {
    pub work: PathBuf,
    pub tree: String,
    pub home: PathBuf,
    pub restored: PathBuf,
    /// Path of the program `senesce`, for its own store.
    pub senesce: PathBuf,
}

impl Repository {
    fn tree_path(&self) -> PathBuf {
        self.work.join(&self.tree)
    }

    /// Returns the location of the tree after [`Step::Restore`].
    pub fn restored_tree(&self, system: System) -> PathBuf {
        match system {
            System::Copy => self.work.join(".backup/2").join(&self.tree),
            System::OwnPack | System::Own2x1 | System::Own2x2 => self.restored.clone(),
            _ => self.restored.join(&self.tree),
        }
    }
}

impl System {
    pub(crate) const ALL: [System; 9] = [
        Self::Git,
        Self::Hg,
        Self::Bup,
        Self::Copy,
        Self::Restic,
        Self::Borg,
        Self::OwnPack,
        Self::Own2x1,
        Self::Own2x2,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Git => "git",
            Self::Hg => "hg",
            Self::Bup => "bup",
            Self::Copy => "copy",
            Self::Restic => "restic",
            Self::Borg => "borg",
            Self::OwnPack => "own-pack",
            Self::Own2x1 => "own-2x1",
            Self::Own2x2 => "own-2x2",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|system| system.name() == name)
    }

    pub fn program(self) -> (&'static str, &'static str) {
        match self {
            Self::Git => ("git", "git"),
            Self::Hg => ("hg", "mercurial"),
            Self::Bup => ("bup", "bup"),
            Self::Copy => ("cp", "coreutils"),
            Self::Restic => ("restic", "restic"),
            Self::Borg => ("borg", "borgbackup"),
            Self::OwnPack | Self::Own2x1 | Self::Own2x2 => ("senesce", "senesce itself"),
        }
    }

    /// Commands of a step, to be timed together. Empty: the system does not have such a step.
    pub fn commands(self, step: Step, place: &Repository) -> Vec<Command> {
        let words: Vec<Vec<String>> = match self {
            Self::Git => git(step, place),
            Self::Hg => hg(step, place),
            Self::Bup => bup(step, place),
            Self::Copy => copy(step, place),
            Self::Restic => restic(step, place),
            Self::Borg => borg(step, place),
            Self::OwnPack => own(step, place, &[], Scheme::GIT),
            Self::Own2x1 => own(step, place, &["--loose"], Scheme::GIT),
            Self::Own2x2 => own(step, place, &["--loose"], Scheme::new(2, 2).unwrap_or(Scheme::GIT)),
        };
        words.into_iter().map(|words| self.command(words, step, place)).collect()
    }

    fn command(self, words: Vec<String>, step: Step, place: &Repository) -> Command {
        let program = if words[0] == "senesce" { place.senesce.clone() } else { PathBuf::from(&words[0]) };
        let mut command = Command::new(program);
        let restores_here = self == Self::Borg && step == Step::Restore;
        command
            .args(&words[1..])
            .current_dir(if restores_here { &place.restored } else { &place.work })
            .env("LC_ALL", "C.UTF-8")
            .env("HOME", &place.home)
            .env("XDG_CACHE_HOME", place.home.join("cache"))
            .env("XDG_CONFIG_HOME", place.home.join("config"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("HGRCPATH", "")
            .env("HGUSER", "senesce")
            .env("BUP_DIR", place.work.join(".bup"))
            .env("RESTIC_REPOSITORY", place.work.join(".restic"))
            .env("RESTIC_PASSWORD", "senesce")
            .env("BORG_REPO", place.work.join(".borg"))
            .env("BORG_BASE_DIR", &place.home)
            .env("BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK", "yes")
            .env("BORG_RELOCATED_REPO_ACCESS_IS_OK", "yes");
        for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
            command.env_remove(variable);
        }
        command
    }
}

fn line(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_string()).collect()
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// git's background repacking is disabled, because it would run during the next measurement.
const GIT: [&str; 7] = ["git", "-c", "gc.auto=0", "-c", "user.name=senesce", "-c", "user.email=senesce@localhost"];

fn git(step: Step, place: &Repository) -> Vec<Vec<String>> {
    let git = |words: &[&str]| line(&[&GIT[..], words].concat());
    match step {
        Step::Init => vec![git(&["init", "-q"])],
        Step::FirstCommit | Step::SecondCommit => {
            vec![git(&["add", &place.tree]), git(&["commit", "-q", "-m", "version"])]
        }
        Step::Status => vec![git(&["status", &place.tree])],
        Step::Gc => vec![git(&["gc", "-q"])],
        Step::Restore => {
            let prefix = format!("{}/", text(&place.restored));
            vec![git(&["checkout-index", "-a", "-f", &format!("--prefix={prefix}")])]
        }
    }
}

fn hg(step: Step, place: &Repository) -> Vec<Vec<String>> {
    let commit = line(&["hg", "commit", "-q", "-m", "version"]);
    match step {
        Step::Init => vec![line(&["hg", "init"])],
        Step::FirstCommit => vec![line(&["hg", "add", "-q", &place.tree]), commit],
        Step::SecondCommit => vec![commit],
        Step::Status => vec![line(&["hg", "status", &place.tree])],
        Step::Gc => Vec::new(),
        Step::Restore => vec![line(&["hg", "archive", "-X", ".hg_archival.txt", &text(&place.restored)])],
    }
}

fn bup(step: Step, place: &Repository) -> Vec<Vec<String>> {
    let index = line(&["bup", "index", &place.tree]);
    match step {
        Step::Init => vec![line(&["bup", "init"])],
        Step::FirstCommit | Step::SecondCommit => {
            vec![index, line(&["bup", "save", "-q", "-n", "test_run", &place.tree])]
        }
        Step::Status => vec![index, line(&["bup", "index", "--status", &place.tree])],
        Step::Gc => Vec::new(),
        Step::Restore => {
            let from = format!("/test_run/latest{}", text(&place.tree_path()));
            vec![line(&["bup", "restore", "-q", "-C", &text(&place.restored), &from])]
        }
    }
}

fn copy(step: Step, place: &Repository) -> Vec<Vec<String>> {
    match step {
        Step::Init => vec![line(&["mkdir", "-p", ".backup/1", ".backup/2"])],
        Step::FirstCommit => vec![line(&["cp", "-r", &place.tree, ".backup/1/"])],
        Step::SecondCommit => vec![line(&["cp", "-r", &place.tree, ".backup/2/"])],
        Step::Status | Step::Gc | Step::Restore => Vec::new(),
    }
}

fn restic(step: Step, place: &Repository) -> Vec<Vec<String>> {
    match step {
        Step::Init => vec![line(&["restic", "init", "-q"])],
        Step::FirstCommit | Step::SecondCommit => vec![line(&["restic", "backup", "-q", &place.tree])],
        Step::Status => vec![line(&["restic", "backup", "-q", "--dry-run", &place.tree])],
        Step::Gc => Vec::new(),
        Step::Restore => vec![line(&["restic", "restore", "-q", "latest", "--target", &text(&place.restored)])],
    }
}

fn borg(step: Step, place: &Repository) -> Vec<Vec<String>> {
    let create = |name: &str| vec![line(&["borg", "create", &format!("::{name}"), &place.tree])];
    match step {
        Step::Init => vec![line(&["borg", "init", "--encryption=none"])],
        Step::FirstCommit => create("first"),
        Step::SecondCommit => create("second"),
        Step::Status | Step::Gc => Vec::new(),
        Step::Restore => vec![line(&["borg", "extract", "::second"])],
    }
}

fn own(step: Step, place: &Repository, layout: &[&str], scheme: Scheme) -> Vec<Vec<String>> {
    let scheme = scheme.to_string();
    // senesce's store commits directories, so a single file gets its own.
    match step {
        Step::Init | Step::Status | Step::Gc => Vec::new(),
        Step::FirstCommit | Step::SecondCommit => {
            let words = ["senesce", "-q", "objects", "commit", ".objects", &place.tree, "--scheme", &scheme];
            vec![line(&[&words, layout].concat())]
        }
        Step::Restore => {
            vec![line(&["senesce", "-q", "objects", "checkout", ".objects", &text(&place.restored)])]
        }
    }
}
