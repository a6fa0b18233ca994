//! Published experiments on the anti-caching file system.

pub mod append;
pub mod coldness;
pub mod file_ops;
pub mod random_write;
mod tier;
pub mod tier_fileserver;
pub mod tier_sweep;

use senesce_runner::{Reproducible, experiment};

#[rustfmt::skip]
pub const EXPERIMENTS: &[&dyn Reproducible] = &[
    experiment::<file_ops::FileOps>(),
    experiment::<append::Append>(),
    experiment::<random_write::RandomWrite>(),
    experiment::<coldness::Coldness>(),
    experiment::<tier_sweep::TierSweep>(),
    experiment::<tier_fileserver::TierFileserver>(),
];
