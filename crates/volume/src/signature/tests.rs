use super::*;

fn image_with(offset: u64, bytes: &[u8]) -> File {
    let file = tempfile::tempfile().unwrap();
    file.set_len(8 * MIB).unwrap();
    file.write_all_at(bytes, offset).unwrap();
    file
}

fn found(file: &File) -> Option<String> {
    probe(file, 8 * MIB, Path::new("image")).unwrap()
}

#[test]
fn every_magic_is_found_and_an_empty_image_is_empty() {
    assert_eq!(found(&image_with(0, &[])), None);
    for (name, offset, magic) in magics() {
        assert!(found(&image_with(offset, magic)).unwrap().starts_with("a signature"), "{name}");
    }
    for end in END_MAGICS {
        let message = found(&image_with(8 * MIB - end.from_end, end.magic)).unwrap();
        assert!(message.contains("at its end"), "{}", end.name);
    }
}

#[test]
fn end_magic_is_found_on_device_of_odd_size() {
    const ODD: u64 = 100 * MIB + 5 * 65536 + 3 * 4096 + 512;
    let message = |at: u64, magic: &[u8]| {
        let file = tempfile::tempfile().unwrap();
        file.set_len(ODD).unwrap();
        file.write_all_at(magic, at).unwrap();
        probe(&file, ODD, Path::new("image")).unwrap().unwrap_or_default()
    };
    let md = [0xfc, 0x4e, 0x2b, 0xa9];
    for (at, magic, name) in [
        (100 * MIB + 4 * 65536, &md[..], "md RAID member (0.90) at its end"),
        (100 * MIB + 4 * 65536, &[0xa9, 0x2b, 0x4e, 0xfc], "md RAID member (0.90) at its end"),
        (100 * MIB + 5 * 65536 + 4096, &md[..], "md RAID member at its end"),
        (100 * MIB + 5 * 65536 + 2 * 4096, b"EFI PART", "GUID partition table at its end"),
        (100 * MIB + 5 * 65536 + 3 * 4096, b"EFI PART", "GUID partition table at its end"),
    ] {
        assert_eq!(message(at, magic), format!("a signature of {name}"), "at {at}");
    }
}

const LARGE: u64 = 1 << 40;

fn large_image_with(offset: u64, bytes: &[u8]) -> File {
    let file = tempfile::tempfile().unwrap();
    file.set_len(LARGE).unwrap();
    file.write_all_at(bytes, offset).unwrap();
    file
}

#[test]
fn signatures_after_zeroed_beginning_are_found() {
    let found = |offset, bytes: &[u8]| probe(&large_image_with(offset, bytes), LARGE, Path::new("image")).unwrap();
    let uberblock = 0x00ba_b10c_u64.to_le_bytes();
    let slot = 128 * 1024 + 5 * 1024;
    for (offset, bytes, name) in [
        (MIB + 1080, &[0x53, 0xEF][..], "ext4 at 1048576"),
        (63 * 512, b"XFSB", "xfs at 32256"),
        (513 * MIB + 0x10040, b"_BHRfS_M", "btrfs at 537919488"),
        (MIB, b"LUKS\xba\xbe", "LUKS"),
        (128 * MIB + 56, &[0x53, 0xEF], "a copy of a superblock of ext"),
        (129 * MIB + 56, &[0x53, 0xEF], "a copy of a superblock of ext"),
        // The same offset as in a partition that begins at 8 MiB.
        (8193 * 1024 + 56, &[0x53, 0xEF], "ext2, ext3 or ext4 at"),
        (64 * MIB + 64, b"_BHRfS_M", "btrfs"),
        (LARGE / 4, b"XFSB", "a copy of a superblock of xfs"),
        (MIB + LARGE / 4 - MIB / 2, b"XFSB", "a copy of a superblock of xfs"),
        (MIB + LARGE / 4 - MIB / 4, b"XFSB", "a copy of a superblock of xfs"),
        (LARGE - 512 * 1024 + slot, &uberblock[..], "zfs"),
        (MIB + slot, &uberblock, "zfs"),
        (MIB + 256 * 1024 + slot, &uberblock, "zfs"),
        (LARGE - MIB - 256 * 1024 + slot, &uberblock, "zfs"),
        (513 * MIB + slot, &uberblock, "zfs"),
        (0x10_0000, b"SKUL\xba\xbe", "LUKS"),
        (0x20_0000, b"SKUL\xba\xbe", "LUKS"),
        (0x40_0000, b"SKUL\xba\xbe", "LUKS"),
        (513 * MIB + 0x4000, b"SKUL\xba\xbe", "LUKS"),
        (513 * MIB + 0x4_0000, b"SKUL\xba\xbe", "LUKS"),
        (MIB, b"LABELONE", "LVM"),
        (MIB + 1536, b"LABELONE", "LVM"),
    ] {
        let message = found(offset, bytes).unwrap_or_default();
        assert!(message.contains(name), "{name} at {offset}: {message}");
    }
    assert_eq!(found(100 << 30, b"diary"), None, "it is what the samples are for");
}

