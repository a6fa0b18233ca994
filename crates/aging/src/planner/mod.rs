//! Streams the operations of a plan. Pure: no I/O, at most 13 bytes for each live file, the rest constant.

mod live;
mod random;

pub(crate) use live::Live;
pub(crate) use random::mix;

use crate::plan::{AgingPlan, Class, Segment};
use live::Record;
use rand_pcg::Pcg64;
use random::{Alias, Coin, Fenwick, below};
use std::sync::Arc;

/// A file as the plan knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct File {
    /// The operation that creates it, from 0; its name follows from this.
    pub birth: u64,
    /// Size in bytes.
    pub size: u64,
    /// Directory it lies in, a number of the plan's [`DirectoryTree`](crate::plan::DirectoryTree).
    pub directory: u32,
}

/// Create or delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The file comes into being.
    Create,
    /// The file is deleted.
    Delete,
}

/// One operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// What is done.
    pub kind: Kind,
    /// To which file.
    pub file: File,
}

/// What is left to do in the present segment for one class.
#[derive(Debug, Clone, Copy, Default)]
struct Left {
    creates: u64,
    deletes: u64,
    stay: u64,
}

/// Directories of one depth, dealt out in turn: one counter for files that stay, one for those that pass.
#[derive(Debug, Clone, Copy)]
struct Deal {
    first: u32,
    width: u32,
    stay: u32,
    pass: u32,
}

/// Bytes that bound the walk of fullness.
#[derive(Debug, Clone, Copy)]
struct Band {
    target: i64,
    /// Below this distance creates and deletes are equally likely.
    free: i64,
    /// No delete leads farther below the target.
    most: i64,
}

/// What has been done so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Totals {
    pub operations: u64,
    pub creates: u64,
    pub deletes: u64,
    pub bytes_created: u64,
    pub bytes_live: u64,
    /// Least and greatest `bytes_live` since the end of the fill.
    pub bytes_least: u64,
    pub bytes_most: u64,
    /// Creates per class.
    pub created: Vec<u64>,
}

/// A stream of operations and the state they lead to. The same plan gives the same stream every time.
#[derive(Debug, Clone)]
pub struct Planner {
    plan: Arc<AgingPlan>,
    segment: usize,
    live: Live,
    left: Vec<Left>,
    stay_depths: Vec<u64>,
    creates_left: u64,
    deletes_left: u64,
    leading_deletes: u8,
    /// Deletes left per class, for classes that have a file to delete.
    deletable: Fenwick,
    /// Class of every slot that a create may fill.
    empty: Vec<u16>,
    deals: Vec<Deal>,
    depth_alias: Alias,
    band: Band,
    totals: Totals,
    sizes: SizeDraw,
    coin: Coin,
    choose_class: Pcg64,
    choose_victim: Pcg64,
    choose_slot: Pcg64,
    choose_stay: Pcg64,
    choose_depth: Pcg64,
}

impl Planner {
    pub(crate) fn new(plan: Arc<AgingPlan>) -> Self {
        let seed = plan.spec.seed;
        let capacity = plan.spec.capacity.0 as f64;
        let largest =
            plan.classes.iter().filter(|class| class.files > 0).map(|class| class.allocated).fold(0.0, f64::max);
        let deal = |(depth, _): &(u32, f64)| {
            let (first, width) = plan.tree.level(*depth);
            Deal { first, width, stay: 0, pass: 0 }
        };
        let shares: Vec<f64> = plan.depths.iter().map(|(_, share)| *share).collect();
        Self {
            segment: 0,
            live: Live::new(plan.classes.iter().map(|class| (class.files + class.ghosts) as u32)),
            left: vec![Left::default(); plan.classes.len()],
            stay_depths: vec![0; plan.depths.len()],
            creates_left: 0,
            deletes_left: 0,
            leading_deletes: 0,
            deletable: Fenwick::new(plan.classes.len()),
            empty: Vec::new(),
            deals: plan.depths.iter().map(deal).collect(),
            depth_alias: Alias::new(&shares),
            band: Band {
                target: (plan.fullness * capacity) as i64,
                free: (0.005 * capacity) as i64,
                most: (0.01 * capacity).max(largest) as i64,
            },
            totals: Totals { created: vec![0; plan.classes.len()], bytes_least: u64::MAX, ..Totals::default() },
            sizes: SizeDraw::new(seed.child("aging/spread").0, &plan.classes),
            coin: Coin::new(seed.stream("aging/kind")),
            choose_class: seed.stream("aging/class"),
            choose_victim: seed.stream("aging/victim"),
            choose_slot: seed.stream("aging/slot"),
            choose_stay: seed.stream("aging/stay"),
            choose_depth: seed.stream("aging/depth"),
            plan,
        }
    }

