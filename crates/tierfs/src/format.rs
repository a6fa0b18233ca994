//! What is written where, in the region and in the cold store.
//!
//! Region: block 0 is the superblock, all other blocks belong to trees. Cold store: slot 0 is its header.
//! All numbers are little-endian. A word is 8 aligned bytes and is stored atomically.

use crate::error::TierError;
use std::path::Path;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Bytes of a block of the region and of a slot of the cold store.
pub const BLOCK: usize = 4096;
/// Version of both formats.
pub const FORMAT_VERSION: u32 = 1;
/// Bytes of an inode.
pub const INODE_BYTES: usize = 128;
/// Inodes in a block.
pub const INODES_PER_BLOCK: u32 = (BLOCK / INODE_BYTES) as u32;
/// Pointers in an interior node of a tree, as a power of two.
pub const NODE_BITS: u32 = 9;
/// Greatest height of a tree; 512^4 blocks are more than an index of 32 bits names.
pub const MAX_HEIGHT: u8 = 4;
/// Greatest size of a file: block indices are 32 bits wide.
pub const MAX_FILE_BYTES: u64 = (u32::MAX as u64) * BLOCK as u64;
/// Longest name of a directory entry in bytes.
pub const MAX_NAME: usize = 255;
/// Number of the root directory's inode, as FUSE wants it.
pub const ROOT_INO: u32 = 1;
/// Least number of blocks of a region.
pub const MIN_BLOCKS: u64 = 64;

/// Where the mutable words of the superblock are.
pub mod superblock {
    /// 1 after a clean unmount, 2 while mounted.
    pub const STATE: usize = 64;
    /// Root of the tree of inode blocks.
    pub const INODE_TREE: usize = 72;
    /// The commit record of a rename: count and checksum, then pairs of address and value.
    pub const COMMIT_RECORD: usize = 256;
    /// Value of [`STATE`] after a clean unmount.
    pub const CLEAN: u64 = 1;
    /// Value of [`STATE`] while mounted.
    pub const DIRTY: u64 = 2;
}

const REGION_MAGIC: [u8; 8] = *b"SNSCTIER";
const COLD_MAGIC: [u8; 8] = *b"SNSCCOLD";
const HEADER_BYTES: usize = 52;

/// The unchanging part of both headers: what belongs together and how large it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Same in region and cold store of one file system.
    pub pair: [u8; 16],
    /// Blocks of the region, the superblock included.
    pub blocks: u64,
    /// Slots of the cold store, its header included.
    pub slots: u64,
}

impl Identity {
    /// The header of the region.
    pub fn encode_region(&self) -> [u8; HEADER_BYTES] {
        self.encode(REGION_MAGIC)
    }

    /// The header of the cold store.
    pub fn encode_cold(&self) -> [u8; HEADER_BYTES] {
        self.encode(COLD_MAGIC)
    }

    /// Reads the header of a region; `path` is for the message.
    pub fn decode_region(bytes: &[u8], path: &Path) -> Result<Self, TierError> {
        decode(bytes, REGION_MAGIC, COLD_MAGIC, path, "region")
    }

    /// Reads the header of a cold store; `path` is for the message.
    pub fn decode_cold(bytes: &[u8], path: &Path) -> Result<Self, TierError> {
        decode(bytes, COLD_MAGIC, REGION_MAGIC, path, "cold store")
    }

    fn encode(&self, magic: [u8; 8]) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..8].copy_from_slice(&magic);
        bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&(BLOCK as u32).to_le_bytes());
        bytes[16..32].copy_from_slice(&self.pair);
        bytes[32..40].copy_from_slice(&self.blocks.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.slots.to_le_bytes());
        let sum = crc32fast::hash(&bytes[..48]);
        bytes[48..52].copy_from_slice(&sum.to_le_bytes());
        bytes
    }
}

fn decode(
    bytes: &[u8],
    magic: [u8; 8],
    other_magic: [u8; 8],
    path: &Path,
    role: &'static str,
) -> Result<Identity, TierError> {
    let foreign = |found: &str| TierError::Foreign { path: path.into(), role, found: found.into() };
    let Some(bytes) = bytes.get(..HEADER_BYTES) else {
        return Err(foreign("it is shorter than a header"));
    };
    if bytes[..8] == other_magic {
        return Err(foreign("it is the other half of a pair; --nvm and --cold are swapped"));
    }
    if bytes[..8] != magic {
        return Err(foreign("its first bytes are not ours"));
    }
    let version = u32_at(bytes, 8);
    if version != FORMAT_VERSION {
        return Err(TierError::Version { path: path.into(), found: version });
    }
    if u32_at(bytes, 48) != crc32fast::hash(&bytes[..48]) || u32_at(bytes, 12) != BLOCK as u32 {
        return Err(TierError::Damaged { path: path.into(), problem: "the checksum of its header is wrong".into() });
    }
    let mut pair = [0; 16];
    pair.copy_from_slice(&bytes[16..32]);
    Ok(Identity { pair, blocks: u64_at(bytes, 32), slots: u64_at(bytes, 40) })
}

