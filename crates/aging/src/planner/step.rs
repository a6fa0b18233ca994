//! Generates operations one by one: kind, class and file.

use super::live::{Record, prefetch};
use super::random::below;
use super::{File, Operation, OperationKind, Planner, RemainingWork};
use crate::plan::Segment;
use rand_pcg::Pcg64;

/// The kind and the class of the next operation. Small, because it passes through several functions.
#[derive(Debug, Clone, Copy)]
enum Choice {
    Create(usize),
    Delete(usize),
}

impl Planner {
    fn advance(&mut self) -> bool {
        let plan = self.plan.clone();
        let Some(segment) = plan.segments.get(self.segment) else { return false };
        self.segment += 1;
        self.enter(segment);
        true
    }

    fn enter(&mut self, segment: &Segment) {
        self.creates_left = segment.creates.iter().sum();
        self.deletes_left = segment.deletes.iter().sum();
        self.large_deletes_left = segment.deletes[self.plan.large..].iter().sum();
        self.leading_deletes = segment.leading_deletes;
        self.stay_depths.copy_from_slice(&segment.stay_depths);
        self.empty = Vec::new();
        self.empty.reserve_exact(self.live.empty_slots());
        for class in 0..self.left.len() {
            let left = RemainingWork {
                creates: segment.creates[class],
                deletes: segment.deletes[class],
                stay: segment.stay[class],
            };
            self.left[class] = left;
            let slots = self.live.class(class);
            self.empty.extend((0..slots.empty()).map(|_| class as u16));
            self.deletable.set(class, if slots.passing > 0 { left.deletes } else { 0 });
        }
    }

    fn prefers_delete(&mut self) -> bool {
        let deficit = self.band.target - self.totals.bytes_live as i64;
        if deficit.abs() > self.band.free {
            deficit < 0
        } else if self.large_deletes_left > 0 {
            false
        } else {
            self.coin.toss()
        }
    }

    /// Returns a class of very large files that must be deleted now. They can only be deleted while other files fill
    /// the gap that rounding left below the target.
    fn urgent(&self) -> Option<usize> {
        if self.large_deletes_left == 0 {
            return None;
        }
        let can_go = |class: &usize| {
            self.left[*class].deletes > 0 && self.live.class(*class).passing > 0 && !self.leaves_band(*class)
        };
        (self.plan.large..self.left.len()).rev().find(can_go)
    }

    /// Chooses a class to delete from, drawn by the remaining deletes, unless that leaves the band.
    fn delete(&mut self) -> Option<Choice> {
        let total = self.deletable.total();
        if total == 0 {
            return None;
        }
        let class = self.deletable.find(self.choose_class.below(total));
        (!self.leaves_band(class)).then_some(Choice::Delete(class))
    }

    /// Chooses the smallest class to delete from, within the band or, as a last resort, outside of it.
    fn delete_smallest(&mut self, within_band: bool) -> Option<Choice> {
        let may_go = |class: &usize| self.left[*class].deletes > 0 && self.live.class(*class).passing > 0;
        let class = (0..self.left.len()).find(may_go)?;
        let leaves = within_band && self.leaves_band(class);
        (!leaves).then_some(Choice::Delete(class))
    }

    /// Returns whether a delete from a class could go further below the target than the band allows.
    fn leaves_band(&self, class: usize) -> bool {
        let deficit = self.band.target - self.totals.bytes_live as i64;
        deficit + self.sizes.allocated_most(class) as i64 > self.band.most
    }

    fn delete_from(&mut self, class: usize) -> Operation {
        let passing = self.live.class(class).passing;
        let victim = self.choose_victim.below(u64::from(passing)) as u32;
        let record = self.live.remove(class, victim);
        let left = &mut self.left[class];
        left.deletes -= 1;
        let weight = if passing == 1 { left.deletes + 1 } else { 1 };
        self.deletable.subtract(class, weight);
        self.deletes_left -= 1;
        self.large_deletes_left -= u64::from(class >= self.plan.large);
        self.empty.push(class as u16);
        let mut file = self.planned(&record);
        self.totals.deletes += 1;
        self.totals.bytes_live -= self.sizes.allocated(class, file.size);
        if let Some(changes) = &mut self.changes {
            file = changes.gone(class, file);
        }
        self.fetch_victim();
        Operation { kind: OperationKind::Delete, file }
    }

    /// Prefetches data for a coming delete. Victims and slots are random: if the live files exceed all caches, every operation
    /// would wait for memory.
    fn fetch_victim(&self) {
        let total = self.deletable.total();
        if total > 0 && self.live.is_far() {
            let class = self.deletable.find(self.choose_class.farthest(total));
            let passing = self.live.class(class).passing;
            self.live.fetch(class, self.choose_victim.farthest(u64::from(passing)) as u32);
        }
    }

