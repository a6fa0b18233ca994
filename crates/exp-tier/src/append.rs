//! Appends of several sizes, each followed by fsync.

use crate::tier::sizes::{Sizes, Writes};
use senesce_workload::micro::WriteMode;

pub type Append = Sizes<Appends>;

pub struct Appends;

impl Writes for Appends {
    const ID: &'static str = "append";
    const TITLE: &'static str = "How long does an append of each size take with anti-caching?";
    const HEADING: &'static str = "Latency of appends";
    const PAGE: &'static str = include_str!("../docs/experiments/append.md");
    const PUBLISHED: &'static str = include_str!("../data/published/append.csv");
    const CLAIMS: &'static str = include_str!("../data/published/append.claims.toml");
    const MODE: WriteMode = WriteMode::Append;
}
