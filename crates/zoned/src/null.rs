//! `null`: completes every command at once, to measure the overhead of senesce. Tracks zone states, so that jobs run as
//! on a drive.

use crate::command::{Command, Completion};
use crate::device::{Clock, ZonedDevice};
use crate::error::ZonedError;
use crate::geometry::{Geometry, LbaFormat, ZoneInfo};
use crate::zone_table::ZoneTable;
use std::collections::VecDeque;
use std::time::Instant;

/// 904 zones of 1077 MiB, 14 open.
#[derive(Debug)]
pub struct NullDevice {
    geometry: Geometry,
    table: ZoneTable,
    started: Instant,
    done: VecDeque<Completion>,
}

impl NullDevice {
    /// Creates a drive with blocks of 512 or 4096 B.
    pub fn new(block_bytes: Option<u32>) -> Result<Self, ZonedError> {
        let block_bytes = block_bytes.unwrap_or(4096);
        let formats = [512, 4096].into_iter().enumerate();
        let formats: Vec<LbaFormat> = formats
            .map(|(index, block_bytes)| LbaFormat { index: index as u8, block_bytes, metadata_bytes: 0 })
            .collect();
        if formats.iter().all(|format| format.block_bytes != block_bytes) {
            return Err(ZonedError::Usage(format!(
                "null has no LBA format of {block_bytes} B; it has 512 B and 4096 B"
            )));
        }
        let per_mib = (1 << 20) / u64::from(block_bytes);
        let geometry = Geometry {
            name: "null".into(),
            zoned: true,
            zones: 904,
            block_bytes,
            zone_blocks: 2048 * per_mib,
            capacity_blocks: 1077 * per_mib,
            max_open: 14,
            max_active: 14,
            transfer_limit: 1 << 20,
            append_limit: 1 << 20,
            formats,
        };
        Ok(Self { table: ZoneTable::new(&geometry), geometry, started: Instant::now(), done: VecDeque::new() })
    }

    #[cfg(test)]
    pub(crate) fn make(&mut self, zone: u32, state: crate::geometry::ZoneState) {
        self.table.fail(zone, state);
    }
}

impl ZonedDevice for NullDevice {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn clock(&self) -> Clock {
        Clock::Real
    }

    #[inline]
    fn now_ns(&mut self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    fn reserve(&mut self, commands: u32, _transfer_bytes: u32) -> Result<(), ZonedError> {
        self.done.reserve(commands as usize);
        Ok(())
    }

    #[inline]
    fn submit(&mut self, command: Command) -> Result<(), ZonedError> {
        let submitted_ns = self.now_ns();
        let result = self.table.apply(&command).map(|effect| effect.block);
        self.done.push_back(Completion { tag: command.tag, submitted_ns, completed_ns: 0, result });
        Ok(())
    }

    #[inline]
    fn next(&mut self, until_ns: u64) -> Result<Option<Completion>, ZonedError> {
        if let Some(completion) = self.done.pop_front() {
            let completed_ns = self.now_ns();
            return Ok(Some(Completion { completed_ns, ..completion }));
        }
        let now = self.now_ns();
        if until_ns > now {
            std::thread::sleep(std::time::Duration::from_nanos(until_ns - now));
        }
        Ok(None)
    }

    fn report(&mut self, first: u32, count: u32) -> Result<Vec<ZoneInfo>, ZonedError> {
        let end = first.saturating_add(count).min(self.geometry.zones);
        Ok((first..end).filter_map(|zone| self.table.info(zone)).collect())
    }

    fn presets(&self) -> bool {
        true
    }

    fn preset(&mut self, zone: u32, blocks: Option<u64>) -> Result<bool, ZonedError> {
        let blocks = blocks.map(|blocks| blocks.min(u64::from(u32::MAX)) as u32);
        self.table.preset(zone, blocks).map(|()| true).map_err(|fault| ZonedError::Zone {
            operation: "preset",
            zone,
            fault,
            remedy: "choose another zone, or close or finish other zones first",
        })
    }
}
