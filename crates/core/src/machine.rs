//! Memory of this machine, as a size with its unit.

use crate::units::Bytes;
use senesce_sys::memory;

/// Memory of this machine; none where it does not tell.
pub fn memory_total() -> Option<Bytes> {
    memory::total_bytes().map(Bytes)
}

/// Memory that can be taken without swapping, by the kernel's estimate; none where it does not tell.
pub fn memory_available() -> Option<Bytes> {
    memory::available_bytes().map(Bytes)
}
