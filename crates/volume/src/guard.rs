//! Checks of the users and content of a block device. Any doubt is a refusal.

use crate::block_device::BlockDevice;
use crate::error::TargetError;
pub use crate::in_use::use_of;
use crate::overlay::{self, OverlayFile};
use crate::sparse::Range;
use crate::witness::kernel_files::Tree;
use crate::witness::processes::{self, OpenedFile};
use crate::witness::{UnavailableWitness, WitnessResult, lease, loops};
use crate::{holders, in_use, planted, signature, zones};
use senesce_core::output::Folder;
use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The parts of a line in `/proc/self/mountinfo` (proc(5)) that senesce uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountLine {
    pub device: (u32, u32),
    pub root: String,
    pub mount_point: PathBuf,
    pub options: String,
    pub file_system: String,
    pub source: PathBuf,
}

/// Returns all mounts visible to this process. [`TargetError::Missing`] if /proc cannot be read or is not a real
/// procfs.
pub fn mounts() -> Result<Vec<MountLine>, TargetError> {
    mounted().map_err(|silent| {
        TargetError::missing(format!("the mount table ({silent})"), "mount it: mount -t proc proc /proc")
    })
}

/// Returns the mounts as [`mounts`] does. The table is never empty, because the root is mounted.
pub(crate) fn mounted() -> Result<Vec<MountLine>, UnavailableWitness> {
    let lines = parse_mounts(&Tree::proc()?.certain("thread-self/mountinfo")?);
    match lines.is_empty() {
        true => Err(UnavailableWitness("/proc/thread-self/mountinfo: it is empty".into())),
        false => Ok(lines),
    }
}

pub(crate) fn parse_mounts(text: &str) -> Vec<MountLine> {
    text.lines().filter_map(parse_mount_line).collect()
}

fn parse_mount_line(line: &str) -> Option<MountLine> {
    let (head, tail) = line.split_once(" - ")?;
    let head: Vec<&str> = head.split(' ').collect();
    let tail: Vec<&str> = tail.split(' ').collect();
    let (major, minor) = head.get(2)?.split_once(':')?;
    Some(MountLine {
        device: (major.parse().ok()?, minor.parse().ok()?),
        root: unescape(head.get(3)?),
        mount_point: unescape(head.get(4)?).into(),
        options: all_options(head.get(5)?, tail.get(2)?),
        file_system: (*tail.first()?).to_string(),
        source: unescape(tail.get(1)?).into(),
    })
}

/// Joins the options of a mount, then those of its superblock that differ.
fn all_options(of_mount: &str, of_superblock: &str) -> String {
    let known: Vec<&str> = of_mount.split(',').collect();
    let others = of_superblock.split(',').filter(|option| !known.contains(option));
    known.iter().copied().chain(others).collect::<Vec<_>>().join(",")
}

