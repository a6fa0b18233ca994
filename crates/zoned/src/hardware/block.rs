//! `zbd`: zoned block devices through the block layer, with io_uring, O_DIRECT and BLK*ZONE ioctls. Conventional block
//! devices work too, divided into regions.

use super::buffers::Buffers;
use super::ring::{Ring, RingOptions};
use crate::command::{Command, Completion, Operation, ZoneFault};
use crate::device::{Clock, ZonedDevice};
use crate::error::ZonedError;
use crate::geometry::{Geometry, LbaFormat, ZoneInfo, ZoneState};
use io_uring::{cqueue, opcode, squeue, types};
use senesce_core::IoFailure;
use senesce_sys::zones::{self, SECTOR_BYTES, ZoneAction, ZoneReport};
use senesce_volume::BlockDevice;
use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Instant;

const REGIONS: u64 = 64;

pub struct ZonedBlockDevice {
    file: File,
    path: String,
    geometry: Geometry,
    epoch: Instant,
    options: RingOptions,
    ring: Option<Ring<squeue::Entry, cqueue::Entry>>,
    buffers: Option<Buffers>,
    in_flight: Vec<(u64, Command)>,
    done: VecDeque<Completion>,
}

impl ZonedBlockDevice {
    /// Opens a drive, read-only unless `writable`.
    pub fn open(path: &Path, writable: bool, epoch: Instant, options: RingOptions) -> Result<Self, ZonedError> {
        let device = BlockDevice::open(path)?;
        let name = path.display().to_string();
        let mut flags = File::options();
        flags.read(true).write(writable).custom_flags(libc::O_DIRECT);
        let file = flags.open(path).map_err(|source| super::claim::not_opened(path, source))?;
        let geometry = geometry(&device, &file, &name)?;
        Ok(Self {
            file,
            path: name,
            geometry,
            epoch,
            options,
            ring: None,
            buffers: None,
            in_flight: Vec::new(),
            done: VecDeque::new(),
        })
    }

    fn ring(&mut self) -> Result<&mut Ring<squeue::Entry, cqueue::Entry>, ZonedError> {
        if self.ring.is_none() {
            self.reserve(1, 128 << 10)?;
        }
        self.ring.as_mut().ok_or_else(|| ZonedError::Usage("the ring was not set up".into()))
    }

    fn zone_command(&mut self, command: &Command) -> Result<u64, ZoneFault> {
        if !self.geometry.zoned {
            return Err(ZoneFault::Unsupported);
        }
        let action = match command.operation {
            Operation::Open => ZoneAction::Open,
            Operation::Close => ZoneAction::Close,
            Operation::Finish => ZoneAction::Finish,
            _ => ZoneAction::Reset,
        };
        let per_block = u64::from(self.geometry.block_bytes) / SECTOR_BYTES;
        let sectors = self.geometry.zone_blocks * per_block;
        match zones::act(&self.file, action, u64::from(command.zone) * sectors, sectors) {
            Ok(()) => Ok(command.block),
            Err(errno) => Err(self.explain(errno.raw_os_error(), command)),
        }
    }

    /// Finds the cause of an error: the block layer returns EIO for most refusals, but the zone's state shows the
    /// cause.
    fn explain(&mut self, errno: i32, command: &Command) -> ZoneFault {
        match errno {
            libc::ETOOMANYREFS => return ZoneFault::TooManyOpen,
            libc::EOVERFLOW => return ZoneFault::TooManyActive,
            libc::EIO | libc::EINVAL if self.geometry.zoned => {}
            other => return ZoneFault::Errno(other),
        }
        let Some(info) = self.report(command.zone, 1).ok().and_then(|zones| zones.into_iter().next()) else {
            return ZoneFault::Errno(errno);
        };
        match (info.state, command.operation) {
            (ZoneState::Offline, _) => ZoneFault::Offline,
            (ZoneState::ReadOnly, operation) if operation != Operation::Read => ZoneFault::ReadOnly,
            (ZoneState::Full, Operation::Write) => ZoneFault::Full,
            (_, Operation::Write) if command.block != info.pointer => ZoneFault::NotAtPointer,
            (_, Operation::Write) if command.block + u64::from(command.blocks) > info.start + info.capacity => {
                ZoneFault::Boundary
            }
            (_, Operation::Open | Operation::Close | Operation::Finish | Operation::Reset) => {
                ZoneFault::InvalidTransition
            }
            _ => ZoneFault::Errno(errno),
        }
    }
}

