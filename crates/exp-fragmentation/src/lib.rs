//! Published experiments on fragmentation and its cost.

pub mod copy_order;
pub mod frag_inter;
pub mod frag_intra;
mod fragmentation;
pub mod git_aging;
pub mod mail_aging;

use senesce_runner::{Reproducible, experiment};

#[rustfmt::skip]
pub const EXPERIMENTS: &[&dyn Reproducible] = &[
    experiment::<frag_intra::FragIntra>(),
    experiment::<frag_inter::FragInter>(),
    experiment::<copy_order::CopyOrder>(),
    experiment::<git_aging::GitAging>(),
    experiment::<mail_aging::MailAging>(),
];
