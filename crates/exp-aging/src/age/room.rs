//! Whether the file system has room for a plan, asked before the first file.

use super::events::Rehearsal;
use senesce_core::{Bytes, ExitCode, Failure};
use std::path::Path;

/// Refuses a plan that the file system below `root` cannot hold, naming the largest fullness that it can.
pub fn check_room(rehearsal: &Rehearsal, root: &Path) -> Result<(), Failure> {
    let summary = &rehearsal.summary;
    let stat = rustix::fs::statvfs(root).map_err(|errno| {
        let words = senesce_core::failure::errno_words(&errno.into());
        Failure::new(ExitCode::RunFailed, format!("ask for the room in {}: {words}", root.display()))
    })?;
    let free = if senesce_core::environment::is_root() { stat.f_bfree } else { stat.f_bavail } * stat.f_frsize;
    // One block for each directory, and 64 bytes of directory entry for each file.
    let overhead = u64::from(summary.directories) * 4096 + summary.files_at_most * 64;
    let capacity = summary.capacity.0 as f64;
    let walk = (rehearsal.measures.fullness.max - summary.fullness).max(0.0);
    let needed = ((summary.fullness + walk) * capacity) as u64 + overhead;
    if needed > free {
        let possible = free.saturating_sub(overhead) as f64 / capacity - walk;
        return Err(Failure::usage(format!(
            "fullness {:.3} needs {} with directories and the walk of fullness; the file system has {} free for files: \
             the largest possible fullness is {:.3}",
            summary.fullness,
            Bytes(needed),
            Bytes(free),
            (possible * 1000.0).floor() / 1000.0
        )));
    }
    let inodes = summary.files_at_most + u64::from(summary.directories);
    // btrfs and others without a fixed number of inodes say 0.
    if stat.f_files > 0 && inodes > stat.f_ffree {
        return Err(Failure::usage(format!(
            "the plan needs {inodes} inodes, the file system has {}: make it with more (ext4: --mkfs-options '-N {}')",
            stat.f_ffree,
            inodes + inodes / 20 + 100
        )));
    }
    Ok(())
}
