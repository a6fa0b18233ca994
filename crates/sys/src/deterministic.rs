//! Makes two runs of a program equal: without entropy of the kernel, random addresses, and waits for storage.

use crate::filter::{Filter, checked};
use rustix::ioctl::{Setter, ioctl, opcode};
use std::os::fd::AsFd;

/// System calls that the kernel answers at once: the number, and the error, or 0 for success.
const ANSWERS: [(libc::c_long, libc::c_int); 3] =
    [(libc::SYS_getrandom, libc::EPERM), (libc::SYS_fsync, 0), (libc::SYS_fdatasync, 0)];

/// Gives the programs that this thread starts fixed addresses.
///
/// # Errors
/// EPERM if a filter of system calls forbids it, such as Docker's default profile.
pub fn fix_addresses() -> crate::Result<()> {
    // SAFETY: the argument is a number.
    checked(unsafe { libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong) })
}

/// Returns whether [`fix_addresses`] works here, without changing the calling thread.
pub fn can_fix_addresses() -> bool {
    std::thread::spawn(|| fix_addresses().is_ok()).join().unwrap_or(false)
}

/// Denies `getrandom` (EPERM) to this thread and the programs that it starts. Their `fsync` and `fdatasync` succeed
/// without effect; another process must make their files durable. Children cannot undo it.
///
/// # Errors
/// The kernel has no seccomp filters.
pub fn make_deterministic() -> crate::Result<()> {
    // System calls of another architecture pass.
    let mut filter = Filter::new(libc::SECCOMP_RET_ALLOW);
    ANSWERS.iter().for_each(|(call, error)| filter.answer(*call, *error));
    filter.install()
}

/// Gives this thread, and those that it starts, priority over the kernel's background threads until they wait (SCHED_FIFO).
///
/// # Errors
/// EPERM without CAP_SYS_NICE.
pub fn run_until_waiting() -> crate::Result<()> {
    // struct sched_param of the kernel. The function of musl always fails, so this is the system call.
    let priority: libc::c_int = 1;
    // SAFETY: the priority outlives the call.
    checked(
        unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_FIFO, &raw const priority) } as libc::c_int
    )
}

#[repr(C)]
struct Entropy {
    bits: libc::c_int,
    bytes: libc::c_int,
    seed: [u8; 32],
}

/// Seeds the kernel's random numbers (`/dev/random`), which are then ready. Earlier entropy is not removed.
///
/// # Errors
/// EPERM without `CAP_SYS_ADMIN`.
pub fn seed_kernel(random: impl AsFd, seed: [u8; 32]) -> crate::Result<()> {
    const ADD: rustix::ioctl::Opcode = opcode::write::<[libc::c_int; 2]>(b'R', 3);
    let entropy = Entropy { bits: 256, bytes: 32, seed };
    // SAFETY: RNDADDENTROPY reads a `struct rand_pool_info` with its bytes.
    unsafe { ioctl(random, Setter::<ADD, Entropy>::new(entropy)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_stay_random_where_a_filter_forbids_fixed_ones() {
        let found = std::thread::spawn(|| {
            let mut filter = Filter::new(libc::SECCOMP_RET_ALLOW);
            filter.answer(libc::SYS_personality, libc::EPERM);
            filter.install().unwrap();
            (can_fix_addresses(), fix_addresses())
        });
        assert_eq!(found.join().unwrap(), (false, Err(rustix::io::Errno::PERM)));
    }

    #[test]
    fn deterministic_thread_gets_no_random_numbers() {
        let found = std::thread::spawn(|| {
            let random = || rustix::rand::getrandom(&mut [0u8; 8], rustix::rand::GetRandomFlags::empty());
            // A pipe cannot be synchronised.
            let (_reader, pipe) = rustix::pipe::pipe().unwrap();
            let before = (random(), rustix::fs::fsync(&pipe));
            make_deterministic().unwrap();
            (before, (random(), rustix::fs::fsync(&pipe)))
        });
        let (before, after) = found.join().unwrap();
        assert_eq!(before, (Ok(8), Err(rustix::io::Errno::INVAL)));
        assert_eq!(after, (Err(rustix::io::Errno::PERM), Ok(())));
    }
}
