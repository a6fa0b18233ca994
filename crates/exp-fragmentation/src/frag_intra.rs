//! Fragmentation inside files: parts of several files appended in turn (Conway et al., "File Systems Fated for Senescence?
//! Nonsense, Says Science!", FAST 2017, section 4).

use crate::fragmentation::experiment::Fragmentation;
use crate::fragmentation::{Procedure, Round, Story, numbers, read};
use clap::{Args, ValueEnum, value_parser};
use rand::Rng;
use senesce_core::failure::failed;
use senesce_core::interrupt::Interrupt;
use senesce_core::{Bytes, Failure, Level, Seed, Size, Span};
use senesce_runs::tree::check;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Write;
use std::path::Path;

pub type FragIntra = Fragmentation<InTurn>;

/// Size of the files and order of the appends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Args)]
#[serde(rename_all = "kebab-case")]
pub struct Parameters {
    /// files
    #[arg(long, value_parser = value_parser!(u64).range(1..=100_000))]
    pub files: u64,
    /// size of each file
    #[arg(long)]
    pub file_size: Size,
    /// bytes per append
    #[arg(long)]
    pub chunk: Size,
    /// last round, in which every chunk of every file is appended in turn
    #[arg(long, value_parser = value_parser!(u64).range(1..=10_000))]
    pub rounds: u64,
    /// interval between the rounds that are run
    #[arg(long, value_parser = value_parser!(u64).range(1..=10_000))]
    pub step: u64,
    /// how appends reach the device: fsync after each, wait after each, or rare fsyncs; the first in all rounds, the others in
    /// the first and last round
    #[arg(long, value_delimiter = ',')]
    #[serde(default = "with_fsync")]
    pub sync: Vec<Sync>,
    /// appends to a file between two rare fsyncs; 0: none but write-back at the end
    #[arg(long, value_parser = value_parser!(u64).range(0..=1_000_000))]
    pub fsync_every: u64,
    /// wait after each append
    #[arg(long)]
    pub pause: Span,
}

/// How appends reach the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Sync {
    /// An fsync after each append.
    Fsync,
    /// A pause after each append, in which the kernel may write back.
    Wait,
    /// An fsync after some appends, or none.
    Rare,
}

impl Sync {
    fn word(self) -> &'static str {
        match self {
            Self::Fsync => "fsync",
            Self::Wait => "wait",
            Self::Rare => "rare",
        }
    }
}

fn with_fsync() -> Vec<Sync> {
    vec![Sync::Fsync]
}

impl Parameters {
    fn bytes(&self) -> Bytes {
        Bytes(self.files * self.file_size.bytes())
    }

    fn appended(&self, round: u64) -> u64 {
        self.file_size.bytes() / self.chunk.bytes() * round / self.rounds
    }
}

pub struct InTurn {
    own: Parameters,
    seed: Seed,
}

impl InTurn {
    fn content(&self, file: u64) -> Vec<u8> {
        let mut content = vec![0; self.own.file_size.bytes() as usize];
        self.seed.stream(&format!("file/{file}")).fill_bytes(&mut content);
        content
    }
}

