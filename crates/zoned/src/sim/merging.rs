//! The scheduler's write lock of a zone, and merging of waiting writes (mq-deadline).

use super::{NO_SLOT, SimDevice};

/// Page size: the NVMe driver does not accept requests with a gap within a page.
const PAGE: u32 = 4096;

#[derive(Debug, Clone, Copy)]
pub(crate) struct WriteLock {
    held: bool,
    first: u32,
    last: u32,
    waiting: u32,
    taken_at: u64,
}

impl WriteLock {
    pub(crate) const FREE: Self = Self { held: false, first: NO_SLOT, last: NO_SLOT, waiting: 0, taken_at: 0 };

    #[cfg(test)]
    pub(super) fn is_held(&self) -> bool {
        self.held
    }
}

impl SimDevice {
    /// Sends a write to its zone, or queues it behind the one in flight.
    pub(super) fn lock(&mut self, zone: u32, slot: u32) {
        let lock = &mut self.locks[zone as usize];
        if !lock.held {
            lock.held = true;
            self.locked += 1;
            lock.taken_at = self.now;
            return self.send_write(slot);
        }
        if lock.first == NO_SLOT {
            lock.first = slot;
        } else {
            self.slots[lock.last as usize].next = slot;
        }
        lock.last = slot;
        lock.waiting += 1;
    }

    /// Returns the maximum bytes of a merged request. Requests of less than a page are merged in pairs at most, more
    /// likely the more of them wait. They are not merged if a zone is written slowly. If several zones are written, few
    /// waiting writes are merged.
    fn most_merged(&mut self, zone: u32, bytes: u32) -> u32 {
        let limit = self.timing.merge_limit.unwrap_or(0);
        let WriteLock { waiting, taken_at, .. } = self.locks[zone as usize];
        let (behind, scale) = (f64::from(waiting - 1), self.timing.merge_waiting);
        if !bytes.is_multiple_of(PAGE) {
            let page_time = (self.now - taken_at) * u64::from(PAGE / bytes.min(PAGE));
            let likely = (behind / (behind + scale)).min(self.timing.part_share);
            let pair = page_time <= self.timing.part_within && self.noise.chance(likely);
            return if pair { (2 * bytes).min(limit) } else { bytes };
        }
        if self.locked < 2 || scale == 0.0 {
            return limit;
        }
        let more = behind / scale;
        let more = more as u32 + u32::from(self.noise.chance(more.fract()));
        bytes.saturating_mul(1 + more).min(limit)
    }

    /// Ends the zone's write: sends waiting ones as one, up to the merge limit.
    pub(super) fn unlock(&mut self, zone: u32) {
        let lock = self.locks[zone as usize];
        let head = lock.first;
        if head == NO_SLOT {
            self.locks[zone as usize].held = false;
            self.locked -= 1;
            return;
        }
        let limit = self.most_merged(zone, self.slots[head as usize].bytes);
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
        lock.waiting -= 1 + merged as u32;
        lock.taken_at = self.now;
        if rest == NO_SLOT {
            lock.last = NO_SLOT;
        }
        let request = &mut self.slots[head as usize];
        let small = if merged > 0 { self.timing.write.small_delay(request.bytes, bytes) } else { 0 };
        request.bytes = bytes;
        request.behind += self.timing.delay.get(bytes) - own_delay + self.timing.merging(merged, bytes) + small;
        self.send_write(head);
    }
}
