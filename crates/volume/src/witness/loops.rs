//! Loop devices and their backing files or devices. Two witnesses list them, sysfs and /proc/partitions; each device
//! reports its own backing (LOOP_GET_STATUS64).

use super::UnavailableWitness;
use super::kernel_files::Tree;
use crate::block_device::BlockDevice;
use crate::overlay::OverlayFile;
use crate::sparse::{self, Range};
use senesce_sys::loop_device::{self as calls, Status};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The major number of loop devices (Documentation/admin-guide/devices.txt).
pub(crate) const LOOP_MAJOR: u32 = 7;

#[derive(Debug)]
struct AttachedLoop {
    path: PathBuf,
    under: LoopBacking,
    file_name: Option<PathBuf>,
}

#[derive(Debug)]
enum LoopBacking {
    File((u64, u64)),
    Device((u32, u32)),
    Nothing,
    Unknown(UnavailableWitness),
}

fn attached() -> Result<Vec<AttachedLoop>, UnavailableWitness> {
    let found = match (in_sysfs(), in_partitions()) {
        (Err(sysfs), Err(partitions)) => return Err(sysfs.and(partitions)),
        (sysfs, partitions) => {
            // sysfs last: it has the names of the files too.
            let mut all = partitions.unwrap_or_default();
            all.extend(sysfs.unwrap_or_default());
            all
        }
    };
    Ok(found.into_iter().map(|(name, (number, file_name))| of(&name, number, file_name)).collect())
}

type LoopList = BTreeMap<String, ((u32, u32), Option<PathBuf>)>;

pub(crate) fn is_loop(device: &BlockDevice) -> bool {
    device.disk().number().0 == LOOP_MAJOR
}

fn has_name_of_loop(name: &str) -> bool {
    name.strip_prefix("loop").is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
}

fn in_sysfs() -> Result<LoopList, UnavailableWitness> {
    let sys = Tree::sys()?;
    let mut found = LoopList::new();
    for name in sys.names("block")?.into_iter().filter(|name| has_name_of_loop(name)) {
        let path = format!("block/{name}/loop/backing_file");
        let file_name = match sys.read(&path) {
            Ok(text) => PathBuf::from(text.strip_suffix('\n').unwrap_or(&text)),
            Err(error) if is_gone(&error) => {
                // Nothing is attached, or the device is gone. Otherwise its folder is not accessible.
                match sys.open(&format!("block/{name}/dev")) {
                    Err(error) if !is_gone(&error) => return Err(sys.silent(&format!("block/{name}"), &error)),
                    _ => continue,
                }
            }
            Err(error) => return Err(sys.silent(&path, &error)),
        };
        let number = crate::block_device::parse_number(&sys.certain(&format!("block/{name}/dev"))?);
        let number = number.ok_or_else(|| UnavailableWitness(format!("/sys/block/{name}/dev: no number")))?;
        found.insert(name, (number, Some(file_name)));
    }
    Ok(found)
}

fn is_gone(error: &std::io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENODEV | libc::ENXIO))
}

/// Lists every device that has a size, so every attached loop device (proc_partitions(5)).
fn in_partitions() -> Result<LoopList, UnavailableWitness> {
    let text = Tree::proc()?.certain("partitions")?;
    if !text.starts_with("major") {
        return Err(UnavailableWitness("/proc/partitions: it is empty".into()));
    }
    Ok(parse_partitions(&text))
}

fn parse_partitions(text: &str) -> LoopList {
    let of_line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = (words.first()?.parse().ok()?, words.get(1)?.parse().ok()?);
        let name = words.get(3).filter(|name| has_name_of_loop(name))?;
        Some((name.to_string(), (number, None)))
    };
    text.lines().filter_map(of_line).collect()
}

fn of(name: &str, number: (u32, u32), file_name: Option<PathBuf>) -> AttachedLoop {
    let path = Path::new("/dev").join(name);
    let under = match status(name, number) {
        Ok(Some(info)) => LoopBacking::of(&info),
        Ok(None) => LoopBacking::Nothing,
        Err(silent) => LoopBacking::Unknown(silent),
    };
    AttachedLoop { path, under, file_name }
}

impl LoopBacking {
    fn of(info: &Status) -> Self {
        // Kernels before 5.11 give the device of the file system for a file.
        match info.attached_device {
            0 => Self::File((info.device, info.inode)),
            device if device == info.device => Self::File((info.device, info.inode)),
            device => Self::Device((rustix::fs::major(device), rustix::fs::minor(device))),
        }
    }
}

/// Asks the device itself; `None` if nothing is attached.
pub(crate) fn status(name: &str, number: (u32, u32)) -> Result<Option<Status>, UnavailableWitness> {
    let nodes = [format!("/dev/{name}"), format!("/dev/block/{}:{}", number.0, number.1)];
    let mut why = format!("/dev/{name}: no such device node");
    for node in nodes {
        let opened = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(&node);
        match opened {
            Ok(file) if !is_node(&file, number) => why = format!("{node}: it is the node of another device"),
            Ok(file) => match calls::status(&file) {
                Ok(status) => return Ok(Some(status)),
                Err(rustix::io::Errno::NXIO) => return Ok(None),
                Err(errno) => why = format!("{node}: {errno}"),
            },
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => why = format!("{node}: {}", senesce_core::failure::errno_message(&error)),
        }
    }
    Err(UnavailableWitness(why))
}

