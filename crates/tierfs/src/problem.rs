//! What a walk over the file system can find wrong, and what would make it right again.

use crate::format::Pointer;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub text: String,
    /// The inode it is about; 0 for none.
    pub ino: u32,
    pub fix: Fix,
}

/// What puts a problem right, by giving up no more than what is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fix {
    /// The state word is set to "mounted", so that what a crash leaves is put right.
    State,
    CommitRecord,
    /// The root of the table of inodes is taken from its copy, or searched for.
    InodeTree,
    /// The copy of that root is written anew.
    InodeTreeCopy,
    /// What a pointer of the table of inodes, at this byte, led to is searched for: the blocks of inodes from `first` on.
    InodeBlocks {
        at: usize,
        /// Index of the first block of inodes below it.
        first: u32,
        height: u8,
    },
    RootDirectory,
    /// A pointer of a node, at this byte, becomes another.
    Word(usize, Pointer),
    Inode(u32),
    /// The tree of an inode is given up.
    Tree(u32),
    /// The extended attributes of an inode are given up.
    Attributes(u32),
    /// Of a directory's block what is intact is kept.
    DirectoryBlock(u32),
    /// The entry at this byte is removed.
    Entry(usize),
}

impl Problem {
    /// Whether it is about the table of inodes: what else seems wrong may be so for want of inodes.
    pub fn is_of_table(&self) -> bool {
        matches!(self.fix, Fix::InodeTree | Fix::InodeBlocks { .. })
    }
}
