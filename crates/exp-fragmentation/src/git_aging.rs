//! Ages a work tree by pulls of a version-control system (Conway et al., "File Systems Fated for Senescence? Nonsense, Says
//! Science!", FAST 2017, section 5).

mod history;
mod program;

use crate::fragmentation::experiment::Fragmentation;
use crate::fragmentation::{Procedure, Round, Story, numbers};
use clap::{Args, ValueEnum, value_parser};
use program::Git;
use senesce_core::failure::failed;
use senesce_core::interrupt::Interrupt;
use senesce_core::{Bytes, Failure, Level, Seed};
use senesce_runner::Needs;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::path::{Path, PathBuf};

pub type GitAging = Fragmentation<Source>;

/// History to pull and frequency of reads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Args)]
#[serde(rename_all = "kebab-case")]
pub struct Parameters {
    /// local repository whose history is pulled; empty: generate one
    #[arg(long)]
    pub repository: String,
    /// files at the start of the generated repository
    #[arg(long, value_parser = value_parser!(u64).range(1..=1_000_000))]
    pub files: u64,
    /// pulls after the first, one commit each
    #[arg(long, value_parser = value_parser!(u64).range(1..=1_000_000))]
    pub pulls: u64,
    /// pulls between two cold reads
    #[arg(long, value_parser = value_parser!(u64).range(1..=1_000_000))]
    pub read_every: u64,
    /// git's own garbage collection, in the foreground
    #[arg(long)]
    pub gc: Switch,
}

/// Off or on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Switch {
    /// Disabled.
    Off,
    /// Enabled.
    On,
}

impl Switch {
    fn word(self) -> &'static str {
        if self == Self::On { "on" } else { "off" }
    }
}

impl Parameters {
    /// Returns the bytes at the end. For a generated history, this is an upper bound for work tree and objects, with 10
    /// KiB per file. For a user's history, only the work tree, because the packed size of its objects is unknown.
    fn bytes(&self) -> Result<Bytes, Failure> {
        if self.repository.is_empty() {
            return Ok(Bytes((self.files + self.pulls * 4) * 20_000));
        }
        let repository = Path::new(&self.repository);
        if !repository.is_dir() {
            return Err(Failure::usage(format!("repository: {} is not a directory", repository.display())));
        }
        let git = Git::at_home(Path::new("/nonexistent"));
        let commits = git.commits(repository, "HEAD", self.pulls, &Interrupt::new())?;
        commits.last().map_or(Ok(Bytes(0)), |commit| Ok(Bytes(git.bytes_of(repository, commit)?)))
    }
}

pub struct Source {
    git: Git,
    repository: PathBuf,
    commits: Vec<String>,
    gc: Switch,
}

impl Source {
    fn pull(&self, folder: &Path, commit: &str, interrupt: &Interrupt) -> Result<(), Failure> {
        // The server must allow requests for commits that are not the head of a branch.
        let serve = "--upload-pack=git -c safe.directory=* -c uploadpack.allowReachableSHA1InWant=true upload-pack";
        let repository = self.repository.to_string_lossy();
        let mut arguments = vec!["-c", "gc.autoDetach=false"];
        if self.gc == Switch::Off {
            arguments.extend(["-c", "gc.auto=0"]);
        }
        arguments.extend(["pull", "--no-edit", "-q", "--no-rebase", "-s", "recursive", "-X", "theirs", serve]);
        arguments.extend([&*repository, commit]);
        self.git.run(folder, &arguments, interrupt)?;
        let root = File::open(folder).map_err(failed("open", folder))?;
        rustix::fs::syncfs(&root).map_err(|errno| failed("sync", folder)(errno.into()))
    }
}

impl Procedure for Source {
    const ID: &'static str = "git-aging";
    const TITLE: &'static str = "Aging by version control: a history pulled commit by commit";
    const PAGE: &'static str = include_str!("../docs/experiments/git-aging.md");
    const PUBLISHED: &'static str = include_str!("../data/published/git-aging.csv");
    const CLAIMS: &'static str = include_str!("../data/published/git-aging.claims.toml");
    const STORY: Story = Story {
        title: "Aging by version control",
        round: "pull",
        summary: "A repository's history was pulled commit by commit; every few pulls all files were read cold, and so was a \
                  copy of them on a fresh volume.",
    };
    const AGES_ON: bool = true;
    const NAMED: &'static [&'static str] = &["repository", "pulls", "read-every", "gc"];
    type Parameters = Parameters;
    type State = usize;

    fn defaults(level: Level) -> Parameters {
        Parameters {
            repository: String::new(),
            files: level.of([60, 700, 20_000]),
            pulls: level.of([4, 300, 10_000]),
            read_every: level.of([4, 100, 100]),
            gc: Switch::Off,
        }
    }

    fn needs(_own: &Parameters) -> Needs {
        Needs::default().and_program("git", "git")
    }

    fn rounds(own: &Parameters, _seed: Seed) -> Result<Vec<Round>, Failure> {
        let (data, gc) = (own.bytes()?, own.gc.word());
        let numbers = numbers(own.pulls, own.read_every);
        let before = |index: usize| index.checked_sub(1).map_or(0, |before| numbers[before]);
        let round = |(index, number): (usize, &u64)| Round {
            number: *number,
            action: format!("pull to {number} of {}, gc {gc}, read cold", own.pulls),
            data,
            written: Bytes(data.0 * (number - before(index)) / own.pulls),
            seconds: (number - before(index)) as f64 * 0.08,
        };
        Ok(numbers.iter().enumerate().map(round).collect())
    }

    fn begin(own: &Parameters, seed: Seed, scratch: &Path, interrupt: &Interrupt) -> Result<Self, Failure> {
        let (git, wanted) = (Git::at_home(&scratch.join("home")), own.pulls + 1);
        let (repository, branch) = match own.repository.as_str() {
            "" => (scratch.join("repository"), "main"),
            text => (PathBuf::from(text), "HEAD"),
        };
        if own.repository.is_empty() {
            history::generate(&git, &repository, seed.child("git-aging"), own.files, wanted, interrupt)?;
        }
        let commits = git.commits(&repository, branch, own.pulls, interrupt)?;
        if (commits.len() as u64) < wanted {
            return Err(Failure::usage(format!(
                "repository: {} has {} commits, and {} pulls after the first need {wanted}",
                repository.display(),
                commits.len(),
                own.pulls
            )));
        }
        let repository = repository.canonicalize().map_err(failed("find", &repository))?;
        Ok(Self { git, repository, commits, gc: own.gc })
    }

    fn condition(&self, _mode: Option<&str>) -> Option<(&'static str, String)> {
        Some(("gc", self.gc.word().into()))
    }

    fn start(&self, _mode: Option<&str>) -> usize {
        0
    }

    fn advance(&self, pulled: &mut usize, folder: &Path, round: u64, interrupt: &Interrupt) -> Result<(), Failure> {
        if round == 0 {
            self.git.run(folder, &["init", "-q", "--initial-branch=main"], interrupt)?;
        }
        while *pulled <= round as usize {
            self.pull(folder, &self.commits[*pulled], interrupt)?;
            *pulled += 1;
        }
        Ok(())
    }

    fn variant(own: &Parameters) -> Option<(&'static str, &'static str)> {
        Some(if own.gc == Switch::On { ("gc on", "gc off") } else { ("gc off", "gc on") })
    }
}
