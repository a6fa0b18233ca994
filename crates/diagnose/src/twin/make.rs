//! Copies metadata through a read-only loop device, so that no program run here can write to the original.

use super::trial::{Trial, new_private};
use crate::error::PrognosisError;
use senesce_core::environment::USE_SUDO;
use senesce_layout::ShownDirectory;
use senesce_layout::btrfs_chunks::{self, Chunk};
use senesce_layout::shown_directory::visible_mounts;
use senesce_sys::zeros::is_zero;
use senesce_volume::file_system::TwinBy;
use senesce_volume::guard::MountLine;
use senesce_volume::{
    BlockDevice, FileSystem, Guardian, LoopDevice, ScratchDirectory, TargetError, guardian, loop_device, signature,
};
use serde::Serialize;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Facts about a twin.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TwinFacts {
    /// The image.
    pub image: String,
    /// Its file system.
    pub file_system: FileSystem,
    /// Its length: that of the original.
    pub size: u64,
    /// Bytes that it takes.
    pub bytes: u64,
    /// Mount options of the original that affect writes; trials are mounted with them.
    pub mount_options: String,
    /// The program that copied the metadata.
    pub copied_by: String,
    /// Seconds of the copy.
    pub seconds: f64,
    /// Seconds for which writing to the original was stopped; none if it was not.
    pub frozen_seconds: Option<f64>,
    /// The checker that verified it.
    pub checked_by: Option<String>,
}

pub(crate) struct Source {
    shown: String,
    path: PathBuf,
    size: u64,
    mounted: Option<MountLine>,
    file_system: Option<FileSystem>,
}

impl Source {
    /// Finds the device below a target: a mounted directory, an image or a device.
    pub(crate) fn of(target: &Path) -> Result<Self, PrognosisError> {
        let found = target.metadata().map_err(PrognosisError::io("inspect", target))?;
        let kind = found.file_type();
        let no_twin =
            |reason: &str| PrognosisError::NoTwin { target: target.display().to_string(), reason: reason.into() };
        let path = if kind.is_dir() {
            let device = BlockDevice::below(target);
            let device =
                device.ok_or_else(|| no_twin("it is not on a single block device; name an image or a device"))?;
            device.path().to_path_buf()
        } else if kind.is_block_device() || kind.is_file() {
            target.to_path_buf()
        } else {
            return Err(no_twin("it is neither a directory nor an image nor a block device"));
        };
        let file = File::open(&path).map_err(PrognosisError::io("open", &path))?;
        let devices = if kind.is_file() { loop_device::attached_to(&file, &path)? } else { vec![path.clone()] };
        let lines = visible_mounts(&path, &devices)?;
        let writable = |line: &&MountLine| line.options.split(',').any(|word| word == "rw");
        let mounted = lines.iter().find(writable).or_else(|| lines.first()).cloned();
        let size = match BlockDevice::open(&path) {
            Ok(device) => device.size().0,
            Err(_) => found.len(),
        };
        let file_system = signature::file_system(&file, size, &path)?;
        Ok(Self { shown: target.display().to_string(), path, size, mounted, file_system })
    }

    /// Returns the mount options that affect writes; empty if not mounted.
    fn mount_options(&self, file_system: FileSystem) -> String {
        let wanted: &[&str] = match file_system {
            FileSystem::Ext4 => &[
                "data",
                "delalloc",
                "nodelalloc",
                "dioread_lock",
                "dioread_nolock",
                "nodioread_nolock",
                "stripe",
                "auto_da_alloc",
                "noauto_da_alloc",
                "mb_optimize_scan",
                "max_dir_size_kb",
                "resuid",
                "resgid",
            ],
            FileSystem::Xfs => &[
                "allocsize",
                "inode32",
                "inode64",
                "largeio",
                "nolargeio",
                "swalloc",
                "noalign",
                "sunit",
                "swidth",
                "filestreams",
            ],
            FileSystem::Btrfs => &[
                "compress",
                "compress-force",
                "nodatacow",
                "nodatasum",
                "max_inline",
                "ssd",
                "nossd",
                "ssd_spread",
                "metadata_ratio",
            ],
            FileSystem::F2fs | FileSystem::Nilfs2 => &[],
        };
        let options = self.mounted.as_ref().map_or("", |line| line.options.as_str());
        let name = |word: &str| word.split_once('=').map_or(word, |(name, _)| name).to_string();
        let carried = options.split(',').filter(|word| wanted.contains(&name(word).as_str()));
        carried.collect::<Vec<_>>().join(",")
    }

    /// Opens the image for one use. The guard would mistake a descriptor that stays open for another process that uses the image.
    fn open(&self) -> Result<File, PrognosisError> {
        File::open(&self.path).map_err(PrognosisError::io("open", &self.path))
    }

