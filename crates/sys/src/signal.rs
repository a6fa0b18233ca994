//! Signals whose default action would end this process without an error message.

/// Handles a signal by doing nothing: the interrupted call fails with its own error.
extern "C" fn do_nothing(_: libc::c_int) {}

/// Lets a write beyond the maximum allowed file size (RLIMIT_FSIZE, `ulimit -f`) fail with EFBIG instead of ending this process.
/// Uses a handler instead of SIG_IGN, because execve(2) resets handlers, so that child programs keep the default action.
pub fn survive_file_size_limit() -> crate::Result<()> {
    // SAFETY: the structure is plain numbers, for which zero is valid: no flags and an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = do_nothing as *const () as usize;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the handler does nothing; the pointer is to a structure that lives through the call.
    match unsafe { libc::sigaction(libc::SIGXFSZ, &action, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(crate::errno::last()),
    }
}
