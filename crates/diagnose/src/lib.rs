//! The cost of aging, the value of a remedy, and the time when a file system will be full.
//!
//! Pure rules over the layout of files and free space ([`reading`], [`headroom`], [`plan`]), and the twin ([`twin`]): a
//! copy of the metadata of a file system, on which the real kernel creates files and the real tools defragment. The
//! original is only read.

pub mod analysis;
mod drive;
mod error;
pub mod estimate;
pub mod headroom;
mod plan;
pub mod prometheus;
pub mod reading;
pub mod record;
mod sentence;
pub mod twin;

pub use error::PrognosisError;
pub use estimate::{Options, Prognosis};
