//! Zones of zoned block devices (include/uapi/linux/blkzoned.h). The kernel uses sectors of 512 bytes for every device.

use rustix::ioctl::{Opcode, Setter, Updater, ioctl, opcode};
use std::os::fd::AsFd;

pub const SECTOR_BYTES: u64 = 512;

const BLKREPORTZONE: Opcode = opcode::read_write::<Head>(0x12, 130);
const BLKRESETZONE: Opcode = opcode::write::<Range>(0x12, 131);
const BLKOPENZONE: Opcode = opcode::write::<Range>(0x12, 134);
const BLKCLOSEZONE: Opcode = opcode::write::<Range>(0x12, 135);
const BLKFINISHZONE: Opcode = opcode::write::<Range>(0x12, 136);
const AT_ONCE: u32 = 256;

/// `struct blk_zone`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Zone {
    /// First sector.
    pub start: u64,
    pub length: u64,
    pub pointer: u64,
    kind: u8,
    /// `BLK_ZONE_COND_*`: 0 no write pointer, 1 empty, ..., 0xf offline.
    pub condition: u8,
    non_sequential: u8,
    reset: u8,
    reserved: [u8; 4],
    capacity: u64,
    reserved2: [u8; 24],
}

/// `struct blk_zone_report` without its array.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Head {
    sector: u64,
    zones: u32,
    flags: u32,
}

#[repr(C)]
struct Request {
    head: Head,
    zones: [Zone; AT_ONCE as usize],
}

/// `struct blk_zone_range`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Range {
    sector: u64,
    sectors: u64,
}

pub struct ZoneReport(Box<Request>);

impl Default for ZoneReport {
    fn default() -> Self {
        Self(Box::new(Request { head: Head::default(), zones: [Zone::default(); AT_ONCE as usize] }))
    }
}

impl ZoneReport {
    /// Reads at most `most` zones, starting with the one that contains `sector`. Returns fewer if they do not fit into
    /// one report, none after the last. Each zone has its number of writable sectors.
    pub fn read(
        &mut self,
        device: impl AsFd,
        sector: u64,
        most: u32,
    ) -> crate::Result<impl ExactSizeIterator<Item = (&Zone, u64)>> {
        /// The kernel reports capacities (since Linux 5.9).
        const CAPACITIES: u32 = 1;
        self.0.head = Head { sector, zones: most.min(AT_ONCE), flags: 0 };
        // SAFETY: the kernel reads the head, and writes it and at most the stated number of zones, all of which are allocated.
        unsafe { ioctl(device, Updater::<BLKREPORTZONE, Request>::new(&mut self.0)) }?;
        let found = self.0.head.zones.min(AT_ONCE) as usize;
        let stated = self.0.head.flags & CAPACITIES != 0;
        Ok(self.0.zones[..found].iter().map(move |zone| (zone, if stated { zone.capacity } else { zone.length })))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZoneAction {
    Reset,
    Open,
    Close,
    Finish,
}

pub fn act(device: impl AsFd, action: ZoneAction, sector: u64, sectors: u64) -> crate::Result<()> {
    let range = Range { sector, sectors };
    // SAFETY: all four requests read one struct blk_zone_range.
    unsafe {
        match action {
            ZoneAction::Reset => ioctl(device, Setter::<BLKRESETZONE, Range>::new(range)),
            ZoneAction::Open => ioctl(device, Setter::<BLKOPENZONE, Range>::new(range)),
            ZoneAction::Close => ioctl(device, Setter::<BLKCLOSEZONE, Range>::new(range)),
            ZoneAction::Finish => ioctl(device, Setter::<BLKFINISHZONE, Range>::new(range)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn request_codes_match_the_headers() {
        assert_eq!((BLKREPORTZONE, BLKRESETZONE, BLKOPENZONE), (0xC010_1282, 0x4010_1283, 0x4010_1286));
        assert_eq!((BLKCLOSEZONE, BLKFINISHZONE), (0x4010_1287, 0x4010_1288));
        assert_eq!(size_of::<Request>(), 16 + 64 * AT_ONCE as usize);
    }

    #[test]
    fn a_file_has_no_zones() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(ZoneReport::default().read(&file, 0, 1).err(), Some(Errno::NOTTY));
        assert_eq!(act(&file, ZoneAction::Reset, 0, 8), Err(Errno::NOTTY));
    }
}
