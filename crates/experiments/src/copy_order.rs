//! What the order of copying does: a tree with its contents, copied as `find` lists it and in random orders (Conway et al.,
//! FAST 2017).

use crate::fragmentation::analysis::{Seen, Story, analyse};
use crate::fragmentation::point::Clock;
use crate::fragmentation::tree::{Tree, Writer, permutation};
use crate::fragmentation::volume::failed;
use crate::fragmentation::{Common, common_parameters, figures, rounds};
use senesce_core::interrupt::Interrupt;
use senesce_core::{
    Analysis, Bytes, Experiment, Failure, Finding, Parameter, ParameterKind, Plan, Record, RunContext, RunKind, Seed,
    Settings, Verdict,
};
use senesce_stats::{Correlation, pearson, spearman};
use std::path::{Path, PathBuf};

/// The experiment.
pub struct CopyOrder;

const OWN: [Parameter; 3] = [
    Parameter {
        name: "tree",
        help: "directory whose files are copied",
        kind: ParameterKind::Text,
        defaults: ["/usr/share", "/usr/share", "/usr/share"],
    },
    Parameter {
        name: "bytes",
        help: "files are taken in find order until they have so many bytes",
        kind: ParameterKind::Size,
        defaults: ["4M", "48M", "1G"],
    },
    Parameter {
        name: "orders",
        help: "random orders beside the one of find",
        kind: ParameterKind::Integer { min: 1, max: 1000 },
        defaults: ["1", "3", "10"],
    },
];

const COMMON: [Parameter; 7] = common_parameters!("64M", "512M", "20G");

const PARAMETERS: [Parameter; 10] = {
    let [a, b, c, d, e, f, g] = COMMON;
    let [h, i, j] = OWN;
    [a, b, c, d, e, f, g, h, i, j]
};

/// What is copied.
struct Source {
    root: PathBuf,
    files: Vec<PathBuf>,
    bytes: Bytes,
    seed: Seed,
}

impl Source {
    fn of(settings: &Settings) -> Result<Self, Failure> {
        let root = PathBuf::from(settings.text("tree"));
        let most = settings.size("bytes")?.0;
        let (mut files, mut bytes, mut allocated) = (Vec::new(), 0, 0);
        for path in Tree::below(&root)?.files {
            let from = root.join(&path);
            bytes += from.metadata().map_err(failed("look at", &from))?.len();
            if bytes > most {
                break;
            }
            allocated += from.metadata().map_err(failed("look at", &from))?.len().next_multiple_of(4096);
            files.push(path);
        }
        if files.len() < 2 {
            return Err(Failure::usage(format!(
                "tree: {} holds {} files within {}; an order needs at least two",
                root.display(),
                files.len(),
                Bytes(most)
            )));
        }
        Ok(Self { root, files, bytes: Bytes(allocated), seed: settings.seed().child("copy-order") })
    }

    /// Round 0 is the order of `find`, every other one a random order.
    fn in_round(&self, round: u64) -> Vec<&PathBuf> {
        if round == 0 {
            return self.files.iter().collect();
        }
        let order = permutation(&mut self.seed.stream(&format!("order/{round}")), self.files.len());
        order.into_iter().map(|number| &self.files[number]).collect()
    }

    fn write(&self, root: &Path, round: u64, interrupt: &Interrupt) -> Result<(), Failure> {
        let mut writer = Writer::new(root, interrupt);
        for path in self.in_round(round) {
            let from = self.root.join(path);
            writer.write(path, &std::fs::read(&from).map_err(failed("read", &from))?)?;
        }
        Ok(())
    }
}

/// On a solid-state drive the number of jumps matters, on a disk drive their length too: whether the time per jump grows with
/// the mean length of jumps.
fn claims(seen: &Seen<'_>) -> Vec<Finding> {
    let devices = [(Clock::Ssd, "solid-state drive"), (Clock::Hdd, "disk drive")];
    devices
        .into_iter()
        .filter_map(|(clock, device)| {
            let number = per_point(seen, clock, |count, _, cost| (count, cost));
            let length = per_point(seen, clock, |count, distance, cost| (distance / count, cost / count));
            let number = pearson(&number.0, &number.1)?;
            let length = spearman(&length.0, &length.1)?;
            let (claim, holds) = match clock {
                Clock::Hdd => ("their length matters as well as their number", number.low > 0.0 && length.low > 0.0),
                _ => ("the number of discontinuities matters, not their length", number.low > 0.0 && length.low <= 0.0),
            };
            let words = |one: &Correlation| format!("{:.2} ({:.2} to {:.2})", one.value, one.low, one.high);
            Some(Finding {
                claim: format!("{device}: {claim}"),
                published: "said so of both, without a number (Conway et al. FAST 2017)".into(),
                measured: format!(
                    "modelled: discontinuities per GiB with cost {}, mean length with time per discontinuity {}",
                    words(&number),
                    words(&length)
                ),
                verdict: if holds { Verdict::Seen } else { Verdict::NotSeen },
                note: format!("over {} reads, aged and copied", number.count),
            })
        })
        .collect()
}

