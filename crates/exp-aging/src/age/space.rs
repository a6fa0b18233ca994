//! Checks the space that a plan needs before the first file, and watches it during the execution.

use super::RESUME;
use super::events::Rehearsal;
use super::spec::AgeSpec;
use senesce_aging::{AgingError, Data, Interleaved, Summary};
use senesce_core::resume::{self, continue_with};
use senesce_core::{Bytes, ExitCode, Failure};
use senesce_volume::{FileSystem, GrowthSpace};
use std::path::Path;

/// Refuses a plan that the file system below `root` cannot hold; the error names the largest possible fullness.
pub(crate) fn check_space(rehearsal: &Rehearsal, root: &Path) -> Result<(), Failure> {
    let summary = &rehearsal.summary;
    let stat = rustix::fs::statvfs(root).map_err(|errno| {
        let words = senesce_core::failure::errno_message(&errno.into());
        Failure::new(ExitCode::RunFailed, format!("cannot read the free space in {}: {words}", root.display()))
    })?;
    let free = if senesce_core::environment::is_root() { stat.f_bfree } else { stat.f_bavail } * stat.f_frsize;
    let (content, overhead) = needed(rehearsal);
    if content + overhead > free {
        let most = rehearsal.measures.fullness.max;
        let possible =
            free.saturating_sub(overhead) as f64 / summary.capacity.0 as f64 - (most - summary.fullness).max(0.0);
        return Err(Failure::usage(format!(
            "at its maximum fullness ({most:.3}), the plan needs {} with directories; the file system has {} free \
             for files: the largest possible fullness is {:.3}",
            Bytes(content + overhead),
            Bytes(free),
            (possible * 1000.0).floor().max(0.0) / 1000.0
        )));
    }
    let inodes = files(summary) + u64::from(summary.directories);
    // btrfs and other file systems without a fixed number of inodes report 0.
    if stat.f_files > 0 && inodes > stat.f_ffree {
        return Err(Failure::usage(format!(
            "the plan needs {inodes} inodes, the file system has {}: make it with more (ext4: --mkfs-options '-N {}')",
            stat.f_ffree,
            inodes + inodes / 20 + 100
        )));
    }
    Ok(())
}

/// Returns the bytes of files at the maximum fullness (0 for sparse files) and of metadata. Metadata needs one block
/// per directory and 64 bytes of directory entry per file.
fn needed(rehearsal: &Rehearsal) -> (u64, u64) {
    let summary = &rehearsal.summary;
    let is_sparse = rehearsal.course.as_ref().is_some_and(|course| course.spec.data == Data::Sparse);
    let content = if is_sparse { 0.0 } else { rehearsal.measures.fullness.max * summary.capacity.0 as f64 };
    (content as u64, u64::from(summary.directories) * 4096 + files(summary) * 64)
}

fn files(summary: &Summary) -> u64 {
    summary.files_at_most.min(summary.creates)
}

/// Returns an upper bound of the bytes that a plan writes to an image. `None` means possibly all of it.
pub(crate) fn writes(spec: &AgeSpec, summary: &Summary) -> Option<Bytes> {
    match spec.data {
        Data::Write => None,
        Data::Fallocate | Data::Sparse => metadata_bytes(spec.file_system?, summary),
    }
}

/// Returns the bytes written for preallocated or sparse files: the whole log or journal, metadata of each block group,
/// inodes and names. `None` if unknown for the file system, or if blocks are overwritten and thus written after all.
pub(crate) fn metadata_bytes(file_system: FileSystem, summary: &Summary) -> Option<Bytes> {
    let (capacity, files) = (summary.capacity.0, summary.files_at_most);
    let known = file_system.entry().metadata.filter(|_| !summary.rewrites)?;
    let of_volume = (known.log)(capacity) + (capacity >> known.volume_shift);
    Some(Bytes(of_volume + files * known.of_a_file + u64::from(summary.directories) * (16 << 10) + SLACK))
}

const SLACK: u64 = 64 << 20;

/// A run continues with more free space than this even if its image may need more: few images grow as far as they may.
const RESERVE: Bytes = Bytes::mib(256);

