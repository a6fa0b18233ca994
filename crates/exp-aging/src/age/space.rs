//! Checks the space that a plan needs before the first file, and watches it during the execution.

use super::RESUME;
use super::events::Rehearsal;
use super::extended_spec::ExtendedSpec;
use super::rehearse::rehearse;
use super::spec::AgeSpec;
use senesce_aging::{AgingError, Data, Interleaved, Summary};
use senesce_core::resume::{self, continue_with};
use senesce_core::{Bytes, ExitCode, Failure, Progress};
use senesce_volume::{FileSystem, FreeForFiles, GrowthSpace, TargetSpec};
use std::path::Path;

/// Maximum number of plans that are rehearsed to find a fullness that fits.
const ATTEMPTS: usize = 12;

/// The free space, in thousandths, that a plan with another fullness may need: the maps of fragmented files are not
/// rehearsed.
const MOST_NEEDED: u64 = 990;

/// Refuses a plan that the file system below `root` cannot hold; the error names a fullness that it probably can hold.
/// `rehearse` rehearses the plan with another fullness.
pub(crate) fn check_space(
    rehearsal: &Rehearsal,
    root: &Path,
    rehearse: &dyn Fn(f64) -> Result<Rehearsal, Failure>,
) -> Result<(), Failure> {
    let summary = &rehearsal.summary;
    let free = FreeForFiles::below(root)?;
    if !fits(rehearsal, free) {
        let remedy = match largest_fullness(rehearsal, free, rehearse)? {
            Some(fullness) => format!("--fullness {fullness:.3} should fit (an estimate)"),
            None => "use a larger volume or a lower fullness".into(),
        };
        return Err(Failure::usage(format!(
            "at its maximum fullness ({:.3}), the plan needs {} with metadata; the file system has {} free for files\n\
             hint: {remedy}",
            rehearsal.measures.fullness.max,
            Bytes(needed(rehearsal, free.file_system).total()),
            free.bytes
        )));
    }
    let inodes = files(summary) + u64::from(summary.directories);
    if let Some(free) = free.inodes.filter(|free| inodes > *free) {
        return Err(Failure::usage(format!(
            "the plan needs {inodes} inodes, the file system has {free}: make it with more (ext4: --mkfs-options '-N {}')",
            inodes + inodes / 20 + 100
        )));
    }
    Ok(())
}

fn fits(rehearsal: &Rehearsal, free: FreeForFiles) -> bool {
    needed(rehearsal, free.file_system).total() <= free.bytes.0
}

/// Returns the first fullness below that of `rehearsal` whose plan was rehearsed and fits, in thousandths. How far the
/// files exceed the requested fullness depends on the plan, so each rehearsal corrects the estimate of the previous one.
fn largest_fullness(
    rehearsal: &Rehearsal,
    free: FreeForFiles,
    rehearse: &dyn Fn(f64) -> Result<Rehearsal, Failure>,
) -> Result<Option<f64>, Failure> {
    let free = FreeForFiles { bytes: Bytes(free.bytes.0 / 1000 * MOST_NEEDED), ..free };
    let mut fullness = estimated_fullness(rehearsal, free);
    for _ in 0..ATTEMPTS {
        if fullness <= 0.0 {
            break;
        }
        let rehearsed = match rehearse(fullness) {
            Ok(rehearsed) => rehearsed,
            Err(failure) if failure.exit_code() == ExitCode::Interrupted => return Err(failure),
            Err(_) => break,
        };
        if fits(&rehearsed, free) {
            return Ok(Some(fullness));
        }
        fullness = estimated_fullness(&rehearsed, free).min(thousandths(fullness - 0.001));
    }
    Ok(None)
}

/// Estimates the fullness that fits, if its plan exceeds it by as much as this one.
fn estimated_fullness(rehearsal: &Rehearsal, free: FreeForFiles) -> f64 {
    let summary = &rehearsal.summary;
    let metadata = needed(rehearsal, free.file_system).metadata;
    let excess = (rehearsal.measures.fullness.max - summary.fullness).max(0.0);
    thousandths(free.bytes.0.saturating_sub(metadata) as f64 / summary.capacity.0 as f64 - excess)
}

fn thousandths(share: f64) -> f64 {
    (share * 1000.0).floor() / 1000.0
}

/// Rehearses the plan of `course` from its start with another fullness.
pub(crate) fn with_fullness(
    course: &ExtendedSpec,
    fullness: f64,
    progress: &dyn Progress,
    stop: &dyn Fn() -> bool,
) -> Result<Rehearsal, Failure> {
    let course = ExtendedSpec::new(AgeSpec { fullness: Some(fullness), ..course.spec.clone() });
    let parts: Vec<u32> = (0..course.spec.parts).collect();
    let rehearsed = rehearse(&course, &parts, progress, stop)?;
    Rehearsal::of(&course, vec![rehearsed])
}

/// Bytes at the maximum fullness.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct NeededSpace {
    /// 0 for sparse files.
    content: u64,
    metadata: u64,
}

impl NeededSpace {
    fn total(self) -> u64 {
        self.content + self.metadata
    }
}

/// Metadata needs one block per directory, 64 bytes of directory entry per file, and what the file system takes for each
/// inode and for checksums.
fn needed(rehearsal: &Rehearsal, file_system: Option<FileSystem>) -> NeededSpace {
    let summary = &rehearsal.summary;
    let is_sparse = rehearsal.course.as_ref().is_some_and(|course| course.spec.data == Data::Sparse);
    let content = if is_sparse { 0.0 } else { rehearsal.measures.fullness.max * summary.capacity.0 as f64 } as u64;
    let inode = file_system.map_or(0, |known| known.entry().inode_bytes);
    // 4 bytes per block of 4 KiB, stored twice.
    let checksums = if file_system == Some(FileSystem::Btrfs) { content / 512 } else { 0 };
    let metadata = u64::from(summary.directories) * (4096 + inode) + files(summary) * (64 + inode) + checksums;
    NeededSpace { content, metadata }
}

