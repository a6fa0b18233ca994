//! Copies a tree in `find` order and in random orders, to measure the effect of the order (Conway et al., FAST 2017).

use crate::fragmentation::analysis::RoundData;
use crate::fragmentation::experiment::Fragmentation;
use crate::fragmentation::point::Clock;
use crate::fragmentation::{Procedure, Round, Story, figures};
use clap::{Args, value_parser};
use senesce_core::failure::failed;
use senesce_core::interrupt::Interrupt;
use senesce_core::{Bytes, Failure, Level, Seed, Size, Table};
use senesce_runs::tree::{Tree, Writer, permutation};
use senesce_stats::{partial, pearson};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

pub type CopyOrder = Fragmentation<Source>;

/// Files to copy, and the number of orders.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Args)]
#[serde(rename_all = "kebab-case")]
pub struct Parameters {
    /// directory whose files are copied
    #[arg(long)]
    pub tree: PathBuf,
    /// total bytes of the files, taken in find order
    #[arg(long)]
    pub bytes: Size,
    /// random orders in addition to that of find
    #[arg(long, value_parser = value_parser!(u64).range(1..=1000))]
    pub orders: u64,
}

pub struct Source {
    root: PathBuf,
    files: Vec<PathBuf>,
    /// Total size, each file rounded up to blocks of 4 KiB.
    bytes: Bytes,
    seed: Seed,
    without: Option<String>,
}

impl Source {
    fn of(own: &Parameters, seed: Seed) -> Result<Self, Failure> {
        let (mut files, mut bytes, mut allocated) = (Vec::new(), 0, 0);
        let tree = Tree::of_user(&own.tree)?;
        let without = tree.without(&own.tree);
        for path in tree.files {
            let from = own.tree.join(&path);
            let length = from.metadata().map_err(failed("inspect", &from))?.len();
            bytes += length;
            if bytes > own.bytes.bytes() {
                break;
            }
            allocated += length.next_multiple_of(4096);
            files.push(path);
        }
        if files.len() < 2 {
            return Err(Failure::usage(format!(
                "tree: readable files in {} within {}: {}; an order needs at least two; name another --tree or \
                 increase --bytes",
                own.tree.display(),
                own.bytes.0,
                files.len()
            )));
        }
        Ok(Self { root: own.tree.clone(), files, bytes: Bytes(allocated), seed: seed.child("copy-order"), without })
    }

    /// Returns the files in the order of a round: round 0 is the order of `find`, every other round a random order.
    fn in_round(&self, round: u64) -> Vec<&PathBuf> {
        if round == 0 {
            return self.files.iter().collect();
        }
        let order = permutation(&mut self.seed.stream(&format!("order/{round}")), self.files.len());
        order.into_iter().map(|number| &self.files[number]).collect()
    }
}

impl Procedure for Source {
    const ID: &'static str = "copy-order";
    const TITLE: &'static str = "Order of copying: a tree copied in find order and in random orders, then a cold read";
    const PAGE: &'static str = include_str!("../docs/experiments/copy-order.md");
    const PUBLISHED: &'static str = include_str!("../data/published/copy-order.csv");
    const CLAIMS: &'static str = include_str!("../data/published/copy-order.claims.toml");
    const STORY: Story = Story {
        title: "Order of copying",
        round: "order",
        summary: "A tree with its contents was copied in the order of find (order 0) and in random orders (1 and above), and \
                  read cold in directory order each time.",
    };
    const NAMED: &'static [&'static str] = &["orders"];
    type Parameters = Parameters;
    type State = ();

    fn defaults(level: Level) -> Parameters {
        let bytes = level.of([Bytes::mib(4), Bytes::mib(48), Bytes::gib(1)]);
        Parameters { tree: "/usr/share".into(), bytes: Size(bytes), orders: level.of([1, 3, 10]) }
    }

    fn rounds(own: &Parameters, seed: Seed) -> Result<Vec<Round>, Failure> {
        let source = Self::of(own, seed)?;
        let files = source.files.len();
        let round = |number| {
            let name = if number == 0 { "find order".to_string() } else { format!("random order {number}") };
            Round {
                number,
                action: format!("copy {files} files in {name}, read cold"),
                data: source.bytes,
                written: source.bytes,
                seconds: files as f64 * 4e-4,
            }
        };
        Ok((0..=own.orders).map(round).collect())
    }

    fn begin(own: &Parameters, seed: Seed, _scratch: &Path, _interrupt: &Interrupt) -> Result<Self, Failure> {
        Self::of(own, seed)
    }

    fn without(&self) -> Option<&str> {
        self.without.as_deref()
    }

    fn start(&self, _mode: Option<&str>) {}

    fn advance(&self, _state: &mut (), folder: &Path, round: u64, interrupt: &Interrupt) -> Result<(), Failure> {
        let mut writer = Writer::new(folder, interrupt);
        for path in self.in_round(round) {
            let from = self.root.join(path);
            writer.write(path, &std::fs::read(&from).map_err(failed("read", &from))?)?;
        }
        Ok(())
    }

    fn tables(data: &RoundData) -> Vec<Table> {
        vec![jumps(data)]
    }
}

