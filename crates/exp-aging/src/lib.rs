//! `senesce age`, and the published experiments on aged file systems.

pub mod age;
mod age_convergence;
mod aged_fileserver;
mod aged_image;
mod aged_server;
mod aged_webserver;
mod aging_clock;
mod compressed_aging;
mod early_enospc;
mod equal_layouts;
mod free_space;
mod time_scale;

use senesce_runner::{Reproducible, RunKind, experiment, verb};

#[rustfmt::skip]
pub const EXPERIMENTS: &[&dyn Reproducible] = &[
    experiment::<age_convergence::AgeConvergence>(),
    experiment::<aging_clock::AgingClock>(),
    experiment::<time_scale::TimeScale>(),
    experiment::<compressed_aging::CompressedAging>(),
    experiment::<free_space::FreeSpaceExperiment>(),
    experiment::<early_enospc::EarlyEnospc>(),
    experiment::<aged_server::Aged<aged_fileserver::Fileserver>>(),
    experiment::<aged_server::Aged<aged_webserver::Webserver>>(),
];

pub const VERBS: &[&dyn RunKind] = &[verb::<age::Age>()];
