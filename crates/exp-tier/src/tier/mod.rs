//! Code shared by the experiments on the anti-caching file system: the compared file systems, and their rounds.

pub(crate) mod costs;
pub(crate) mod disk;
pub(crate) mod interleave;
pub(crate) mod peaks;
pub(crate) mod results;
pub(crate) mod settle;
pub(crate) mod sizes;
pub(crate) mod subject;

use disk::Disk;
use senesce_claims::Facts;
use senesce_core::analysis::Better;
use senesce_core::{Failure, Measurement, Seed, Size, Span};
use senesce_runner::Needs;
use senesce_tierfs::{Latency, TierError};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use subject::{Setup, Subject, SubjectKind};

/// Latency of the modelled disks: that of the cold store and of ext4's disk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct ColdLatency {
    said: String,
    /// Cost of one request.
    pub model: Latency,
}

impl FromStr for ColdLatency {
    type Err = TierError;

    fn from_str(text: &str) -> Result<Self, TierError> {
        Ok(Self { said: text.into(), model: Latency::parse(text)? })
    }
}

impl TryFrom<String> for ColdLatency {
    type Error = TierError;

    fn try_from(text: String) -> Result<Self, TierError> {
        text.parse()
    }
}

impl From<ColdLatency> for String {
    fn from(latency: ColdLatency) -> Self {
        latency.said
    }
}

impl fmt::Display for ColdLatency {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.model.fmt(formatter)
    }
}

impl ColdLatency {
    pub(crate) fn ssd() -> Self {
        Self { said: "ssd".into(), model: Latency::SSD }
    }

    /// Returns the facts for claims: results that depend on this input latency can only agree or differ.
    pub(crate) fn stated(&self, facts: Facts) -> Facts {
        Facts { model: Some(format!("the modelled disk ({})", self.model)), ..facts }
    }

    /// Returns the seconds of a read before its first byte.
    pub(crate) fn read_seconds(&self) -> f64 {
        self.model.read.as_secs_f64()
    }

    pub(crate) fn caveats(&self, disk: &Disk) -> Vec<String> {
        vec![
            format!("modelled: latency of the cold store of anticache-model and of the disk of ext4-model: {self}"),
            format!("the disk is that of {disk}; its other users affect the times"),
        ]
    }
}

pub(crate) fn needs(memory: Size) -> Needs {
    Needs::default().and_memory(senesce_core::Bytes(2 * memory.bytes()))
}

pub(crate) fn setup(
    memory: Size,
    threshold: Size,
    period: Span,
    threads: u64,
    (latency, disk): (Latency, &Disk),
) -> Setup {
    let disk = disk.clone();
    Setup { memory: memory.0, threshold: threshold.0, period: period.0, threads: threads as usize, latency, disk }
}

/// Checks that there is a disk if one of the subjects needs it.
pub(crate) fn check_disk(kinds: &[SubjectKind], disk: &Disk) -> Result<(), Failure> {
    if kinds.iter().any(|kind| kind.on_disk()) { disk.check() } else { Ok(()) }
}

pub(crate) fn with_subject<T>(
    kind: SubjectKind,
    setup: &Setup,
    body: impl FnOnce(&Subject) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let subject = Subject::start(kind, setup)?;
    let result = body(&subject);
    let stopped = subject.stop();
    let value = result?;
    stopped.map(|()| value)
}

/// Returns every round with every item of `list`, in a random order drawn from the stream `name` and the round.
pub(crate) fn rounds<T: Clone>(rounds: u64, list: &[T], seed: Seed, name: &str) -> Vec<(u64, T)> {
    let round = |round: u64| {
        let mut order = list.to_vec();
        shuffle(&mut order, seed, &format!("{name}/{round}"));
        order.into_iter().map(move |one| (round, one))
    };
    (0..rounds).flat_map(round).collect()
}

/// Makes measurements of a round from metric, unit, direction and value; values that are not numbers are omitted.
pub(crate) fn measurements<const N: usize>(round: u64, values: [(&str, &str, Better, f64); N]) -> Vec<Measurement> {
    let one = |(metric, unit, better, value)| Measurement::new(metric, unit, better, value).ok();
    let of_round = |one| Measurement { repetition: round as u32, ..one };
    values.into_iter().filter_map(one).map(of_round).collect()
}

/// Shuffles a list with a named stream (Fisher-Yates).
pub(crate) fn shuffle<T>(list: &mut [T], seed: Seed, stream: &str) {
    use rand::Rng;
    let mut rng = seed.stream(stream);
    for last in (1..list.len()).rev() {
        list.swap(last, (rng.next_u64() % (last as u64 + 1)) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_fixed_permutations() {
        let mut list: Vec<u32> = (0..8).collect();
        shuffle(&mut list, Seed(42), "tier/order/0");
        assert_eq!(list, GOLDEN);
        list.sort_unstable();
        assert_eq!(list, (0..8).collect::<Vec<_>>());
        let all = rounds(2, &list, Seed(42), "tier/order");
        assert_eq!(all[..8].iter().map(|(round, one)| (*round, *one)).collect::<Vec<_>>(), GOLDEN.map(|one| (0, one)));
        assert_eq!(all[8..].iter().filter(|(round, _)| *round == 1).count(), 8);
    }

    const GOLDEN: [u32; 8] = [4, 5, 6, 7, 3, 0, 2, 1];

    #[test]
    fn latencies_are_written_back_unchanged() {
        for text in ["ssd", "hdd", "250us"] {
            assert_eq!(String::from(text.parse::<ColdLatency>().unwrap()), text);
        }
        assert!("fast".parse::<ColdLatency>().is_err());
    }
}