/// Stops the aging in `run` before the host has no space for its image.
pub(crate) fn watch(run: &Path, space: Option<GrowthSpace>, (operation, len): (u64, u64)) -> Result<(), Failure> {
    let Some(space) = space.filter(|space| space.free < RESERVE) else { return Ok(()) };
    let Some(missing) = space.missing() else { return Ok(()) };
    let holder = if space.in_memory { "memory has" } else { "the host's file system has" };
    let words = format!(
        "stopped after operation {operation} of {len}: the image may still grow by {} and needs {} with a margin, but \
         {holder} {} free, {missing} too little\nhint: free {missing} first\nhint: {}",
        space.growth,
        space.needed(),
        space.free,
        continue_with(&resume::command(RESUME, run))
    );
    Err(Failure::new(ExitCode::RunFailed, words))
}

/// Adds the planned state of a full file system to the error that ended an execution.
pub(crate) fn explain(error: AgingError, parts: &Interleaved<'_>, capacity: Bytes, root: &Path) -> Failure {
    if !error.is_full() {
        return error.into();
    }
    let fullness = parts.fullness();
    let planned = Bytes((fullness * capacity.0 as f64) as u64);
    let found = rustix::fs::statvfs(root).map_or(String::new(), |stat| {
        let (size, free) = (Bytes(stat.f_blocks * stat.f_frsize), Bytes(stat.f_bfree * stat.f_frsize));
        format!("; of {size} for files it has {free} and {} inodes free", stat.f_ffree)
    });
    let words = format!(
        "{error}. The file system should have space: at operation {} of {}, the plan has files of {planned} ({:.1} % \
         of {capacity}){found}",
        parts.position(),
        parts.len(),
        fullness * 100.0
    );
    Failure::new(Failure::from(error).exit_code(), words)
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::extended_spec::ExtendedSpec;
    use super::super::rehearse::rehearse;
    use super::super::spec::tests::age_spec;
    use super::super::spec::{AgeSpec, Limits};
    use super::*;
    use senesce_core::progress::Silent;

    pub(crate) fn rehearsed(data: Data) -> Rehearsal {
        let limits = Limits { max_operations: Some(1000), ..Limits::default() };
        let course = ExtendedSpec::new(AgeSpec { size: Some(Bytes::gib(100)), limits, ..age_spec(data, None) });
        let played = rehearse(&course, &[0], &Silent, &|| false).unwrap();
        Rehearsal::of(&course, vec![played]).unwrap()
    }

    #[test]
    fn unwritten_files_need_space_for_metadata_only() {
        let sparse = needed(&rehearsed(Data::Sparse));
        assert_eq!(sparse.0, 0, "files without blocks");
        assert!(sparse.1 < Bytes::gib(1).0, "directories and names of 1000 files: {}", sparse.1);
        let short = rehearsed(Data::Fallocate);
        assert_eq!(files(&short.summary), 1000);
        assert!((1..Bytes::gib(10).0).contains(&needed(&short).0), "1000 files, not the 80 GiB of a full volume");
    }

    fn stop(growth: Bytes, free: Bytes) -> Option<String> {
        let space = GrowthSpace { growth, free, in_memory: false };
        watch(Path::new("run"), Some(space), (17, 20)).err().map(|failure| failure.to_string())
    }

    #[test]
    fn run_stops_before_the_host_is_full() {
        assert!(watch(Path::new("run"), None, (1, 2)).is_ok());
        assert_eq!(stop(Bytes::gib(4), Bytes::gib(1)), None, "it may never grow so far");
        let stopped = stop(Bytes::gib(4), Bytes::mib(200)).unwrap();
        assert!(stopped.contains("operation 17 of 20") && stopped.ends_with(" --resume run"), "{stopped}");
        assert_eq!(stop(Bytes::mib(100), Bytes::mib(200)), None);
    }

    #[test]
    fn small_host_with_space_for_its_image_does_not_stop_the_run() {
        assert_eq!(stop(Bytes::mib(182), Bytes::mib(243)), None);
        let words = stop(Bytes::mib(128), Bytes::mib(100)).unwrap();
        assert!(words.contains("needs 130 MiB") && words.contains("free 30 MiB first"), "{words}");
    }
}
