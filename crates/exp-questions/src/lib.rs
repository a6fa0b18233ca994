//! Open questions of the field, as experiments.

mod defragmentation_lasts;
mod files_or_free_space;
mod kernels;
mod unsynced;

use senesce_runner::{Reproducible, experiment};

#[rustfmt::skip]
pub const EXPERIMENTS: &[&dyn Reproducible] = &[
    experiment::<kernels::Kernels>(),
    experiment::<defragmentation_lasts::DefragmentationLasts>(),
    experiment::<files_or_free_space::FilesOrFreeSpace>(),
];
