//! What this machine is: its memory, as a size with its unit, and whether it is the lab's guest.

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

/// The variable in which the lab tells its guest how it runs, `kvm` or `tcg`. Proof of a guest it is not: anybody can set it.
pub const LAB: &str = "SENESCE_LAB";

/// How the lab's guest runs that this is, `kvm` or `tcg`; none outside of the lab.
pub fn lab_accelerator() -> Option<String> {
    std::env::var(LAB).ok()
}

/// Whether the processor is emulated: clocks then tell the emulator's time.
pub fn is_emulated() -> bool {
    lab_accelerator().is_some_and(|word| word == EMULATION)
}

/// The word of [`lab_accelerator`] for emulation.
pub const EMULATION: &str = "tcg";
