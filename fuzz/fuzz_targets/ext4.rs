//! Superblock, group descriptor, inode and extent tree node of ext4.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| senesce_layout::ext4_format::exercise(data));
