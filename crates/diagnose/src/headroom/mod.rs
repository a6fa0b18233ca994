//! Predicts by closed rules how many files can still be created.
//!
//! The numbers describe this probe: one thread makes a new directory and creates files in it, with names of one length.
//! It writes each with one call and closes it, until the first call fails with ENOSPC. Nothing is synced in between.

mod btrfs;
mod consume;
mod ext;
mod xfs;

use senesce_layout::FileSystemSpace;
use senesce_layout::space::FileSystemDetails;
use serde::{Deserialize, Serialize};

/// The examined sizes in bytes.
pub const SIZES: [u64; 4] = [0, 4 << 10, 64 << 10, 1 << 20];

/// Default bytes of a name.
pub const NAME_BYTES: u64 = 8;
pub const NAME_BYTES_ALLOWED: std::ops::RangeInclusive<u64> = 8..=255;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewFiles {
    pub size: u64,
    pub name_bytes: u64,
}

impl NewFiles {
    pub fn of(size: u64) -> Self {
        Self { size, name_bytes: NAME_BYTES }
    }
}

/// The limit that ends the creation of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndsBy {
    /// No block is free.
    Bytes,
    /// The rest is reserved for root.
    RootReserve,
    /// No inode is free.
    Inodes,
    /// No free extent is long enough, and aligned, for a chunk of inodes.
    InodeChunks,
    /// No space is left in metadata chunks, and none for another.
    Metadata,
    /// The index of one directory is full.
    DirectoryIndex,
}

impl EndsBy {
    pub fn text(self) -> &'static str {
        match self {
            Self::Bytes => "free blocks",
            Self::RootReserve => "the reserve of root",
            Self::Inodes => "inodes",
            Self::InodeChunks => "inode chunks without aligned space",
            Self::Metadata => "metadata chunks",
            Self::DirectoryIndex => "the index of the directory",
        }
    }
}

/// The creating user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum User {
    /// Cannot use the blocks reserved for root.
    User,
    /// Can use them.
    Root,
}

/// Number of files of one size that can be created.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CreatableFiles {
    /// Bytes of each.
    pub size: u64,
    /// Files until the first failure.
    pub files: u64,
    /// Lower bound.
    pub low: u64,
    /// Upper bound.
    pub high: u64,
    /// The limit at the first failure.
    pub ends_by: EndsBy,
    /// The limit after everything has been written back and creation was tried again, if it differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_by_after_sync: Option<EndsBy>,
    /// The creating user.
    #[serde(rename = "as")]
    pub user: User,
}

