//! A file system for byte-addressable memory that is smaller than its data: hot blocks are in memory, cold blocks move to a disk
//! and return on use.
//!
//! The core ([`TierFs`]) depends only on two traits, [`Nvm`] and [`ColdStore`]. The FUSE adapter uses the core.

#[cfg(target_endian = "big")]
compile_error!("the region is used in place and little-endian");

pub mod attr;
pub mod background;
pub mod caretaker;
pub mod check;
pub mod cold;
pub mod dir;
pub mod disk;
pub mod error;
pub mod evict;
mod file;
pub mod format;
mod fs;
pub mod fuse;
mod heat;
mod holes;
mod listing;
mod namespace;
pub mod nvm;
pub mod open;
pub mod pair;
mod past_cache;
mod paths;
mod problem;
mod read;
pub mod record;
mod region;
mod released;
mod rename;
pub mod repair;
pub mod scrub;
pub mod serve;
mod space;
pub mod stats;
mod sum;
mod survey;
mod table;
#[cfg(test)]
mod tests;
mod tree;
mod xattr;

pub use attr::{Attr, SetAttr};
pub use check::{CheckReport, check};
pub use cold::{ColdStore, FileCold, Latency, LatencyCold};
pub use error::{FsResult, TierError};
pub use fs::{Mode, Promotion, TierFs};
pub use namespace::NewInode;
pub use nvm::{MappedNvm, Nvm};
pub use open::Options;
pub use repair::RepairReport;
pub use stats::Stats;
