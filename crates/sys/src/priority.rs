use rustix::io::Errno;
use rustix::process::setpriority_process;

/// Sets the nice value of the calling thread (setpriority(2)); a lower value needs privilege.
pub fn set_thread_nice(nice: i32) -> crate::Result<()> {
    setpriority_process(None, nice)
}

/// Sets the I/O priority of the calling thread to a level, 0 to 7, of the best-effort class (ioprio_set(2)).
pub fn set_thread_io_best_effort(level: u8) -> crate::Result<()> {
    // linux/ioprio.h: who 1 is a process or thread, and id 0 the caller; the class, 2, is in the bits from 13. Since Linux 6.5
    // the bits between class and level are hints, so a level above 7 would set a hint.
    const WHO_PROCESS: libc::c_int = 1;
    const BEST_EFFORT: libc::c_int = 2 << 13;
    if level > 7 {
        return Err(Errno::INVAL);
    }
    let value = BEST_EFFORT | libc::c_int::from(level);
    // SAFETY: the call takes three numbers.
    match unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0 as libc::c_int, value) } {
        0 => Ok(()),
        _ => Err(crate::errno::last()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_level_is_refused() {
        assert_eq!(set_thread_io_best_effort(7), Ok(()));
        assert_eq!(set_thread_io_best_effort(8), Err(Errno::INVAL));
    }
}
