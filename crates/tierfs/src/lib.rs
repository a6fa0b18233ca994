//! A file system for byte-addressable memory that is smaller than its data: hot blocks are in memory, cold blocks move to a disk
//! and return on use.
//!
//! The core ([`TierFs`]) depends only on two traits, [`Nvm`] and [`ColdStore`]. The FUSE adapter uses the core.

#[cfg(target_endian = "big")]
compile_error!("the region is used in place and little-endian");

mod attr;
pub mod background;
mod caretaker;
pub mod check;
pub mod cold;
mod dir;
pub mod disk;
mod error;
pub mod evict;
mod file;
pub mod format;
mod fs;
mod fuse;
mod heat;
mod holes;
mod listing;
mod namespace;
mod nvm;
pub mod open;
pub mod pair;
mod past_cache;
mod paths;
mod problem;
mod read;
mod record;
mod region;
mod released;
mod rename;
mod repair;
mod scrub;
pub mod serve;
mod space;
mod stats;
mod sum;
mod survey;
mod table;
#[cfg(test)]
mod tests;
mod tree;
mod xattr;

pub(crate) use attr::Attr;
pub use check::check;
pub use cold::{ColdStore, FileCold, Latency, LatencyCold};
pub use error::TierError;
pub use fs::{Mode, Promotion, TierFs};
pub use namespace::NewInode;
pub use nvm::{MappedNvm, Nvm};
pub use open::Options;
pub use stats::Stats;
