//! Makes two runs of a program equal: without entropy of the kernel, random addresses, and waits for storage.

use rustix::ioctl::{Setter, ioctl, opcode};
use std::os::fd::AsFd;

/// `AUDIT_ARCH_X86_64` of linux/audit.h. System calls of another architecture pass.
const X86_64: u32 = 0xC000_003E;
/// Offsets of the number and the architecture in `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;

/// System calls that the kernel answers at once: the number, and the error, or 0 for success.
const ANSWERS: [(libc::c_long, libc::c_int); 3] =
    [(libc::SYS_getrandom, libc::EPERM), (libc::SYS_fsync, 0), (libc::SYS_fdatasync, 0)];

/// Gives this thread and the programs that it starts fixed addresses, and refuses them `getrandom` (EPERM). Their `fsync` and
/// `fdatasync` succeed without effect; another process must make their files durable. Children cannot undo it.
///
/// # Errors
/// The kernel has no seccomp filters, or forbids the personality.
pub fn make_deterministic() -> crate::Result<()> {
    let statement = |code: u32, value: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k: value };
    let unless_equal = |value: u32, skip: usize| libc::sock_filter {
        jf: skip as u8,
        ..statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, value)
    };
    let load = |offset| statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset);
    let end = |action| statement(libc::BPF_RET | libc::BPF_K, action);
    let mut program = vec![load(ARCHITECTURE), unless_equal(X86_64, 1 + 2 * ANSWERS.len()), load(NUMBER)];
    for (call, error) in ANSWERS {
        program.extend([unless_equal(call as u32, 1), end(libc::SECCOMP_RET_ERRNO | error as u32)]);
    }
    program.push(end(libc::SECCOMP_RET_ALLOW));
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the arguments are numbers, and a filter that lives until the call returns, when the kernel has copied it.
    unsafe {
        checked(libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong))?;
        checked(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))?;
        checked(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter))
    }
}

fn checked(result: libc::c_int) -> crate::Result<()> {
    if result < 0 { Err(crate::errno::last()) } else { Ok(()) }
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
