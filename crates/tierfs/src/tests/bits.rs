//! Flips each bit of the metadata.

use super::*;
use crate::format::{INODE_BYTES, Identity};

#[test]
fn every_flipped_bit_of_a_header_is_refused() {
    let identity = Identity { pair: [0x5a; 16], blocks: 64, slots: 500 };
    let flipped = |whole: &[u8], bit: usize| {
        let mut bytes = whole.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        bytes
    };
    let (region, cold) = (identity.encode_region(), identity.encode_cold());
    for bit in 0..region.len() * 8 {
        assert!(Identity::decode_region(&flipped(&region, bit), Path::new("region")).is_err(), "bit {bit}");
        assert!(Identity::decode_cold(&flipped(&cold, bit), Path::new("cold")).is_err(), "bit {bit}");
    }
}

/// All file content is in the cold store, so every nonzero byte of the region is metadata.
#[test]
fn flipped_metadata_bits_are_detected_or_harmless() {
    let (fs, nvm, cold) = small(64, 40);
    let file = file(&fs, ROOT_INO, "file");
    (0..3).for_each(|block| assert_eq!(fs.write(file, block * BLOCK as u64, b"content", false), Ok(7)));
    fs.set_xattr(file, b"user.name", b"value", true, false).unwrap();
    let folder = folder(&fs, ROOT_INO, "folder");
    fs.link(file, folder, b"link").unwrap();
    while fs.stats().resident_blocks > 0 {
        fs.evict(10);
    }
    fs.close();
    let mut image = nvm.image();
    let options = Options::default();
    let whole = dump(&open_image(&image, &cold, &options).unwrap()).unwrap();
    let mut bits = 0;
    for at in 0..image.len() {
        if image[at] == 0 {
            continue;
        }
        // The end of a block resembles its start: free inodes, null pointers.
        let (is_start, is_inode) = (at % BLOCK < 128, (BLOCK..BLOCK + 4 * INODE_BYTES).contains(&at));
        for bit in (0..8).filter(|bit| is_start || is_inode || at % (8 * 61) == *bit) {
            image[at] ^= 1 << bit;
            let found = open_image(&image, &cold, &options).map_err(drop).and_then(|fs| dump(&fs).map_err(drop));
            assert!(found.is_err() || found == Ok(whole.clone()), "bit {bit} of byte {at}");
            image[at] ^= 1 << bit;
            bits += 1;
        }
    }
    assert!(bits > 2000, "{bits}");
}