/// The little-endian number at `at`; the caller has checked the length.
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// The little-endian number at `at`; the caller has checked the length.
pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

/// A tagged block pointer, one word: bit 63 says that the address is a slot of the cold store, bits 60..=62 hold the
/// height of a tree (in roots only), bits 0..=31 the address. Zero is a hole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, FromBytes, IntoBytes, Immutable)]
#[repr(transparent)]
pub struct Pointer(pub u64);

const COLD_BIT: u64 = 1 << 63;
const HEIGHT_SHIFT: u32 = 60;
const HEIGHT_MASK: u64 = 7 << HEIGHT_SHIFT;

impl Pointer {
    /// Nothing is stored; reads as zeros.
    pub const HOLE: Self = Self(0);

    /// A block of the region.
    pub fn resident(block: u32) -> Self {
        Self(u64::from(block))
    }

    /// A slot of the cold store.
    pub fn cold(slot: u32) -> Self {
        Self(COLD_BIT | u64::from(slot))
    }

    /// The same pointer as root of a tree of `height`.
    pub fn with_height(self, height: u8) -> Self {
        Self(self.0 & !HEIGHT_MASK | u64::from(height) << HEIGHT_SHIFT)
    }

    /// Height of the tree; 0 means that it points to data.
    pub fn height(self) -> u8 {
        ((self.0 & HEIGHT_MASK) >> HEIGHT_SHIFT) as u8
    }

    /// The pointer without the height.
    pub fn plain(self) -> Self {
        Self(self.0 & !HEIGHT_MASK)
    }

    /// Block or slot number.
    pub fn address(self) -> u32 {
        self.0 as u32
    }

    /// Whether nothing is stored.
    pub fn is_hole(self) -> bool {
        self.plain().0 == 0
    }

    /// Whether it names a slot of the cold store.
    pub fn is_cold(self) -> bool {
        self.0 & COLD_BIT != 0
    }

    /// Whether it names a block of the region.
    pub fn is_resident(self) -> bool {
        !self.is_cold() && !self.is_hole()
    }

    /// Whether only defined bits are set and the address is in range.
    pub fn is_valid(self, blocks: u64, slots: u64) -> bool {
        let undefined = !(COLD_BIT | HEIGHT_MASK | u64::from(u32::MAX));
        let limit = if self.is_cold() { slots } else { blocks };
        let address = u64::from(self.address());
        self.0 & undefined == 0 && address < limit && (address > 0 || !self.is_cold())
    }
}

/// The changeable part of an inode. Each inode holds two copies; a selector word says which one counts, so that any
/// change of several fields becomes visible by one 8-byte store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Inode {
    /// File type and permission bits, as in `st_mode`.
    pub mode: u32,
    /// Directory entries that name it, recounted at mount; 2 for a directory that is not removed.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes, or the device number of a device node.
    pub size: u64,
    /// Root of its tree of blocks.
    pub root: Pointer,
    /// Nanoseconds since the epoch.
    pub mtime: i64,
    /// Nanoseconds since the epoch.
    pub ctime: i64,
    /// Block of extended attributes, or a hole.
    pub xattr: Pointer,
}

/// Offsets of an inode's words and of the words in each of its copies.
pub mod inode {
    /// Generation in the upper half, flags below.
    pub const SELECTOR: usize = 0;
    /// Time of last access.
    pub const ATIME: usize = 8;
    /// First copy.
    pub const COPY0: usize = 16;
    /// Bytes of a copy.
    pub const COPY_BYTES: usize = 56;
    /// Offset of the root pointer in a copy.
    pub const ROOT: usize = 24;
    /// Offset of the modification time in a copy.
    pub const MTIME: usize = 32;
    /// Flag of the selector: copy 1 counts.
    pub const SECOND: u64 = 1;
    /// Flag of the selector: the inode is in use.
    pub const IN_USE: u64 = 2;
}

