//! Where files lie: extents, layout scores, free space and layout maps of a file system. Reads only.

pub mod analysis;
mod btrfs;
mod btrfs_free;
mod btrfs_search;
mod collect;
pub mod error;
mod ext4;
pub mod ext4_format;
pub mod extent;
mod fiemap;
pub mod free;
mod fsmap;
mod layout;
pub mod map;
pub mod method;
mod place;
pub mod score;
pub mod summary;
mod sys;
mod tree;
mod xfs;

pub use error::LayoutError;
pub use extent::{Extent, ExtentKind};
pub use fiemap::Fiemap;
pub use free::FreeSpace;
pub use layout::{Layout, Options};
pub use map::{LayoutMap, MapExtent};
pub use method::Method;
pub use summary::{FileLayout, LayoutSummary};
