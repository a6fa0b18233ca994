//! Timed direct reads of a block device. Never writes.

use crate::block_device::BlockDevice;
use crate::error::TargetError;
use crate::in_use::use_of;
use senesce_core::environment::remedy_of_right;
use senesce_devmodel::Probe;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::Instant;

/// O_DIRECT alignment: no device has logical blocks larger than a page.
const ALIGNMENT: usize = 4096;

#[derive(Debug)]
pub struct DeviceProbe {
    file: File,
    device: BlockDevice,
    buffer: Vec<u8>,
}

impl DeviceProbe {
    pub fn open(path: &Path) -> Result<Self, TargetError> {
        let device = BlockDevice::open(path)?;
        let file = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(path);
        let file = file.map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => {
                let remedy = remedy_of_right("run outside of the container or control group that hides it");
                TargetError::missing(format!("the right to read {}", path.display()), remedy)
            }
            _ => TargetError::io("open for direct reads", path)(error),
        })?;
        Ok(Self { file, device, buffer: Vec::new() })
    }

    /// Explains why the device is in use, such as `it is mounted on /mnt`. `None`: unused, or unknown.
    pub fn used(&self) -> Option<String> {
        use_of(&self.device).ok().flatten()
    }

    pub fn rotational(&self) -> Option<bool> {
        self.device.queue("rotational").map(|text| text == "1")
    }
}

impl Probe for DeviceProbe {
    fn size(&self) -> u64 {
        self.device.size().0
    }

    fn read(&mut self, offset: u64, bytes: u64) -> io::Result<u64> {
        timed_read(&self.file, &mut self.buffer, offset, bytes)
    }

    fn read_many(&mut self, offsets: &[u64], bytes: u64, depth: u32) -> io::Result<u64> {
        let share = offsets.len().div_ceil(depth.max(1) as usize).max(1);
        let file = &self.file;
        let start = Instant::now();
        std::thread::scope(|scope| {
            let readers: Vec<_> = offsets
                .chunks(share)
                .map(|part| {
                    scope.spawn(move || {
                        let mut buffer = Vec::new();
                        part.iter().try_for_each(|offset| timed_read(file, &mut buffer, *offset, bytes).map(drop))
                    })
                })
                .collect();
            readers
                .into_iter()
                .try_for_each(|reader| reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        })?;
        Ok(nanoseconds(start))
    }
}

fn timed_read(file: &File, buffer: &mut Vec<u8>, offset: u64, bytes: u64) -> io::Result<u64> {
    let length = bytes as usize;
    if buffer.len() < length + ALIGNMENT {
        buffer.resize(length + ALIGNMENT, 0);
    }
    let skip = buffer.as_ptr().align_offset(ALIGNMENT);
    let start = Instant::now();
    file.read_exact_at(&mut buffer[skip..skip + length], offset)?;
    Ok(nanoseconds(start))
}

fn nanoseconds(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loop_device::LoopDevice;

    #[test]
    #[ignore = "needs loop devices"]
    fn probe_reads_without_changes() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(8 << 20).unwrap();
        let device = LoopDevice::attach(&file, "probe", true).unwrap();
        let mut probe = DeviceProbe::open(device.path()).unwrap();
        assert_eq!(probe.size(), 8 << 20);
        assert!(probe.read(1 << 20, 4096).unwrap() > 0);
        assert!(probe.read_many(&[0, 4096, 1 << 20], 4096, 2).unwrap() > 0);
        assert!(probe.read(8 << 20, 4096).is_err());
    }
}
