//! How many files can still be created, by closed rules.
//!
//! The probe that the numbers are about: one thread makes one new directory and in it files with names of one length, writes each with
//! one call, closes it, and continues until the first call fails with ENOSPC. Nothing is synchronised in between.

mod btrfs;
mod consume;
mod ext;
mod xfs;

use senesce_layout::FileSystemSpace;
use senesce_layout::space::Particulars;
use serde::{Deserialize, Serialize};

/// The sizes asked about, bytes.
pub const SIZES: [u64; 4] = [0, 4 << 10, 64 << 10, 1 << 20];

/// Bytes of a name if nothing else is given.
pub const NAME_BYTES: u64 = 8;
pub const NAME_BYTES_ALLOWED: std::ops::RangeInclusive<u64> = 8..=255;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewFiles {
    /// Bytes of each.
    pub size: u64,
    pub name_bytes: u64,
}

impl NewFiles {
    /// Files of this size with names of the default length.
    pub fn of(size: u64) -> Self {
        Self { size, name_bytes: NAME_BYTES }
    }
}

/// What ends the creation of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndsBy {
    /// No block is free.
    Bytes,
    /// What is free is held back for root.
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

/// Who creates them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum User {
    /// Without the reserve.
    User,
    /// With it.
    Root,
}

/// How many files of one size can be created.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Creatable {
    /// Bytes of each.
    pub size: u64,
    /// Files until the first failure.
    pub files: u64,
    /// At least so many.
    pub low: u64,
    /// At most so many.
    pub high: u64,
    /// What ends it, at the first failure.
    pub ends_by: EndsBy,
    /// What ends it once everything has been written back and it was tried again, where that is something else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_by_after_sync: Option<EndsBy>,
    /// Who creates them.
    #[serde(rename = "as")]
    pub user: User,
}

impl Creatable {
    pub fn ends_text(&self) -> String {
        match self.ends_by_after_sync {
            Some(after) => format!("{}; after a sync {}", self.ends_by.text(), after.text()),
            None => self.ends_by.text().into(),
        }
    }
}

/// A number with what the rule may be wrong by.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Estimate {
    files: f64,
    low: f64,
    high: f64,
    ends_by: EndsBy,
    after_sync: Option<EndsBy>,
}

impl Estimate {
    /// `share` to both sides, and a file.
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

/// All sizes, for users and for root, with names of so many bytes. Empty if there is no rule for the file system.
pub fn creatable(space: &FileSystemSpace, name_bytes: u64) -> Vec<Creatable> {
    let all = SIZES.map(|size| NewFiles { size, name_bytes });
    let of = |user: User| in_order(all.into_iter().filter_map(|new| one(space, new, user)).collect());
    let (users, roots) = (of(User::User), of(User::Root));
    users.into_iter().zip(roots).flat_map(|(user, root)| [user, root]).collect()
}

/// Of larger files there are never more: what the intervals of neighbours say of one another, from small to large.
fn in_order(mut all: Vec<Creatable>) -> Vec<Creatable> {
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

pub fn one(space: &FileSystemSpace, new: NewFiles, user: User) -> Option<Creatable> {
    let size = new.size;
    let estimate = match &space.kind {
        Particulars::Ext(ext) => ext::estimate(space, ext, new, user),
        Particulars::Xfs(xfs) => xfs::estimate(space, xfs, new)?,
        Particulars::Btrfs(btrfs) => btrfs::estimate(btrfs, new, space.block_size)?,
        Particulars::Other => return None,
    };
    let Estimate { files, low, high, ends_by, after_sync } = estimate;
    let (files, low, high) = (files.floor() as u64, low.floor() as u64, high.ceil() as u64);
    let (low, high) = (low.min(files), high.max(files));
    Some(Creatable { size, files, low, high, ends_by, ends_by_after_sync: after_sync, user })
}

/// Free blocks that a mount for writing would not show.
pub fn not_set_aside(space: &FileSystemSpace) -> u64 {
    match &space.kind {
        Particulars::Xfs(xfs) => xfs.to_set_aside,
        _ => 0,
    }
}

/// What df suggests: free bytes for this user over the size, each rounded up to blocks; for empty files the free inodes.
pub fn suggested_by_df(space: &FileSystemSpace, size: u64, user: User) -> Option<u64> {
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
    /// Their bytes, without those that no call which allocates gets.
    pub bytes: u64,
}

/// Free blocks that no call which allocates gets: what the kernel keeps, will keep, or wants for the call itself.
fn held_back(space: &FileSystemSpace) -> u64 {
    match &space.kind {
        Particulars::Ext(ext) => ext.held_back_blocks + ext.cluster_blocks,
        Particulars::Xfs(xfs) => not_set_aside(space) + xfs::transaction(space, xfs),
        Particulars::Btrfs(_) | Particulars::Other => 0,
    }
}

/// Whether files can be preallocated (fallocate). Those of ext2 and ext3, which are mapped block by block, cannot.
pub fn can_preallocate(space: &FileSystemSpace) -> bool {
    !matches!(&space.kind, Particulars::Ext(ext) if !ext.extents)
}

/// The sum of the 1, 4, 16 and 64 longest free extents, without what the kernel holds back: root can preallocate one file of so many
/// bytes. It may have more extents, for the kernel need not choose those. Empty if free extents are not known or no file can be
/// preallocated.
pub fn longest_free(space: &FileSystemSpace) -> Vec<LongestFree> {
    let Some(free) = space.free.as_ref().filter(|_| can_preallocate(space)) else { return Vec::new() };
    let mut lengths: Vec<u64> = free.iter().map(|extent| extent.blocks).collect();
    lengths.sort_unstable_by(|one, other| other.cmp(one));
    let most = space.free_blocks.saturating_sub(held_back(space));
    let sum = |extents: u64| lengths.iter().take(extents as usize).sum::<u64>().min(most) * space.block_size;
    [1, 4, 16, 64].map(|extents| LongestFree { extents, bytes: sum(extents) }).to_vec()
}

/// Why there is no rule for a file system of a known kind.
pub fn without_rule(space: &FileSystemSpace) -> Option<&'static str> {
    match &space.kind {
        Particulars::Xfs(found) if !xfs::is_known(found) => {
            Some("no rule predicts how many files can be created on XFS with a realtime device")
        }
        Particulars::Btrfs(found) if !btrfs::is_known(found) => {
            Some("no rule predicts how many files can be created where data and metadata share chunks")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
