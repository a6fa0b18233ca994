//! Images: copies, packs for transport, and a store for studies.

pub mod copy;
mod in_order;
pub mod pack;
pub(crate) mod store;

pub use copy::{CopyReport, Extent, copy, copy_in_order};
pub(crate) use pack::PackManifest;
pub use pack::{content_hash, pack, unpack};
pub use store::ImageStore;
pub(crate) use store::cache_folder;
