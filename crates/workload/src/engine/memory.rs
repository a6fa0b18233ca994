//! Memory of a thread, the buffer of its reads and writes.

use memmap2::MmapMut;
use std::io;

/// `memsize` bytes as in the workload, or a buffer that grows with the largest call.
pub(crate) struct Memory {
    map: Option<MmapMut>,
    fixed: bool,
}

/// Length of the repeated pseudo-random pattern.
const PATTERN_BYTES: usize = 64 << 10;

impl Memory {
    /// Allocates memory filled with incompressible content; with 0 bytes it grows on demand.
    pub(crate) fn new(bytes: u64, salt: u64) -> io::Result<Self> {
        if bytes == 0 {
            return Ok(Self { map: None, fixed: false });
        }
        Ok(Self { map: Some(filled(bytes, salt)?), fixed: true })
    }

    /// Returns the requested bytes; 0: grows on demand.
    pub(crate) fn fixed_bytes(&self) -> u64 {
        if self.fixed { self.map.as_ref().map_or(0, |map| map.len() as u64) } else { 0 }
    }

    /// Returns a buffer at an offset (0 for growing memory). Grows if necessary.
    pub(crate) fn buffer(&mut self, offset: u64, bytes: u64) -> io::Result<&mut [u8]> {
        let have = self.map.as_ref().map_or(0, |map| map.len() as u64);
        if !self.fixed && have < bytes {
            self.map = Some(filled(bytes, 0)?);
        }
        let map = self.map.as_mut().map_or(&mut [][..], |map| &mut map[..]);
        let (start, end) = (offset as usize, (offset + bytes) as usize);
        map.get_mut(start..end).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))
    }
}

/// Returns a page-aligned mapping with pseudo-random content (xorshift64*, Vigna 2016).
pub fn filled(bytes: u64, salt: u64) -> io::Result<MmapMut> {
    let mut map = MmapMut::map_anon(usize::try_from(bytes).map_err(io::Error::other)?)?;
    let pattern = map.len().min(PATTERN_BYTES);
    let mut state = salt.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    for chunk in map[..pattern].chunks_mut(8) {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        let word = state.wrapping_mul(0x2545_F491_4F6C_DD1D).to_le_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
    let (first, rest) = map.split_at_mut(pattern);
    for chunk in rest.chunks_mut(PATTERN_BYTES) {
        chunk.copy_from_slice(&first[..chunk.len()]);
    }
    Ok(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growing_memory_fits_the_largest_call() {
        let mut growing = Memory::new(0, 1).unwrap();
        assert_eq!(growing.fixed_bytes(), 0);
        assert_eq!(growing.buffer(0, 5000).unwrap().len(), 5000);
        let mut fixed = Memory::new(8192, 1).unwrap();
        assert_eq!(fixed.buffer(4096, 4096).unwrap().len(), 4096);
        assert!(fixed.buffer(4096, 4097).is_err());
    }

    #[test]
    fn content_is_not_compressible() {
        let map = filled(256 << 10, 7).unwrap();
        let mut seen = [0u32; 256];
        map.iter().for_each(|byte| seen[*byte as usize] += 1);
        assert!(seen.iter().all(|count| (800..1300).contains(count)));
    }
}
