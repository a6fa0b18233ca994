//! The one record every walker produces.

/// Bytes per block in all scores: 4 KiB, whatever the block size of the file system.
pub const SCORE_BLOCK: u64 = 4096;

/// A mapped range of a file. All numbers are bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extent {
    pub logical: u64,
    /// Where it begins in the file system's address space.
    pub physical: u64,
    /// How much of the file it holds.
    pub length: u64,
    /// How much of the address space it takes; smaller than `length` where data are compressed.
    pub physical_length: u64,
    pub kind: ExtentKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExtentKind(u8);

impl ExtentKind {
    pub const PLAIN: ExtentKind = ExtentKind(0);
    /// Allocated and not written: reads give zeros.
    pub const UNWRITTEN: ExtentKind = ExtentKind(1);
    /// Another file, or another place of a file, uses the same blocks.
    pub const SHARED: ExtentKind = ExtentKind(2);
    /// The data lie in a metadata block; the extent has no blocks of its own.
    pub const INLINE: ExtentKind = ExtentKind(4);
    /// The data are compressed or encrypted.
    pub const ENCODED: ExtentKind = ExtentKind(8);
    /// Not allocated yet (delayed allocation).
    pub const DELAYED: ExtentKind = ExtentKind(16);
    /// The file is mapped block by block and the kernel has joined what is adjacent.
    pub const BY_BLOCKS: ExtentKind = ExtentKind(32);

    /// Whether every mark of `other` is set.
    pub const fn has(self, other: ExtentKind) -> bool {
        self.0 & other.0 == other.0
    }

    pub const fn with(self, other: ExtentKind) -> ExtentKind {
        ExtentKind(self.0 | other.0)
    }
}

impl Extent {
    /// An extent whose bytes lie on the device as they are in the file.
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

    /// The first address after it. Saturates, because the numbers come from foreign images.
    pub const fn physical_end(&self) -> u64 {
        self.physical.saturating_add(self.physical_length)
    }
}
