//! The live files: one record of 12 bytes each, in an arena with a region per size class.

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Record {
    birth_low: u32,
    birth_high: u16,
    class: u16,
    pub directory: u32,
}

impl Record {
    pub(crate) fn new(birth: u64, class: usize, directory: u32) -> Self {
        Self { birth_low: birth as u32, birth_high: (birth >> 32) as u16, class: class as u16, directory }
    }

    pub(crate) fn birth(&self) -> u64 {
        u64::from(self.birth_high) << 32 | u64::from(self.birth_low)
    }

    pub(crate) fn class(&self) -> usize {
        usize::from(self.class)
    }
}

/// The region of one class: files that will be deleted grow from its front, files that stay from its back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slots {
    base: usize,
    pub capacity: u32,
    pub passing: u32,
    pub staying: u32,
}

impl Slots {
    pub(crate) fn empty(&self) -> u32 {
        self.capacity - self.passing - self.staying
    }

    pub(crate) fn live(&self) -> u32 {
        self.passing + self.staying
    }
}

/// Records in half a megabyte, the private cache of a processor (L2).
const CACHED_RECORDS: usize = (512 << 10) / size_of::<Record>();

/// Allocates memory for `len` records, in huge pages if available: records are accessed at random, and each access
/// would otherwise miss the TLB.
fn arena(len: usize) -> Vec<Record> {
    let mut records: Vec<Record> = Vec::with_capacity(len);
    let spare = records.spare_capacity_mut();
    let page = rustix::param::page_size();
    let skipped = spare.as_ptr().addr().next_multiple_of(page) - spare.as_ptr().addr();
    let bytes = std::mem::size_of_val(spare).saturating_sub(skipped) / page * page;
    if bytes > 0 {
        // SAFETY: the range lies within the vector's own memory, and the records are written later.
        unsafe { advise_large_pages(spare.as_mut_ptr().cast::<u8>().add(skipped), bytes) };
    }
    records.resize(len, Record::default());
    records
}

/// Asks the kernel for huge pages.
///
/// # Safety
/// The range must be the caller's own memory, without initialized data.
#[cfg(not(miri))]
unsafe fn advise_large_pages(start: *mut u8, bytes: usize) {
    // SAFETY: the advice changes nothing in the range. If the kernel ignores it, everything works, more slowly.
    let _ = unsafe { rustix::mm::madvise(start.cast(), bytes, rustix::mm::Advice::LinuxHugepage) };
}

/// Writes the range instead, because Miri does not support madvise(2), and so checks that it may be written.
///
/// # Safety
/// As above.
#[cfg(miri)]
unsafe fn advise_large_pages(start: *mut u8, bytes: usize) {
    // SAFETY: guaranteed by the caller.
    unsafe { start.write_bytes(0xa5, bytes) };
}

#[cfg(target_arch = "x86_64")]
pub(super) fn prefetch<T>(value: &T) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a prefetch reads nothing and cannot fault.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast()) };
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn prefetch<T>(_value: &T) {}

#[derive(Debug, Clone)]
pub(crate) struct Live {
    records: Vec<Record>,
    classes: Vec<Slots>,
}

impl Live {
    pub(crate) fn new(capacities: impl Iterator<Item = u32>) -> Self {
        let mut base = 0;
        let mut classes = Vec::new();
        for capacity in capacities {
            classes.push(Slots { base, capacity, passing: 0, staying: 0 });
            base += capacity as usize;
        }
        Self { records: arena(base), classes }
    }

    pub(crate) fn is_far(&self) -> bool {
        self.records.len() > CACHED_RECORDS
    }

    pub(crate) fn fetch(&self, class: usize, passing: u32) {
        if let Some(record) = self.records.get(self.classes[class].base + passing as usize) {
            prefetch(record);
        }
    }

    pub(crate) fn class(&self, class: usize) -> &Slots {
        &self.classes[class]
    }

    pub(crate) fn classes(&self) -> &[Slots] {
        &self.classes
    }