impl CreatableFiles {
    pub(crate) fn ends_text(&self) -> String {
        match self.ends_by_after_sync {
            Some(after) => format!("{}; after a sync {}", self.ends_by.text(), after.text()),
            None => self.ends_by.text().into(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Estimate {
    files: f64,
    low: f64,
    high: f64,
    ends_by: EndsBy,
    after_sync: Option<EndsBy>,
}

impl Estimate {
    /// Creates an estimate with an interval of `share` and a file to both sides.
    fn within(files: f64, share: f64, ends_by: EndsBy) -> Self {
        let files = files.max(0.0);
        let (low, high) = ((files * (1.0 - share) - 1.0).max(0.0), files * (1.0 + share) + 1.0);
        Self { files, low, high, ends_by, after_sync: None }
    }

    fn first_of(self, other: Self) -> Self {
        let (first, second) = if other.files < self.files { (other, self) } else { (self, other) };
        Self { low: first.low.min(second.low), high: first.high.min(second.high.max(first.files)), ..first }
    }
}

/// Estimates all sizes, for users and for root, with names of this length. Empty without a rule for the file system.
pub(crate) fn creatable(space: &FileSystemSpace, name_bytes: u64) -> Vec<CreatableFiles> {
    let all = SIZES.map(|size| NewFiles { size, name_bytes });
    let of = |user: User| in_order(all.into_iter().filter_map(|new| one(space, new, user)).collect());
    let (users, roots) = (of(User::User), of(User::Root));
    users.into_iter().zip(roots).flat_map(|(user, root)| [user, root]).collect()
}

/// Applies the constraint that larger files are never more, from small to large.
fn in_order(mut all: Vec<CreatableFiles>) -> Vec<CreatableFiles> {
    for large in (1..all.len()).rev() {
        let low = all[large].low;
        let small = &mut all[large - 1];
        small.low = small.low.max(low).min(small.high);
        small.files = small.files.max(small.low);
    }
    for large in 1..all.len() {
        let (files, high) = (all[large - 1].files, all[large - 1].high);
        let larger = &mut all[large];
        larger.high = larger.high.min(high).max(larger.low);
        larger.files = larger.files.min(files).max(larger.low);
    }
    all
}

pub fn one(space: &FileSystemSpace, new: NewFiles, user: User) -> Option<CreatableFiles> {
    let size = new.size;
    let estimate = match &space.kind {
        FileSystemDetails::Ext(ext) => ext::estimate(space, ext, new, user),
        FileSystemDetails::Xfs(xfs) => xfs::estimate(space, xfs, new)?,
        FileSystemDetails::Btrfs(btrfs) => btrfs::estimate(btrfs, new, space.block_size)?,
        FileSystemDetails::Other => return None,
    };
    let Estimate { files, low, high, ends_by, after_sync } = estimate;
    let (files, low, high) = (files.floor() as u64, low.floor() as u64, high.ceil() as u64);
    let (low, high) = (low.min(files), high.max(files));
    Some(CreatableFiles { size, files, low, high, ends_by, ends_by_after_sync: after_sync, user })
}

/// Returns the free blocks that a mount for writing would not show.
pub(crate) fn not_set_aside(space: &FileSystemSpace) -> u64 {
    match &space.kind {
        FileSystemDetails::Xfs(xfs) => xfs.to_set_aside,
        _ => 0,
    }
}

/// Returns the number that df suggests: free bytes for this user over the size, each rounded up to blocks. For empty
/// files it is the number of free inodes.
pub(crate) fn suggested_by_df(space: &FileSystemSpace, size: u64, user: User) -> Option<u64> {
    let blocks = if user == User::Root { space.free_blocks } else { space.user_blocks };
    let blocks = blocks.saturating_sub(not_set_aside(space));
    match size {
        0 if space.inodes == 0 => None,
        0 => Some(space.free_inodes),
        size => {
            let by_bytes = blocks / size.div_ceil(space.block_size);
            Some(if space.inodes == 0 { by_bytes } else { by_bytes.min(space.free_inodes) })
        }
    }
}

/// The longest free extents together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LongestFree {
    /// Free extents.
    pub extents: u64,
    /// Bytes of these extents, without those that no allocation gets.
    pub bytes: u64,
}

/// Returns the free blocks that no allocation gets: reserved by the kernel, now or later, or needed for the call
/// itself.
fn held_back(space: &FileSystemSpace) -> u64 {
    match &space.kind {
        FileSystemDetails::Ext(ext) => ext.held_back_blocks + ext.cluster_blocks,
        FileSystemDetails::Xfs(xfs) => not_set_aside(space) + xfs::transaction(space, xfs),
        FileSystemDetails::Btrfs(_) | FileSystemDetails::Other => 0,
    }
}

/// Returns whether files can be preallocated (fallocate). Not possible for files of ext2 and ext3, which are mapped
/// block by block.
pub(crate) fn can_preallocate(space: &FileSystemSpace) -> bool {
    !matches!(&space.kind, FileSystemDetails::Ext(ext) if !ext.extents)
}

/// Sums the 1, 4, 16 and 64 longest free extents, without the kernel's reserve: root can preallocate one file of that
/// size. It may have more extents, because the kernel need not choose these. Empty if free extents are not known or no
/// file can be preallocated. Also empty if files may lie on an XFS realtime device, whose free extents are not known.
pub fn longest_free(space: &FileSystemSpace) -> Vec<LongestFree> {
    let Some(free) = space.free.as_ref().filter(|_| can_preallocate(space) && !has_realtime(space)) else {
        return Vec::new();
    };
    let mut lengths: Vec<u64> = free.iter().map(|extent| extent.blocks).collect();
    lengths.sort_unstable_by(|one, other| other.cmp(one));
    let most = space.free_blocks.saturating_sub(held_back(space));
    let sum = |extents: u64| lengths.iter().take(extents as usize).sum::<u64>().min(most) * space.block_size;
    [1, 4, 16, 64].map(|extents| LongestFree { extents, bytes: sum(extents) }).to_vec()
}

fn has_realtime(space: &FileSystemSpace) -> bool {
    matches!(&space.kind, FileSystemDetails::Xfs(found) if found.realtime)
}

/// Explains why a known kind of file system has no rule.
pub(crate) fn without_rule(space: &FileSystemSpace) -> Option<&'static str> {
    match &space.kind {
        FileSystemDetails::Xfs(found) if !xfs::is_known(found) => {
            Some("no rule predicts how many files can be created on XFS with a realtime device")
        }
        FileSystemDetails::Btrfs(found) if !btrfs::is_known(found) => {
            Some("no rule predicts how many files can be created where data and metadata share chunks")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