    /// The plan that is streamed.
    pub fn plan(&self) -> &Arc<AgingPlan> {
        &self.plan
    }

    /// Operations done so far.
    pub fn operations_done(&self) -> u64 {
        self.totals.operations
    }

    /// Plays operations until `position` of them are done, or the plan ends.
    pub fn skip_to(&mut self, position: u64) {
        while self.totals.operations < position && self.next().is_some() {}
    }

    /// Allocated bytes of live files over the capacity, now.
    pub fn fullness(&self) -> f64 {
        self.totals.bytes_live as f64 / self.plan.spec.capacity.0 as f64
    }

    /// Bytes created so far over the capacity.
    pub fn overwrites(&self) -> f64 {
        self.totals.bytes_created as f64 / self.plan.spec.capacity.0 as f64
    }

    /// Creates done so far.
    pub fn creates(&self) -> u64 {
        self.totals.creates
    }

    /// Number of live files now.
    pub fn files_live(&self) -> u64 {
        self.totals.creates - self.totals.deletes
    }

    pub(crate) fn totals(&self) -> &Totals {
        &self.totals
    }

    pub(crate) fn live(&self) -> &Live {
        &self.live
    }

    pub(crate) fn file(&self, record: &Record) -> File {
        let birth = record.birth();
        File { birth, size: self.sizes.size(record.class(), birth), directory: record.directory }
    }

    /// Begins the next segment; `false` when there is none.
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
        self.leading_deletes = segment.leading_deletes;
        self.stay_depths.copy_from_slice(&segment.stay_depths);
        self.empty = Vec::new();
        self.empty.reserve_exact(self.live.empty_slots());
        for class in 0..self.left.len() {
            let left =
                Left { creates: segment.creates[class], deletes: segment.deletes[class], stay: segment.stay[class] };
            self.left[class] = left;
            let slots = self.live.class(class);
            self.empty.extend((0..slots.empty()).map(|_| class as u16));
            self.deletable.set(class, if slots.passing > 0 { left.deletes } else { 0 });
        }
    }

    fn prefers_delete(&mut self) -> bool {
        let deficit = self.band.target - self.totals.bytes_live as i64;
        if deficit > self.band.free {
            false
        } else if self.leading_deletes > 0 || deficit < -self.band.free {
            true
        } else {
            self.coin.toss()
        }
    }

    /// Deletes a file of a class drawn by the deletes it has left, unless that leads out of the band.
    fn delete(&mut self) -> Option<Operation> {
        let total = self.deletable.total();
        if total == 0 {
            return None;
        }
        let class = self.deletable.find(below(&mut self.choose_class, total));
        let deficit = self.band.target - self.totals.bytes_live as i64;
        if deficit + self.sizes.allocated_most(class) as i64 > self.band.most {
            return None;
        }
        Some(self.delete_from(class))
    }

    /// The last resort when rounding left the filled volume below its target: the smallest file that may go.
    fn delete_smallest(&mut self) -> Option<Operation> {
        let class =
            (0..self.left.len()).find(|class| self.left[*class].deletes > 0 && self.live.class(*class).passing > 0)?;
        Some(self.delete_from(class))
    }

    fn delete_from(&mut self, class: usize) -> Operation {
        let passing = self.live.class(class).passing;
        let victim = below(&mut self.choose_victim, u64::from(passing)) as u32;
        let record = self.live.remove(class, victim);
        let left = &mut self.left[class];
        left.deletes -= 1;
        let weight = if passing == 1 { left.deletes + 1 } else { 1 };
        self.deletable.subtract(class, weight);
        self.deletes_left -= 1;
        self.empty.push(class as u16);
        let file = self.file(&record);
        self.totals.deletes += 1;
        self.totals.bytes_live -= self.sizes.allocated(class, file.size);
        Operation { kind: Kind::Delete, file }
    }

    /// Fills a random empty slot whose class has creates left.
    fn create(&mut self) -> Option<Operation> {
        while !self.empty.is_empty() {
            let slot = below(&mut self.choose_slot, self.empty.len() as u64) as usize;
            let class = usize::from(self.empty.swap_remove(slot));
            if self.left[class].creates > 0 {
                return Some(self.create_in(class));
            }
        }
        None
    }

    fn create_in(&mut self, class: usize) -> Operation {
        let stays = self.draw_stay(class);
        let deal = if stays { self.draw_stay_depth() } else { self.depth_alias.draw(&mut self.choose_depth) };
        let directory = self.deals[deal].next(stays);
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
        Operation { kind: Kind::Create, file: File { birth, size, directory } }
    }

    /// Whether the next file of a class stays to the end: with the share of stayers among the creates left, certainly
    /// when only stayers are left, never when it would take the last slot that deletes still need.
    fn draw_stay(&mut self, class: usize) -> bool {
        let left = &mut self.left[class];
        if left.stay == 0 {
            return false;
        }
        let slots = self.live.class(class);
        let forced = left.stay == left.creates;
        let allowed = left.deletes == 0 || slots.capacity - slots.staying > 1;
        let stays = forced || (allowed && below(&mut self.choose_stay, left.creates) < left.stay);
        left.stay -= u64::from(stays);
        stays
    }

    fn draw_stay_depth(&mut self) -> usize {
        let total: u64 = self.stay_depths.iter().sum();
        let mut place = below(&mut self.choose_depth, total.max(1));
        for (row, left) in self.stay_depths.iter_mut().enumerate() {
            if place < *left {
                *left -= 1;
                return row;
            }
            place -= *left;
        }
        0
    }

    fn count(&mut self) {
        self.totals.operations += 1;
        self.leading_deletes = self.leading_deletes.saturating_sub(1);
        if self.totals.operations >= self.plan.fill {
            self.totals.bytes_least = self.totals.bytes_least.min(self.totals.bytes_live);
            self.totals.bytes_most = self.totals.bytes_most.max(self.totals.bytes_live);
        }
    }
}

