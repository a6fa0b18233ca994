//! A digest of a layout, to compare layouts of different machines.

use crate::layout::Layout;
use sha2::{Digest, Sha256};
use std::os::unix::ffi::OsStrExt;

impl Layout {
    /// Returns two hashes of 16 hexadecimal digits, `FILES-FREE`. FILES: SHA-256, shortened, of the path, the runs
    /// (bytes) and the mappings (4 KiB blocks) of every file in order of paths. FREE: [`crate::FreeSpace::places`];
    /// absent if the free space is unknown. `None` unless the layout was examined with `runs` and `extents`.
    pub fn digest(&self) -> Option<String> {
        let runs = self.runs.as_ref()?;
        let mut digest = Sha256::new();
        let mut bytes = Vec::new();
        for file in runs.by_path() {
            let index = file as usize;
            let path = runs.path(index);
            bytes.extend_from_slice(path.as_os_str().as_bytes());
            bytes.push(0);
            numbers(&mut bytes, runs.of(index).iter().flat_map(|run| [run.start, run.length]));
            let first = self.extents.partition_point(|extent| extent.file < file);
            let own = self.extents[first..].iter().take_while(|extent| extent.file == file);
            numbers(&mut bytes, own.flat_map(|extent| [extent.start, u64::from(extent.blocks)]));
            digest.update(&bytes);
            bytes.clear();
        }
        let files: String = digest.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let free = self.summary.free_space.as_ref().map(|free| format!("-{:016x}", free.places));
        Some(files + &free.unwrap_or_default())
    }
}

/// Appends their count and the numbers.
fn numbers(bytes: &mut Vec<u8>, numbers: impl Iterator<Item = u64>) {
    let start = bytes.len();
    bytes.extend_from_slice(&[0; 8]);
    numbers.for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
    let count = (bytes.len() - start) as u64 / 8 - 1;
    bytes[start..start + 8].copy_from_slice(&count.to_le_bytes());
}
