//! Block devices in sysfs: relatives, identity and queue settings.

use crate::error::TargetError;
use crate::witness::UnavailableWitness;
use crate::witness::kernel_files::Tree;
use senesce_core::Bytes;
use senesce_core::environment::remedy_of_right;
use senesce_core::failure::errno_message;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockDevice {
    path: PathBuf,
    name: String,
    number: (u32, u32),
}

impl BlockDevice {
    /// Opens a device such as `/dev/sdb1`. [`TargetError::Missing`] if /sys does not list it.
    pub fn open(path: &Path) -> Result<Self, TargetError> {
        let found = path.metadata().map_err(TargetError::named("inspect", path))?;
        if !found.file_type().is_block_device() {
            return Err(TargetError::Usage(format!("{} is not a block device", path.display())));
        }
        let number = split(found.rdev());
        Self::check_listed(number).map_err(|silent| {
            let remedy = "mount it (mount -t sysfs sysfs /sys); or the device may be gone";
            TargetError::missing(format!("{} in /sys ({silent})", path.display()), remedy)
        })?;
        let mut device = Self::from_number(number)
            .ok_or_else(|| TargetError::missing(format!("{} in /sys", path.display()), "the device may be gone"))?;
        device.path = path.canonicalize().unwrap_or_else(|_| path.into());
        Ok(device)
    }

    fn check_listed(number: (u32, u32)) -> Result<(), UnavailableWitness> {
        let (sys, path) = (Tree::sys()?, format!("dev/block/{}:{}/dev", number.0, number.1));
        match parse_number(&sys.certain(&path)?) == Some(number) {
            true => Ok(()),
            false => Err(UnavailableWitness(format!("/sys/{path}: it belongs to another device"))),
        }
    }

    pub fn from_number(number: (u32, u32)) -> Option<Self> {
        let folder = fs::canonicalize(format!("/sys/dev/block/{}:{}", number.0, number.1)).ok()?;
        let name = folder.file_name()?.to_string_lossy().into_owned();
        // A '!' in a kernel name stands for a '/' in /dev (Documentation/ABI, cciss!c0d0).
        Some(Self { path: Path::new("/dev").join(name.replace('!', "/")), name, number })
    }

    /// Returns the whole disks of this machine that have a size, without loop, ram and zram devices.
    pub fn drives() -> Vec<Self> {
        let entries = fs::read_dir("/sys/block").into_iter().flatten().flatten();
        let numbers = entries.filter_map(|entry| parse_number(&fs::read_to_string(entry.path().join("dev")).ok()?));
        let in_memory = |device: &Self| ["loop", "ram", "zram"].iter().any(|kind| device.name.starts_with(kind));
        let mut drives: Vec<_> = numbers.filter_map(Self::from_number).collect();
        drives.retain(|device| !in_memory(device) && device.size() > Bytes(0));
        drives.sort_by(|left, right| left.name.cmp(&right.name));
        drives
    }

    /// Returns the device below a file or directory; for a path in an overlay, the device of its layer. `None` if the
    /// file system has no single block device or the layer is not accessible.
    pub fn below(path: &Path) -> Option<Self> {
        let layer = crate::overlay::layer_below(path);
        let number = split(layer.as_deref().unwrap_or(path).metadata().ok()?.dev());
        if let Some(device) = Self::from_number(number) {
            return Some(device);
        }
        let lines = crate::guard::mounts().ok()?;
        let line = lines.iter().find(|line| line.device == number && line.source.starts_with("/dev"));
        match line {
            Some(line) => Self::open(&line.source).ok(),
            // Files of a btrfs subvolume have an anonymous device number, which no mount table lists.
            None => <[Self; 1]>::try_from(Self::of_btrfs(layer.as_deref().unwrap_or(path))).ok().map(|[only]| only),
        }
    }

    /// Returns all devices of the btrfs that contains `path`. Files of btrfs report the anonymous device number of
    /// their subvolume. Empty for other file systems, or if sysfs does not list the devices, or if one cannot be
    /// opened.
    pub fn of_btrfs(path: &Path) -> Vec<Self> {
        let found = fs::File::open(path).ok().and_then(|file| senesce_sys::btrfs::file_system(&file).ok());
        let Some(file_system) = found else { return Vec::new() };
        let folder = Path::new("/sys/fs/btrfs").join(file_system.uuid()).join("devices");
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        // All or none: a part of the devices would pass for the whole.
        let devices = entries.map(|entry| Self::open(&Path::new("/dev").join(entry.file_name())).ok());
        let mut devices: Vec<Self> = devices.collect::<Option<_>>().unwrap_or_default();
        devices.sort_by(|left, right| left.name.cmp(&right.name));
        devices
    }