    fn is_writable(&self) -> bool {
        self.mounted.as_ref().is_some_and(|line| line.options.split(',').any(|word| word == "rw"))
    }

    pub(crate) fn file_system(&self) -> Result<FileSystem, PrognosisError> {
        let found = self.file_system;
        match found {
            Some(known) if known.entry().twin.is_some() => Ok(known),
            _ => Err(PrognosisError::NoTwin {
                target: self.shown.clone(),
                reason: format!(
                    "twins are made of {}; {} was found",
                    twins().join(", "),
                    found.map_or("no known file system", FileSystem::name)
                ),
            }),
        }
    }
}

/// A frozen file system; thawed when dropped, or after the end of the process.
struct Frozen {
    directory: File,
    guardian: Guardian,
    begun: Instant,
}

impl Frozen {
    fn new(point: &Path) -> Result<Self, PrognosisError> {
        let directory = File::open(point).map_err(PrognosisError::io("open", point))?;
        let guardian = Guardian::of_frozen(point)?;
        senesce_sys::mounted::freeze(&directory).map_err(|errno| PrognosisError::io("freeze", point)(errno.into()))?;
        Ok(Self { directory, guardian, begun: Instant::now() })
    }

    fn thaw(mut self) -> Result<f64, PrognosisError> {
        let _ = &self.directory;
        self.guardian.undo().map_err(PrognosisError::io("thaw", "the file system"))?;
        Ok(self.begun.elapsed().as_secs_f64())
    }
}

/// Makes a twin at `image`, which must not exist, and checks it. A file system mounted for writing is frozen during the
/// copy if allowed, else refused. After an error the image is removed.
pub fn make(target: &Path, image: &Path, freeze: bool) -> Result<TwinFacts, PrognosisError> {
    if !rustix::process::geteuid().is_root() {
        return Err(TargetError::missing("the right to read metadata and to attach a loop device", USE_SUDO).into());
    }
    let source = Source::of(target)?;
    let file_system = source.file_system()?;
    if source.is_writable() && !freeze {
        return Err(TargetError::refused(
            target.display(),
            "it is mounted for writing, and its metadata would change while they are copied",
            "unmount it or mount it read-only, name a snapshot of it (LVM), or allow --freeze, which stops all \
             writing during the copy",
        )
        .into());
    }
    let sized = new_private(image)?.set_len(source.size).map_err(PrognosisError::io("set the size of", image));
    let made = sized.and_then(|()| copy_and_check(&source, file_system, image));
    made.map_err(|error| {
        // Programs report it in words of their own, or only that they were ended.
        let directory = image.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let is_full = has_no_space(directory);
        let _ = std::fs::remove_file(image);
        if is_full && !matches!(error, PrognosisError::Interrupted) { super::trial::full(directory) } else { error }
    })
}

/// Returns whether not even a few blocks are free in a directory.
fn has_no_space(directory: &Path) -> bool {
    rustix::fs::statvfs(directory).is_ok_and(|found| found.f_bavail.saturating_mul(found.f_frsize) < 64 << 10)
}

fn copy_and_check(source: &Source, file_system: FileSystem, image: &Path) -> Result<TwinFacts, PrognosisError> {
    let begun = Instant::now();
    let frozen = match (&source.mounted, source.is_writable()) {
        (Some(line), true) => Some(Frozen::new(&line.mount_point)?),
        _ => None,
    };
    let copied = copy(source, file_system, image);
    let frozen_seconds = frozen.map(Frozen::thaw).transpose()?;
    let copied_by = copied?;
    let seconds = begun.elapsed().as_secs_f64();
    let bytes = image.metadata().map_err(PrognosisError::io("inspect", image))?.blocks() * 512;
    let mount_options = source.mount_options(file_system);
    let report = Trial::begin(image, file_system, &mount_options)?.check()?;
    if let Some(report) = report.as_ref().filter(|report| !report.clean) {
        let output: Vec<&str> = report.output.lines().rev().take(4).collect();
        let output = output.into_iter().rev().collect::<Vec<_>>().join(" / ");
        return Err(PrognosisError::Unsound { target: source.shown.clone(), command: report.command.clone(), output });
    }
    let checked_by = report.map(|report| report.command.split(" /").next().unwrap_or_default().to_string());
    let image = image.display().to_string();
    Ok(TwinFacts {
        image,
        file_system,
        size: source.size,
        bytes,
        mount_options,
        copied_by,
        seconds,
        frozen_seconds,
        checked_by,
    })
}

fn twins() -> Vec<&'static str> {
    FileSystem::ALL.into_iter().filter(|known| known.entry().twin.is_some()).map(FileSystem::name).collect()
}

