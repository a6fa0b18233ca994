//! Fragmentation between files: a tree of small files created out of order (Conway et al., "File Systems Fated for
//! Senescence? Nonsense, Says Science!", FAST 2017, section 4).

use crate::fragmentation::analysis::{Story, analyse};
use crate::fragmentation::tree::{Tree, Writer, permutation};
use crate::fragmentation::{Common, common_parameters, rounds};
use rand::Rng;
use senesce_core::interrupt::Interrupt;
use senesce_core::{
    Analysis, Bytes, Experiment, Failure, Parameter, ParameterKind, Plan, Record, RunContext, RunKind, Seed, Settings,
};
use std::path::{Path, PathBuf};

/// The experiment.
pub struct FragInter;

/// Paths of the files of a released source tree, sorted.
const PATHS: &str = include_str!("../../../data/trees/source-tree.txt");

/// Bytes per file.
const FILE: u64 = 4096;

const OWN: [Parameter; 4] = [
    Parameter {
        name: "tree",
        help: "directory whose paths are used; empty: the paths of a released source tree",
        kind: ParameterKind::Text,
        defaults: ["", "", ""],
    },
    Parameter {
        name: "files",
        help: "first so many paths of the sorted list; 0: all",
        kind: ParameterKind::Integer { min: 0, max: 10_000_000 },
        defaults: ["300", "2500", "0"],
    },
    Parameter {
        name: "rounds",
        help: "last round; in round n the first n/100 of both permutations exchange places",
        kind: ParameterKind::Integer { min: 1, max: 100 },
        defaults: ["100", "100", "100"],
    },
    Parameter {
        name: "step",
        help: "rounds from one to the next that is run",
        kind: ParameterKind::Integer { min: 1, max: 100 },
        defaults: ["50", "10", "1"],
    },
];

const COMMON: [Parameter; 8] = common_parameters!("64M", "512M", "20G");

const PARAMETERS: [Parameter; 12] = {
    let [a, b, c, d, e, f, g, h] = COMMON;
    let [i, j, k, l] = OWN;
    [a, b, c, d, e, f, g, h, i, j, k, l]
};

/// The files and how their order is disturbed.
#[derive(Debug)]
struct Order {
    paths: Vec<PathBuf>,
    first: Vec<usize>,
    second: Vec<usize>,
    seed: Seed,
    /// What of the tree may not be read, in words.
    without: Option<String>,
}

impl Order {
    fn of(settings: &Settings) -> Result<Self, Failure> {
        let tree = settings.text("tree");
        let (mut paths, without): (Vec<PathBuf>, _) = match tree {
            "" => (PATHS.lines().filter(|line| !line.starts_with('#')).map(PathBuf::from).collect(), None),
            _ => {
                let found = Tree::of_user(Path::new(tree))?;
                let without = found.without(Path::new(tree));
                (found.files, without)
            }
        };
        paths.sort();
        let files = settings.integer("files")? as usize;
        if files > 0 {
            paths.truncate(files);
        }
        if paths.len() < 2 {
            return Err(Failure::usage(format!(
                "tree: files in {}: {}; an order needs at least two; name another --tree or more --files",
                if tree.is_empty() { "the built-in list" } else { tree },
                paths.len()
            )));
        }
        let seed = settings.seed().child("frag-inter");
        let drawn = |name: &str| permutation(&mut seed.stream(name), paths.len());
        let (first, second) = (drawn("first"), drawn("second"));
        Ok(Self { paths, first, second, seed, without })
    }

    fn bytes(&self) -> Bytes {
        Bytes(self.paths.len() as u64 * FILE)
    }

    /// The sorted order after `first[i]` and `second[i]` exchanged places for the first `round` percent of i.
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