    pub fn number_of(path: &Path) -> Option<(u32, u32)> {
        let found = path.metadata().ok()?;
        found.file_type().is_block_device().then(|| split(found.rdev()))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the kernel's name, for example "sdb1".
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn number(&self) -> (u32, u32) {
        self.number
    }

    fn folder(&self) -> PathBuf {
        let link = format!("/sys/dev/block/{}:{}", self.number.0, self.number.1);
        fs::canonicalize(&link).unwrap_or_else(|_| link.into())
    }

    /// Returns the size in bytes; `/sys` counts in units of 512 bytes for every device
    /// (Documentation/ABI/stable/sysfs-block).
    pub fn size(&self) -> Bytes {
        Bytes(self.attribute("size").and_then(|text| text.parse::<u64>().ok()).unwrap_or(0) * 512)
    }

    pub fn attribute(&self, name: &str) -> Option<String> {
        let text = fs::read_to_string(self.folder().join(name)).ok()?;
        Some(text.trim().to_string())
    }

    pub(crate) fn is_partition(&self) -> bool {
        self.folder().join("partition").exists()
    }

    pub fn disk(&self) -> Self {
        let parent = self.folder().parent().and_then(|parent| fs::read_to_string(parent.join("dev")).ok());
        match (self.is_partition(), parent.as_deref().and_then(parse_number).and_then(Self::from_number)) {
            (true, Some(disk)) => disk,
            _ => self.clone(),
        }
    }

    /// Returns the device itself, its partitions, and the disk that contains it. Fails if its sysfs folder cannot be
    /// listed, for example after a detach or below another mount.
    pub(crate) fn relatives(&self) -> Result<Vec<Self>, TargetError> {
        let folder = self.folder();
        self.check_whole(&folder).map_err(|silent| silent.refusal(&self.path, "a partition or its disk is in use"))?;
        let entries = fs::read_dir(&folder).map_err(TargetError::io("list", &folder))?;
        let partitions = entries.flatten().filter(|entry| entry.path().join("partition").exists());
        let numbers = partitions.filter_map(|entry| parse_number(&fs::read_to_string(entry.path().join("dev")).ok()?));
        let mut found = vec![self.clone()];
        found.extend(numbers.filter_map(Self::from_number));
        if self.is_partition() {
            found.push(self.disk());
        }
        Ok(found)
    }

    /// Checks that no other mount hides its partitions, `holders` and `slaves` in sysfs.
    fn check_whole(&self, folder: &Path) -> Result<(), UnavailableWitness> {
        let (sys, below) = (Tree::sys()?, folder.strip_prefix("/sys").unwrap_or(folder).to_string_lossy().into_owned());
        for folder in [below.clone(), format!("{below}/queue")] {
            // Partitions have no queue.
            for name in sys.names(&folder).unwrap_or_default() {
                let part = format!("{folder}/{name}");
                match sys.open(&part) {
                    Err(error) if error.raw_os_error() == Some(libc::EXDEV) => return Err(sys.silent(&part, &error)),
                    _ => {}
                }
            }
        }
        sys.certain(&format!("{below}/dev")).map(drop)
    }

    pub(crate) fn holders(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder().join("holders")).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    pub(crate) fn made_of(&self) -> Vec<Self> {
        let entries = fs::read_dir(self.folder().join("slaves")).into_iter().flatten().flatten();
        let numbers = entries.filter_map(|entry| parse_number(&fs::read_to_string(entry.path().join("dev")).ok()?));
        numbers.filter_map(Self::from_number).collect()
    }

    pub(crate) fn is(&self, file: &fs::File) -> bool {
        file.metadata().is_ok_and(|found| found.file_type().is_block_device() && split(found.rdev()) == self.number)
    }

    /// Returns the words that name it in `--erase`: its path, and its serial number if it has one.
    pub(crate) fn identities(&self) -> Vec<String> {
        let mut words = vec![self.path.display().to_string()];
        words.extend(self.serial());
        words
    }

    /// Returns an identifier that is unique on this machine and does not depend on /dev names. It begins with the
    /// serial number of its disk (or its name). The NVMe namespace (`-ns2`, unless it is the first) and the first
    /// sector of a partition (`-at2048`) follow.
    pub(crate) fn word(&self) -> String {
        let disk = self.disk();
        let namespace = disk.attribute("nsid").and_then(|text| text.parse().ok());
        word_of(&self.serial().unwrap_or_else(|| disk.name.clone()), namespace, self.start())
    }

    /// Returns the first sector of a partition, in units of 512 bytes; `None` for a whole disk.
    pub(crate) fn start(&self) -> Option<u64> {
        self.attribute("start").filter(|_| self.is_partition())?.parse().ok()
    }

    pub fn serial(&self) -> Option<String> {
        let disk = self.disk();
        ["serial", "device/serial", "device/vpd_pg80", "wwid"]
            .iter()
            .filter_map(|name| disk.attribute(name))
            .map(|text| text.chars().filter(char::is_ascii_graphic).collect::<String>())
            .find(|text| !text.is_empty())
    }

    pub fn queue(&self, name: &str) -> Option<String> {
        self.disk().attribute(&format!("queue/{name}"))
    }

    /// Returns the zone size of a device with sequential zones (Documentation/ABI/stable/sysfs-block,
    /// queue/chunk_sectors).
    pub(crate) fn zone_bytes(&self) -> Option<u64> {
        let sectors: u64 = self.queue("chunk_sectors").filter(|_| self.is_zoned())?.parse().ok()?;
        Some(sectors * 512)
    }

    /// Returns whether its zones must be written sequentially (Documentation/ABI/stable/sysfs-block, queue/zoned).
    pub fn is_zoned(&self) -> bool {
        self.queue("zoned").is_some_and(|kind| kind == "host-managed")
    }

    pub fn set_queue(&self, name: &str, value: &str) -> Result<String, TargetError> {
        exchange(&self.queue_file(name), value)
    }

    pub fn queue_file(&self, name: &str) -> PathBuf {
        self.disk().folder().join("queue").join(name)
    }

    /// Returns the read-ahead setting of the btrfs that is mounted from this device; `None` without such a mount. btrfs
    /// reads ahead by its own backing device, not by the queue's setting (fs/btrfs/sysfs.c, since Linux 5.9).
    pub(crate) fn btrfs_read_ahead(&self) -> Option<PathBuf> {
        let mounted = fs::read_dir("/sys/fs/btrfs").ok()?.flatten().map(|entry| entry.path());
        let own = mounted.filter(|folder| folder.join("devices").join(&self.name).exists());
        own.map(|folder| folder.join("bdi/read_ahead_kb")).find(|path| path.exists())
    }

    pub fn flush_buffers(&self) -> Result<(), TargetError> {
        let file = fs::File::open(&self.path).map_err(TargetError::io("open", &self.path))?;
        senesce_sys::block::flush_buffers(&file).map_err(TargetError::errno("flush the buffers of", &self.path))
    }
}

/// Writes a kernel setting and returns the previous value. ENOENT if this kernel or device does not have it, EINVAL if
/// the kernel rejects the value.
pub(crate) fn exchange(path: &Path, value: &str) -> Result<String, TargetError> {
    let before = fs::read_to_string(path).map_err(TargetError::io("read", path))?;
    fs::write(path, value).map_err(TargetError::io(&format!("write {value} to"), path))?;
    Ok(chosen(&before).to_string())
}

/// Returns the word in brackets of a choice ("none [mq-deadline] kyber"), or the whole text.
pub(crate) fn chosen(text: &str) -> &str {
    text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map_or(text.trim(), |(word, _)| word)
}

/// Writes back dirty pages and drops the machine's page, dentry and inode caches
/// (Documentation/admin-guide/sysctl/vm.rst). [`TargetError::Missing`] without root or if /proc is read-only, as in
/// many containers.
pub fn drop_caches() -> Result<(), TargetError> {
    rustix::fs::sync();
    let path = Path::new("/proc/sys/vm/drop_caches");
    fs::write(path, "3").map_err(|error| not_dropped(error, path))
}

fn not_dropped(error: io::Error, path: &Path) -> TargetError {
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => TargetError::missing(
            format!("the right to drop the machine's caches ({}: {})", path.display(), errno_message(&error)),
            remedy_of_right("run outside of a container that has /proc read-only"),
        ),
        _ => TargetError::io("write 3 to", path)(error),
    }
}

