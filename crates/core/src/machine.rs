//! What this machine is: its memory, as a size with its unit, and whether it is the guest.

use crate::units::Bytes;
use senesce_sys::memory;
use std::fs;
use std::path::Path;

/// Memory of this machine; none where it does not tell.
pub fn memory_total() -> Option<Bytes> {
    memory::total_bytes().map(Bytes)
}

/// Memory that can be taken without swapping, by the kernel's estimate; none where it does not tell.
pub fn memory_available() -> Option<Bytes> {
    memory::available_bytes().map(Bytes)
}

/// The variable in which the guest tells its guest how it runs, `kvm` or `tcg`. Proof of a guest it is not: anybody can set it.
pub const GUEST: &str = "SENESCE_VM";

/// How the guest runs that this is, `kvm` or `tcg`; none outside of the guest.
pub fn guest_accelerator() -> Option<String> {
    std::env::var(GUEST).ok()
}

/// Whether the processor is emulated: clocks then tell the emulator's time.
pub fn is_emulated() -> bool {
    guest_accelerator().is_some_and(|word| word == EMULATION)
}

/// Whether this is a virtual machine, as far as it can be told: by the processor's flag (x86), or by what the hypervisor shows
/// (device tree of others, Xen).
pub fn is_virtual() -> bool {
    let told = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    has_flag(&told, "hypervisor")
        || ["/proc/device-tree/hypervisor", "/sys/hypervisor/type"].iter().any(|path| Path::new(path).exists())
}

fn has_flag(cpuinfo: &str, flag: &str) -> bool {
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags"));
    flags.is_some_and(|line| line.split_whitespace().any(|word| word == flag))
}

/// The word of [`guest_accelerator`] for emulation.
pub const EMULATION: &str = "tcg";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_virtual_machine_is_told_by_its_flag() {
        assert!(has_flag("processor : 0\nflags\t\t: fpu hypervisor lm\n", "hypervisor"));
        assert!(!has_flag("flags : fpu lm\nmodel name : hypervisor\n", "hypervisor"));
        assert!(!has_flag("flags : hypervisors\n", "hypervisor"));
        assert!(!has_flag("", "hypervisor"));
    }
}
