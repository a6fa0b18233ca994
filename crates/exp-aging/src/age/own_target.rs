//! The target of a run: its path, and whether it is still the one that the run aged.

use super::Age;
use super::events::Event;
use super::final_layout::with_digest;
use super::recorded_aging::{RecordedAging, differing_files};
use super::spec::AgeSpec;
use super::start::Start;
use senesce_aging::Reconciliation;
use senesce_core::{Bytes, ExitCode, Failure, Progress, number_of};
use senesce_layout::Layout;
use senesce_runner::Recorded;
use senesce_volume::claim::TargetDirectory;
use senesce_volume::{FileSystem, MarkedAs, MountedTarget, OpenOptions, TargetError, TargetSpec, marked_as, visit};
use serde::{Deserialize, Serialize};
use std::path::{Component, Path, PathBuf};

/// The target at the start of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedTarget {
    /// Identity of the aging, which the marker of the target has too; `None` for a shard, whose target has several runs.
    pub identity: Option<String>,
    /// Absolute path.
    pub path: PathBuf,
    /// Absolute path of the run directory.
    pub run: PathBuf,
    /// Size of the image, the device or the file system of the directory.
    pub capacity: Bytes,
}

impl RecordedTarget {
    pub(super) fn of(target: &MountedTarget, identity: Option<String>, run: &Path) -> Option<Self> {
        let found = Self { identity, path: path_of(target.spec())?, run: real(run), capacity: target.capacity() };
        // Only these can be recorded.
        [&found.path, &found.run].iter().all(|path| path.to_str().is_some()).then_some(found)
    }

    /// Returns the target of a continued run if it or its record has moved.
    pub(super) fn moved(target: &MountedTarget, recorded: &Recorded<Age>, run: &Path) -> Option<Self> {
        let known = Self::in_record(recorded)?;
        Self::of(target, known.identity.clone(), run).filter(|now| (&now.path, &now.run) != (&known.path, &known.run))
    }

    /// Returns the target in the record of a run.
    pub(super) fn in_record(recorded: &Recorded<Age>) -> Option<&Self> {
        recorded.events().rev().find_map(|event| match event {
            Event::Target(known) => Some(known),
            _ => None,
        })
    }
}

/// The target of a specification, at the path where this process finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocatedTarget {
    pub(super) target: TargetSpec,
    /// It is still the one that the run aged.
    is_checked: bool,
    /// Its path in the record, if it was copied or moved with its record.
    moved_from: Option<PathBuf>,
}

/// Returns the specification with the absolute path of its target. A relative path belongs to the working directory at the start
/// of the run. If its record `run` was copied or moved together with the target, their relative position is still the same.
pub(super) fn locate(spec: AgeSpec, recorded: &Recorded<Age>, run: &Path) -> AgeSpec {
    let find = |target| located(target, RecordedTarget::in_record(recorded), &real(run));
    let located = spec.located.clone().or_else(|| spec.target.as_ref().map(find));
    AgeSpec { located, ..spec }
}

fn located(target: &TargetSpec, known: Option<&RecordedTarget>, run: &Path) -> LocatedTarget {
    let as_given = LocatedTarget { target: target.clone(), is_checked: false, moved_from: None };
    let Some(known) = known else { return as_given };
    let has_place = matches!(target, TargetSpec::Image { .. } | TargetSpec::Directory(_)) && known.identity.is_some();
    let beside = || real(&run.join(from_to(&known.run, &known.path)));
    match (has_place && known.run != run).then(beside).filter(|path| path.exists() && *path != known.path) {
        Some(path) => LocatedTarget { target: at(target, &path), moved_from: Some(known.path.clone()), ..as_given },
        None => LocatedTarget { target: at(target, &known.path), ..as_given },
    }
}

/// Returns the relative path from one absolute path to another.
fn from_to(from: &Path, to: &Path) -> PathBuf {
    let shared = from.components().zip(to.components()).take_while(|(a, b)| a == b).count();
    let up = from.components().skip(shared).map(|_| Component::ParentDir);
    up.chain(to.components().skip(shared)).collect()
}

/// Returns the absolute path of an image or a directory without links, and that of a device as it was given: the number of a
/// drive can change.
fn path_of(target: &TargetSpec) -> Option<PathBuf> {
    match target {
        TargetSpec::Device(path) => Some(std::path::absolute(path).unwrap_or_else(|_| path.clone())),
        _ => target.path().map(real),
    }
}

