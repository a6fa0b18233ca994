//! Child processes, and the processor of this one.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// Has the kernel kill the child when the calling thread ends, and gives it a session of its own: Ctrl-C reaches only this process.
pub fn ends_with_parent(command: &mut Command) {
    end_with_parent(command, libc::SIGKILL);
}

/// Works like [`ends_with_parent`], but sends SIGTERM, for a child that ends its own children first.
pub fn terminates_with_parent(command: &mut Command) {
    end_with_parent(command, libc::SIGTERM);
}

fn end_with_parent(command: &mut Command, signal: libc::c_int) {
    let parent = std::process::id();
    // SAFETY: prctl, setsid and getppid are async-signal-safe and touch no memory of the parent.
    unsafe {
        command.pre_exec(move || {
            libc::prctl(libc::PR_SET_PDEATHSIG, signal);
            libc::setsid();
            if libc::getppid() as u32 != parent {
                return Err(std::io::Error::from_raw_os_error(libc::ESRCH));
            }
            Ok(())
        });
    }
}

/// Returns the number of the processor on which the calling thread runs (sched_getcpu(3)).
pub fn current_processor() -> Option<usize> {
    // SAFETY: the call has no arguments.
    usize::try_from(unsafe { libc::sched_getcpu() }).ok()
}