/// Blanks, tabs, newlines and backslashes are escaped as three octal digits.
pub(crate) fn unescape(text: &str) -> String {
    let mut out = Vec::new();
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let code = bytes.get(at + 1..at + 4).and_then(|digits| std::str::from_utf8(digits).ok());
        match (bytes[at], code.and_then(|digits| u8::from_str_radix(digits, 8).ok())) {
            (b'\\', Some(byte)) => {
                out.push(byte);
                at += 4;
            }
            (byte, _) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Refuses a block device that holds data, unless `erase` repeats its identity. `file` is its open descriptor.
pub(crate) fn check_content(file: &File, device: &BlockDevice, erase: Option<&str>) -> Result<(), TargetError> {
    let (path, size) = (device.path(), device.size().0);
    let mut found = signature::probe(file, size, path)?;
    if found.is_none() && device.is_zoned() {
        found = zones::probe(file, path)?;
    }
    if found.is_none() {
        found = data_of(file, device)?;
    }
    allow_erase(&device.identities(), found.as_deref(), erase)
}

/// Finds data of an unknown kind: checks all data of a loop device's file, and a sample of other devices.
fn data_of(file: &File, device: &BlockDevice) -> Result<Option<String>, TargetError> {
    let (path, size) = (device.path(), device.size().0);
    // Data written to the device may not have reached its file yet.
    file.sync_all().map_err(TargetError::io("sync", path))?;
    let known = loops::data_ranges(device, size);
    // The file may have no name in this mount namespace.
    let whole = || loops::is_loop(device).then(|| vec![Range { start: 0, end: size }]);
    let Some(ranges) = known.or_else(whole) else {
        let found = signature::sample(file, size, path)?;
        if found.is_none() && signature::is_sampled(size) {
            tracing::warn!("{}: {}", path.display(), signature::SAMPLED);
        }
        return Ok(found);
    };
    for range in ranges {
        if !signature::is_zero(file, range.start, range.end, path)? {
            return Ok(Some(format!("data of an unknown kind between {} and {}", range.start, range.end)));
        }
    }
    Ok(None)
}

pub(crate) fn check_signatures(file: &File, device: &BlockDevice, erase: Option<&str>) -> Result<(), TargetError> {
    let found = signature::probe(file, device.size().0, device.path())?;
    allow_erase(&device.identities(), found.as_deref(), erase)
}

/// Refuses a node outside /dev, or in a world-writable folder there. mkfs takes a path, and such a node can lead to
/// another device when mkfs opens it.
pub(crate) fn check_node(device: &BlockDevice) -> Result<(), TargetError> {
    let path = device.path();
    let folders = path.ancestors().skip(1);
    let is_ours =
        |folder: &Path| rustix::fs::stat(folder).is_ok_and(|found| found.st_uid == 0 && found.st_mode & 0o002 == 0);
    if path.starts_with("/dev") && folders.into_iter().all(is_ours) {
        return Ok(());
    }
    let own = Path::new("/dev").join(device.name().replace('!', "/"));
    Err(TargetError::refused(
        path.display(),
        "its node is in a directory where other users can replace it",
        format!("name the device by its node in /dev: {}", own.display()),
    ))
}

/// Refuses a block device in use, or whose use cannot be determined; no flag allows it. In use means mounted, swap
/// space, held by another device, or open for writing in a process (itself or the file below it).
pub fn check_unused(device: &BlockDevice) -> Result<(), TargetError> {
    let files = in_use::files_below(device);
    let files = files.map_err(|silent| silent.refusal(device.path(), "another process has the file below it open"))?;
    refuse_use(device)?;
    let written = refuse_writer(device.path(), &opened(device, files)?)?;
    written.map_err(|silent| silent.refusal(device.path(), "another process has it open"))
}

/// Checks as [`check_unused`] does, for a loop device that this process attached to a guarded image. Here it may be
/// unknown who else has it open.
pub(crate) fn check_own_unused(device: &BlockDevice) -> Result<(), TargetError> {
    refuse_use(device)?;
    refuse_writer(device.path(), &opened(device, Vec::new())?).map(drop)
}

fn refuse_use(device: &BlockDevice) -> Result<(), TargetError> {
    match use_of(device)? {
        None => Ok(()),
        Some(found) => Err(TargetError::refused(
            device.path().display(),
            found,
            "unmount or release it first; no flag allows using a device that is in use",
        )),
    }
}

fn opened(device: &BlockDevice, files: Vec<(u64, u64)>) -> Result<Vec<OpenedFile>, TargetError> {
    let mut all: Vec<OpenedFile> =
        device.relatives()?.iter().map(|relative| OpenedFile::Device(relative.number())).collect();
    all.extend(files.into_iter().map(OpenedFile::file));
    Ok(all)
}

/// Refuses an image that is in use: by a loop device, as swap space, or open or mapped in a process. No flag allows it.
/// The caller holds its lock, and no descriptors except `file` and its duplicates. Releases devices that a killed
/// senesce left attached.
pub(crate) fn check_image_unused(file: &File, path: &Path) -> Result<(), TargetError> {
    let known = OverlayFile::of(file, path)?;
    let swap = refuse_swap(&known, path)?;
    let attached = crate::open::release_stale_loops(file, &known, path)?;
    let opened: Vec<OpenedFile> = known.numbers.iter().copied().map(OpenedFile::file).collect();
    let written = refuse_writer(path, &opened)?;
    let lease = lease::other_user(file);
    if let Ok(Some(found)) = lease {
        let reader = holders::reader(&known.numbers).map_or(found, |holder| holder.to_string());
        return Err(TargetError::refused(path.display(), reader, END_USER));
    }
    let Err(leaseless) = lease else { return Ok(()) };
    let questions = [
        (swap, "it is swap space"),
        (attached, "it is attached to a loop device"),
        (written, "another process has it open"),
    ];
    match questions.into_iter().find_map(|(answer, question)| Some((answer.err()?, question))) {
        None => Ok(()),
        Some((silent, question)) => Err(silent.and(leaseless).refusal(path, question)),
    }
}

const END_USER: &str = "end the programs that use it; no flag allows writing to a file that another program has open";

/// Refuses an existing file that another user may have placed under a name that this user chose; no flag allows it.
/// Check every file that this process did not create before writing into it. Refuses:
/// * a file of another user in a folder where others create files,
/// * a file with several names, or reached by another user's link, in such a folder.
pub fn check_not_planted(file: &File, path: &Path) -> Result<(), TargetError> {
    planted::check(file, path)
}

fn refuse_writer(path: &Path, opened: &[OpenedFile]) -> Result<WitnessResult, TargetError> {
    match processes::writer(opened) {
        Err(silent) => Ok(Err(silent)),
        Ok(None) => Ok(Ok(())),
        Ok(Some(holder)) => Err(TargetError::refused(
            path.display(),
            holder.to_string(),
            format!("{}; no flag allows using a file that another process writes", holder.remedy),
        )),
    }
}

/// Refuses a missing directory, because a directory below an unmounted mount point would fill the system disk. Warns
/// about a directory on the root file system. Refuses layers of mounted overlays.
pub(crate) fn check_directory(path: &Path) -> Result<(), TargetError> {
    let found = match fs::metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(TargetError::refused(
                path.display(),
                "directory not found (is a disk not mounted?)",
                "mount it, or allow creating it with --create (or mkdir)",
            ));
        }
        Err(error) => return Err(TargetError::io("inspect", path)(error)),
    };
    let used = overlay::use_of_directory(path);
    if let Some(used) = used.map_err(|silent| silent.refusal(path, "it is a layer of an overlay"))? {
        let remedy = "name a directory inside the overlay, or unmount it; no flag allows it";
        return Err(TargetError::refused(path.display(), used, remedy));
    }
    if lies_on_root(path, &found) {
        let below =
            BlockDevice::below(path).map_or_else(String::new, |device| format!(" on {}", device.path().display()));
        tracing::warn!("{} is on the root file system{below}: senesce will write to the system disk", path.display());
    }
    Ok(())
}