/// Returns the absolute path without links, if it exists.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.into())
}

fn at(target: &TargetSpec, path: &Path) -> TargetSpec {
    let path = path.to_path_buf();
    match target {
        TargetSpec::Image { size, .. } => TargetSpec::Image { path, size: *size },
        TargetSpec::Device(_) => TargetSpec::Device(path),
        TargetSpec::Directory(_) => TargetSpec::Directory(path),
        TargetSpec::Memory { size } => TargetSpec::Memory { size: *size },
    }
}

/// Returns the identity of a new aging: the first 16 digits of that of its run; `None` if nothing can compare it later.
pub(super) fn new_identity(spec: &AgeSpec, run: &str) -> Option<String> {
    spec.target.as_ref().and_then(TargetSpec::path).filter(|_| spec.shard.is_none())?;
    run.get(..16).map(str::to_string)
}

/// Values of a target that must be those of the run.
struct ExaminedTarget {
    /// `None` for a directory.
    file_system: Option<FileSystem>,
    capacity: Bytes,
    marker: MarkedAs,
    /// Digest of the addresses of all files; `None` if it was not read.
    files: Option<String>,
}

/// Checks a target as [`check`] does if the run continues, unless this process did so before.
pub(super) fn check_once(spec: &mut AgeSpec, recorded: &Recorded<Age>) -> Result<(), Failure> {
    let is_checked = spec.located.as_ref().is_some_and(|located| located.is_checked);
    if is_checked || !Start::of(spec, recorded).continues {
        return Ok(());
    }
    check(spec, recorded)?;
    if let Some(located) = &mut spec.located {
        located.is_checked = true;
    }
    Ok(())
}

/// Refuses a target that is not the one which the run aged, before anything is changed. After a whole stage its layout
/// must be the recorded one.
fn check(spec: &AgeSpec, recorded: &Recorded<Age>) -> Result<(), Failure> {
    let Some(located) = &spec.located else { return Ok(()) };
    let expected = expected_files(spec, recorded);
    let examined = match &located.target {
        TargetSpec::Memory { .. } => return Ok(()),
        TargetSpec::Directory(path) => {
            // A missing directory must not be made and filled again.
            let marker = marked_as(path)?;
            ExaminedTarget { file_system: None, capacity: Bytes(0), marker, files: None }
        }
        target => match examine(spec, target, expected.is_some()) {
            // Without a replay of its journal, an interrupted target may not be readable. It is checked again after that.
            Err(failure) if expected.is_none() && is_unreadable(&failure, target) => return Ok(()),
            examined => examined?,
        },
    };
    let known = RecordedTarget::in_record(recorded);
    let layout = || {
        let (expected, found) = expected.as_ref().zip(examined.files.as_ref())?;
        (expected != found).then(|| "its layout is not the one at the end of the run".to_string())
    };
    match difference(spec, known, &examined).or_else(layout) {
        Some(difference) => Err(refused(located, difference)),
        None => Ok(()),
    }
}

fn is_unreadable(failure: &Failure, target: &TargetSpec) -> bool {
    failure.exit_code() == ExitCode::RunFailed && target.path().is_some_and(Path::exists)
}

fn refused(located: &LocatedTarget, difference: String) -> Failure {
    let found = match &located.moved_from {
        Some(path) => format!("{difference} (at the start of the run, the target was {})", path.display()),
        None => difference,
    };
    TargetError::refused(&located.target, found, "restore the target of this run, or age again").into()
}

/// Refuses the mounted and locked target of a continued run if it is not the one which the run aged.
pub(super) fn check_mounted(target: &MountedTarget, spec: &AgeSpec, recorded: &Recorded<Age>) -> Result<(), Failure> {
    let Some(located) = &spec.located else { return Ok(()) };
    match difference_of(target, spec, recorded)? {
        Some(difference) => Err(refused(located, difference)),
        None => Ok(()),
    }
}

fn examine(spec: &AgeSpec, target: &TargetSpec, with_files: bool) -> Result<ExaminedTarget, Failure> {
    let mounted = visit(target, &inspect_options(spec))?;
    let files = match with_files {
        true => Layout::examine(mounted.mount_point(), &with_digest())?.digest(),
        false => None,
    };
    let examined = ExaminedTarget {
        file_system: mounted.file_system(),
        capacity: mounted.capacity(),
        marker: marked_as(mounted.mount_point())?,
        files: files.as_deref().map(of_files),
    };
    mounted.close()?;
    Ok(examined)
}