const _: () = assert!(size_of::<Inode>() == inode::COPY_BYTES);
const _: () = assert!(inode::COPY0 + 2 * inode::COPY_BYTES == INODE_BYTES);

impl Inode {
    /// The file type bits.
    pub fn kind(&self) -> u32 {
        self.mode & libc::S_IFMT
    }

    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.kind() == libc::S_IFDIR
    }

    /// Whether it is a regular file, the only kind whose blocks are evicted.
    pub fn is_file(&self) -> bool {
        self.kind() == libc::S_IFREG
    }

    /// Whether `size` holds a device number.
    pub fn is_device(&self) -> bool {
        matches!(self.kind(), libc::S_IFCHR | libc::S_IFBLK)
    }
}

/// A directory entry: word 1 is the inode number (0: free), word 2 holds the record's length, the name's length, the
/// type and the first 4 bytes of the name; the rest of the name follows. Records are 8-aligned and fill their block.
pub mod entry {
    /// Bytes before the name.
    pub const HEADER: usize = 12;

    /// Bytes of a record for a name of `length` bytes.
    pub fn bytes_for(length: usize) -> usize {
        (HEADER + length).next_multiple_of(8)
    }

    /// Word 2 of a record.
    pub fn encode(record: usize, name: &[u8], kind: u8) -> u64 {
        let mut start = [0; 4];
        let head = name.len().min(4);
        start[..head].copy_from_slice(&name[..head]);
        record as u64 | (name.len() as u64) << 16 | u64::from(kind) << 24 | u64::from(u32::from_le_bytes(start)) << 32
    }

    /// Bytes of the record whose word 2 is `word`.
    pub fn record(word: u64) -> usize {
        (word & 0xffff) as usize
    }

    /// Bytes of its name.
    pub fn name_length(word: u64) -> usize {
        (word >> 16 & 0xff) as usize
    }

    /// Its type, `st_mode >> 12`.
    pub fn kind(word: u64) -> u8 {
        (word >> 24) as u8
    }
}

/// The type of a directory entry for a mode.
pub fn entry_kind(mode: u32) -> u8 {
    (mode >> 12) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_survive_a_round_trip_and_refuse_the_rest() {
        let identity = Identity { pair: *b"0123456789abcdef", blocks: 1000, slots: 9000 };
        let path = Path::new("/r");
        assert_eq!(Identity::decode_region(&identity.encode_region(), path).unwrap(), identity);
        assert_eq!(Identity::decode_cold(&identity.encode_cold(), path).unwrap(), identity);
        let swapped = Identity::decode_region(&identity.encode_cold(), path).unwrap_err();
        assert!(swapped.to_string().contains("swapped"), "{swapped}");
        let mut other = identity.encode_region();
        other[8] = 9;
        assert!(matches!(Identity::decode_region(&other, path), Err(TierError::Version { found: 9, .. })));
        let mut torn = identity.encode_region();
        torn[33] ^= 1;
        assert!(matches!(Identity::decode_region(&torn, path), Err(TierError::Damaged { .. })));
        assert!(Identity::decode_region(b"short", path).is_err());
    }

    #[test]
    fn the_header_of_a_region_is_fixed() {
        let identity = Identity { pair: [7; 16], blocks: 131_072, slots: 1_048_577 };
        let text: String = identity.encode_region().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(text, GOLDEN_HEADER);
    }

    const GOLDEN_HEADER: &str =
        "534e5343544945520100000000100000070707070707070707070707070707070000020000000000010010000000000043834ea6";

    #[test]
    fn pointers_carry_tier_and_height() {
        let pointer = Pointer::cold(77).with_height(0);
        assert!(pointer.is_cold() && !pointer.is_resident() && pointer.address() == 77);
        let root = Pointer::resident(5).with_height(3);
        assert_eq!((root.height(), root.plain()), (3, Pointer::resident(5)));
        assert!(Pointer::HOLE.with_height(2).is_hole());
        assert!(!Pointer(1 << 40).is_valid(100, 100));
        assert!(!Pointer::resident(100).is_valid(100, 200));
        assert!(Pointer::cold(100).is_valid(100, 200));
    }

    #[test]
    fn entries_pack_into_one_word() {
        let word = entry::encode(4096, b"name.txt", 8);
        assert_eq!((entry::record(word), entry::name_length(word), entry::kind(word)), (4096, 8, 8));
        assert_eq!(word >> 32, u64::from(u32::from_le_bytes(*b"name")));
        assert_eq!(entry::bytes_for(4), 16);
        assert_eq!(entry::bytes_for(5), 24);
    }
}