    fn fetch_slot(&self) {
        if self.live.is_far()
            && let Some(class) = self.empty.get(self.choose_slot.farthest(self.empty.len() as u64) as usize)
        {
            prefetch(class);
        }
    }

    /// Chooses the class of the next file, drawn by the empty slots.
    fn create(&mut self) -> Option<Choice> {
        while !self.empty.is_empty() {
            let slot = self.choose_slot.below(self.empty.len() as u64) as usize;
            let class = usize::from(self.empty.swap_remove(slot));
            self.fetch_slot();
            if self.left[class].creates > 0 {
                return Some(Choice::Create(class));
            }
        }
        None
    }

    fn create_in(&mut self, class: usize) -> Operation {
        let stays = self.draw_stay(class);
        let directory = self.draw_directory(stays);
        let birth = self.totals.operations;
        let first = self.live.insert(class, stays, Record::new(birth, class, directory));
        let left = &mut self.left[class];
        left.creates -= 1;
        if first && left.deletes > 0 {
            self.deletable.add(class, left.deletes);
        }
        self.creates_left -= 1;
        let size = self.sizes.size(class, birth);
        let allocated = self.sizes.allocated(class, size);
        self.totals.creates += 1;
        self.totals.created[class] += 1;
        self.totals.bytes_created += allocated;
        self.totals.bytes_live += allocated;
        let mut file = File { birth, size, directory, renamed: false, padding: self.padding };
        if let Some(changes) = &mut self.changes {
            file = changes.born(class, file);
        }
        Operation { kind: OperationKind::Create, file }
    }

    /// Draws whether the next file of a class stays to the end. The probability is the share of stayers among the
    /// remaining creates. It is 1 if only stayers are left. It is 0 if the file would take the last slot that deletes
    /// still need, or if the birth is on the edge of an age bin.
    fn draw_stay(&mut self, class: usize) -> bool {
        let left = &mut self.left[class];
        if left.stay == 0 {
            return false;
        }
        let slots = self.live.class(class);
        let forced = left.stay == left.creates;
        let allowed = self.leading_deletes == 0 && (left.deletes == 0 || slots.capacity - slots.staying > 1);
        let stays = forced || (allowed && below(&mut self.choose_stay, left.creates) < left.stay);
        left.stay -= u64::from(stays);
        stays
    }

    fn draw_directory(&mut self, stays: bool) -> u32 {
        let (depths, random) = (&mut self.stay_depths, &mut self.choose_depth);
        match &mut self.neighbours {
            Some(neighbours) if stays => neighbours.staying(&self.depth_alias),
            Some(neighbours) => neighbours.passing(&self.depth_alias),
            None => {
                let deal = if stays { draw_stay_depth(depths, random) } else { self.depth_alias.draw(random) };
                self.deals[deal].next(stays)
            }
        }
    }

    fn count(&mut self) {
        self.totals.operations += 1;
        self.leading_deletes = self.leading_deletes.saturating_sub(1);
        if self.totals.operations >= self.plan.fill {
            let live = self.totals.live_now();
            self.totals.bytes_least = self.totals.bytes_least.min(live);
            self.totals.bytes_most = self.totals.bytes_most.max(live);
        }
        let freed = self.totals.bytes_created - self.totals.bytes_live;
        let freed = freed.wrapping_add_signed(self.totals.bytes_freed_beside);
        let filled = self.totals.bytes_created.min(self.band.target as u64);
        self.commit = self.ticks.tick(filled + freed, self.totals.operations);
    }
}

fn draw_stay_depth(depths: &mut [u64], random: &mut Pcg64) -> usize {
    let total: u64 = depths.iter().sum();
    let mut place = below(random, total.max(1));
    for (row, left) in depths.iter_mut().enumerate() {
        if place < *left {
            *left -= 1;
            return row;
        }
        place -= *left;
    }
    0
}

impl Iterator for Planner {
    type Item = Operation;

    fn next(&mut self) -> Option<Operation> {
        while self.creates_left + self.deletes_left == 0 {
            if !self.advance() {
                return None;
            }
        }
        let choice = if let Some(class) = self.urgent() {
            Some(Choice::Delete(class))
        } else if self.leading_deletes > 0 {
            self.delete().or_else(|| self.delete_smallest(true)).or_else(|| self.create())
        } else if self.prefers_delete() {
            self.delete().or_else(|| self.create())
        } else {
            self.create().or_else(|| self.delete())
        };
        let operation = match choice.or_else(|| self.delete_smallest(false))? {
            Choice::Create(class) => self.create_in(class),
            Choice::Delete(class) => self.delete_from(class),
        };
        if let Some(changes) = &mut self.changes {
            let last = self.totals.operations + 1 == self.plan.operations;
            changes.follow(self.totals.operations, last, &self.sizes);
            (self.totals.bytes_under_way, self.totals.bytes_freed_beside) = changes.bytes();
        }
        self.count();
        Some(operation)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = (self.plan.operations - self.totals.operations) as usize;
        (left, Some(left))
    }
}