pub(super) fn inspect_options(spec: &AgeSpec) -> OpenOptions {
    let mount_options = spec.mount_options.clone();
    OpenOptions { file_system: spec.file_system, mount_options, ..OpenOptions::inspect() }
}

/// Returns a difference between the mounted target and the one that the run aged, in words.
pub(super) fn difference_of<D: TargetDirectory>(
    mounted: &MountedTarget<D>,
    spec: &AgeSpec,
    recorded: &Recorded<Age>,
) -> Result<Option<String>, Failure> {
    let is_directory = matches!(mounted.spec(), TargetSpec::Directory(_));
    let examined = ExaminedTarget {
        file_system: mounted.file_system().filter(|_| !is_directory),
        capacity: mounted.capacity(),
        marker: marked_as(mounted.mount_point())?,
        files: None,
    };
    Ok(difference(spec, RecordedTarget::in_record(recorded), &examined))
}

fn difference(spec: &AgeSpec, known: Option<&RecordedTarget>, examined: &ExaminedTarget) -> Option<String> {
    let file_system = || {
        let (planned, found) = spec.file_system.zip(examined.file_system)?;
        (planned != found).then(|| format!("its file system is {found}, and that of the plan is {planned}"))
    };
    let size = || {
        let (known, found) = (known?.capacity, examined.file_system.map(|_| examined.capacity)?);
        (known != found).then(|| format!("its size is {found}, and that of the plan is {known}"))
    };
    let has_moved = spec.located.as_ref().is_some_and(|located| located.moved_from.is_some());
    let identity = || {
        let known = known?.identity.as_ref()?;
        let is_other = match &examined.marker {
            MarkedAs::Aging(found) => found != known,
            MarkedAs::Unnamed => true,
            // The guard refuses a target without a marker, unless the user confirmed it. One at another path needs its name.
            MarkedAs::Unwritten | MarkedAs::Missing => has_moved,
        };
        is_other.then(|| "its marker .senesce does not name this aging".to_string())
    };
    file_system().or_else(size).or_else(identity)
}

/// Returns the digest of the addresses of all files at the end of the run, if they cannot have changed since then.
fn expected_files(spec: &AgeSpec, recorded: &Recorded<Age>) -> Option<String> {
    // F2FS and NILFS2 move blocks of files while they are mounted.
    let stay = [FileSystem::Ext4, FileSystem::Xfs, FileSystem::Btrfs];
    let file_system = spec.file_system.filter(|file_system| stay.contains(file_system));
    file_system.and_then(|_| recorded_files(recorded))
}

/// Returns the recorded digest of the addresses of all files, if no operation followed.
pub(super) fn recorded_files(recorded: &Recorded<Age>) -> Option<String> {
    RecordedAging::of(recorded.events()).layout?.digest.as_deref().map(of_files)
}

/// Returns the part of a layout digest that covers the files. Free extents can change with each mount (btrfs).
pub(super) fn of_files(digest: &str) -> String {
    digest.split('-').next().unwrap_or_default().to_string()
}

/// Reports the files that differed from the record after an interruption.
pub(super) fn report_repairs(done: &Reconciliation, spec: &AgeSpec, progress: &dyn Progress) {
    let files = differing_files(done);
    if files == 0 {
        return;
    }
    let kind = match spec.target {
        Some(TargetSpec::Image { .. }) => "image",
        Some(TargetSpec::Device(_)) => "device",
        _ => "directory",
    };
    let were = if files == 1 { "was" } else { "were" };
    progress.say(&format!("{} of the {kind} {were} repaired", number_of(files, "file")));
}

#[cfg(test)]
mod tests {
    use super::super::spec::tests::age_spec;
    use super::*;
    use senesce_aging::Data;

    const IDENTITY: &str = "0123456789abcdef";

    fn spec(target: &str) -> AgeSpec {
        let target = Some(target.parse().unwrap());
        AgeSpec { target, file_system: Some(FileSystem::Ext4), ..age_spec(Data::Write, None) }
    }

    fn known(path: &Path) -> RecordedTarget {
        RecordedTarget {
            identity: Some(IDENTITY.into()),
            path: path.into(),
            run: path.with_file_name("run"),
            capacity: Bytes::gib(1),
        }
    }

