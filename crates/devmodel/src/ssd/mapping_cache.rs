//! A map larger than memory: pages of entries are read from flash on demand (Gupta et al., DFTL, ASPLOS 2009) and evicted by
//! second chance, an approximation of LRU.

use super::parameters::PAGE;

const ABSENT: u8 = 0;
const PRESENT: u8 = 1;
const USED: u8 = 2;
const DIRTY: u8 = 4;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CacheAccess {
    /// The entries had to be read.
    pub missed: bool,
    /// Evicted page of changed entries that had to be written.
    pub dirty: Option<u64>,
}

#[derive(Debug, Clone)]
pub(crate) struct MappingCache {
    state: Vec<u8>,
    ring: Vec<u32>,
    capacity: usize,
    hand: usize,
}

impl MappingCache {
    /// Entries per page of the map, four bytes each.
    pub(crate) const ENTRIES: u64 = PAGE / 4;

    /// Creates an empty cache of `bytes` for a map of `pages` pages of entries.
    pub(crate) fn new(bytes: u64, pages: u64) -> Self {
        Self {
            state: vec![ABSENT; pages as usize],
            ring: Vec::new(),
            capacity: (bytes / PAGE).max(1) as usize,
            hand: 0,
        }
    }

    pub(crate) fn touch(&mut self, page: u64, dirties: bool) -> CacheAccess {
        let mark = PRESENT | USED | if dirties { DIRTY } else { 0 };
        let state = &mut self.state[page as usize];
        let missed = *state == ABSENT;
        *state |= mark;
        if !missed {
            return CacheAccess::default();
        }
        if self.ring.len() < self.capacity {
            self.ring.push(page as u32);
            return CacheAccess { missed, dirty: None };
        }
        CacheAccess { missed, dirty: self.replace(page as u32) }
    }

    fn replace(&mut self, page: u32) -> Option<u64> {
        loop {
            let oldest = self.ring[self.hand];
            let state = &mut self.state[oldest as usize];
            if *state & USED == 0 {
                let was = std::mem::replace(state, ABSENT);
                self.ring[self.hand] = page;
                self.hand = (self.hand + 1) % self.capacity;
                return (was & DIRTY != 0).then_some(u64::from(oldest));
            }
            *state &= !USED;
            self.hand = (self.hand + 1) % self.capacity;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unused_pages_are_evicted_and_written_if_changed() {
        let mut cache = MappingCache::new(2 * PAGE, 8);
        assert!(cache.touch(0, true).missed);
        assert!(cache.touch(1, false).missed);
        assert!(!cache.touch(0, false).missed);
        // The hand clears both and takes the first, which was changed.
        assert_eq!(cache.touch(2, false), CacheAccess { missed: true, dirty: Some(0) });
        assert_eq!(cache.touch(3, false), CacheAccess { missed: true, dirty: None });
        assert!(!cache.touch(2, false).missed && cache.touch(1, false).missed);
    }
}