    fn write(&self, root: &Path, round: u64, interrupt: &Interrupt) -> Result<(), Failure> {
        let mut writer = Writer::new(root, interrupt);
        let mut content = vec![0; FILE as usize];
        for index in self.in_round(round) {
            self.seed.stream(&format!("file/{index}")).fill_bytes(&mut content);
            writer.write(&self.paths[index], &content)?;
        }
        Ok(())
    }
}

fn rounds_of(settings: &Settings) -> Result<Vec<u64>, Failure> {
    Ok(rounds::steps(settings.integer("rounds")?, settings.integer("step")?))
}

impl RunKind for FragInter {
    fn kind(&self) -> &'static str {
        "frag-inter"
    }

    fn analyse(&self, record: &Record) -> Result<Analysis, Failure> {
        analyse(
            record,
            &Story {
                title: "Fragmentation between files",
                round: "round",
                summary: "A source tree of files of 4 KiB was copied in an order that is sorted in round 0 and has n \
                          percent of its files exchanged in round n; then all files were read cold in directory order. \
                          Beside each round stands its unaged copy.",
                published: self.published(),
                variant: None,
                claims: None,
            },
        )
    }
}

impl Experiment for FragInter {
    fn title(&self) -> &'static str {
        "Fragmentation between files: a source tree copied out of order, then a cold read"
    }

    fn parameters(&self) -> &'static [Parameter] {
        &PARAMETERS
    }

    fn doc(&self) -> &'static str {
        include_str!("../../../docs/experiments/frag-inter.md")
    }

    fn published(&self) -> &'static str {
        include_str!("../../../data/published/frag-inter.csv")
    }

    fn plan(&self, settings: &Settings) -> Result<Plan, Failure> {
        let (common, order) = (Common::of(settings)?, Order::of(settings)?);
        common.check_room(order.bytes())?;
        let mut plan = Plan::new(self.kind(), settings.seed(), settings.to_map());
        for fs in &common.file_systems {
            for round in rounds_of(settings)? {
                plan.step(
                    format!("copy {} files, {round} % of them out of order, read cold", order.paths.len()),
                    format!("{fs}, {}", common.place.words(common.size)),
                );
                plan.bytes_to_write += 2 * order.bytes().0;
                plan.estimated_seconds += common.seconds_of_round(order.bytes()) + order.paths.len() as f64 * 4e-4;
            }
        }
        Ok(plan)
    }

    fn run(&self, settings: &Settings, context: &mut RunContext<'_>) -> Result<(), Failure> {
        let (common, order) = (Common::of(settings)?, Order::of(settings)?);
        rounds::say(context, order.without.as_deref())?;
        rounds::run(self.kind(), &common, &rounds_of(settings)?, settings, context, &|root, round, interrupt| {
            order.write(root, round, interrupt)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_core::Level;
    use std::collections::BTreeMap;

    fn settings(tree: &str) -> Settings {
        let overrides = BTreeMap::from([("tree".to_string(), tree.to_string())]);
        Settings::resolve(&PARAMETERS, Level::Smoke, &overrides).unwrap()
    }

    #[test]
    fn every_round_holds_every_file_and_disturbs_more_of_them() {
        let order = Order::of(&settings("")).unwrap();
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
    fn the_order_follows_from_the_seed() {
        assert_eq!(Order::of(&settings("")).unwrap().in_round(100)[..5], GOLDEN);
    }

    const GOLDEN: [usize; 5] = [123, 59, 137, 69, 67];

    #[test]
    fn a_tree_of_one_file_has_no_order() {
        let room = tempfile::tempdir().unwrap();
        std::fs::write(room.path().join("one"), "1").unwrap();
        let failure = Order::of(&settings(room.path().to_str().unwrap())).unwrap_err();
        assert!(failure.to_string().contains("at least two"), "{failure}");
    }

    #[test]
    fn the_built_in_list_is_sorted_and_relative() {
        let order = Order::of(&settings("")).unwrap();
        assert!(order.paths.iter().all(|path| path.is_relative()));
        assert!(PATHS.lines().count() > 2000);
    }
}
