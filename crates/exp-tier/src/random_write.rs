//! Random writes of several sizes, each followed by fsync.

use crate::tier::sizes::{Sizes, Writes};
use senesce_workload::micro::WriteMode;

pub type RandomWrite = Sizes<RandomWrites>;

pub struct RandomWrites;

impl Writes for RandomWrites {
    const ID: &'static str = "random-write";
    const TITLE: &'static str = "How long does a random write take when the data are in both tiers?";
    const HEADING: &'static str = "Latency of random writes";
    const PAGE: &'static str = include_str!("../docs/experiments/random-write.md");
    const PUBLISHED: &'static str = include_str!("../data/published/random-write.csv");
    const CLAIMS: &'static str = include_str!("../data/published/random-write.claims.toml");
    const MODE: WriteMode = WriteMode::RandomWrite;
}
