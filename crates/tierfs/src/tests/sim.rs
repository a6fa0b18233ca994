//! Simulated memory and cold store that model crashes.

use crate::cold::{AlignedBuffer, ColdStore};
use crate::format::{BLOCK, Identity};
use crate::nvm::{MappedNvm, Nvm};
use crate::open::{Options, format_region};
use crate::{TierError, TierFs};
use parking_lot::Mutex;
use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

const LINE: usize = 64;
const SECTOR: usize = 512;

/// Called at every persist before it takes effect: (memory as stored, memory as durable).
pub(crate) type Hook = Box<dyn FnMut(&[u8], &[u8]) + Send>;

struct SimState {
    durable: Vec<u8>,
    hook: Option<Hook>,
    /// Number of persists until one fails.
    until_failure: Option<usize>,
    failed: bool,
}

/// Memory whose stores become durable by cache lines on `persist`.
#[derive(Clone)]
pub(crate) struct SimNvm {
    memory: Arc<Shared>,
    state: Arc<Mutex<SimState>>,
}

struct Shared(*mut u8, usize, #[allow(dead_code)] Mutex<AlignedBuffer>);
// SAFETY: the buffer is owned; accesses are ordered by the file system.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl SimNvm {
    pub(crate) fn new(image: &[u8]) -> Self {
        let mut buffer = AlignedBuffer::new(image.len() / BLOCK);
        buffer.copy_from_slice(image);
        let (base, len) = (buffer.as_mut_ptr(), buffer.len());
        let state = SimState { durable: image.to_vec(), hook: None, until_failure: None, failed: false };
        Self { memory: Arc::new(Shared(base, len, Mutex::new(buffer))), state: Arc::new(Mutex::new(state)) }
    }

    pub(crate) fn set_hook(&self, hook: Hook) {
        self.state.lock().hook = Some(hook);
    }

    /// Lets one persist fail after `count` more, as msync(2) does: later ones succeed again.
    pub(crate) fn fail_after(&self, count: usize) {
        self.state.lock().until_failure = Some(count);
    }

    pub(crate) fn durable(&self) -> Vec<u8> {
        self.state.lock().durable.clone()
    }

    pub(crate) fn image(&self) -> Vec<u8> {
        // SAFETY: called between operations.
        unsafe { std::slice::from_raw_parts(self.memory.0, self.memory.1).to_vec() }
    }
}

// SAFETY: the buffer lives in the shared part and never moves.
unsafe impl Nvm for SimNvm {
    fn base(&self) -> *mut u8 {
        self.memory.0
    }

    fn len(&self) -> usize {
        self.memory.1
    }

    fn persist_all(&self, ranges: &[Range<usize>]) {
        // SAFETY: inside the buffer; tests that use hooks run operations one at a time.
        let stored = unsafe { std::slice::from_raw_parts(self.memory.0, self.memory.1) };
        let mut guard = self.state.lock();
        let state = &mut *guard;
        if let Some(hook) = &mut state.hook {
            hook(stored, &state.durable);
        }
        state.until_failure = match state.until_failure {
            Some(0) => {
                state.failed = true;
                state.until_failure = None;
                return;
            }
            more => more.map(|count| count - 1),
        };
        for range in ranges {
            let (first, last) = (range.start / LINE * LINE, range.end.next_multiple_of(LINE));
            state.durable[first..last].copy_from_slice(&stored[first..last]);
        }
    }

    fn failed(&self) -> bool {
        self.state.lock().failed
    }

    fn durability(&self) -> &'static str {
        "simulated"
    }
}

/// Unpersisted words that survive a crash. A cold sector is written or not; a cache line can tear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Survivors {
    None,
    All,
    Random,
    /// All but one cache line, counted from the first that is not persisted.
    AllBut(usize),
    /// A part of one cache line.
    Torn(usize),
}

/// Number of unpersisted cache lines.
pub(crate) fn unpersisted(stored: &[u8], durable: &[u8]) -> usize {
    stored.chunks(LINE).zip(durable.chunks(LINE)).filter(|(now, then)| now != then).count()
}

/// An image after a crash: every changed word may have survived or not.
pub(crate) fn crash_image(stored: &[u8], durable: &[u8], survivors: Survivors, rng: &mut Pcg64) -> Vec<u8> {
    let mut image = durable.to_vec();
    let lines = stored.chunks(LINE).zip(durable.chunks(LINE)).enumerate();
    for (count, (line, (now, _))) in lines.filter(|(_, (now, then))| now != then).enumerate() {
        for word in 0..LINE / 8 {
            let survives = match survivors {
                Survivors::None => false,
                Survivors::All => true,
                Survivors::Random => rng.next_u32().is_multiple_of(2),
                Survivors::AllBut(dropped) => count != dropped,
                Survivors::Torn(torn) => count == torn && rng.next_u32().is_multiple_of(2),
            };
            if survives {
                let at = line * LINE + word * 8;
                image[at..at + 8].copy_from_slice(&now[word * 8..word * 8 + 8]);
            }
        }
    }
    image
}