impl Iterator for Planner {
    type Item = Operation;

    fn next(&mut self) -> Option<Operation> {
        while self.creates_left + self.deletes_left == 0 {
            if !self.advance() {
                return None;
            }
        }
        let operation = if self.prefers_delete() {
            self.delete().or_else(|| self.create())
        } else {
            self.create().or_else(|| self.delete())
        };
        let operation = operation.or_else(|| self.delete_smallest())?;
        self.count();
        Some(operation)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = (self.plan.operations - self.totals.operations) as usize;
        (left, Some(left))
    }
}

impl Deal {
    fn next(&mut self, stays: bool) -> u32 {
        let counter = if stays { &mut self.stay } else { &mut self.pass };
        let directory = self.first + *counter;
        *counter += 1;
        if *counter == self.width {
            *counter = 0;
        }
        directory
    }
}

/// Sizes of files, from class and birth alone, so that they need not be remembered.
#[derive(Debug, Clone)]
struct SizeDraw {
    key: u64,
    classes: Vec<SizeClass>,
}

#[derive(Debug, Clone, Copy)]
struct SizeClass {
    size: u64,
    allocated: u64,
    allocated_most: u64,
    low: f64,
    ratio: f64,
}

impl SizeDraw {
    fn new(key: u64, classes: &[Class]) -> Self {
        let class = |class: &Class| SizeClass {
            size: class.high as u64,
            allocated: class.allocated as u64,
            allocated_most: (class.high as u64).next_multiple_of(crate::plan::BLOCK),
            low: class.low,
            ratio: if class.low == class.high { 1.0 } else { class.high / class.low },
        };
        Self { key, classes: classes.iter().map(class).collect() }
    }

    fn size(&self, class: usize, birth: u64) -> u64 {
        let class = &self.classes[class];
        if class.ratio == 1.0 {
            return class.size;
        }
        let unit = random::mix(self.key ^ birth.wrapping_mul(0x9e37_79b9_7f4a_7c15)) as f64 / 2f64.powi(64);
        ((class.low * libm::pow(class.ratio, unit)).ceil() as u64).min(class.size)
    }

    fn allocated(&self, class: usize, size: u64) -> u64 {
        let class = &self.classes[class];
        if class.ratio == 1.0 { class.allocated } else { size.next_multiple_of(crate::plan::BLOCK) }
    }

    fn allocated_most(&self, class: usize) -> u64 {
        self.classes[class].allocated_most
    }
}