fn files(summary: &Summary) -> u64 {
    summary.files_at_most.min(summary.creates)
}

/// Returns an upper bound of the bytes that a plan writes to an image. `None` means possibly all of it.
pub(crate) fn writes(spec: &AgeSpec, summary: &Summary) -> Option<Bytes> {
    // Options may enlarge the journal and the inode tables.
    if spec.data == Data::Write && !spec.mkfs_options.trim().is_empty() {
        return None;
    }
    let volume = match spec.local_target() {
        Some(TargetSpec::Image { size: Some(size), .. } | TargetSpec::Memory { size }) => *size,
        _ => summary.capacity,
    };
    written_bytes(spec.data, spec.file_system?, volume, summary)
}

/// Returns an upper bound of the bytes written to a `volume` of its own: metadata and, with [`Data::Write`], all files that the
/// plan creates. `None` if unknown for the file system, or if changes write further blocks.
pub(crate) fn written_bytes(data: Data, file_system: FileSystem, volume: Bytes, summary: &Summary) -> Option<Bytes> {
    let known = file_system.entry().metadata?;
    let is_known = if data == Data::Write { !summary.changes } else { !summary.rewrites };
    let (files, content) = match data {
        // A deleted file leaves its inode, and each file may get blocks of its own.
        Data::Write => (summary.creates, summary.bytes_created.0 + (known.tables)(volume.0)),
        Data::Fallocate | Data::Sparse => (summary.files_at_most, 0),
    };
    // Checksums and maps of the content.
    let maps = content / 256;
    let of_volume = (known.log)(volume.0) + (volume.0 >> known.volume_shift) + SLACK;
    let of_files = files * known.of_a_file + u64::from(summary.directories) * (16 << 10);
    is_known.then_some(Bytes(of_volume + of_files + content + maps))
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

/// Adds the planned state of a full file system to the error that ended an execution. An image that cannot grow, according to
/// `host`, fails like a full file system.
pub(crate) fn explain(
    error: AgingError,
    host: &dyn Fn() -> Result<(), Failure>,
    parts: &Interleaved<'_>,
    capacity: Bytes,
    root: &Path,
) -> Failure {
    if !error.is_full() {
        return error.into();
    }
    if let Err(stopped) = host() {
        return stopped;
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
    use super::super::spec::Limits;
    use super::super::spec::tests::age_spec;
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
        let sparse = needed(&rehearsed(Data::Sparse), None);
        assert_eq!(sparse.content, 0, "files without blocks");
        assert!(sparse.metadata < Bytes::gib(1).0, "directories and names of 1000 files: {sparse:?}");
        let short = rehearsed(Data::Fallocate);
        assert_eq!(files(&short.summary), 1000);
        assert!(
            (1..Bytes::gib(10).0).contains(&needed(&short, None).content),
            "1000 files, not the 80 GiB of a full volume"
        );
    }

    #[test]
    fn named_fullness_was_rehearsed_and_fits() {
        let limits = Limits { max_overwrites: Some(3.0), ..Limits::default() };
        let course = ExtendedSpec::new(AgeSpec { size: Some(Bytes::mib(128)), limits, ..age_spec(Data::Write, None) });
        let rehearse = |fullness| with_fullness(&course, fullness, &Silent, &|| false);
        let bytes = Bytes(Bytes::mib(128).0 * 89 / 100);
        let free = FreeForFiles { bytes, inodes: None, file_system: Some(FileSystem::Btrfs) };
        let full = rehearse(0.99).unwrap();
        assert!(!fits(&full, free));
        let fullness = largest_fullness(&full, free, &rehearse).unwrap().unwrap();
        assert!((0.5..0.89).contains(&fullness) && fits(&rehearse(fullness).unwrap(), free), "{fullness}");
        assert_eq!(largest_fullness(&full, FreeForFiles { bytes: Bytes(0), ..free }, &rehearse).unwrap(), None);
    }

    fn on_volume(file_system: FileSystem, mkfs_options: &str) -> (Option<Bytes>, Summary) {
        let limits = Limits { max_operations: Some(1000), ..Limits::default() };
        let target = Some(TargetSpec::Memory { size: Bytes::gib(100) });
        let (file_system, mkfs_options) = (Some(file_system), mkfs_options.into());
        let spec = AgeSpec { target, file_system, mkfs_options, limits, ..age_spec(Data::Write, None) };
        let summary = spec.summary().unwrap();
        (writes(&spec, &summary), summary)
    }

    #[test]
    fn short_plan_writes_its_files_and_the_tables_of_mkfs_only() {
        for (file_system, tables) in
            [(FileSystem::Ext4, Bytes::gib(100).0 / 64), (FileSystem::Xfs, 0), (FileSystem::Btrfs, 0)]
        {
            let (bound, summary) = on_volume(file_system, "");
            let (bound, least) = (bound.unwrap().0, summary.bytes_created.0 + tables / 100 * 99);
            assert!(
                (least..Bytes::gib(10).0).contains(&bound),
                "{file_system}: {bound}, files {}",
                summary.bytes_created
            );
        }
        assert_eq!(on_volume(FileSystem::Ext4, "-I 1024").0, None);
        assert_eq!(on_volume(FileSystem::F2fs, "").0, None);
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