fn word_of(disk: &str, namespace: Option<u32>, start: Option<u64>) -> String {
    let namespace = namespace.filter(|number| *number != 1).map_or_else(String::new, |number| format!("-ns{number}"));
    let start = start.map_or_else(String::new, |sector| format!("-at{sector}"));
    format!("{disk}{namespace}{start}")
}

fn split(number: u64) -> (u32, u32) {
    (rustix::fs::major(number), rustix::fs::minor(number))
}

pub(crate) fn parse_number(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_core::failure::{Classify, ExitCode};

    #[test]
    fn dropping_caches_without_permission_is_missing() {
        for (errno, code) in
            [(13, ExitCode::Missing), (1, ExitCode::Missing), (30, ExitCode::Missing), (5, ExitCode::RunFailed)]
        {
            let error = not_dropped(io::Error::from_raw_os_error(errno), Path::new("/proc/sys/vm/drop_caches"));
            assert_eq!(error.exit_code(), code, "{error}");
            assert!(error.to_string().contains("drop_caches"), "{error}");
        }
    }

    #[test]
    fn a_choice_is_the_word_in_brackets() {
        assert_eq!(chosen("none [mq-deadline] kyber\n"), "mq-deadline");
        assert_eq!(chosen("128\n"), "128");
    }

    #[test]
    fn partitions_have_distinct_identifiers() {
        assert_eq!(word_of("S123", None, None), "S123");
        assert_eq!(word_of("S123", Some(1), None), "S123", "whole disks keep their folders of snapshots");
        assert_eq!(word_of("S123", Some(2), None), "S123-ns2");
        assert_eq!(word_of("S123", Some(2), Some(2048)), "S123-ns2-at2048");
        assert_eq!(word_of("vda", None, Some(34)), "vda-at34");
    }

    #[test]
    fn regular_file_is_not_a_block_device() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(matches!(BlockDevice::open(file.path()), Err(TargetError::Usage(_))));
    }
}
