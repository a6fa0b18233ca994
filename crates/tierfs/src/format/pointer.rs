use crate::sum;

/// A tagged block pointer, one word. Bit 63: the address is a slot of the cold store. Bits 60..=62: height of a tree (in roots
/// only). Bits 0..=31: address. Zero is a hole. In a node, bits 32..=59 hold the lower 28 bits of the CRC32C of the rest; a root
/// in an inode is covered by the inode's checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Pointer(pub u64);

const COLD_BIT: u64 = 1 << 63;
const HEIGHT_SHIFT: u32 = 60;
const HEIGHT_MASK: u64 = 7 << HEIGHT_SHIFT;
const CHECK_SHIFT: u32 = 32;
const CHECK_MASK: u64 = 0x0fff_ffff << CHECK_SHIFT;

impl Pointer {
    /// No content; reads as zeros.
    pub(crate) const HOLE: Self = Self(0);
    /// The content is lost; reading it is an error. Unambiguous, because slot 0 is the header.
    pub(crate) const LOST: Self = Self(COLD_BIT);
    /// [`HOLE`](Self::HOLE) as stored in a node.
    pub(crate) const SEALED_HOLE: u64 = (sum::constant(0, 64) as u64) << CHECK_SHIFT & CHECK_MASK;

    pub(crate) fn resident(block: u32) -> Self {
        Self(u64::from(block))
    }

    pub(crate) fn cold(slot: u32) -> Self {
        Self(COLD_BIT | u64::from(slot))
    }

    #[inline]
    pub(crate) fn seal(self) -> u64 {
        let check = u64::from(sum::of_word(self.0));
        self.0 | check << CHECK_SHIFT & CHECK_MASK
    }

    #[inline]
    pub(crate) fn unseal(word: u64) -> Option<Self> {
        if word == Self::SEALED_HOLE {
            return Some(Self::HOLE);
        }
        let pointer = Self(word & !CHECK_MASK);
        (pointer.seal() == word).then_some(pointer)
    }

    /// Returns the same pointer as root of a tree of `height`.
    pub(crate) fn with_height(self, height: u8) -> Self {
        Self(self.0 & !HEIGHT_MASK | u64::from(height) << HEIGHT_SHIFT)
    }

    /// Returns the height of the tree; 0 for a pointer to data.
    pub(crate) fn height(self) -> u8 {
        ((self.0 & HEIGHT_MASK) >> HEIGHT_SHIFT) as u8
    }

    pub(crate) fn plain(self) -> Self {
        Self(self.0 & !HEIGHT_MASK)
    }

    pub(crate) fn address(self) -> u32 {
        self.0 as u32
    }

    pub(crate) fn is_hole(self) -> bool {
        self.plain().0 == 0
    }

    /// Returns whether the pointer names a slot of the cold store, or the content is lost.
    pub(crate) fn is_cold(self) -> bool {
        self.0 & COLD_BIT != 0
    }

    pub(crate) fn is_lost(self) -> bool {
        self.plain() == Self::LOST
    }

    pub(crate) fn is_resident(self) -> bool {
        !self.is_cold() && !self.is_hole()
    }

    /// Returns whether only defined bits are set and the address is in range.
    pub(crate) fn is_valid(self, blocks: u64, slots: u64) -> bool {
        let undefined = !(COLD_BIT | HEIGHT_MASK | u64::from(u32::MAX));
        let limit = if self.is_cold() { slots } else { blocks };
        self.0 & undefined == 0 && u64::from(self.address()) < limit
    }
}