    #[test]
    fn another_target_differs_from_the_recorded_one() {
        let spec = spec("image:k.img,size=1G");
        let known = known(Path::new("/k.img"));
        let own = || MarkedAs::Aging(IDENTITY.into());
        let differs = |file_system, capacity, marker| {
            let examined = ExaminedTarget { file_system: Some(file_system), capacity, marker, files: None };
            difference(&spec, Some(&known), &examined).is_some()
        };
        let size = Bytes::gib(1);
        for marker in [own(), MarkedAs::Unwritten, MarkedAs::Missing] {
            assert!(!differs(FileSystem::Ext4, size, marker));
        }
        assert!(differs(FileSystem::Xfs, size, own()) && differs(FileSystem::Ext4, Bytes::gib(2), own()));
        for marker in [MarkedAs::Unnamed, MarkedAs::Aging("fedcba9876543210".into())] {
            assert!(differs(FileSystem::Ext4, size, marker));
        }
    }

    #[test]
    fn target_at_another_path_needs_the_name_of_its_aging() {
        let target = "image:k.img,size=1G".parse::<TargetSpec>().unwrap();
        let located = LocatedTarget { target, is_checked: false, moved_from: Some("/old/k.img".into()) };
        let spec = AgeSpec { located: Some(located), ..spec("image:k.img,size=1G") };
        for (marker, differs) in
            [(MarkedAs::Aging(IDENTITY.into()), false), (MarkedAs::Unwritten, true), (MarkedAs::Missing, true)]
        {
            let file_system = Some(FileSystem::Ext4);
            let examined = ExaminedTarget { file_system, capacity: Bytes::gib(1), marker, files: None };
            assert_eq!(difference(&spec, Some(&known(Path::new("/k.img"))), &examined).is_some(), differs);
        }
    }

    #[test]
    fn record_without_identity_accepts_any_marker() {
        let spec = spec("image:k.img,size=1G");
        let found = |file_system| ExaminedTarget {
            file_system: Some(file_system),
            capacity: Bytes::gib(1),
            marker: MarkedAs::Unnamed,
            files: None,
        };
        assert_eq!(difference(&spec, None, &found(FileSystem::Ext4)), None);
        assert!(difference(&spec, None, &found(FileSystem::Xfs)).is_some());
        let shard = RecordedTarget { identity: None, ..known(Path::new("/k.img")) };
        assert_eq!(difference(&spec, Some(&shard), &found(FileSystem::Ext4)), None);
    }

    #[test]
    fn target_belongs_to_its_record() {
        let room = tempfile::tempdir().unwrap();
        let room = real(room.path());
        let (first, second) = (room.join("d1/i.img"), room.join("d2/i.img"));
        for path in [&first, &second] {
            std::fs::create_dir_all(path.with_file_name("run")).unwrap();
            std::fs::write(path, "image").unwrap();
        }
        let target: TargetSpec = "image:i.img,size=1G".parse().unwrap();
        let found = |known: &RecordedTarget, run: &Path| located(&target, Some(known), run);
        let path_of =
            |known: &RecordedTarget, run: &str| found(known, &room.join(run)).target.path().unwrap().to_path_buf();
        assert_eq!(path_of(&known(&first), "d1/run"), first, "whatever the working directory");
        assert_eq!(path_of(&known(&first), "d2/run"), second, "both were copied");
        assert_eq!(found(&known(&first), &room.join("d2/run")).moved_from, Some(first.clone()));
        assert_eq!(path_of(&known(&first), "d1/run2"), first, "only the record was copied");
        assert_eq!(path_of(&known(&first), "elsewhere/deep/run"), first, "only the record has moved");
        let shard = RecordedTarget { identity: None, ..known(&first) };
        assert_eq!(path_of(&shard, "d2/run"), first, "nothing proves that it was copied");
        std::fs::remove_file(&first).unwrap();
        assert_eq!(path_of(&known(&first), "d1/run"), first, "the error names this path");
        assert_eq!(located(&target, None, &room).target, target);
    }

    #[test]
    fn shards_and_targets_in_memory_have_no_identity() {
        let identity = |spec: &AgeSpec| new_identity(spec, &IDENTITY.repeat(2));
        let image = spec("image:k.img,size=1G");
        assert_eq!(identity(&image).as_deref(), Some(IDENTITY));
        assert_eq!(identity(&spec("memory:1G")), None);
        assert_eq!(identity(&AgeSpec { shard: Some((0, 2)), ..image }), None);
    }

    #[test]
    fn free_extents_are_not_part_of_the_files() {
        assert_eq!(of_files("0123-4567"), of_files("0123-89ab"));
        assert_eq!(of_files("0123"), "0123");
    }
}
