//! Where files lie: extents, layout scores, free space and layout maps of a file system. Reads only.

pub mod analysis;
mod btrfs;
pub mod btrfs_chunks;
mod btrfs_free;
mod btrfs_search;
mod collect;
pub mod error;
mod ext4;
pub mod ext4_format;
pub mod extent;
mod fiemap;
pub mod free;
pub mod indirect;
mod layout;
pub mod map;
pub mod method;
pub mod names;
pub mod place;
pub mod runs;
pub mod score;
pub mod space;
pub mod summary;
mod tree;
pub mod xfs;

pub use error::LayoutError;
pub use extent::{Extent, ExtentKind};
pub use fiemap::Fiemap;
pub use free::FreeSpace;
pub use layout::{Layout, Options};
pub use map::{LayoutMap, MapExtent};
pub use method::{Method, Mounted};
pub use place::ShownDirectory;
pub use runs::{FileRuns, Run};
pub use space::FileSystemSpace;
pub use summary::{FileLayout, LayoutSummary};
