//! Buffer space. A command's data enter when there is space for their first piece; until then smaller ones overtake
//! them. This explains how long writes of 64 KiB wait next to appends of 8 KiB that saturate the flash (t13).

use super::SimDevice;
use super::model::Model;
use std::collections::VecDeque;

#[derive(Debug)]
pub(crate) struct BufferSpace {
    buffer: u64,
    /// Size of one piece: the space that a command needs to begin.
    piece: u64,
    /// (slot, needed space), in order of arrival
    waiting: VecDeque<(u32, u64)>,
    /// Lower bound of the needed space of all waiting commands.
    least: u64,
}

impl BufferSpace {
    /// Creates the queue. Incomplete units may stay in the buffer for every active zone, so a piece must fit into the
    /// rest.
    pub(crate) fn new(model: &Model) -> Self {
        let kib = |kib: u32| u64::from(kib) << 10;
        let buffer = kib(model.flash.buffer_kib);
        let kept = u64::from(model.geometry.max_active.max(1)) * kib(model.flash.unit_kib);
        let piece = kib(model.write.transfer_piece_kib).min(buffer.saturating_sub(kept)).max(1);
        Self { buffer, piece, waiting: VecDeque::with_capacity(1024), least: u64::MAX }
    }

    pub(crate) fn reserve(&mut self, commands: usize) {
        self.waiting.reserve(commands);
    }

    /// Returns whether `bytes` that arrive now fit without waiting.
    #[inline]
    pub(crate) fn takes(&self, buffered: u64, bytes: u32) -> bool {
        buffered + u64::from(bytes).min(self.piece) <= self.buffer
    }

    #[inline]
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(crate) fn wait(&mut self, slot: u32, bytes: u32) {
        let need = u64::from(bytes).min(self.piece);
        self.least = self.least.min(need);
        self.waiting.push_back((slot, need));
    }

    #[inline]
    pub(crate) fn next(&mut self, buffered: u64) -> Option<u32> {
        let room = self.buffer.saturating_sub(buffered);
        if room < self.least {
            return None;
        }
        let Some(index) = self.waiting.iter().position(|(_, need)| *need <= room) else {
            self.least = self.waiting.iter().map(|(_, need)| *need).min().unwrap_or(u64::MAX);
            return None;
        };
        self.waiting.remove(index).map(|(slot, _)| slot)
    }
}

impl SimDevice {
    pub(super) fn wait_for_space(&mut self, slot: u32) {
        let bytes = self.slots[slot as usize].bytes;
        self.window.wait(bytes);
        self.room.wait(slot, bytes);
    }

    fn admit_waiting(&mut self) {
        while let Some(slot) = self.room.next(self.flash.buffered) {
            self.window.admit(self.slots[slot as usize].bytes);
            self.admit(slot);
            while let Some(read) = self.window.release() {
                self.send_read(read);
            }
        }
    }

    /// Returns whether releases matter: data wait for space, or a finish for the next event.
    #[inline]
    pub(super) fn has_waiting_commands(&self) -> bool {
        #[cfg(test)]
        if self.eager {
            return true;
        }
        self.room.has_waiting() || self.flash.has_padded()
    }

    pub(super) fn release(&mut self, time: u64) {
        self.now = time;
        self.flash.release();
        self.resume_waiting();
    }

    pub(super) fn resume_waiting(&mut self) {
        self.admit_waiting();
        while let Some(slot) = self.flash.padded() {
            self.end_padding(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::model::Model;

    const KIB: u64 = 1024;

    fn buffer_space(buffer_kib: u32) -> BufferSpace {
        let mut model = Model::load("zn540").unwrap();
        (model.flash.buffer_kib, model.write.transfer_piece_kib) = (buffer_kib, 64);
        (model.geometry.max_active, model.flash.unit_kib) = (3, 10);
        BufferSpace::new(&model)
    }

    #[test]
    fn small_data_overtake_large_ones_in_order() {
        let mut room = buffer_space(100);
        assert!(room.takes(36 * KIB, 64 << 10) && !room.takes(37 * KIB, 64 << 10));
        for (slot, kib) in [(1, 64), (2, 8), (3, 8), (4, 4)] {
            room.wait(slot, kib << 10);
        }
        assert_eq!(room.next(100 * KIB), None);
        assert_eq!((room.next(92 * KIB), room.next(92 * KIB)), (Some(2), Some(3)));
        assert_eq!((room.next(93 * KIB), room.next(93 * KIB)), (Some(4), None));
        assert_eq!((room.next(36 * KIB), room.next(0)), (Some(1), None));
    }

    #[test]
    fn data_larger_than_the_buffer_are_admitted() {
        let mut large = buffer_space(100);
        large.wait(1, 1 << 20);
        assert_eq!((large.next(37 * KIB), large.next(36 * KIB)), (None, Some(1)));
        // Three zones may keep all of the buffer but one byte of each unit.
        let mut tiny = buffer_space(30);
        tiny.wait(1, 1 << 20);
        assert_eq!((tiny.next(30 * KIB), tiny.next(30 * KIB - 3)), (None, Some(1)));
    }
}
