//! `senesce age`, and the published experiments on aged file systems.

pub mod age;
pub mod age_convergence;
pub mod aged_fileserver;
pub mod aged_image;
pub mod aged_server;
pub mod aged_webserver;
pub mod aging_clock;
pub mod compressed_aging;
pub mod early_enospc;
pub mod equal_layouts;
pub mod free_space;

use senesce_runner::{Reproducible, RunKind, experiment, verb};

#[rustfmt::skip]
pub const EXPERIMENTS: &[&dyn Reproducible] = &[
    experiment::<age_convergence::AgeConvergence>(),
    experiment::<aging_clock::AgingClock>(),
    experiment::<compressed_aging::CompressedAging>(),
    experiment::<free_space::FreeSpaceExperiment>(),
    experiment::<early_enospc::EarlyEnospc>(),
    experiment::<aged_server::Aged<aged_fileserver::Fileserver>>(),
    experiment::<aged_server::Aged<aged_webserver::Webserver>>(),
];

pub const VERBS: &[&dyn RunKind] = &[verb::<age::Age>()];
