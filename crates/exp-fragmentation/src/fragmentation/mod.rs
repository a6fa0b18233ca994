//! Code shared by the fragmentation experiments: volumes, readings, figures.
//!
//! Every experiment makes points. A point is one state of one volume: the experiment lays out the files, the volume is made
//! cold, and one thread reads all files in directory order while the device's requests are traced. Each aged point has an
//! unaged one: the same files copied in that order to a fresh volume of the same size.

pub(crate) mod analysis;
pub(crate) mod correlations;
pub(crate) mod estimate;
pub(crate) mod experiment;
pub(crate) mod figures;
pub(crate) mod models;
pub(crate) mod parameters;
pub(crate) mod point;
pub(crate) mod published_table;
pub(crate) mod read;
pub(crate) mod rounds;
pub(crate) mod sketch;
pub(crate) mod strips;
pub(crate) mod volume;

use clap::Args;
use senesce_core::interrupt::Interrupt;
use senesce_core::{Bytes, Failure, Level, Seed, Table};
use senesce_runner::Needs;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::path::Path;

/// The part that differs between experiments: how files get their layout, round by round.
pub trait Procedure: Sized + 'static {
    const ID: &'static str;
    const TITLE: &'static str;
    const PAGE: &'static str;
    const PUBLISHED: &'static str;
    const CLAIMS: &'static str;
    const STORY: Story;
    /// Whether one volume ages through all rounds; otherwise every round has a fresh one.
    const AGES_ON: bool = false;
    /// Parameters whose value is a condition that claims name, so that it can be chosen without deciding a claim differently.
    const NAMED: &'static [&'static str] = &[];
    type Parameters: Args + Serialize + DeserializeOwned + Clone + PartialEq + Debug + Send + Sync;
    type State;

    fn defaults(level: Level) -> Self::Parameters;

    fn needs(_own: &Self::Parameters) -> Needs {
        Needs::default()
    }

    fn rounds(own: &Self::Parameters, seed: Seed) -> Result<Vec<Round>, Failure>;

    /// Reads or generates the contents of the files. `scratch` is a folder that is removed at the end.
    fn begin(own: &Self::Parameters, seed: Seed, scratch: &Path, interrupt: &Interrupt) -> Result<Self, Failure>;

    fn without(&self) -> Option<&str> {
        None
    }

    /// Returns the write modes that the run compares: the first in all rounds, the others in the first
    /// and last round. None if there is a single one.
    fn modes(_own: &Self::Parameters) -> Vec<&'static str> {
        Vec::new()
    }

    /// Returns the seconds of pauses while a round is written in a mode.
    fn pauses(_own: &Self::Parameters, _mode: Option<&str>, _round: u64) -> f64 {
        0.0
    }

    /// Returns a condition of all values of a mode.
    fn condition(&self, _mode: Option<&str>) -> Option<(&'static str, String)> {
        None
    }

    fn start(&self, mode: Option<&str>) -> Self::State;

    /// Brings the files below `folder` to the state of a round. The folder is empty at first and may move between rounds.
    fn advance(&self, state: &mut Self::State, folder: &Path, round: u64, interrupt: &Interrupt)
    -> Result<(), Failure>;

    /// Returns the suffixes of the conditions of published values: of the kind of this run, and of the other kind.
    fn variant(_own: &Self::Parameters) -> Option<(&'static str, &'static str)> {
        None
    }

    fn tables(_seen: &analysis::RoundData) -> Vec<Table> {
        Vec::new()
    }
}

/// Title and texts of an experiment's results.
#[derive(Debug, Clone, Copy)]
pub struct Story {
    pub title: &'static str,
    pub round: &'static str,
    pub summary: &'static str,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Round {
    pub number: u64,
    pub action: String,
    pub data: Bytes,
    /// Bytes written since the previous round if one volume continues to age, else in total.
    pub written: Bytes,
    pub seconds: f64,
}

/// Returns the numbers from 0 to the last one, which is always included.
pub(crate) fn numbers(last: u64, step: u64) -> Vec<u64> {
    let mut numbers: Vec<u64> = (0..=last).step_by(step.max(1) as usize).collect();
    if numbers.last() != Some(&last) {
        numbers.push(last);
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_round_is_always_run() {
        assert_eq!(numbers(4, 2), [0, 2, 4]);
        assert_eq!(numbers(5, 2), [0, 2, 4, 5]);
        assert_eq!(numbers(1, 9), [0, 1]);
    }
}
