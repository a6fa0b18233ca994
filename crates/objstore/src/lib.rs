//! Content-addressed object stores: chunkers, directory schemes, loose and packed stores, and the occupancy law, which predicts
//! when a scheme runs a file system out of inodes.

pub mod advise;
pub mod chunker;
pub mod dedup;
pub mod error;
pub mod fill;
mod object_id;
pub mod occupancy;
mod scheme;
pub mod store;
pub mod vcs;
pub mod versions;

pub use chunker::{Chunker, ChunkerSpec};
pub use error::StoreError;
pub use object_id::HashAlgorithm;
pub use scheme::Scheme;
pub use store::{Layout, Store, StoreSettings};