fn copy(source: &Source, file_system: FileSystem, image: &Path) -> Result<String, PrognosisError> {
    if let Ok(device) = BlockDevice::open(&source.path) {
        // The device's own cache may be older than direct writes of its file system.
        let _ = device.flush_buffers();
    }
    let twin = file_system.entry().twin;
    if twin == Some(TwinBy::Chunks) {
        copy_chunks(source, image)?;
        return Ok("its metadata chunks".into());
    }
    let device = LoopDevice::attach(&source.open()?, "senesce image twin of", true)?;
    let (from, to) = (device.path().to_string_lossy().into_owned(), image.to_string_lossy().into_owned());
    match twin {
        Some(TwinBy::E2image) => {
            program("e2image", &["-r", &from, &to], file_system)?;
            Ok("e2image -r".into())
        }
        _ => {
            let folder = image.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
            let scratch = ScratchDirectory::create(folder, "metadump")?;
            let dump = scratch.path().join("dump").to_string_lossy().into_owned();
            program("xfs_metadump", &["-o", &from, &dump], file_system)?;
            program("xfs_mdrestore", &[&dump, &to], file_system)?;
            Ok("xfs_metadump -o, xfs_mdrestore".into())
        }
    }
}

pub(super) fn program(name: &str, arguments: &[&str], file_system: FileSystem) -> Result<(), PrognosisError> {
    let search = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new(name);
    command.args(arguments).env("LC_ALL", "C").env("PATH", search);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let output = guardian::output(&mut command).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            let package = file_system.package();
            TargetError::missing(format!("the program {name}"), format!("apt-get install {package}"))
        }
        _ => TargetError::io("run", Path::new(name))(error),
    })?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let output_text = lines[lines.len().saturating_sub(3)..].join(" / ");
    let command = format!("{name} {}", arguments.join(" "));
    Err(TargetError::Program { command, status: output.status.to_string(), output: output_text }.into())
}

/// Copies of btrfs' superblock (fs/btrfs/disk-io.h, btrfs_sb_offset).
const SUPERBLOCKS: [u64; 3] = [64 << 10, 64 << 20, 256 << 30];
const SUPERBLOCK_BYTES: u64 = 4096;

/// Copies the chunks of metadata of btrfs, which are separate from data. The tool btrfs-image would turn their copies
/// (profile DUP) into single ones. The twin would then have more space than the original.
fn copy_chunks(source: &Source, image: &Path) -> Result<(), PrognosisError> {
    let chunks = match &source.mounted {
        Some(line) => chunks_of(&line.mount_point)?,
        None => chunks_of(ShownDirectory::of(&source.path)?.directory())?,
    };
    let no_twin = |reason: &str| PrognosisError::NoTwin { target: source.shown.clone(), reason: reason.into() };
    let metadata: Vec<&Chunk> = chunks.iter().filter(|chunk| !chunk.data).collect();
    if metadata.is_empty() {
        return Err(no_twin("data and metadata share their chunks (mixed block groups)"));
    }
    if chunks.iter().any(|chunk| chunk.spread)
        || metadata.iter().flat_map(|chunk| &chunk.copies).any(|copy| copy.0 != 1)
    {
        return Err(no_twin("it spans several devices"));
    }
    let from = source.open()?;
    let to = std::fs::OpenOptions::new().write(true).open(image).map_err(PrognosisError::io("open", image))?;
    for at in SUPERBLOCKS.into_iter().filter(|at| at + SUPERBLOCK_BYTES <= source.size) {
        copy_range(source, &from, &to, image, at, SUPERBLOCK_BYTES)?;
    }
    for chunk in metadata {
        for (_, at) in &chunk.copies {
            copy_range(source, &from, &to, image, *at, chunk.length)?;
        }
    }
    to.sync_all().map_err(PrognosisError::io("write", image))
}

fn chunks_of(directory: &Path) -> Result<Vec<Chunk>, PrognosisError> {
    let root = File::open(directory).map_err(PrognosisError::io("open", directory))?;
    Ok(btrfs_chunks::chunks(root.as_fd(), directory)?)
}

fn copy_range(
    source: &Source,
    from: &File,
    to: &File,
    image: &Path,
    start: u64,
    length: u64,
) -> Result<(), PrognosisError> {
    let mut buffer = vec![0u8; 1 << 20];
    let end = (start + length).min(source.size);
    let mut at = start;
    while at < end {
        let part = &mut buffer[..(end - at).min(1 << 20) as usize];
        from.read_exact_at(part, at).map_err(PrognosisError::io("read", &source.path))?;
        for (index, block) in part.chunks(4096).enumerate().filter(|(_, block)| !is_zero(block)) {
            to.write_all_at(block, at + index as u64 * 4096).map_err(PrognosisError::io("write", image))?;
        }
        at += part.len() as u64;
    }
    Ok(())
}
