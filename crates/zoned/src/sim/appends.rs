//! A zone processes a limited number of appends at a time; others wait in order.

use super::{NO_SLOT, SimDevice};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Appends {
    taken: u32,
    first: u32,
    last: u32,
}

impl Appends {
    pub(crate) const NONE: Self = Self { taken: 0, first: NO_SLOT, last: NO_SLOT };
}

impl SimDevice {
    pub(super) fn take_up_append(&mut self, zone: u32, slot: u32) {
        let limit = self.appends_per_zone;
        let Some(appends) = self.appends.get_mut(zone as usize).filter(|_| limit > 0) else {
            return self.send_write(slot);
        };
        if appends.taken < limit {
            appends.taken += 1;
            return self.send_write(slot);
        }
        match appends.last {
            NO_SLOT => appends.first = slot,
            last => self.slots[last as usize].next = slot,
        }
        appends.last = slot;
    }

    pub(super) fn end_append(&mut self, zone: u32) {
        let Some(appends) = self.appends.get_mut(zone as usize) else { return };
        let slot = appends.first;
        if slot == NO_SLOT {
            appends.taken = appends.taken.saturating_sub(1);
            return;
        }
        appends.first = std::mem::replace(&mut self.slots[slot as usize].next, NO_SLOT);
        if appends.first == NO_SLOT {
            appends.last = NO_SLOT;
        }
        self.send_write(slot);
    }
}
