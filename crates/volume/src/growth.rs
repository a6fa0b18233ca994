//! The space that an image may need to grow, in the file system or the memory that holds it.

use senesce_core::Bytes;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;

/// A margin of this part of the growth: the host's map of the image, and the record files of the run.
const FILE_PART: u64 = 64;

/// The same in memory: bookkeeping of the pages, and caches of the file system.
const MEMORY_PART: u64 = 16;

/// The minimum margin. Blocks that an image shares with another file need new space too, and so does the record.
const LEAST_MARGIN: u64 = 1 << 20;

/// How far an image may grow, and the free space around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GrowthSpace {
    /// Bytes that the image may still take.
    pub growth: Bytes,
    /// Free bytes in the host's file system, or in memory.
    pub free: Bytes,
    pub in_memory: bool,
}

impl GrowthSpace {
    /// Reads the space of an image that takes at most `most`. Blocks that it already has need no other space, even if it
    /// is emptied first.
    pub(crate) fn of(image: &File, most: Bytes, in_memory: bool) -> io::Result<Self> {
        // Read first: what the image takes in between must not count twice.
        let free = if in_memory { available_memory() } else { free_around(image)? };
        let taken = image.metadata()?.blocks() * 512;
        Ok(Self { growth: Bytes(most.0.saturating_sub(taken)), free, in_memory })
    }

    /// Returns the memory for a new image that takes at most `most`.
    pub(crate) fn of_new_in_memory(most: Bytes) -> Self {
        Self { growth: most, free: available_memory(), in_memory: true }
    }

    /// Returns the space for a new image file that takes at most `most` while `old`, which it will replace, still exists.
    pub(crate) fn of_second(old: &File, most: Bytes) -> io::Result<Self> {
        Ok(Self { growth: most, free: free_around(old)?, in_memory: false })
    }

    /// Returns the space for the growth, with a margin.
    pub fn needed(self) -> Bytes {
        let part = if self.in_memory { MEMORY_PART } else { FILE_PART };
        Bytes(self.growth.0.saturating_add((self.growth.0 / part).max(LEAST_MARGIN)))
    }

    /// Returns how much of the needed space is missing, if any.
    pub fn missing(self) -> Option<Bytes> {
        (self.needed() > self.free).then(|| Bytes(self.needed().0 - self.free.0))
    }
}

fn free_around(image: &File) -> io::Result<Bytes> {
    let host = rustix::fs::fstatvfs(image)?;
    Ok(Bytes(host.f_bavail.saturating_mul(host.f_frsize)))
}

/// Returns the memory that the machine and its control group have left.
fn available_memory() -> Bytes {
    let both = [senesce_core::machine::memory_available(), crate::limits::memory_left()];
    both.into_iter().flatten().min().unwrap_or(Bytes(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn space_that_suffices_at_the_start_suffices_while_the_image_grows() {
        for (growth, in_memory) in [(300, false), (300, true), (1 << 20, false)] {
            let start = GrowthSpace { growth: Bytes::mib(growth), free: Bytes(0), in_memory };
            let start = GrowthSpace { free: start.needed(), ..start };
            assert_eq!(start.missing(), None);
            for taken in (0..=growth).step_by((growth as usize / 50).max(1)).map(Bytes::mib) {
                let later = |bytes: Bytes| Bytes(bytes.0 - taken.0);
                let now = GrowthSpace { growth: later(start.growth), free: later(start.free), in_memory };
                assert_eq!(now.missing(), None, "{now:?}");
            }
            let less = GrowthSpace { free: Bytes(start.free.0 - 7), ..start };
            assert_eq!(less.missing(), Some(Bytes(7)));
        }
    }

    #[test]
    fn bytes_of_the_image_are_no_growth() {
        let image = tempfile::tempfile().unwrap();
        image.set_len(8 << 20).unwrap();
        image.write_all_at(&vec![1; 1 << 20], 0).unwrap();
        image.sync_all().unwrap();
        let most = Bytes::mib(8);
        let space = GrowthSpace::of(&image, most, false).unwrap();
        assert!(space.growth <= Bytes::mib(7), "{space:?}");
    }

    #[test]
    fn written_image_does_not_grow() {
        let image = tempfile::tempfile().unwrap();
        image.write_all_at(&vec![1; 1 << 20], 0).unwrap();
        image.sync_all().unwrap();
        let space = GrowthSpace::of(&image, Bytes::mib(1), false).unwrap();
        assert_eq!(space.growth, Bytes(0));
    }
}
