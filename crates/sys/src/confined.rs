//! What Landlock does not restrict: sockets, metadata, other processes (landlock(7), "Limitations"). x86-64 only.

use crate::filter::{Argument, Filter, failure};
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, capability_is_in_bounding_set, set_capabilities,
    set_capabilities_secure_bits, set_no_new_privs,
};

/// Numbers that libc lacks, of asm/unistd_64.h.
const FCHMODAT2: libc::c_long = 452;
const SETXATTRAT: libc::c_long = 463;
const REMOVEXATTRAT: libc::c_long = 466;
const FILE_SETATTR: libc::c_long = 469;
/// `FS_IOC_SETFLAGS` and `FS_IOC_FSSETXATTR` of linux/fs.h.
const SET_FLAGS: [u32; 2] = [0x4008_6602, 0x401C_5820];

/// A filter does not know paths, so it also refuses these in shares.
const METADATA: [libc::c_long; 22] = [
    libc::SYS_chmod,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    FCHMODAT2,
    libc::SYS_chown,
    libc::SYS_fchown,
    libc::SYS_lchown,
    libc::SYS_fchownat,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    SETXATTRAT,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    REMOVEXATTRAT,
    FILE_SETATTR,
    libc::SYS_quotactl,
];

/// Landlock does not restrict a connection to a socket with a path, or one that is not TCP.
const SOCKETS: [libc::c_long; 4] = [libc::SYS_socket, libc::SYS_connect, libc::SYS_bind, libc::SYS_io_uring_setup];

/// Shared memory, semaphores, queues and keys of other processes.
const SHARED: [libc::c_long; 17] = [
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_inotify_add_watch,
];

/// A process cannot leave its group, which is used to end it, or change the scheduling of others.
const PROCESSES: [libc::c_long; 14] = [
    libc::SYS_setsid,
    libc::SYS_setpgid,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_setpriority,
    libc::SYS_ioprio_set,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setaffinity,
    libc::SYS_process_madvise,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    libc::SYS_perf_event_open,
];

/// Gives up all capabilities, and refuses the calls above (EPERM) to this thread and the programs that it starts. Pairs of
/// connected stream sockets remain.
///
/// # Errors
/// The kernel has no seccomp filters.
pub fn refuse_what_landlock_allows() -> crate::Result<()> {
    let mut filter = Filter::new(failure(libc::ENOSYS));
    for call in METADATA.iter().chain(&SOCKETS).chain(&SHARED).chain(&PROCESSES) {
        filter.answer(*call, libc::EPERM);
    }
    // The lower bits are the kind, the upper ones SOCK_CLOEXEC and SOCK_NONBLOCK. Other kinds can send to a path.
    let kind = Argument { number: 1, mask: 0xF };
    filter.answer_unless(libc::SYS_socketpair, kind, libc::SOCK_STREAM as u32, libc::EPERM);
    let process = Argument { number: 0, mask: u32::MAX };
    filter.answer_unless(libc::SYS_prlimit64, process, 0, libc::EPERM);
    // The flags of clone3(2) are in memory. The C library then calls clone(2).
    filter.answer(libc::SYS_clone3, libc::ENOSYS);
    let user = libc::CLONE_NEWUSER as u32;
    filter.answer_if(libc::SYS_clone, Argument { number: 0, mask: user }, &[user], libc::EPERM);
    filter.answer_if(libc::SYS_ioctl, Argument { number: 1, mask: u32::MAX }, &SET_FLAGS, libc::EPERM);
    give_up_capabilities()?;
    filter.install()
}

/// Drops all capabilities. A program of root would get them again without the first call. It would not keep them, but
/// lose its personality (execve(2)) as if it did.
fn give_up_capabilities() -> crate::Result<()> {
    set_no_new_privs(true)?;
    if rustix::process::geteuid().is_root() && has_bounding_set() {
        let bits = CapabilitiesSecureBits::NO_ROOT | CapabilitiesSecureBits::NO_ROOT_LOCKED;
        set_capabilities_secure_bits(bits)?;
    }
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
}

/// Returns whether a program of root can have any capability.
fn has_bounding_set() -> bool {
    CapabilitySet::all().iter().any(|one| capability_is_in_bounding_set(one).unwrap_or(false))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    fn pair(kind: libc::c_int) -> libc::c_int {
        let mut ends = [0; 2];
        // SAFETY: the call writes two descriptors.
        unsafe { libc::socketpair(libc::AF_UNIX, kind | libc::SOCK_CLOEXEC, 0, ends.as_mut_ptr()) }
    }

    #[test]
    fn confined_thread_has_no_sockets_and_changes_no_metadata() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let checked = move || {
            refuse_what_landlock_allows().unwrap();
            let mode = rustix::fs::fchmod(&file, rustix::fs::Mode::RWXU);
            let flags = rustix::fs::ioctl_setflags(&file, rustix::fs::IFlags::empty());
            let group = rustix::process::setpgid(None, None);
            // SAFETY: the arguments are numbers.
            let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0) };
            let size = rustix::fs::fstat(&file).map(|found| found.st_size);
            let ends = [libc::SOCK_STREAM, libc::SOCK_DGRAM].map(pair);
            (mode, flags, group, socket, size, ends, rustix::io::ioctl_fionread(&file))
        };
        let found = std::thread::spawn(checked).join().unwrap();
        let refused = Err(Errno::PERM);
        assert_eq!(found, (refused, refused, refused, -1, Ok(0), [0, -1], Ok(0)));
    }

    #[test]
    fn limits_of_this_process_only_can_be_changed() {
        let checked = || {
            refuse_what_landlock_allows().unwrap();
            let limits = rustix::process::getrlimit(rustix::process::Resource::Nofile);
            let of = |process| rustix::process::prlimit(process, rustix::process::Resource::Nofile, limits);
            (of(None).is_ok(), of(rustix::process::getppid()).map(|_| ()))
        };
        assert_eq!(std::thread::spawn(checked).join().unwrap(), (true, Err(Errno::PERM)));
    }
}