#[derive(Default)]
struct ColdState {
    synced: BTreeMap<u32, Vec<u8>>,
    written: BTreeMap<u32, Vec<u8>>,
    fail_reads: bool,
    fail_writes: Option<i32>,
}

/// A cold store in memory that loses unsynced slots in a crash, and fails on request.
#[derive(Clone, Default)]
pub(crate) struct SimCold(Arc<Mutex<ColdState>>);

impl SimCold {
    pub(crate) fn crash(&self, survivors: Survivors, rng: &mut Pcg64) -> SimCold {
        let state = self.0.lock();
        let mut synced = state.synced.clone();
        for (slot, data) in &state.written {
            match survivors {
                Survivors::None => {}
                Survivors::All => drop(synced.insert(*slot, data.clone())),
                Survivors::Random | Survivors::AllBut(_) | Survivors::Torn(_) => {
                    let mut torn = synced.get(slot).cloned().unwrap_or(vec![0xee; BLOCK]);
                    for (old, new) in torn.chunks_mut(SECTOR).zip(data.chunks(SECTOR)) {
                        if rng.next_u32().is_multiple_of(2) {
                            old.copy_from_slice(new);
                        }
                    }
                    synced.insert(*slot, torn);
                }
            }
        }
        SimCold(Arc::new(Mutex::new(ColdState { synced, ..ColdState::default() })))
    }

    pub(crate) fn fail_reads(&self, fail: bool) {
        self.0.lock().fail_reads = fail;
    }

    pub(crate) fn slots(&self) -> Vec<u32> {
        let state = self.0.lock();
        state.synced.keys().chain(state.written.keys()).copied().collect()
    }

    pub(crate) fn change(&self, slot: u32, change: impl FnOnce(&mut [u8])) {
        change(self.0.lock().synced.get_mut(&slot).expect("the slot was written"));
    }

    pub(crate) fn fail_writes(&self, errno: Option<i32>) {
        self.0.lock().fail_writes = errno;
    }
}

impl ColdStore for SimCold {
    fn read(&self, slot: u32, into: &mut [u8]) -> io::Result<()> {
        let state = self.0.lock();
        if state.fail_reads {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        for (index, chunk) in into.chunks_mut(BLOCK).enumerate() {
            let slot = slot + index as u32;
            let data = state.written.get(&slot).or_else(|| state.synced.get(&slot));
            chunk.copy_from_slice(data.expect("a slot that was never written is read"));
        }
        Ok(())
    }

    fn write(&self, slot: u32, from: &[u8]) -> io::Result<()> {
        let mut state = self.0.lock();
        for (index, chunk) in from.chunks(BLOCK).enumerate() {
            if let Some(errno) = state.fail_writes {
                // Half of the batch is written.
                if index * 2 >= from.len() / BLOCK {
                    return Err(io::Error::from_raw_os_error(errno));
                }
            }
            state.written.insert(slot + index as u32, chunk.to_vec());
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.0.lock();
        let written = std::mem::take(&mut state.written);
        state.synced.extend(written);
        Ok(())
    }

    fn punch(&self, slot: u32, count: u32) -> io::Result<()> {
        let mut state = self.0.lock();
        for slot in slot..slot + count {
            state.written.remove(&slot);
            state.synced.remove(&slot).expect("a slot that was never written is punched");
        }
        Ok(())
    }

    fn has_space(&self, _bytes: u64) -> bool {
        self.0.lock().fail_writes.is_none()
    }

    fn describe(&self) -> String {
        "simulated".into()
    }
}

pub(crate) fn empty_image(blocks: u64, slots: u64) -> Vec<u8> {
    let nvm = SimNvm::new(&vec![0; blocks as usize * BLOCK]);
    format_region(Box::new(nvm.clone()), &Identity { pair: [1; 16], blocks, slots }).unwrap();
    nvm.image()
}

pub(crate) fn open_image(image: &[u8], cold: &SimCold, options: &Options) -> Result<TierFs, TierError> {
    TierFs::open(anonymous(image), Box::new(cold.clone()), Path::new("image"), options)
}

pub(crate) fn anonymous(image: &[u8]) -> Box<dyn Nvm> {
    let nvm = MappedNvm::anonymous(image.len() as u64).unwrap();
    // SAFETY: fresh memory of that size.
    unsafe { std::ptr::copy_nonoverlapping(image.as_ptr(), nvm.base(), image.len()) };
    Box::new(nvm)
}

/// An empty file system without eviction thread.
pub(crate) fn small(blocks: u64, slots: u64) -> (TierFs, SimNvm, SimCold) {
    let (nvm, cold) = (SimNvm::new(&empty_image(blocks, slots)), SimCold::default());
    (open_nvm(&nvm, &cold, &Options::default()), nvm, cold)
}

pub(crate) fn open_nvm(nvm: &SimNvm, cold: &SimCold, options: &Options) -> TierFs {
    TierFs::open(Box::new(nvm.clone()), Box::new(cold.clone()), Path::new("image"), options).unwrap()
}
