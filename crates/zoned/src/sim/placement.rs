//! Placement of data: units are programmed on the dies in turn, with parity after each stripe of a zone. A conventional
//! drive writes all regions into one stream and collects garbage.

use super::events::EventQueue;
use super::flash::{Flash, Program};
use super::model::{FlashModel, GarbageModel, Model};
use crate::geometry::Geometry;
use senesce_core::Seed;

/// Distance between the first dies of consecutive zones, so that few zones already use all dies.
const ZONE_STRIDE: u32 = 13;
/// Pages are distinguished by address in steps of 16 KiB, the physical page.
pub(crate) const PAGE_SHIFT: u32 = 14;

#[derive(Debug, Clone, Copy, Default)]
struct Stream {
    /// Bytes that do not fill a unit yet.
    pending: u64,
    /// Units already sent to dies.
    units: u32,
    /// All bytes since the last reset.
    written: u64,
}

#[derive(Debug)]
struct Garbage {
    model: GarbageModel,
    free: i64,
    collecting: bool,
    in_flight: u32,
    freed_per_copy: i64,
}

#[derive(Debug)]
pub(crate) struct Placement {
    dies: u32,
    parity: u32,
    unit: u64,
    zoned: bool,
    /// Zones without a write pointer, which never become full.
    conventional: u32,
    zone_units: u64,
    capacity: u64,
    streams: Vec<Stream>,
    first_dies: Vec<u32>,
    garbage: Option<Garbage>,
    slow_threshold: u64,
    salt: u64,
}

impl Placement {
    pub(crate) fn new(model: &Model, geometry: &Geometry, seed: Seed) -> Self {
        let unit = u64::from(model.flash.unit_kib) << 10;
        let zone_bytes = geometry.zone_blocks * u64::from(geometry.block_bytes);
        let garbage = model.garbage.as_ref().map(|garbage| Garbage {
            free: (garbage.fresh_free_mib << 20) as i64,
            collecting: false,
            in_flight: 0,
            freed_per_copy: (unit as f64 * (1.0 - garbage.valid_share) / garbage.valid_share.max(0.01)) as i64,
            model: garbage.clone(),
        });
        let FlashModel { dies, parity_dies: parity, .. } = model.flash;
        Self {
            first_dies: (0..geometry.zones).map(|zone| (zone * ZONE_STRIDE + parity) % dies).collect(),
            dies,
            parity,
            unit,
            zoned: model.zones.is_some(),
            conventional: model.geometry.conventional_zones,
            zone_units: zone_bytes / unit,
            capacity: if model.zones.is_some() { geometry.capacity_bytes() } else { u64::MAX },
            streams: vec![Stream::default(); if model.zones.is_some() { geometry.zones as usize } else { 1 }],
            garbage,
            slow_threshold: ((1.0 - model.read.fast_share) * (1u64 << 32) as f64) as u64,
            salt: seed.child("zoned/sim/pages").0,
        }
    }

    /// Returns the die of a byte of a zone in this unit, and whether its page is of the slow kind.
    #[inline]
    pub(crate) fn page(&self, zone: u32, unit: u64, offset: u64) -> (u32, bool) {
        let page = u64::from(zone) << 40 | offset >> PAGE_SHIFT;
        let hash = (page ^ self.salt).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let hash = (hash ^ hash >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 32;
        let die = if self.zoned {
            self.data_die(zone, unit as u32)
        } else {
            ((u64::from(zone) * self.zone_units + unit) % u64::from(self.dies)) as u32
        };
        (die, hash < self.slow_threshold)
    }

    /// Returns the die of a unit. The parity dies of a zone's stripes come first, then the data dies.
    #[inline]
    fn data_die(&self, zone: u32, unit: u32) -> u32 {
        let die = self.first_dies[zone as usize] + unit % (self.dies - self.parity);
        if die < self.dies { die } else { die - self.dies }
    }

    /// Adds data of the host to the buffer; complete units go to their dies.
    pub(crate) fn write(&mut self, now: u64, zone: u32, bytes: u64, flash: &mut Flash, events: &mut EventQueue) {
        flash.buffered += bytes;
        let data_dies = self.dies - self.parity;
        let index = if self.zoned { zone as usize } else { 0 };
        let stream = &mut self.streams[index];
        stream.pending += bytes;
        stream.written += bytes;
        while self.streams[index].pending >= self.unit {
            let stream = &mut self.streams[index];
            stream.pending -= self.unit;
            let unit = stream.units;
            stream.units = stream.units.wrapping_add(1);
            flash.program(now, zone, Program::Host, events);
            if unit % data_dies == data_dies - 1 {
                for _ in 0..self.parity {
                    flash.program(now, zone, Program::Extra, events);
                }
            }
        }
        let stream = &mut self.streams[index];
        if zone >= self.conventional && stream.written >= self.capacity && stream.pending > 0 {
            // The last unit of a full zone is incomplete and is programmed as it is.
            flash.buffered = flash.buffered.saturating_sub(std::mem::take(&mut stream.pending));
            flash.program(now, zone, Program::Extra, events);
        }
        if let Some(garbage) = &mut self.garbage {
            garbage.free -= bytes as i64;
            self.collect(now, flash, events);
        }
    }

    /// Drops a zone's data in the buffer, because the zone was reset or finished.
    pub(crate) fn forget(&mut self, zone: u32, flash: &mut Flash) {
        if let Some(stream) = self.streams.get_mut(zone as usize) {
            flash.buffered = flash.buffered.saturating_sub(stream.pending);
            *stream = Stream::default();
        }
    }

    /// Sets the steady state: no erased space beyond the threshold of garbage collection.
    pub(crate) fn wear(&mut self) {
        if let Some(garbage) = &mut self.garbage {
            garbage.free = (garbage.model.start_below_mib << 20) as i64;
        }
    }

    #[inline]
    pub(crate) fn collect(&mut self, now: u64, flash: &mut Flash, events: &mut EventQueue) {
        let Some(garbage) = &mut self.garbage else { return };
        let copied = std::mem::take(&mut flash.collected);
        garbage.in_flight -= copied;
        garbage.free += i64::from(copied) * garbage.freed_per_copy;
        let free_mib = garbage.free >> 20;
        if free_mib < garbage.model.start_below_mib as i64 {
            garbage.collecting = true;
        } else if free_mib > garbage.model.stop_above_mib as i64 {
            garbage.collecting = false;
        }
        while garbage.collecting && garbage.in_flight < garbage.model.window {
            garbage.in_flight += 1;
            flash.program(now, 0, Program::Garbage, events);
        }
    }
}