fn geometry(device: &BlockDevice, file: &File, path: &str) -> Result<Geometry, ZonedError> {
    let number = |name: &str| device.queue(name).and_then(|text| text.parse::<u64>().ok());
    let block_bytes = number("logical_block_size").unwrap_or(512);
    let blocks = device.size().0 / block_bytes;
    let zoned = device.queue("zoned").is_some_and(|kind| kind != "none");
    let zone_blocks = match number("chunk_sectors") {
        Some(sectors) if zoned && sectors > 0 => sectors * SECTOR_BYTES / block_bytes,
        _ => (blocks / REGIONS).max(1),
    };
    let mut geometry = Geometry {
        name: path.into(),
        zoned,
        zones: (blocks / zone_blocks) as u32,
        block_bytes: block_bytes as u32,
        zone_blocks,
        capacity_blocks: zone_blocks,
        max_open: if zoned { number("max_open_zones").unwrap_or(0) as u32 } else { 0 },
        max_active: if zoned { number("max_active_zones").unwrap_or(0) as u32 } else { 0 },
        transfer_limit: (number("max_sectors_kb").unwrap_or(128) << 10).min(1 << 30) as u32,
        append_limit: 0,
        formats: vec![LbaFormat { index: 0, block_bytes: block_bytes as u32, metadata_bytes: 0 }],
    };
    if zoned {
        let zones = report(file, path, &geometry, 0, geometry.zones)?;
        let sequential = zones.iter().find(|zone| zone.state != ZoneState::Conventional);
        geometry.capacity_blocks = sequential.map_or(zone_blocks, |zone| zone.capacity);
    }
    Ok(geometry)
}

fn report(file: &File, path: &str, geometry: &Geometry, first: u32, count: u32) -> Result<Vec<ZoneInfo>, ZonedError> {
    let per_block = u64::from(geometry.block_bytes) / SECTOR_BYTES;
    let mut zones = Vec::with_capacity(count as usize);
    let mut buffer = ZoneReport::default();
    while zones.len() < count as usize {
        let next = first + zones.len() as u32;
        let wanted = count - zones.len() as u32;
        let found = buffer.read(file, geometry.start(next) * per_block, wanted).map_err(|errno| {
            ZonedError::Io(
                IoFailure::new("report the zones of", path, errno).with_remedy("the kernel needs CONFIG_BLK_DEV_ZONED"),
            )
        })?;
        if found.len() == 0 {
            break;
        }
        zones.extend(found.enumerate().map(|(index, (zone, capacity))| ZoneInfo {
            zone: next + index as u32,
            state: ZoneState::from_code(zone.condition).unwrap_or(ZoneState::Offline),
            start: zone.start / per_block,
            capacity: capacity / per_block,
            pointer: zone.pointer / per_block,
        }));
    }
    Ok(zones)
}

impl ZonedDevice for ZonedBlockDevice {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn clock(&self) -> Clock {
        Clock::Real
    }

    fn now_ns(&mut self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    fn host_keeps_pointers(&self) -> bool {
        self.geometry.zoned
    }

    fn reserve(&mut self, commands: u32, transfer_bytes: u32) -> Result<(), ZonedError> {
        self.ring = Some(Ring::new(commands, &self.path, self.options)?);
        self.buffers = Some(Buffers::new(commands, transfer_bytes)?);
        let idle = Command { tag: 0, queue: 0, operation: Operation::Read, zone: 0, block: 0, blocks: 0 };
        self.in_flight = vec![(0, idle); commands as usize];
        self.done.reserve(commands as usize);
        Ok(())
    }

    fn submit(&mut self, command: Command) -> Result<(), ZonedError> {
        self.ring()?;
        let submitted_ns = self.now_ns();
        self.in_flight[command.tag as usize] = (submitted_ns, command);
        let fd = types::Fd(self.file.as_raw_fd());
        let bytes = command.blocks * self.geometry.block_bytes;
        let offset = command.block * u64::from(self.geometry.block_bytes);
        let address = self.buffers.as_ref().map_or(std::ptr::null_mut(), |buffers| buffers.address(command.tag));
        let entry = match command.operation {
            Operation::Read => opcode::Read::new(fd, address, bytes).offset(offset).build(),
            Operation::Write => opcode::Write::new(fd, address, bytes).offset(offset).build(),
            operation => {
                let result = match operation {
                    Operation::Append => Err(ZoneFault::Unsupported),
                    _ => self.zone_command(&command),
                };
                let completed_ns = self.now_ns();
                self.done.push_back(Completion { tag: command.tag, submitted_ns, completed_ns, result });
                return Ok(());
            }
        };
        self.ring()?.push(entry.user_data(u64::from(command.tag)))
    }

    fn next(&mut self, until_ns: u64) -> Result<Option<Completion>, ZonedError> {
        if let Some(completion) = self.done.pop_front() {
            return Ok(Some(completion));
        }
        let now = self.now_ns();
        let Some(entry) = self.ring()?.next(until_ns.saturating_sub(now))? else { return Ok(None) };
        let completed_ns = self.now_ns();
        let tag = entry.user_data() as u32;
        let (submitted_ns, command) = self.in_flight[tag as usize];
        let expected = (command.blocks * self.geometry.block_bytes) as i32;
        let result = match entry.result() {
            moved if moved == expected => Ok(command.block),
            moved if moved >= 0 => Err(ZoneFault::Boundary),
            errno => Err(self.explain(-errno, &command)),
        };
        Ok(Some(Completion { tag, submitted_ns, completed_ns, result }))
    }

    fn report(&mut self, first: u32, count: u32) -> Result<Vec<ZoneInfo>, ZonedError> {
        let count = count.min(self.geometry.zones.saturating_sub(first));
        if !self.geometry.zoned {
            return Ok(super::regions(&self.geometry, first, count));
        }
        report(&self.file, &self.path, &self.geometry, first, count)
    }
}