impl Procedure for InTurn {
    const ID: &'static str = "frag-intra";
    const TITLE: &'static str = "Fragmentation inside files: appends in turn, then a cold read";
    const PAGE: &'static str = include_str!("../docs/experiments/frag-intra.md");
    const PUBLISHED: &'static str = include_str!("../data/published/frag-intra.csv");
    const CLAIMS: &'static str = include_str!("../data/published/frag-intra.claims.toml");
    const STORY: Story = Story {
        title: "Fragmentation inside files",
        round: "round",
        summary: "In round r, the last r of the hundred parts of every file were appended in turn, 4 KiB at a time, \
             with an fsync after each append. Then all files were read cold in directory order. Each round has its \
             unaged copy.",
    };
    type Parameters = Parameters;
    const NAMED: &'static [&'static str] = &["step", "sync"];
    type State = Sync;

    fn defaults(level: Level) -> Parameters {
        Parameters {
            files: 10,
            file_size: Size(Bytes::kib(400)),
            chunk: Size(Bytes::kib(4)),
            rounds: level.of([2, 100, 100]),
            step: level.of([1, 10, 1]),
            // A pause after each append takes 83 minutes in the last round.
            sync: level.of([with_fsync(), vec![Sync::Fsync, Sync::Rare], vec![Sync::Fsync, Sync::Wait, Sync::Rare]]),
            fsync_every: 0,
            pause: Span::from_millis(5000),
        }
    }

    fn rounds(own: &Parameters, _seed: Seed) -> Result<Vec<Round>, Failure> {
        let (size, chunk) = (own.file_size.bytes(), own.chunk.bytes());
        if chunk == 0 || size % chunk != 0 || size == 0 {
            return Err(Failure::usage(format!(
                "file-size {} must be a multiple of chunk {}, both above zero",
                own.file_size.0, own.chunk.0
            )));
        }
        if own.sync.is_empty() {
            return Err(Failure::usage("sync: the list is empty; write fsync, wait or rare"));
        }
        let round = |number| {
            let appended = own.appended(number);
            Round {
                number,
                action: format!("append {appended} times {} to {} files in turn, read cold", own.chunk.0, own.files),
                data: own.bytes(),
                written: own.bytes(),
                seconds: (appended * own.files) as f64 * 3e-4,
            }
        };
        Ok(numbers(own.rounds, own.step).into_iter().map(round).collect())
    }

    fn begin(own: &Parameters, seed: Seed, _scratch: &Path, _interrupt: &Interrupt) -> Result<Self, Failure> {
        Ok(Self { own: own.clone(), seed: seed.child("frag-intra") })
    }

    fn modes(own: &Parameters) -> Vec<&'static str> {
        own.sync.iter().map(|sync| sync.word()).collect()
    }

    fn pauses(own: &Parameters, mode: Option<&str>, round: u64) -> f64 {
        let is_waiting = mode == Some(Sync::Wait.word());
        if is_waiting { (own.appended(round) * own.files) as f64 * own.pause.seconds() } else { 0.0 }
    }

    fn condition(&self, mode: Option<&str>) -> Option<(&'static str, String)> {
        Some(("sync", mode?.into()))
    }

    fn start(&self, mode: Option<&str>) -> Sync {
        let named = |sync: &&Sync| mode == Some(sync.word());
        Sync::value_variants().iter().find(named).copied().unwrap_or(Sync::Fsync)
    }

    /// Writes the front parts file by file, each with fsync, then appends chunks in turn.
    fn advance(&self, sync: &mut Sync, folder: &Path, round: u64, interrupt: &Interrupt) -> Result<(), Failure> {
        let (own, chunk) = (&self.own, self.own.chunk.bytes() as usize);
        let appended = own.appended(round);
        let first = own.file_size.bytes() as usize - appended as usize * chunk;
        let mut open = Vec::new();
        for number in 0..own.files {
            let path = folder.join(format!("file{number:03}"));
            let content = self.content(number);
            let mut file = File::create(&path).map_err(failed("create", &path))?;
            for chunk in content[..first].chunks(chunk) {
                file.write_all(chunk).map_err(failed("write", &path))?;
            }
            file.sync_all().map_err(failed("fsync", &path))?;
            open.push((path, file, content));
        }
        for turn in 0..appended {
            check(interrupt)?;
            for (path, file, content) in &mut open {
                let part = &content[first + turn as usize * chunk..][..chunk];
                file.write_all(part).map_err(failed("append to", path))?;
                match sync {
                    Sync::Wait => read::pause(own.pause.0, interrupt)?,
                    Sync::Rare if own.fsync_every == 0 || (turn + 1) % own.fsync_every != 0 => {}
                    _ => file.sync_all().map_err(failed("fsync", path))?,
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn procedure() -> InTurn {
        let (file_size, chunk) = (Size(Bytes(8 * 16)), Size(Bytes(16)));
        let own = Parameters { files: 3, file_size, chunk, rounds: 4, ..InTurn::defaults(Level::Smoke) };
        InTurn { own, seed: Seed(1) }
    }

    #[test]
    fn every_round_leaves_the_same_files() {
        let (first, last) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        procedure().advance(&mut Sync::Fsync, first.path(), 0, &Interrupt::new()).unwrap();
        procedure().advance(&mut Sync::Rare, last.path(), 4, &Interrupt::new()).unwrap();
        for number in 0..3 {
            let name = format!("file{number:03}");
            let read = |directory: &Path| std::fs::read(directory.join(&name)).unwrap();
            assert_eq!(read(first.path()), procedure().content(number));
            assert_eq!(read(last.path()), procedure().content(number));
        }
    }

    #[test]
    fn content_follows_from_the_seed() {
        let golden: Vec<u8> = procedure().content(0)[..8].to_vec();
        assert_eq!(golden, GOLDEN);
        assert_ne!(procedure().content(0), procedure().content(1));
    }

    const GOLDEN: [u8; 8] = [241, 243, 76, 133, 114, 188, 116, 68];

    #[test]
    fn round_0_appends_nothing_and_the_last_round_everything() {
        let appended: Vec<u64> = (0..=4).map(|round| procedure().own.appended(round)).collect();
        assert_eq!(appended, [0, 2, 4, 6, 8]);
    }
}
