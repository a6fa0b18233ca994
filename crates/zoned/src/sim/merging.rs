//! The scheduler's write lock of a zone, and the merging of writes that wait for it (mq-deadline).

use super::{NO_SLOT, SimDevice};

/// The scheduler's write lock of one zone, with the writes that wait for it.
#[derive(Debug, Clone, Copy)]
pub struct WriteLock {
    held: bool,
    first: u32,
    last: u32,
}

impl WriteLock {
    /// Held by nobody.
    pub const FREE: Self = Self { held: false, first: NO_SLOT, last: NO_SLOT };
}

impl SimDevice {
    /// A write goes to its zone, or waits for the one that is on its way.
    pub(super) fn lock(&mut self, zone: u32, slot: u32) {
        let lock = &mut self.locks[zone as usize];
        if !lock.held {
            lock.held = true;
            return self.send_write(slot);
        }
        if lock.first == NO_SLOT {
            lock.first = slot;
        } else {
            self.slots[lock.last as usize].next = slot;
        }
        lock.last = slot;
    }

    /// The zone's write is done: the waiting ones go as one, up to the merge limit.
    pub(super) fn unlock(&mut self, zone: u32) {
        let limit = self.timing.merge_limit.unwrap_or(0);
        let lock = self.locks[zone as usize];
        let head = lock.first;
        if head == NO_SLOT {
            self.locks[zone as usize].held = false;
            return;
        }
        let (mut bytes, mut tail, mut merged) = (self.slots[head as usize].bytes, head, 0);
        let own_delay = self.timing.delay.get(bytes);
        loop {
            let next = self.slots[tail as usize].next;
            if next == NO_SLOT || bytes + self.slots[next as usize].bytes > limit {
                break;
            }
            bytes += self.slots[next as usize].bytes;
            tail = next;
            merged += 1;
        }
        let rest = std::mem::replace(&mut self.slots[tail as usize].next, NO_SLOT);
        let lock = &mut self.locks[zone as usize];
        lock.first = rest;
        if rest == NO_SLOT {
            lock.last = NO_SLOT;
        }
        let request = &mut self.slots[head as usize];
        request.bytes = bytes;
        request.behind += self.timing.delay.get(bytes) - own_delay + self.timing.merging(merged);
        self.send_write(head);
    }
}
