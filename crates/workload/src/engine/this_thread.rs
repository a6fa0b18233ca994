//! Settings and measurements of the calling thread.

use rustix::io::Errno;
use senesce_core::failure::errno_message;
use senesce_sys::priority;

pub(super) fn set_priorities(nice: i64, io_priority: Option<u8>) -> Result<(), String> {
    let failed = |what: String| move |errno: Errno| format!("{what}: {}", errno_message(&errno.into()));
    if nice != 0 {
        priority::set_thread_nice(nice as i32).map_err(failed(format!("set nice={nice}")))?;
    }
    if let Some(level) = io_priority {
        priority::set_thread_io_best_effort(level).map_err(failed(format!("set ioprio={level}")))?;
    }
    Ok(())
}
