//! Problems found by a walk, and their fixes.

use crate::format::Pointer;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub text: String,
    /// Inode concerned; 0 for none.
    pub ino: u32,
    pub fix: Fix,
}

/// Fixes, each of which discards no more than the damaged part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fix {
    /// Sets the state word to "mounted", so that traces of a crash are cleaned up.
    State,
    CommitRecord,
    /// Takes the root of the table of inodes from its copy, or searches for it.
    InodeTree,
    /// Rewrites the copy of that root.
    InodeTreeCopy,
    /// Searches for the target of a pointer of the table of inodes, at this byte: the blocks of inodes from `first` on.
    InodeBlocks {
        at: usize,
        /// Index of the first block of inodes below it.
        first: u32,
        height: u8,
    },
    RootDirectory,
    /// Replaces the pointer at this byte of a node.
    Word(usize, Pointer),
    Inode(u32),
    Tree(u32),
    Attributes(u32),
    DirectoryBlock(u32),
    /// Removes the entry at this byte.
    Entry(usize),
}

impl Problem {
    /// Returns whether the problem concerns the table of inodes: other problems may be consequences of missing inodes.
    pub(crate) fn is_of_table(&self) -> bool {
        matches!(self.fix, Fix::InodeTree | Fix::InodeBlocks { .. })
    }
}
