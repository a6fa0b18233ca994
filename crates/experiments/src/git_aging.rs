//! A version-control system ages its work tree: one pull after the other (Conway et al., "File Systems Fated for Senescence?
//! Nonsense, Says Science!", FAST 2017, section 5).

mod history;

use crate::fragmentation::analysis::{Story, analyse};
use crate::fragmentation::course::{self, Ager};
use crate::fragmentation::tree::check;
use crate::fragmentation::volume::failed;
use crate::fragmentation::{Common, common_parameters, rounds};
use senesce_core::interrupt::Interrupt;
use senesce_core::{
    Analysis, Bytes, ExitCode, Experiment, Failure, Parameter, ParameterKind, Plan, Record, RunContext, RunKind,
    Settings,
};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The experiment.
pub struct GitAging;

const OWN: [Parameter; 5] = [
    Parameter {
        name: "repository",
        help: "local repository whose history is pulled; empty: one is made up",
        kind: ParameterKind::Text,
        defaults: ["", "", ""],
    },
    Parameter {
        name: "files",
        help: "files that the made-up repository begins with",
        kind: ParameterKind::Integer { min: 1, max: 1_000_000 },
        defaults: ["60", "700", "20000"],
    },
    Parameter {
        name: "pulls",
        help: "pulls after the first, one commit each",
        kind: ParameterKind::Integer { min: 1, max: 1_000_000 },
        defaults: ["4", "120", "10000"],
    },
    Parameter {
        name: "read-every",
        help: "pulls from one cold read to the next",
        kind: ParameterKind::Integer { min: 1, max: 1_000_000 },
        defaults: ["4", "30", "100"],
    },
    Parameter {
        name: "gc",
        help: "git's own garbage collection, in the foreground",
        kind: ParameterKind::Choice(&["off", "on"]),
        defaults: ["off", "off", "off"],
    },
];

const COMMON: [Parameter; 8] = common_parameters!("64M", "512M", "20G");

const PARAMETERS: [Parameter; 13] = {
    let [a, b, c, d, e, f, g, h] = COMMON;
    let [i, j, k, l, m] = OWN;
    [a, b, c, d, e, f, g, h, i, j, k, l, m]
};

/// The program git, kept apart from the user's configuration.
#[derive(Debug, Clone)]
pub struct Git {
    home: PathBuf,
}

impl Git {
    fn command(&self, folder: &Path, words: &[&str]) -> Command {
        let mut command = Command::new("git");
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("GIT_")) {
            command.env_remove(name);
        }
        command
            .arg("-C")
            .arg(folder)
            .args(["-c", "safe.directory=*", "-c", "user.name=Senesce", "-c", "user.email=senesce@localhost"])
            .args(["-c", "core.hooksPath=/dev/null"])
            .args(words)
            .env("HOME", &self.home)
            .env("XDG_CONFIG_HOME", &self.home)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::null());
        command
    }

    /// Runs a command to its end and gives what it printed.
    fn run(&self, folder: &Path, words: &[&str], interrupt: &Interrupt) -> Result<String, Failure> {
        check(interrupt)?;
        finish(self.command(folder, words), words, folder)
    }

    /// The first commits, oldest first: one more than there are pulls, if there are so many.
    fn commits(&self, folder: &Path, branch: &str, pulls: u64, interrupt: &Interrupt) -> Result<Vec<String>, Failure> {
        let list = self.run(folder, &["rev-list", "--reverse", branch], interrupt);
        let list = list.map_err(|failure| match failure.exit_code() {
            // What git itself objects to is the repository that was named.
            ExitCode::RunFailed => {
                Failure::usage(format!("repository: {failure}; name a local git repository that has commits"))
            }
            _ => failure,
        })?;
        Ok(list.lines().take(pulls as usize + 1).map(str::to_string).collect())
    }

    /// Bytes of the files of a commit, each in whole blocks of 4 KiB.
    fn bytes_of(&self, folder: &Path, commit: &str) -> Result<u64, Failure> {
        // A line is: mode, type, name, size, path (git-ls-tree(1)); what is no file has no size.
        let list = self.run(folder, &["ls-tree", "-r", "-l", "--full-tree", commit], &Interrupt::new())?;
        let sizes = list.lines().filter_map(|line| line.split_whitespace().nth(3)?.parse::<u64>().ok());
        Ok(sizes.map(|size| size.next_multiple_of(4096)).sum())
    }

    /// Reads a stream of commits.
    fn import(&self, folder: &Path, stream: &Path) -> Result<String, Failure> {
        let words = ["fast-import", "--quiet"];
        let mut command = self.command(folder, &words);
        command.stdin(File::open(stream).map_err(failed("open", stream))?);
        finish(command, &words, folder)
    }
}

