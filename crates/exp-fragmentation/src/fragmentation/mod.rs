//! What the fragmentation experiments share: volumes, readings, figures.
//!
//! Every experiment makes points. A point is one state of one volume: the files are laid out by the experiment, the volume
//! is made cold, and all files are read in directory order by one thread while the device's requests are traced. Beside
//! each aged point stands its unaged one: the same files copied in that order onto a fresh volume of the same size.

pub mod analysis;
pub mod beside;
pub mod correlations;
pub mod experiment;
pub mod figures;
pub mod models;
pub mod parameters;
pub mod point;
pub mod read;
pub mod rounds;
pub mod sketch;
pub mod strips;
pub mod volume;

use clap::Args;
use senesce_core::interrupt::Interrupt;
use senesce_core::{Bytes, Failure, Level, Seed, Table};
use senesce_runner::Needs;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::path::Path;

/// What differs between the experiments: how files come to lie as they do, round by round.
pub trait Procedure: Sized + 'static {
    const ID: &'static str;
    const TITLE: &'static str;
    const PAGE: &'static str;
    const PUBLISHED: &'static str;
    const CLAIMS: &'static str;
    const STORY: Story;
    /// Whether one volume ages through all rounds; else every round has a fresh one.
    const AGES_ON: bool = false;
    type Parameters: Args + Serialize + DeserializeOwned + Clone + PartialEq + Debug + Send + Sync;
    type State;

    fn defaults(level: Level) -> Self::Parameters;

    /// What the machine must have.
    fn needs(_own: &Self::Parameters) -> Needs {
        Needs::default()
    }

    /// Its rounds in order. Writes nothing.
    fn rounds(own: &Self::Parameters, seed: Seed) -> Result<Vec<Round>, Failure>;

    /// Reads or makes up what the files are; `scratch` is a folder of its own that is removed at the end.
    fn begin(own: &Self::Parameters, seed: Seed, scratch: &Path, interrupt: &Interrupt) -> Result<Self, Failure>;

    /// What is missing from the files, in words.
    fn without(&self) -> Option<&str> {
        None
    }

    /// A condition that all its values have, name and word.
    fn condition(&self) -> Option<(&'static str, &'static str)> {
        None
    }

    /// The state before round 0.
    fn start(&self) -> Self::State;

    /// Brings the files below `folder` to a round; it is empty at first, and has moved perhaps since the round before.
    fn advance(&self, state: &mut Self::State, folder: &Path, round: u64, interrupt: &Interrupt)
    -> Result<(), Failure>;

    /// How conditions of published values end that are of this run's kind, and of those of another kind.
    fn variant(_own: &Self::Parameters) -> Option<(&'static str, &'static str)> {
        None
    }

    fn tables(_seen: &analysis::RoundData) -> Vec<Table> {
        Vec::new()
    }
}

/// How the results of an experiment are told.
#[derive(Debug, Clone, Copy)]
pub struct Story {
    pub title: &'static str,
    pub round: &'static str,
    pub summary: &'static str,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Round {
    /// Round, number of pulls or of cycles.
    pub number: u64,
    /// What is done before the cold read.
    pub action: String,
    /// Bytes of the files in the end, as far as that is known.
    pub data: Bytes,
    /// Bytes written until they lie there, since the round before where one volume ages on.
    pub written: Bytes,
    pub seconds: f64,
}

/// Numbers from 0 to the last one, which is always among them.
pub fn numbers(last: u64, step: u64) -> Vec<u64> {
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
    fn the_last_round_is_always_run() {
        assert_eq!(numbers(4, 2), [0, 2, 4]);
        assert_eq!(numbers(5, 2), [0, 2, 4, 5]);
        assert_eq!(numbers(1, 9), [0, 1]);
    }
}
