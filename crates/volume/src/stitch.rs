//! A small device made of slices spread evenly over a large one, so that a small file system seeks as far as one that
//! fills the disk. It uses device mapper's linear target (Documentation/admin-guide/device-mapper/linear.rst).

use crate::claim::ClaimedDevice;
use crate::error::TargetError;
use crate::guardian::{Guardian, Owner};
use senesce_core::Bytes;
use serde::Serialize;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Slice {
    pub offset: u64,
    pub length: u64,
}

/// Slices begin and end on this boundary, as partitions do.
const ALIGNMENT: u64 = 1 << 20;
/// Device mapper counts in sectors of 512 bytes on every device.
const SECTOR: u64 = 512;

/// Divides `size` into `count` equal slices at equal distances. The first begins at the start of the device, the last
/// ends at its end (rounded down to 1 MiB). [`TargetError::Usage`] if the slices are not whole MiB or do not fit.
pub(crate) fn slices(device: Bytes, count: u64, size: Bytes) -> Result<Vec<Slice>, TargetError> {
    let usable = device.0 / ALIGNMENT * ALIGNMENT;
    let wrong = |problem: String| Err(TargetError::Usage(problem));
    if count == 0 {
        return wrong("--slices 0: there must be at least one slice".into());
    }
    let Some(step) = count.checked_mul(ALIGNMENT) else {
        return wrong(format!("--slices {count} is too many"));
    };
    if size.0 == 0 || !size.0.is_multiple_of(step) {
        let near = Bytes((size.0 / step).max(1) * step);
        return wrong(format!("{size} cannot be divided into {count} slices of whole MiB; the nearest size is {near}"));
    }
    if size.0 > usable {
        return wrong(format!("the slices need {size}, but the device has {}", Bytes(usable)));
    }
    let length = size.0 / count;
    let span = usable - length;
    let place = |index: u64| match count {
        1 => 0,
        // In 128 bits: the product of a large disk and many slices exceeds 64.
        _ => (u128::from(span) * u128::from(index) / u128::from(count - 1)) as u64 / ALIGNMENT * ALIGNMENT,
    };
    Ok((0..count).map(|index| Slice { offset: place(index), length }).collect())
}

/// A stitched device. The kernel removes it with its last user after the drop, even after `kill -9`.
#[derive(Debug)]
pub struct Stitched {
    path: PathBuf,
    slices: Vec<Slice>,
    _handle: File,
    _guardian: Guardian,
    _claimed: ClaimedDevice,
}