fn lies_on_root(path: &Path, found: &fs::Metadata) -> bool {
    let numbers = |path: &Path, own: u64| {
        let below = overlay::layer_below(path).and_then(|layer| fs::metadata(layer).ok());
        [Some(own), below.map(|below| below.dev())]
    };
    let root = Path::new("/");
    fs::metadata(root).is_ok_and(|of_root| {
        let of_root = numbers(root, of_root.dev());
        numbers(path, found.dev()).into_iter().flatten().any(|number| of_root.contains(&Some(number)))
    })
}

pub fn create_directory(path: &Path) -> Result<(), TargetError> {
    Folder::make(path).map(drop).map_err(TargetError::io("make directory", path))
}

/// Refuses an image that is in use, or that holds data unless `erase` repeats its path. Also refuses an `erase` that
/// names anything else. The caller holds its lock and no other descriptor.
pub fn check_image(file: &File, path: &Path, erase: Option<&str>) -> Result<(), TargetError> {
    check_regular(file, path)?;
    check_image_unused(file, path)?;
    check_image_content(file, path, erase)
}

pub(crate) fn check_image_content(file: &File, path: &Path, erase: Option<&str>) -> Result<(), TargetError> {
    let size = check_regular(file, path)?.size();
    let found = match crate::sparse::is_all_zero(file, size, path)? {
        true => None,
        false => Some(signature::probe(file, size, path)?.unwrap_or_else(|| "data".into())),
    };
    let real = path.canonicalize().unwrap_or_else(|_| path.into());
    let mut identities = vec![path.display().to_string(), real.display().to_string()];
    identities.dedup();
    allow_erase(&identities, found.as_deref(), erase)
}

