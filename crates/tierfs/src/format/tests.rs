//! Pins the on-disk formats.

use super::*;

#[test]
fn headers_round_trip_and_others_are_refused() {
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
fn region_header_format_is_fixed() {
    let identity = Identity { pair: [7; 16], blocks: 131_072, slots: 1_048_577 };
    let text: String = identity.encode_region().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(text, GOLDEN_HEADER);
    assert_eq!(identity.sum_blocks(), 1025);
}

const GOLDEN_HEADER: &str =
    "534e5343544945520200000000100000070707070707070707070707070707070000020000000000010010000000000097af294b";

/// Tests one value, because a CRC detects a change `error` for all values or for none.
#[test]
fn small_changes_of_a_pointer_are_detected() {
    let word = Pointer::cold(77).seal();
    assert_eq!(Pointer::unseal(word), Some(Pointer::cold(77)));
    assert_eq!(Pointer::unseal(0), None);
    let bits = |a: u32, b: u32| 1u64 << a | 1 << b;
    let pairs = (0..64).flat_map(|a| (a..64).map(move |b| bits(a, b)));
    let bytes = (0..8).flat_map(|byte| (1..256u64).map(move |value| value << (8 * byte)));
    let words = (0..8).flat_map(|byte| (1..65536u64).map(move |value| value.rotate_left(8 * byte)));
    for error in pairs.chain(bytes).chain(words) {
        assert_eq!(Pointer::unseal(word ^ error), None, "{error:#x}");
    }
}

#[test]
fn sealed_words_are_crc32c() {
    for value in [0, 1, 2, 0xdead_beef, u32::MAX] {
        assert_eq!((sealed(value) >> 32) as u32, crc32c(&value.to_le_bytes()));
        assert_eq!(unsealed(sealed(value)), Some(value));
        assert_eq!(unsealed(sealed(value) ^ 1 << 40), None);
    }
    // RFC 3720, appendix B.4: 32 bytes of zeros.
    assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
}

#[test]
fn inodes_round_trip() {
    let inode = Inode {
        mode: libc::S_IFREG | 0o6755,
        links: u32::MAX,
        uid: 5,
        gid: u32::MAX - 1,
        size: MAX_FILE_BYTES,
        root: Pointer::cold(9).with_height(0),
        mtime: -1,
        ctime: i64::MAX,
        atime: i64::MIN,
        xattr: Pointer::resident(77),
    };
    assert_eq!(Inode::unpack(&inode.pack()), inode);
    let link = Inode { mode: libc::S_IFLNK | 0o777, size: Inode::size_of_target(&[b'x'; 4095]), ..inode };
    assert_eq!(Inode::unpack(&link.pack()).length(), 4095);
}

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
fn entries_are_sealed() {
    let word = entry::encode(4096, 8, 8);
    assert_eq!((entry::record(word), entry::name_length(word), entry::kind(word)), (4096, 8, 8));
    assert_eq!(unsealed(word), Some(word as u32));
    assert_eq!((entry::bytes_for(1), entry::bytes_for(8), entry::bytes_for(9)), (24, 24, 32));
    let first = entry::name_inode(4096, 7, word, b"name.txt");
    assert_eq!(first as u32, 7);
    assert_ne!(first, entry::name_inode(4096, 7, word, b"name.txs"));
    assert_ne!(first, entry::name_inode(4112, 7, word, b"name.txt"));
}
