//! Facts about this machine: its memory, and whether it is a guest.

use crate::units::Bytes;
use senesce_sys::memory;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

/// Returns the total memory; `None` if unknown.
pub fn memory_total() -> Option<Bytes> {
    memory::total_bytes().map(Bytes)
}

/// Returns the memory available without swapping, as estimated by the kernel; `None` if unknown.
pub fn memory_available() -> Option<Bytes> {
    memory::available_bytes().map(Bytes)
}

/// Environment variable that the host sets in its guest to `kvm`, `tcg` or `uml`. Not a proof of a guest, because anyone can set it.
pub const GUEST: &str = "SENESCE_VM";

/// Environment variable that the host sets in its guest to the kernel's release and the digest of its program.
pub const GUEST_KERNEL: &str = "SENESCE_VM_KERNEL";

/// Environment variable that the host sets in its guest to the digest of the programs of the package senesce-kernel, if installed.
pub const GUEST_USERLAND: &str = "SENESCE_VM_USERLAND";

/// Environment variable that the host sets in its guest of user-mode Linux to the confinement of its kernel: `namespaces` or
/// `landlock`.
pub const GUEST_CONFINEMENT: &str = "SENESCE_VM_CONFINEMENT";

/// Environment variable that the host sets in its guest in virtual time to the addresses of the kernel's memory: `fixed`, or `random`
/// if the host forbids personality(2) and the kernel does not fix them.
pub const GUEST_ADDRESSES: &str = "SENESCE_VM_ADDRESSES";

/// Environment variable that the host sets in its guest to the time of its start, like `run.date`.
pub const GUEST_DATE: &str = "SENESCE_VM_DATE";

/// Environment variable that the host sets in its guest to 128 random bits: in virtual time, a guest has none of its own.
pub const GUEST_RANDOM: &str = "SENESCE_VM_RANDOM";

/// Ways to any user-mode kernel, the fastest one first.
pub const KERNEL_ADVICE: &str = "senesce vm setup; or, with virtual time, senesce vm build 6.12";

/// How to get a user-mode kernel with virtual time, which Debian's does not have.
pub const VIRTUAL_TIME_ADVICE: &str = "install the package senesce-kernel, or build one: senesce vm build 6.12";

/// Returns the accelerator of this guest, `kvm`, `tcg` or `uml` (user-mode Linux); `None` outside of a guest.
pub fn guest_accelerator() -> Option<String> {
    std::env::var(GUEST).ok()
}

/// Returns whether the processor is emulated, so that clocks show the emulator's time.
pub fn is_emulated() -> bool {
    guest_accelerator().is_some_and(|word| has_no_real_times(&word))
}

/// Returns whether this is a user-mode kernel whose clock goes to the next timer when it is idle (`time-travel=`).
pub fn time_is_virtual() -> bool {
    static IS_VIRTUAL: OnceLock<bool> = OnceLock::new();
    *IS_VIRTUAL.get_or_init(|| {
        let words = || fs::read_to_string("/proc/cmdline").unwrap_or_default();
        guest_accelerator().is_some_and(|word| word == "uml")
            && words().split_whitespace().any(|word| word.starts_with("time-travel"))
    })
}

/// Kernel parameter of a guest whose shares show the owners of the host: the user who runs it.
const HOST_USER: &str = "senesce_user";

/// Maps the owner of a file to this machine's users. In a guest that shows the owners of the host, files of the user
/// who runs it belong to root. This user has no other name there. Only the host sets the parameters of a kernel.
pub fn owner_here(owner: u32) -> u32 {
    if user_of_host() == Some(owner) { 0 } else { owner }
}

/// Returns whether a file of this owner belongs to the user who runs this program: in a guest that shows the owners of the host,
/// to the user who started it.
pub(crate) fn is_own(owner: u32) -> bool {
    owner == user_of_host().unwrap_or_else(|| rustix::process::geteuid().as_raw())
}

