//! Images: copies, packs for transport, and a store for studies.

pub mod copy;
mod in_order;
pub mod pack;
pub mod store;

pub use copy::{CopyReport, Extent, copy, copy_in_order};
pub use pack::{PackManifest, PackReport, content_hash, pack, unpack};
pub use store::{ImageStore, StoredImage, cache_folder};