/// Tabulates the effect of the number of jumps and of their total length on the cost. The effect of length is computed
/// at equal numbers of jumps and requests. Reads with fewer requests have fewer jumps, and only the long ones remain.
fn jumps(data: &RoundData) -> Table {
    let columns = ["device, modelled", "correlation of the cost with", "Pearson", "from", "to", "reads"];
    let title = "Jumps and cost over all reads, aged and copied, with 95 % intervals";
    let mut table = Table::new("jumps", title, &columns);
    for (clock, device) in [(Clock::Ssd, "solid-state drive"), (Clock::Hdd, "disk drive")] {
        let reads = Reads::of(data, clock);
        let found = [
            ("number of discontinuities", pearson(&reads.discontinuities, &reads.seconds)),
            (
                "their total length, at equal numbers of discontinuities and requests",
                partial(&reads.distance, &reads.seconds, &[&reads.discontinuities, &reads.requests]),
            ),
            ("number of requests", pearson(&reads.requests, &reads.seconds)),
        ];
        for (what, correlation) in found {
            let Some(one) = correlation else { continue };
            table.row((device, what, &one.value, &one.low, &one.high, &one.count));
        }
    }
    table
}

#[derive(Default)]
struct Reads {
    discontinuities: Vec<f64>,
    distance: Vec<f64>,
    requests: Vec<f64>,
    seconds: Vec<f64>,
}

impl Reads {
    fn of(data: &RoundData, clock: Clock) -> Self {
        let mut reads = Self::default();
        for point in &data.points {
            let Some(reading) = point.reading(figures::usual(data, clock)) else { continue };
            let (Some(traced), Some(gib)) = (&reading.traced, point.gib(reading)) else { continue };
            let Some(seconds) = point.cost(reading, clock) else { continue };
            reads.discontinuities.push(traced.discontinuities as f64 / gib);
            reads.distance.push(traced.seek_distance_bytes as f64 / gib);
            reads.requests.push(traced.requests as f64 / gib);
            reads.seconds.push(seconds);
        }
        reads
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fragmentation::models::Models;
    use crate::fragmentation::point;
    use senesce_devmodel::{DeviceModel, Request};

    /// Times reads of 4 KiB on a model, each starting `gap_blocks` after the previous one.
    fn seconds(model: &DeviceModel, gap_blocks: u64) -> f64 {
        let reads: Vec<Request> = (0..500).map(|read| Request::read_bytes(read * gap_blocks * 4096, 4096)).collect();
        model.seconds(&reads).unwrap()
    }

    #[test]
    fn modelled_ssd_ignores_jump_lengths_after_sequential_writes_and_disk_does_not() {
        let drives = Models::default();
        let (hdd, ssd) = (drives.disk().unwrap(), drives.flash().unwrap());
        assert_eq!(seconds(&ssd, 2), seconds(&ssd, 20_000));
        assert!(seconds(&hdd, 20_000) > 2.0 * seconds(&hdd, 2));
    }

    #[test]
    fn values_of_a_read_are_per_gib_of_the_same_bytes() {
        let points = [1 << 31, 0].map(point::tests::read_of_a_gib);
        let data = point::tests::round_data(points.to_vec());
        let reads = Reads::of(&data, Clock::Hdd);
        assert_eq!((reads.discontinuities, reads.requests), (vec![1.5, 3.0], vec![1.5, 3.0]));
        assert_eq!(reads.seconds, [4.0, 8.0]);
    }

    #[test]
    fn order_0_matches_find_and_others_follow_from_the_seed() {
        let files: Vec<PathBuf> = (0..20).map(|number| PathBuf::from(number.to_string())).collect();
        let source =
            Source { root: PathBuf::new(), files: files.clone(), bytes: Bytes(0), seed: Seed(3), without: None };
        assert_eq!(source.in_round(0), files.iter().collect::<Vec<_>>());
        assert_ne!(source.in_round(1), source.in_round(0));
        assert_ne!(source.in_round(1), source.in_round(2));
        assert_eq!(source.in_round(1), source.in_round(1));
    }
}