impl Stitched {
    /// Maps `count` slices of the claimed device to a new device of `size`. [`TargetError::Missing`] without dmsetup or
    /// device mapper, [`TargetError::Usage`] for a zoned drive.
    pub fn create(claimed: ClaimedDevice, count: u64, size: Bytes) -> Result<Self, TargetError> {
        if claimed.device().queue("zoned").is_some_and(|zoned| zoned != "none") {
            return Err(TargetError::Usage(format!(
                "{} is a zoned drive: its zones cannot be cut into slices; name a conventional one",
                claimed.path().display()
            )));
        }
        let slices = slices(claimed.size(), count, size)?;
        claimed.check_again()?;
        let name = format!("senesce-stitch-{}", Owner::current());
        let guardian = Guardian::of_mapping(&name)?;
        dmsetup(&["create", &name], &table(&slices, claimed.device().number()))?;
        match hold(&name) {
            Ok((path, handle)) => Ok(Self { path, slices, _handle: handle, _guardian: guardian, _claimed: claimed }),
            Err(error) => {
                let _ = dmsetup(&["remove", "--retry", &name], "");
                Err(error)
            }
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn slices(&self) -> &[Slice] {
        &self.slices
    }
}

fn hold(name: &str) -> Result<(PathBuf, File), TargetError> {
    let path = node(name).ok_or_else(|| {
        TargetError::missing(format!("the new device {name} in /sys/block"), "dmsetup ls shows whether it was made")
    })?;
    let handle = File::open(&path).map_err(TargetError::io("open", &path))?;
    dmsetup(&["remove", "--deferred", name], "")?;
    Ok((path, handle))
}

/// Returns `/dev/dm-0`, from the kernel; names in /dev/mapper come from udev, which may not run.
pub(crate) fn node(name: &str) -> Option<PathBuf> {
    let devices = fs::read_dir("/sys/block").ok()?.flatten();
    let found = devices
        .into_iter()
        .find(|device| fs::read_to_string(device.path().join("dm/name")).is_ok_and(|text| text.trim_end() == name))?;
    Some(Path::new("/dev").join(found.file_name()))
}

/// Formats one line per slice: start and length on the new device, `linear`, the large device, start there; all in
/// sectors.
fn table(slices: &[Slice], device: (u32, u32)) -> String {
    let mut start = 0;
    let mut text = String::new();
    for slice in slices {
        let (length, offset) = (slice.length / SECTOR, slice.offset / SECTOR);
        text.push_str(&format!("{start} {length} linear {}:{} {offset}\n", device.0, device.1));
        start += length;
    }
    text
}

fn dmsetup(words: &[&str], input: &str) -> Result<(), TargetError> {
    let program = Path::new("dmsetup");
    let output = run(words, input).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => TargetError::missing("dmsetup", "apt-get install dmsetup"),
        _ => TargetError::io("run", program)(error),
    })?;
    if output.status.success() {
        return Ok(());
    }
    if !fs::read_to_string("/proc/devices").unwrap_or_default().contains("device-mapper") {
        return Err(TargetError::missing(
            "device mapper in this kernel",
            "load it (modprobe dm_mod), or work in the guest: senesce vm run --drive nvme,size=8G -- senesce image \
             stitch ...",
        ));
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_string();
    let command = format!("dmsetup {}", words.join(" "));
    Err(TargetError::Program { command, status: output.status.to_string(), output: said })
}

fn run(words: &[&str], input: &str) -> io::Result<Output> {
    let mut child = Command::new("dmsetup")
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that failed at once has closed its input; its exit status reports the error.
        let _ = stdin.write_all(input.as_bytes());
    }
    child.wait_with_output()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn slices_reach_from_the_first_byte_to_the_last() {
        let found = slices(Bytes::gib(100), 5, Bytes::gib(10)).unwrap();
        let offsets: Vec<u64> = found.iter().map(|slice| slice.offset >> 20).collect();
        assert_eq!(offsets, [0, 25088, 50176, 75264, 100_352]);
        assert!(found.iter().all(|slice| slice.length == 2 << 30));
        assert_eq!(slices(Bytes::gib(1), 1, Bytes::gib(1)).unwrap(), [Slice { offset: 0, length: 1 << 30 }]);
    }

    #[test]
    fn indivisible_or_excessive_slices_are_usage_errors() {
        for (count, size, said) in [
            (0, Bytes::gib(1), "at least one slice"),
            (3, Bytes::gib(1), "the nearest size is"),
            (2, Bytes::gib(8), "the device has"),
            (4, Bytes(0), "cannot be divided"),
            (u64::MAX, Bytes::gib(1), "too many"),
        ] {
            let error = slices(Bytes::gib(4), count, size).unwrap_err();
            assert!(matches!(error, TargetError::Usage(_)), "{count} {size}");
            assert!(error.to_string().contains(said), "{error}");
        }
    }

    #[test]
    fn device_mapper_table_uses_sectors() {
        let text = table(&slices(Bytes::mib(64), 2, Bytes::mib(4)).unwrap(), (259, 1));
        assert_eq!(text, "0 4096 linear 259:1 0\n4096 4096 linear 259:1 126976\n");
    }

    proptest! {
        #[test]
        fn slices_never_overlap_and_stay_inside(device in 1u64..1 << 24, count in 1u64..5000, length in 1u64..1 << 20) {
            let size = Bytes(count * length * ALIGNMENT);
            if let Ok(found) = slices(Bytes(device * ALIGNMENT), count, size) {
                prop_assert_eq!(found.iter().map(|slice| slice.length).sum::<u64>(), size.0);
                prop_assert!(found.windows(2).all(|pair| pair[0].offset + pair[0].length <= pair[1].offset));
                let last = found[found.len() - 1];
                prop_assert!(last.offset + last.length <= device * ALIGNMENT);
            }
        }
    }
}
