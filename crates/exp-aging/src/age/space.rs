//! Room: what a plan needs on its file system and below it, asked before the first file and watched while it is played.

use super::events::Rehearsal;
use super::spec::AgeSpec;
use senesce_aging::{AgingError, Interleaved, Summary};
use senesce_core::{Bytes, ExitCode, Failure};
use senesce_volume::FileSystem;
use std::path::Path;

/// Refuses a plan that the file system below `root` cannot hold, naming the largest fullness that it can.
pub fn check_space(rehearsal: &Rehearsal, root: &Path) -> Result<(), Failure> {
    let summary = &rehearsal.summary;
    let stat = rustix::fs::statvfs(root).map_err(|errno| {
        let words = senesce_core::failure::errno_message(&errno.into());
        Failure::new(ExitCode::RunFailed, format!("ask for the free space in {}: {words}", root.display()))
    })?;
    let free = if senesce_core::environment::is_root() { stat.f_bfree } else { stat.f_bavail } * stat.f_frsize;
    let (content, overhead) = needed(rehearsal);
    if content + overhead > free {
        let most = rehearsal.measures.fullness.max;
        let possible =
            free.saturating_sub(overhead) as f64 / summary.capacity.0 as f64 - (most - summary.fullness).max(0.0);
        return Err(Failure::usage(format!(
            "the plan needs {} with directories where it is fullest ({most:.3}); the file system has {} free for files: the largest \
             possible fullness is {:.3}",
            Bytes(content + overhead),
            Bytes(free),
            (possible * 1000.0).floor().max(0.0) / 1000.0
        )));
    }
    let inodes = files(summary) + u64::from(summary.directories);
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

/// Bytes of files where the plan is fullest, none where they are sparse; and one block for each directory and 64 bytes of directory
/// entry for each file.
fn needed(rehearsal: &Rehearsal) -> (u64, u64) {
    let summary = &rehearsal.summary;
    let is_sparse = rehearsal.course.as_ref().is_some_and(|course| course.spec.data == "sparse");
    let content = if is_sparse { 0.0 } else { rehearsal.measures.fullness.max * summary.capacity.0 as f64 };
    (content as u64, u64::from(summary.directories) * 4096 + files(summary) * 64)
}

/// Most files that live at once; no more than are made.
fn files(summary: &Summary) -> u64 {
    summary.files_at_most.min(summary.creates)
}

/// What playing a plan writes to an image, at most; `None`: all of it may be written.
pub fn writes(spec: &AgeSpec, summary: &Summary) -> Option<Bytes> {
    match &*spec.data {
        "write" => None,
        _ => metadata_bytes(spec.file_system?, summary),
    }
}

/// What a plan writes where files are preallocated or sparse: log or journal whole, what the file system keeps of each group, and
/// inodes and names. `None`: not known of this file system, or blocks are overwritten and so are written after all.
pub(crate) fn metadata_bytes(file_system: FileSystem, summary: &Summary) -> Option<Bytes> {
    let (capacity, files) = (summary.capacity.0, summary.files_at_most);
    let known = file_system.entry().metadata.filter(|_| !summary.rewrites)?;
    let of_volume = (known.log)(capacity) + (capacity >> known.volume_shift);
    Some(Bytes(of_volume + files * known.of_a_file + u64::from(summary.directories) * (16 << 10) + SLACK))
}

const SLACK: u64 = 64 << 20;
/// The space that is left when a run stops: what the kernel has still to write back must have a place.
const RESERVE: u64 = 256 << 20;

/// Stops a run whose host is about to have no space left, at `operation` of `len`.
pub fn watch(free: Option<Bytes>, needed: Option<Bytes>, operation: u64, len: u64) -> Result<(), Failure> {
    let reserve = RESERVE.min(needed.map_or(RESERVE, |needed| needed.0 / 4));
    match free {
        Some(free) if free.0 < reserve => Err(Failure::new(
            ExitCode::RunFailed,
            format!(
                "stopped after operation {operation} of {len}: {free} are left for the image to grow into (memory, or the file \
                 system that it lies in); make space and go on with --resume"
            ),
        )),
        _ => Ok(()),
    }
}

/// What ended an execution; where the file system was full, with what the plan had on it.
pub fn explain(error: AgingError, parts: &Interleaved<'_>, capacity: Bytes, root: &Path) -> Failure {
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
        "{error}. The plan expected no full file system: at operation {} of {} it has files of {planned} ({:.1} % of {capacity}) on \
         it{found}",
        parts.position(),
        parts.len(),
        fullness * 100.0
    );
    Failure::new(Failure::from(error).exit_code(), words)
}

#[cfg(test)]
mod tests {
    use super::super::course::Course;
    use super::super::rehearse::rehearse;
    use super::super::spec::tests::age_spec;
    use super::super::spec::{AgeSpec, Limits};
    use super::*;
    use senesce_core::progress::Silent;

    fn rehearsed(data: &str) -> Rehearsal {
        let limits = Limits { max_operations: Some(1000), ..Limits::default() };
        let course = Course::new(AgeSpec { size: Some(Bytes::gib(100)), limits, ..age_spec(data, None) });
        let played = rehearse(&course, &[0], &Silent, &|| false).unwrap();
        Rehearsal::of(&course, vec![played]).unwrap()
    }

    #[test]
    fn a_plan_needs_room_for_what_it_makes_alone() {
        let sparse = needed(&rehearsed("sparse"));
        assert_eq!(sparse.0, 0, "files without blocks");
        assert!(sparse.1 < Bytes::gib(1).0, "directories and names of 1000 files: {}", sparse.1);
        let short = rehearsed("fallocate");
        assert_eq!(files(&short.summary), 1000);
        assert!((1..Bytes::gib(10).0).contains(&needed(&short).0), "1000 files, not the 80 GiB of a full volume");
    }

    #[test]
    fn a_run_stops_before_the_host_is_full() {
        let needed = Some(Bytes::gib(4));
        assert!(watch(None, needed, 1, 2).is_ok());
        assert!(watch(Some(Bytes::gib(1)), needed, 1, 2).is_ok());
        let stopped = watch(Some(Bytes::mib(200)), needed, 17, 20).unwrap_err();
        assert!(stopped.to_string().contains("operation 17 of 20") && stopped.to_string().contains("--resume"));
        assert!(watch(Some(Bytes::mib(200)), Some(Bytes::mib(100)), 1, 2).is_ok());
    }
}