fn finish(mut command: Command, words: &[&str], folder: &Path) -> Result<String, Failure> {
    let output = command.output().map_err(|error| {
        Failure::new(ExitCode::Missing, format!("run git: {}; install git", senesce_core::failure::errno_words(&error)))
    })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let full = ["No space left on device", "unable to write"].iter().any(|words| said.contains(words));
        let remedy = if full { "; if its volume is full, choose a larger --size" } else { "" };
        return Err(Failure::new(
            ExitCode::RunFailed,
            format!("git {} in {}: {} ({}){remedy}", words.join(" "), folder.display(), said.trim(), output.status),
        ));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// What is pulled.
struct Source {
    git: Git,
    repository: PathBuf,
    commits: Vec<String>,
    gc: bool,
}

impl Source {
    /// The user's repository, or a made-up one in `room`.
    fn of(settings: &Settings, room: &Path, interrupt: &Interrupt) -> Result<Self, Failure> {
        let git = Git { home: room.join("home") };
        let pulls = settings.integer("pulls")?;
        let repository = match settings.text("repository") {
            "" => {
                let folder = room.join("repository");
                let seed = settings.seed().child("git-aging");
                history::generate(&git, &folder, seed, settings.integer("files")?, pulls + 1, interrupt)?;
                folder
            }
            text => PathBuf::from(text),
        };
        let branch = if settings.text("repository").is_empty() { "main" } else { "HEAD" };
        let commits = git.commits(&repository, branch, pulls, interrupt)?;
        if (commits.len() as u64) < pulls + 1 {
            return Err(Failure::usage(format!(
                "repository: {} has {} commits, and {pulls} pulls after the first need {}",
                repository.display(),
                commits.len(),
                pulls + 1
            )));
        }
        let repository = repository.canonicalize().map_err(failed("find", &repository))?;
        Ok(Self { git, repository, commits, gc: settings.text("gc") == "on" })
    }
}

/// A work tree that pulls.
struct WorkTree<'a> {
    source: &'a Source,
    pulled: usize,
}

impl WorkTree<'_> {
    fn pull(&self, folder: &Path, commit: &str, interrupt: &Interrupt) -> Result<(), Failure> {
        // A commit that is no branch's head may be asked for only where the other side allows it.
        let serve = "--upload-pack=git -c safe.directory=* -c uploadpack.allowReachableSHA1InWant=true upload-pack";
        let repository = self.source.repository.to_string_lossy();
        let mut words = vec!["-c", "gc.autoDetach=false"];
        if !self.source.gc {
            words.extend(["-c", "gc.auto=0"]);
        }
        words.extend(["pull", "--no-edit", "-q", "--no-rebase", "-s", "recursive", "-X", "theirs", serve]);
        words.extend([&*repository, commit]);
        self.source.git.run(folder, &words, interrupt)?;
        let root = File::open(folder).map_err(failed("open", folder))?;
        rustix::fs::syncfs(&root).map_err(|errno| failed("sync", folder)(errno.into()))
    }
}

impl Ager for WorkTree<'_> {
    fn advance(&mut self, folder: &Path, round: u64, interrupt: &Interrupt) -> Result<(), Failure> {
        if round == 0 {
            self.source.git.run(folder, &["init", "-q", "--initial-branch=main"], interrupt)?;
        }
        while self.pulled <= round as usize {
            self.pull(folder, &self.source.commits[self.pulled], interrupt)?;
            self.pulled += 1;
        }
        Ok(())
    }
}

fn rounds_of(settings: &Settings) -> Result<Vec<u64>, Failure> {
    Ok(rounds::steps(settings.integer("pulls")?, settings.integer("read-every")?))
}

