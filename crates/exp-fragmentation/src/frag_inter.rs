//! Fragmentation between files: a tree of small files created out of order (Conway et al., "File Systems Fated for Senescence?
//! Nonsense, Says Science!", FAST 2017, section 4).

use crate::fragmentation::experiment::Fragmentation;
use crate::fragmentation::{Procedure, Round, Story, numbers};
use clap::{Args, value_parser};
use rand::Rng;
use senesce_core::interrupt::Interrupt;
use senesce_core::{Bytes, Failure, Level, Seed};
use senesce_runs::tree::{Tree, Writer, permutation};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

pub type FragInter = Fragmentation<Order>;

/// Paths of the files of a released source tree, sorted.
const PATHS: &str = include_str!("../data/trees/source-tree.txt");

/// In bytes.
const FILE: u64 = 4096;

/// The files, and how many of them are exchanged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Args)]
#[serde(rename_all = "kebab-case")]
pub struct Parameters {
    /// directory whose paths are used; empty: the paths of a released source tree
    #[arg(long)]
    pub tree: String,
    /// number of paths from the start of the sorted list; 0: all
    #[arg(long, value_parser = value_parser!(u64).range(0..=10_000_000))]
    pub files: u64,
    /// last round; in round n the first n/100 of both permutations exchange places
    #[arg(long, value_parser = value_parser!(u64).range(1..=100))]
    pub rounds: u64,
    /// interval between the rounds that are run
    #[arg(long, value_parser = value_parser!(u64).range(1..=100))]
    pub step: u64,
}

#[derive(Debug)]
pub struct Order {
    paths: Vec<PathBuf>,
    first: Vec<usize>,
    second: Vec<usize>,
    seed: Seed,
    without: Option<String>,
}

impl Parameters {
    /// Returns sorted paths, and a note about unreadable parts of the tree.
    fn paths(&self) -> Result<(Vec<PathBuf>, Option<String>), Failure> {
        let (mut paths, without): (Vec<PathBuf>, _) = match self.tree.as_str() {
            "" => (PATHS.lines().filter(|line| !line.starts_with('#')).map(PathBuf::from).collect(), None),
            tree => {
                let found = Tree::of_user(Path::new(tree))?;
                let without = found.without(Path::new(tree));
                (found.files, without)
            }
        };
        paths.sort();
        if self.files > 0 {
            paths.truncate(self.files as usize);
        }
        if paths.len() < 2 {
            return Err(Failure::usage(format!(
                "tree: files in {}: {}; an order needs at least two; name another --tree or increase --files",
                if self.tree.is_empty() { "the built-in list" } else { &self.tree },
                paths.len()
            )));
        }
        Ok((paths, without))
    }
}

impl Order {
    /// Returns the sorted order after `first[i]` and `second[i]` were exchanged for the first `round` percent of i.
    fn in_round(&self, round: u64) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.paths.len()).collect();
        let mut place = order.clone();
        for index in 0..self.paths.len() * round as usize / 100 {
            let (one, other) = (self.first[index], self.second[index]);
            order.swap(place[one], place[other]);
            place.swap(one, other);
        }
        order
    }
}

impl Procedure for Order {
    const ID: &'static str = "frag-inter";
    const TITLE: &'static str = "Fragmentation between files: a source tree copied out of order, then a cold read";
    const PAGE: &'static str = include_str!("../docs/experiments/frag-inter.md");
    const PUBLISHED: &'static str = include_str!("../data/published/frag-inter.csv");
    const CLAIMS: &'static str = include_str!("../data/published/frag-inter.claims.toml");
    const STORY: Story = Story {
        title: "Fragmentation between files",
        round: "round",
        summary: "A source tree of files of 4 KiB was copied in sorted order in round 0, and with n percent of its \
             files exchanged in round n. Then all files were read cold in directory order. Each round has its \
             unaged copy.",
    };
    const NAMED: &'static [&'static str] = &["step"];
    type Parameters = Parameters;
    type State = ();

    fn defaults(level: Level) -> Parameters {
        Parameters { tree: String::new(), files: level.of([300, 2500, 0]), rounds: 100, step: level.of([50, 10, 1]) }
    }

    fn rounds(own: &Parameters, _seed: Seed) -> Result<Vec<Round>, Failure> {
        let files = own.paths()?.0.len();
        let round = |number| Round {
            number,
            action: format!("copy {files} files, {number} % of them out of order, read cold"),
            data: Bytes(files as u64 * FILE),
            written: Bytes(files as u64 * FILE),
            seconds: files as f64 * 4e-4,
        };
        Ok(numbers(own.rounds, own.step).into_iter().map(round).collect())
    }

    fn begin(own: &Parameters, seed: Seed, _scratch: &Path, _interrupt: &Interrupt) -> Result<Self, Failure> {
        let ((paths, without), seed) = (own.paths()?, seed.child("frag-inter"));
        let drawn = |name: &str| permutation(&mut seed.stream(name), paths.len());
        let (first, second) = (drawn("first"), drawn("second"));
        Ok(Self { paths, first, second, seed, without })
    }

    fn without(&self) -> Option<&str> {
        self.without.as_deref()
    }

    fn start(&self, _mode: Option<&str>) {}

    fn advance(&self, _state: &mut (), folder: &Path, round: u64, interrupt: &Interrupt) -> Result<(), Failure> {
        let mut writer = Writer::new(folder, interrupt);
        let mut content = vec![0; FILE as usize];
        for index in self.in_round(round) {
            self.seed.stream(&format!("file/{index}")).fill_bytes(&mut content);
            writer.write(&self.paths[index], &content)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_core::seed::DEFAULT_SEED;

    fn order(tree: &str) -> Result<Order, Failure> {
        let own = Parameters { tree: tree.into(), ..Order::defaults(Level::Smoke) };
        Order::begin(&own, DEFAULT_SEED, Path::new(""), &Interrupt::new())
    }

    #[test]
    fn every_round_has_all_files_and_exchanges_more_of_them() {
        let order = order("").unwrap();
        let moved = |round| {
            let places = order.in_round(round);
            let mut sorted = places.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..order.paths.len()).collect::<Vec<_>>());
            (0..).zip(places).filter(|(place, index)| place != index).count()
        };
        assert_eq!(moved(0), 0);
        assert!(0 < moved(10) && moved(10) < moved(50) && moved(50) < moved(100));
    }

    #[test]
    fn order_follows_from_the_seed() {
        assert_eq!(order("").unwrap().in_round(100)[..5], GOLDEN);
    }

    const GOLDEN: [usize; 5] = [123, 59, 137, 69, 67];

    #[test]
    fn tree_of_one_file_is_refused() {
        let temporary = tempfile::tempdir().unwrap();
        std::fs::write(temporary.path().join("one"), "1").unwrap();
        let failure = order(temporary.path().to_str().unwrap()).unwrap_err();
        assert!(failure.to_string().contains("at least two"), "{failure}");
    }

    #[test]
    fn built_in_list_is_sorted_and_relative() {
        let order = order("").unwrap();
        assert!(order.paths.iter().all(|path| path.is_relative()));
        assert!(PATHS.lines().count() > 2000);
    }
}
