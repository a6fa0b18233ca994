//! Open questions of the field, as experiments.

mod kernels;
mod lasting;

use senesce_runner::{Reproducible, experiment};

#[rustfmt::skip]
pub const EXPERIMENTS: &[&dyn Reproducible] = &[
    experiment::<kernels::Kernels>(),
    experiment::<lasting::Lasting>(),
];