/// Bytes at the end: of a made-up history those of the work tree and its objects at most, a file having 10 KiB on average; of
/// a user's those of the work tree alone, as nobody knows how its objects will be packed.
fn bytes(settings: &Settings) -> Result<Bytes, Failure> {
    let pulls = settings.integer("pulls")?;
    let repository = Path::new(settings.text("repository"));
    if repository.as_os_str().is_empty() {
        return Ok(Bytes((settings.integer("files")? + pulls * 4) * 20_000));
    }
    if !repository.is_dir() {
        return Err(Failure::usage(format!("repository: {} is no directory", repository.display())));
    }
    let git = Git { home: PathBuf::from("/nonexistent") };
    let commits = git.commits(repository, "HEAD", pulls, &Interrupt::new())?;
    commits.last().map_or(Ok(Bytes(0)), |commit| Ok(Bytes(git.bytes_of(repository, commit)?)))
}

impl RunKind for GitAging {
    fn kind(&self) -> &'static str {
        "git-aging"
    }

    fn analyse(&self, record: &Record) -> Result<Analysis, Failure> {
        let gc = record.plan.settings.get("gc").map(String::as_str);
        analyse(
            record,
            &Story {
                title: "Aging by version control",
                round: "pull",
                summary: "A repository's history was pulled commit by commit; every so many pulls all files were read \
                          cold, and so was a copy of them on a fresh volume.",
                published: self.published(),
                variant: Some(if gc == Some("on") { ("gc on", "gc off") } else { ("gc off", "gc on") }),
                claims: None,
            },
        )
    }
}

impl Experiment for GitAging {
    fn title(&self) -> &'static str {
        "Aging by version control: a history pulled commit by commit"
    }

    fn parameters(&self) -> &'static [Parameter] {
        &PARAMETERS
    }

    fn doc(&self) -> &'static str {
        include_str!("../../../docs/experiments/git-aging.md")
    }

    fn published(&self) -> &'static str {
        include_str!("../../../data/published/git-aging.csv")
    }

    fn plan(&self, settings: &Settings) -> Result<Plan, Failure> {
        let common = Common::of(settings)?;
        common.place.second(Path::new(""))?;
        let mut version = Command::new("git");
        version.arg("--version").stdin(Stdio::null());
        finish(version, &["--version"], Path::new("."))?;
        let mut plan = Plan::new(self.kind(), settings.seed(), settings.to_map());
        let (rounds, data) = (rounds_of(settings)?, bytes(settings)?);
        common.check_room(data)?;
        for fs in &common.file_systems {
            plan.step(
                format!("pull {} times, gc {}", settings.text("pulls"), settings.text("gc")),
                format!("{fs}, {}", common.place.words(common.size)),
            );
            plan.bytes_to_write += data.0 * (rounds.len() as u64 + 1);
            plan.estimated_seconds +=
                settings.integer("pulls")? as f64 * 0.08 + rounds.len() as f64 * common.seconds_of_round(data);
        }
        Ok(plan)
    }

    fn run(&self, settings: &Settings, context: &mut RunContext<'_>) -> Result<(), Failure> {
        let common = Common::of(settings)?;
        let room = context.directory.path().join("git");
        let source = Source::of(settings, &room, context.interrupt)?;
        let outcome = course::run(self.kind(), &common, &rounds_of(settings)?, settings, context, &|| {
            Ok(Box::new(WorkTree { source: &source, pulled: 0 }))
        });
        // The repository follows from the seed: it is not kept.
        let _ = std::fs::remove_dir_all(&room);
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_no_repository_or_has_no_commits_is_a_wrong_word() {
        let room = tempfile::tempdir().unwrap();
        let git = Git { home: room.path().join("home") };
        if let Err(failure) = git.run(room.path(), &["--version"], &Interrupt::new()) {
            return eprintln!("skipped: needs git ({failure})");
        }
        let refused = || git.commits(room.path(), "HEAD", 1, &Interrupt::new()).unwrap_err();
        assert_eq!(refused().exit_code(), ExitCode::Usage);
        git.run(room.path(), &["init", "-q"], &Interrupt::new()).unwrap();
        assert_eq!(refused().exit_code(), ExitCode::Usage, "no commits");
    }
}