#[test]
fn a_zoned_btrfs_is_known_by_either_of_its_first_zones() {
    for (place, is_there) in [(64, true), (256 * MIB + 64, true), (0x10040, false), (512 * MIB + 64, false)] {
        let file = large_image_with(place, b"_BHRfS_M");
        assert_eq!(is_zoned_btrfs(&file, 256 * MIB, LARGE, Path::new("drive")).unwrap(), is_there, "at {place}");
    }
}

#[test]
fn samples_find_data_anywhere() {
    let all = |file: &File, size| sample(file, size, Path::new("image")).unwrap();
    let file = tempfile::tempfile().unwrap();
    file.set_len(LARGE).unwrap();
    assert_eq!(all(&file, LARGE), None);
    let at = (LARGE / 1024 * 601) & !4095;
    file.write_all_at(b"diary", at).unwrap();
    assert_eq!(all(&file, LARGE).unwrap(), format!("data of an unknown kind at {at}"));
    assert_eq!(all(&image_with(5 * MIB, b"diary"), 8 * MIB).unwrap(), "data of an unknown kind");
    assert_eq!(all(&image_with(0, b""), 8 * MIB), None);
}

#[test]
fn partitions_and_unknown_data_are_found() {
    let mut sector = [0u8; 512];
    sector[446 + 4] = 0x83;
    sector[446 + 12] = 1;
    sector[510] = 0x55;
    sector[511] = 0xAA;
    assert_eq!(found(&image_with(0, &sector)).unwrap(), "a DOS partition table");
    assert_eq!(found(&image_with(77, b"diary")).unwrap(), "data of an unknown kind");
    assert_eq!(found(&image_with(8 * MIB - 9, b"diary")).unwrap(), "data of an unknown kind");
}

#[test]
fn all_labels_of_zfs_are_found_by_any_uberblock_in_either_byte_order() {
    const ODD: u64 = 100 * MIB + 700 * 1024 + 512;
    for label in [0, 256 * 1024, 100 * MIB, 100 * MIB + 256 * 1024] {
        for slot in [0, 4, 63, 127] {
            for magic in [0x00ba_b10c_u64.to_le_bytes(), 0x00ba_b10c_u64.to_be_bytes()] {
                let file = tempfile::tempfile().unwrap();
                file.set_len(ODD).unwrap();
                file.write_all_at(&magic, label + 128 * 1024 + slot * 1024).unwrap();
                let message = probe(&file, ODD, Path::new("image")).unwrap();
                assert_eq!(message.unwrap(), format!("a signature of zfs at {label}"), "slot {slot}, {magic:?}");
            }
        }
    }
}

#[test]
fn luks_and_lvm_are_found_without_first_bytes() {
    for offset in (14..=22).map(|power| 1 << power) {
        assert_eq!(found(&image_with(offset, b"SKUL\xba\xbe")).unwrap(), "a signature of LUKS volume", "{offset}");
    }
    for sector in 0..4 {
        let message = found(&image_with(sector * 512, b"LABELONE")).unwrap();
        assert_eq!(message, "a signature of LVM physical volume", "sector {sector}");
    }
}