/// Two values per point from its discontinuities per GiB, their summed length in bytes per GiB, and seconds per GiB.
fn per_point(seen: &Seen<'_>, clock: Clock, pair: impl Fn(f64, f64, f64) -> (f64, f64)) -> (Vec<f64>, Vec<f64>) {
    let setting = figures::usual(seen, clock);
    let values = seen.points.iter().filter_map(|point| {
        let reading = point.reading(setting)?;
        let traced = reading.traced.as_ref().filter(|traced| traced.discontinuities > 0)?;
        let gib = point.allocated_bytes as f64 / f64::from(1u32 << 30);
        let (count, distance) = (traced.discontinuities as f64 / gib, traced.seek_distance_bytes as f64 / gib);
        Some(pair(count, distance, point.cost(reading, clock)?))
    });
    values.unzip()
}

impl RunKind for CopyOrder {
    fn kind(&self) -> &'static str {
        "copy-order"
    }

    fn analyse(&self, record: &Record) -> Result<Analysis, Failure> {
        analyse(
            record,
            &Story {
                title: "Order of copying",
                round: "order",
                summary: "A tree with its contents was copied in the order of find (order 0) and in random orders (1 and \
                          above), and read cold in directory order each time.",
                published: self.published(),
                claims: Some(claims),
            },
        )
    }
}

impl Experiment for CopyOrder {
    fn title(&self) -> &'static str {
        "Order of copying: a tree copied in find order and in random orders, then a cold read"
    }

    fn parameters(&self) -> &'static [Parameter] {
        &PARAMETERS
    }

    fn doc(&self) -> &'static str {
        include_str!("../../../docs/experiments/copy-order.md")
    }

    fn published(&self) -> &'static str {
        include_str!("../../../data/published/copy-order.csv")
    }

    fn plan(&self, settings: &Settings) -> Result<Plan, Failure> {
        let (common, source) = (Common::of(settings)?, Source::of(settings)?);
        common.check_room(source.bytes)?;
        let mut plan = Plan::new(self.kind(), settings.seed(), settings.to_map());
        for fs in &common.file_systems {
            for order in 0..=settings.integer("orders")? {
                let name = if order == 0 { "find order".to_string() } else { format!("random order {order}") };
                plan.step(
                    format!("copy {} files in {name}, read cold", source.files.len()),
                    format!("{fs}, {}", common.place.words(common.size)),
                );
                plan.bytes_to_write += 2 * source.bytes.0;
                plan.estimated_seconds += common.seconds_of_round(source.bytes) + source.files.len() as f64 * 4e-4;
            }
        }
        Ok(plan)
    }

    fn run(&self, settings: &Settings, context: &mut RunContext<'_>) -> Result<(), Failure> {
        let (common, source) = (Common::of(settings)?, Source::of(settings)?);
        let orders: Vec<u64> = (0..=settings.integer("orders")?).collect();
        rounds::run(self.kind(), &common, &orders, settings, context, &|root, round, interrupt| {
            source.write(root, round, interrupt)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_0_is_that_of_find_and_the_others_follow_from_the_seed() {
        let files: Vec<PathBuf> = (0..20).map(|number| PathBuf::from(number.to_string())).collect();
        let source = Source { root: PathBuf::new(), files: files.clone(), bytes: Bytes(0), seed: Seed(3) };
        assert_eq!(source.in_round(0), files.iter().collect::<Vec<_>>());
        assert_ne!(source.in_round(1), source.in_round(0));
        assert_ne!(source.in_round(1), source.in_round(2));
        assert_eq!(source.in_round(1), source.in_round(1));
    }
}
