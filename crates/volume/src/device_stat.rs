//! I/O counters of a block device, the cross-check of every trace and cold read.

use crate::block_device::BlockDevice;
use crate::error::TargetError;
use serde::{Deserialize, Serialize};

/// Completed requests of a block device and their bytes (Documentation/block/stat.rst), as totals or as a difference.
/// An image that is attached again may get a device whose counters are not zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceStat {
    /// Read requests.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Write requests.
    pub writes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Discard requests.
    pub discards: u64,
    /// Bytes discarded.
    pub discard_bytes: u64,
    /// Flush requests. The kernel counts them for whole disks only: 0 on a partition.
    pub flushes: u64,
}

const SECTOR: u64 = 512;

impl DeviceStat {
    /// Reads the counters of `device`. [`TargetError::Missing`] if the device is gone, if accounting is off
    /// (`queue/iostats`), or before Linux 5.5, which does not count flushes.
    pub fn of(device: &BlockDevice) -> Result<Self, TargetError> {
        let text = device.attribute("stat").ok_or_else(|| {
            TargetError::missing(format!("/sys/class/block/{}/stat", device.name()), "the device may be gone")
        })?;
        if device.queue("iostats").as_deref() == Some("0") {
            return Err(TargetError::missing(
                format!("the I/O counters of {}, which are turned off,", device.name()),
                format!("turn them on: echo 1 > {}", device.queue_file("iostats").display()),
            ));
        }
        Self::parse(&text).ok_or_else(|| {
            TargetError::missing(
                format!("the discard and flush counters in /sys/class/block/{}/stat", device.name()),
                "Linux 5.5 or newer is needed",
            )
        })
    }

    pub(crate) fn and(&self, other: &Self) -> Self {
        Self {
            reads: self.reads + other.reads,
            read_bytes: self.read_bytes + other.read_bytes,
            writes: self.writes + other.writes,
            write_bytes: self.write_bytes + other.write_bytes,
            discards: self.discards + other.discards,
            discard_bytes: self.discard_bytes + other.discard_bytes,
            flushes: self.flushes + other.flushes,
        }
    }

    pub(crate) fn requests(&self) -> u64 {
        self.reads + self.writes + self.discards + self.flushes
    }

    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            reads: self.reads.wrapping_sub(earlier.reads),
            read_bytes: self.read_bytes.wrapping_sub(earlier.read_bytes),
            writes: self.writes.wrapping_sub(earlier.writes),
            write_bytes: self.write_bytes.wrapping_sub(earlier.write_bytes),
            discards: self.discards.wrapping_sub(earlier.discards),
            discard_bytes: self.discard_bytes.wrapping_sub(earlier.discard_bytes),
            flushes: self.flushes.wrapping_sub(earlier.flushes),
        }
    }

    /// Columns: 1 reads, 3 sectors read, 5 writes, 7 sectors written, 12 discards, 14 sectors discarded, 16 flushes.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let columns: Vec<u64> = text.split_whitespace().map_while(|word| word.parse().ok()).collect();
        let &[reads, _, read, _, writes, _, written, _, _, _, _, discards, _, discarded, _, flushes, ..] = &columns[..]
        else {
            return None;
        };
        let (read_bytes, write_bytes, discard_bytes) = (read * SECTOR, written * SECTOR, discarded * SECTOR);
        Some(Self { reads, read_bytes, writes, write_bytes, discards, discard_bytes, flushes })
    }
}

/// Time during which a device had requests in flight, by the kernel's tick (column 10, `io_ticks`), and their number now (column 9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BusyTime {
    pub total_ms: u64,
    pub in_flight: u64,
}

impl BusyTime {
    pub fn of(device: &BlockDevice) -> Option<Self> {
        Self::parse(&device.attribute("stat")?)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut columns = text.split_whitespace().skip(8).map_while(|word| word.parse().ok());
        Some(Self { in_flight: columns.next()?, total_ms: columns.next()? })
    }

    /// Returns the busy time in milliseconds since `earlier`. `None` if requests were in flight then: the kernel adds
    /// their time when they end.
    pub fn since(&self, earlier: &Self) -> Option<u64> {
        (earlier.in_flight == 0).then(|| self.total_ms.wrapping_sub(earlier.total_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_match_the_kernel_documentation() {
        let text = "   10 1 80 7 20 2 160 8 0 9 10 30 3 240 11 40 12\n";
        let found = DeviceStat::parse(text).unwrap();
        let expected = DeviceStat {
            reads: 10,
            read_bytes: 40_960,
            writes: 20,
            write_bytes: 81_920,
            discards: 30,
            discard_bytes: 122_880,
            flushes: 40,
        };
        assert_eq!(found, expected);
        assert_eq!(found.since(&DeviceStat { reads: 4, ..DeviceStat::default() }), DeviceStat { reads: 6, ..expected });
        assert_eq!(DeviceStat::parse("10 1 80 7 20 2 160 8 0 9 10"), None, "kernels before discards and flushes");
        assert_eq!(DeviceStat::parse(""), None);
    }
    #[test]
    fn busy_time_needs_an_idle_device_at_the_beginning() {
        let at = |in_flight, total_ms| {
            BusyTime::parse(&format!("10 1 80 7 20 2 160 8 {in_flight} {total_ms} 10 30 3 240 11 40 12")).unwrap()
        };
        assert_eq!(at(3, 90).since(&at(0, 50)), Some(40));
        assert_eq!(at(0, 90).since(&at(1, 50)), None);
        assert_eq!(BusyTime::parse("10 1 80"), None);
    }
}