/// Returns whether this is a guest that shows the owners of the host. It has no other users.
pub(crate) fn shows_owners_of_host() -> bool {
    user_of_host().is_some()
}

fn user_of_host() -> Option<u32> {
    static USER: OnceLock<Option<u32>> = OnceLock::new();
    *USER.get_or_init(|| host_user(&fs::read_to_string("/proc/cmdline").unwrap_or_default()))
}

/// Returns the parameter for the kernel of a guest that this user starts. Root needs none.
pub fn host_user_parameter() -> Option<String> {
    let user = rustix::process::geteuid();
    (!user.is_root()).then(|| format!("{HOST_USER}={}", user.as_raw()))
}

fn host_user(parameters: &str) -> Option<u32> {
    let value = |word: &str| word.strip_prefix(HOST_USER)?.strip_prefix('=')?.parse().ok();
    parameters.split_whitespace().find_map(value)
}

/// Returns the name of this machine. A user-mode kernel reports that of its host.
pub(crate) fn host_name() -> String {
    let is_user_mode = guest_accelerator().is_some_and(|word| word == "uml");
    let of_host = || host_of_guest(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default());
    let own = || rustix::system::uname().nodename().to_string_lossy().into_owned();
    is_user_mode.then(of_host).flatten().unwrap_or_else(own)
}

/// Parses the line `host : SYSTEM NAME RELEASE ...` of user-mode Linux (arch/um/kernel/um_arch.c of the kernel).
fn host_of_guest(cpuinfo: &str) -> Option<String> {
    let line = cpuinfo.lines().find(|line| line.starts_with("host"))?;
    line.split_once(':')?.1.split_whitespace().nth(1).map(str::to_string)
}

/// Returns whether this is a virtual machine, as far as detectable: by the processor's flag (x86), or by the
/// hypervisor's traces (device tree, Xen).
pub(crate) fn is_virtual() -> bool {
    let stated = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    has_flag(&stated, "hypervisor")
        || ["/proc/device-tree/hypervisor", "/sys/hypervisor/type"].iter().any(|path| Path::new(path).exists())
}

fn has_flag(cpuinfo: &str, flag: &str) -> bool {
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags"));
    flags.is_some_and(|line| line.split_whitespace().any(|word| word == flag))
}

/// Returns whether times in a guest of this accelerator are not those of a machine. They are an emulator's, or those of
/// user-mode Linux, whose devices take no time.
pub fn has_no_real_times(accelerator: &str) -> bool {
    matches!(accelerator, "tcg" | "uml")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_of_the_host_is_a_kernel_parameter() {
        assert_eq!(host_user("mem=600M senesce_job=/tmp/job.json senesce_user=1000\n"), Some(1000));
        for others in ["", "senesce_user=root", "no_senesce_user=7", "senesce_users=7"] {
            assert_eq!(host_user(others), None, "{others}");
        }
        assert_eq!(owner_here(1000), 1000, "outside of a guest");
    }

    #[test]
    fn user_mode_kernel_names_its_host() {
        let stated = "model name\t: UML\nmode\t\t: skas\nhost\t\t: Linux builder 6.1.0 #1 SMP x86_64\nfpu\t\t: yes\n";
        assert_eq!(host_of_guest(stated), Some("builder".into()));
        for others in ["", "model name\t: UML\n", "host\t\t: Linux\n"] {
            assert_eq!(host_of_guest(others), None, "{others}");
        }
    }

    #[test]
    fn virtual_machine_is_detected_by_its_flag() {
        assert!(has_flag("processor : 0\nflags\t\t: fpu hypervisor lm\n", "hypervisor"));
        assert!(!has_flag("flags : fpu lm\nmodel name : hypervisor\n", "hypervisor"));
        assert!(!has_flag("flags : hypervisors\n", "hypervisor"));
        assert!(!has_flag("", "hypervisor"));
    }
}