fn refuse_swap(known: &OverlayFile, path: &Path) -> Result<WitnessResult, TargetError> {
    match in_use::swap_file(known) {
        Err(silent) => Ok(Err(silent)),
        Ok(None) => Ok(Ok(())),
        Ok(Some(swap)) => Err(TargetError::refused(
            path.display(),
            format!("it is swap space ({})", swap.display()),
            "turn it off first (swapoff); no flag allows using swap space that is in use",
        )),
    }
}

pub(crate) fn check_regular(file: &File, path: &Path) -> Result<fs::Metadata, TargetError> {
    let metadata = file.metadata().map_err(TargetError::io("inspect", path))?;
    refuse_irregular(&metadata, path).map(|()| metadata)
}

pub(crate) fn open_image(path: &Path, write: bool) -> Result<(File, u64), TargetError> {
    let failed = |error| TargetError::named("open the image", path)(error);
    refuse_irregular(&path.metadata().map_err(failed)?, path)?;
    let file = File::options().read(true).write(write).custom_flags(libc::O_NONBLOCK).open(path).map_err(failed)?;
    let size = check_regular(&file, path)?.len();
    Ok((file, size))
}

/// Refuses all but regular files. The length of a device node is 0, whatever the device holds.
fn refuse_irregular(found: &fs::Metadata, path: &Path) -> Result<(), TargetError> {
    let path = path.display();
    match () {
        () if found.is_file() => Ok(()),
        () if found.file_type().is_block_device() => Err(TargetError::Usage(format!(
            "{path} is a block device: an image must be a regular file; name the device without image:, or copy its \
             content with a snapshot (senesce snapshot create {path} NAME --store DIR), whose NAME.img is an image"
        ))),
        () => Err(TargetError::Usage(format!("{path} is not a regular file: an image must be a regular file"))),
    }
}

/// Decides what `erase` allows. A word that names something else is an error even if nothing was found: the user had
/// another target in mind.
fn allow_erase(identities: &[String], found: Option<&str>, erase: Option<&str>) -> Result<(), TargetError> {
    let found = match (found, erase) {
        (None, None) => return Ok(()),
        (_, Some(word)) if identities.iter().any(|identity| identity == word || is_same_path(identity, word)) => {
            return Ok(());
        }
        (found, _) => found.map_or_else(|| "it is empty".into(), |found| format!("it holds {found}")),
    };
    match erase {
        Some(word) => Err(TargetError::refused(
            &identities[0],
            format!("{found}, and --erase {word} does not name it"),
            format!("repeat its identity: --erase {}", identities.join(" or --erase ")),
        )),
        None => Err(TargetError::refused(
            &identities[0],
            found,
            format!("choose another, or allow its loss with --erase {}", identities[0]),
        )),
    }
}

pub(crate) fn is_same_path(known: &str, word: &str) -> bool {
    let real = |name: &str| Path::new(name).canonicalize().or_else(|_| std::path::absolute(name)).ok();
    real(word).is_some_and(|word| Some(word) == real(known))
}

/// Returns whether a word of `--erase` names `path`, or its block device by serial number.
pub fn names(word: &str, path: &Path) -> bool {
    let is_serial = || {
        BlockDevice::number_of(path).is_some()
            && BlockDevice::open(path).is_ok_and(|device| device.identities().iter().any(|known| known == word))
    };
    Path::new(word) == path || is_same_path(&path.to_string_lossy(), word) || is_serial()
}

/// Returns the word of `--erase` for one of several targets: `None` if it names another one. A word that names no
/// target stays, so that it is refused.
pub fn word_for<'a>(word: Option<&'a str>, path: &Path, all: &[&Path]) -> Option<&'a str> {
    word.filter(|word| names(word, path) || !all.iter().any(|other| names(word, other)))
}

#[cfg(test)]
mod tests;
