//! The extent type of all walkers.

/// Bytes per block in all scores: 4 KiB, independent of the file system's block size.
pub const SCORE_BLOCK: u64 = 4096;

/// A mapped range of a file, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extent {
    pub logical: u64,
    pub physical: u64,
    pub length: u64,
    /// Bytes of the address space; less than `length` if data are compressed.
    pub physical_length: u64,
    pub kind: ExtentKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExtentKind(u8);

impl ExtentKind {
    pub(crate) const PLAIN: ExtentKind = ExtentKind(0);
    /// Allocated but unwritten; reads as zeros.
    pub const UNWRITTEN: ExtentKind = ExtentKind(1);
    /// Blocks shared with another file, or another offset of a file.
    pub const SHARED: ExtentKind = ExtentKind(2);
    /// Data in a metadata block, without own blocks.
    pub const INLINE: ExtentKind = ExtentKind(4);
    pub const ENCODED: ExtentKind = ExtentKind(8);
    /// Not allocated yet (delayed allocation).
    pub(crate) const DELAYED: ExtentKind = ExtentKind(16);
    /// The file is mapped block by block, and the kernel has merged adjacent blocks.
    pub(crate) const BY_BLOCKS: ExtentKind = ExtentKind(32);

    /// Returns whether every flag of `other` is set.
    pub const fn has(self, other: ExtentKind) -> bool {
        self.0 & other.0 == other.0
    }

    pub(crate) const fn with(self, other: ExtentKind) -> ExtentKind {
        ExtentKind(self.0 | other.0)
    }
}

impl Extent {
    pub const fn plain(logical: u64, physical: u64, length: u64) -> Self {
        Self { logical, physical, length, physical_length: length, kind: ExtentKind::PLAIN }
    }

    pub const fn marked(mut self, kind: ExtentKind) -> Self {
        self.kind = self.kind.with(kind);
        self
    }

    pub const fn on_device(&self) -> bool {
        !self.kind.has(ExtentKind::INLINE) && !self.kind.has(ExtentKind::DELAYED)
    }

    /// Saturates, because the numbers may come from an untrusted image.
    pub(crate) const fn physical_end(&self) -> u64 {
        self.physical.saturating_add(self.physical_length)
    }
}