    pub(crate) fn empty_slots(&self) -> usize {
        self.classes.iter().map(|slots| slots.empty() as usize).sum()
    }

    /// Adds a file; returns whether it is the first of its class that can be deleted.
    pub(crate) fn insert(&mut self, class: usize, stays: bool, record: Record) -> bool {
        let slots = &mut self.classes[class];
        if stays {
            slots.staying += 1;
            self.records[slots.base + (slots.capacity - slots.staying) as usize] = record;
            return false;
        }
        self.records[slots.base + slots.passing as usize] = record;
        slots.passing += 1;
        slots.passing == 1
    }

    pub(crate) fn remove(&mut self, class: usize, passing: u32) -> Record {
        let slots = &mut self.classes[class];
        slots.passing -= 1;
        let last = self.records[slots.base + slots.passing as usize];
        std::mem::replace(&mut self.records[slots.base + passing as usize], last)
    }

    /// Decides again which files stay; `records` are all live files.
    pub(crate) fn rearrange(&mut self, records: &[Record], stays: &[bool]) {
        for slots in &mut self.classes {
            (slots.passing, slots.staying) = (0, 0);
        }
        for (record, stays) in records.iter().zip(stays) {
            self.insert(record.class(), *stays, *record);
        }
    }

    pub(crate) fn record(&self, index: u32) -> &Record {
        &self.records[index as usize]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Record> {
        self.indices().map(|index| &self.records[index as usize])
    }

    pub(crate) fn indices(&self) -> impl Iterator<Item = u32> + '_ {
        self.classes.iter().flat_map(|slots| {
            let end = slots.base as u32 + slots.capacity;
            let base = slots.base as u32;
            (base..base + slots.passing).chain(end - slots.staying..end)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Several pages, so that the advice applies to some.
    const CAPACITIES: [u32; 4] = [700, 0, 1, 600];

    fn births(live: &Live, class: usize) -> Vec<u64> {
        let mut births: Vec<u64> =
            live.iter().filter(|record| record.class() == class).map(|record| record.birth()).collect();
        births.sort_unstable();
        births
    }

    #[test]
    fn arena_has_only_default_records() {
        for len in [0, 1, 341, 342, 683, 2000] {
            assert!(arena(len).iter().all(|record| *record == Record::default()), "{len}");
            assert_eq!(arena(len).len(), len);
        }
    }

    #[test]
    fn full_regions_do_not_overlap() {
        let mut live = Live::new(CAPACITIES.into_iter());
        let mut birth = 0;
        for (class, capacity) in CAPACITIES.into_iter().enumerate() {
            for number in 0..capacity {
                birth += 1;
                live.insert(class, number % 3 == 0, Record::new(birth, class, number));
            }
        }
        assert_eq!(live.empty_slots(), 0);
        assert_eq!(births(&live, 0), (1..=700).collect::<Vec<_>>());
        assert_eq!(births(&live, 2), [701]);
        assert_eq!(births(&live, 3), (702..=1301).collect::<Vec<_>>());
        // The removed file's slot is taken by the last file.
        let taken = live.remove(3, 0);
        assert_eq!(live.class(3).live(), 599);
        assert!(!births(&live, 3).contains(&taken.birth()));
        let all: Vec<Record> = live.iter().copied().collect();
        live.rearrange(&all, &vec![true; all.len()]);
        assert_eq!(live.classes().iter().map(|slots| slots.staying).collect::<Vec<_>>(), [700, 0, 1, 599]);
        assert_eq!(births(&live, 0), (1..=700).collect::<Vec<_>>());
    }

    #[test]
    fn records_may_be_prefetched_beyond_the_end() {
        let mut live = Live::new(CAPACITIES.into_iter());
        live.insert(3, false, Record::new(7, 3, 1));
        for (class, passing) in [(0, 0), (1, 0), (3, 599), (3, 600), (3, u32::MAX)] {
            live.fetch(class, passing);
        }
        assert_eq!(births(&live, 3), [7]);
        assert!(!live.is_far());
    }
}