fn is_node(file: &File, number: (u32, u32)) -> bool {
    file.metadata().is_ok_and(|found| {
        found.file_type().is_block_device()
            && (rustix::fs::major(found.rdev()), rustix::fs::minor(found.rdev())) == number
    })
}

pub(crate) fn over_file(known: &OverlayFile) -> Result<Vec<PathBuf>, UnavailableWitness> {
    over(|one| match (&one.under, &one.file_name) {
        (LoopBacking::Nothing | LoopBacking::Device(_), _) => Ok(false),
        (LoopBacking::File(numbers), name) => {
            let is_it =
                known.numbers.contains(numbers) || name.as_ref().is_some_and(|name| known.hidden.contains(name));
            match (is_it, &known.unseen, name) {
                (true, ..) | (false, None, _) => Ok(is_it),
                // Attached under a name in a layer that is not accessible here.
                (false, Some(_), Some(_)) if !known.hidden.is_empty() => Ok(false),
                (false, Some(silent), _) => Err(silent.clone()),
            }
        }
        (LoopBacking::Unknown(silent), name) => match name.as_deref().and_then(|name| fs::metadata(name).ok()) {
            Some(found) if known.numbers.contains(&(found.dev(), found.ino())) => Ok(true),
            _ => Err(silent.clone()),
        },
    })
}

pub(crate) fn over_device(device: &BlockDevice) -> Result<Vec<PathBuf>, UnavailableWitness> {
    over(|one| match &one.under {
        LoopBacking::Device(number) => Ok(*number == device.number()),
        LoopBacking::File(_) | LoopBacking::Nothing => Ok(false),
        LoopBacking::Unknown(silent) => match one.file_name.as_deref().and_then(BlockDevice::number_of) {
            Some(number) if number == device.number() => Ok(true),
            _ => Err(silent.clone()),
        },
    })
}

/// Returns those for which the answer is yes. A missing answer matters only without a yes.
fn over(
    is_over: impl Fn(&AttachedLoop) -> Result<bool, UnavailableWitness>,
) -> Result<Vec<PathBuf>, UnavailableWitness> {
    let (mut found, mut unknown) = (Vec::new(), None);
    for one in attached()? {
        match is_over(&one) {
            Ok(true) => found.push(one.path),
            Ok(false) => {}
            Err(silent) => unknown = unknown.or(Some(silent)),
        }
    }
    match unknown {
        Some(silent) if found.is_empty() => Err(silent),
        _ => Ok(found),
    }
}

#[derive(Debug)]
pub(crate) enum Backing {
    File(OverlayFile),
    Device(BlockDevice),
}

/// Returns the backing of a loop device; `None` for other devices or if nothing is attached.
pub(crate) fn backing_of(device: &BlockDevice) -> Result<Option<Backing>, UnavailableWitness> {
    if device.number().0 != LOOP_MAJOR {
        return Ok(None);
    }
    let Some(info) = status(device.name(), device.number())? else { return Ok(None) };
    match LoopBacking::of(&info) {
        LoopBacking::Device(number) => match BlockDevice::from_number(number) {
            Some(under) => Ok(Some(Backing::Device(under))),
            None => Err(UnavailableWitness(format!("/sys/dev/block/{}:{}: it is missing", number.0, number.1))),
        },
        _ => {
            let name = file_name(device).unwrap_or_default();
            Ok(Some(Backing::File(OverlayFile::by((info.device, info.inode), &name)?)))
        }
    }
}

/// Returns the data ranges of the file below a loop device of `size` bytes. `None` for other devices, or if the file
/// cannot be opened here.
pub(crate) fn data_ranges(device: &BlockDevice, size: u64) -> Option<Vec<Range>> {
    let disk = device.disk();
    let info = status(disk.name(), disk.number()).ok()??;
    let path = file_name(&disk)?;
    let is_it = |found: &fs::Metadata| found.is_file() && (found.dev(), found.ino()) == (info.device, info.inode);
    path.metadata().ok().filter(is_it)?;
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(&path).ok()?;
    file.metadata().ok().filter(is_it)?;
    let begin = info.offset() + device.start().map_or(0, |sector| sector * 512);
    let within = Range { start: begin, end: begin + size };
    let ranges = sparse::data_ranges_between(&file, within, &path).ok()?;
    Some(ranges.into_iter().map(|range| Range { start: range.start - begin, end: range.end - begin }).collect())
}

pub(crate) fn file_name(device: &BlockDevice) -> Option<PathBuf> {
    let text = Tree::sys().ok()?.read(&format!("block/{}/loop/backing_file", device.name())).ok()?;
    Some(PathBuf::from(text.strip_suffix('\n').unwrap_or(&text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loop_devices_are_read_from_the_table_of_partitions() {
        let text = "major minor  #blocks  name\n\n 254        0  268435456 vda\n   7        3      65536 loop3\n 259        0      64512 loop3p1\n";
        let found = parse_partitions(text);
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [("loop3".to_string(), ((7, 3), None))]);
    }
}
