//! Streams the operations of a plan. Pure: no I/O, at most 13 bytes per live file, otherwise constant memory.

mod changes;
mod live;
mod neighbours;
mod random;
mod size;
mod step;

pub use changes::{Change, ChangeKind};
pub(crate) use live::Live;
pub(crate) use random::mix;

use crate::error::AgingError;
use crate::plan::{
    AgingPlan, ChangeCounts, Limit, PADDING, RENAMED, State, Survivor, Ticks, file_name, padding, replan,
};
use changes::Changes;
use live::Record;
use neighbours::Neighbours;
use rand_pcg::Pcg64;
use random::{Alias, Coin, Draws, Fenwick};
use size::SizeDraw;
use std::sync::Arc;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct File {
    /// The operation that creates it, from 0; its name follows from this.
    pub birth: u64,
    pub size: u64,
    /// Its directory, a number in the plan's [`DirectoryTree`](crate::plan::DirectoryTree).
    pub directory: u32,
    pub renamed: bool,
    /// Bytes that fill its name up to the mean length of the profile.
    pub padding: u8,
}

impl File {
    pub fn name(&self) -> String {
        let padding = char::from(PADDING).to_string().repeat(self.padding.into());
        file_name(self.birth) + &padding + if self.renamed { RENAMED } else { "" }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationKind {
    Create,
    Delete,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    pub kind: OperationKind,
    pub file: File,
}

#[derive(Debug, Clone, Copy, Default)]
struct RemainingWork {
    creates: u64,
    deletes: u64,
    stay: u64,
}

/// Directories of one depth, assigned in turn: one counter for files that stay, one for the others.
#[derive(Debug, Clone, Copy)]
struct DirectoryRotation {
    first: u32,
    width: u32,
    stay: u32,
    pass: u32,
}

/// Bytes that bound the random walk of the fullness.
#[derive(Debug, Clone, Copy)]
struct Band {
    target: i64,
    /// Below this distance creates and deletes are equally likely.
    free: i64,
    /// No delete moves further below the target than this.
    most: i64,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Totals {
    pub operations: u64,
    pub creates: u64,
    pub deletes: u64,
    pub bytes_created: u64,
    pub bytes_live: u64,
    /// Bytes that pending changes add to `bytes_live`.
    pub bytes_under_way: i64,
    pub bytes_freed_beside: i64,
    /// Minimum and maximum bytes of live files since the end of the fill.
    pub bytes_least: u64,
    pub bytes_most: u64,
    pub created: Vec<u64>,
}

/// A stream of operations and its current state. The same plan always gives the same stream.
#[derive(Debug, Clone)]
pub struct Planner {
    plan: Arc<AgingPlan>,
    segment: usize,
    live: Live,
    left: Vec<RemainingWork>,
    stay_depths: Vec<u64>,
    creates_left: u64,
    deletes_left: u64,
    leading_deletes: u8,
    /// Remaining deletes of files too large to delete without a replacement.
    large_deletes_left: u64,
    /// Remaining deletes per class, for classes with a file to delete.
    deletable: Fenwick,
    /// Class of every slot that a create may fill.
    empty: Vec<u16>,
    deals: Vec<DirectoryRotation>,
    depth_alias: Alias,
    band: Band,
    totals: Totals,
    ticks: Ticks,
    commit: bool,
    padding: u8,
    sizes: SizeDraw,
    changes: Option<Box<Changes>>,
    neighbours: Option<Box<Neighbours>>,
    coin: Coin,
    choose_class: Draws,
    choose_victim: Draws,
    choose_slot: Draws,
    choose_stay: Pcg64,
    choose_depth: Pcg64,
}

impl AgingPlan {
    pub fn operations(self: &Arc<Self>) -> Planner {
        Planner::new(self.clone())
    }
}

impl Planner {
    pub(crate) fn new(plan: Arc<AgingPlan>) -> Self {
        let seed = plan.spec.seed;
        let capacity = plan.spec.capacity.0 as f64;
        let largest =
            plan.classes.iter().filter(|class| class.files > 0).map(|class| class.allocated).fold(0.0, f64::max);
        let band = Band {
            target: (plan.fullness * capacity) as i64,
            free: (0.005 * capacity) as i64,
            most: (0.01 * capacity).max(largest) as i64,
        };
        let deal = |(depth, _): &(u32, f64)| {
            let (first, width) = plan.tree.level(*depth);
            DirectoryRotation { first, width, stay: 0, pass: 0 }
        };
        let shares: Vec<f64> = plan.depths.iter().map(|(_, share)| *share).collect();
        Self {
            segment: 0,
            live: Live::new(plan.classes.iter().map(|class| (class.files + class.ghosts) as u32)),
            left: vec![RemainingWork::default(); plan.classes.len()],
            stay_depths: vec![0; plan.depths.len()],
            creates_left: 0,
            deletes_left: 0,
            leading_deletes: 0,
            large_deletes_left: 0,
            deletable: Fenwick::new(plan.classes.len()),
            empty: Vec::new(),
            deals: plan.depths.iter().map(deal).collect(),
            depth_alias: Alias::new(&shares),
            band,
            totals: Totals { created: vec![0; plan.classes.len()], bytes_least: u64::MAX, ..Totals::default() },
            ticks: Ticks::new(&plan.spec.clock, plan.spec.capacity, plan.fullness),
            commit: false,
            padding: padding(&plan.spec.profile),
            sizes: SizeDraw::new(seed.child("aging/spread").0, &plan.classes),
            changes: Changes::new(&plan),
            neighbours: Neighbours::new(&plan),
            coin: Coin::new(seed.stream("aging/kind")),
            choose_class: Draws::new(seed.stream("aging/class")),
            choose_victim: Draws::new(seed.stream("aging/victim")),
            choose_slot: Draws::new(seed.stream("aging/slot")),
            choose_stay: seed.stream("aging/stay"),
            choose_depth: seed.stream("aging/depth"),
            plan,
        }
    }

    pub fn plan(&self) -> &Arc<AgingPlan> {
        &self.plan
    }

    pub fn operations_done(&self) -> u64 {
        self.totals.operations
    }

    pub fn skip_to(&mut self, position: u64) {
        while self.totals.operations < position && self.next().is_some() {}
    }

    /// Returns the allocated bytes of live files over the capacity.
    pub fn fullness(&self) -> f64 {
        self.totals.live_now() as f64 / self.plan.spec.capacity.0 as f64
    }

    pub fn overwrites(&self) -> f64 {
        self.totals.bytes_created as f64 / self.plan.spec.capacity.0 as f64
    }

    pub fn creates(&self) -> u64 {
        self.totals.creates
    }

    pub fn commits(&self) -> u64 {
        self.ticks.commits
    }

    pub fn changes(&self) -> &[Change] {
        self.changes.as_ref().map_or(&[], |changes| changes.due())
    }

    pub fn changes_done(&self) -> ChangeCounts {
        self.changes.as_ref().map_or(ChangeCounts::default(), |changes| changes.done())
    }

    pub fn pending_changes(&self) -> u64 {
        self.changes.as_ref().map_or(0, |changes| changes.pending_count())
    }

    pub fn commit_follows(&self) -> bool {
        self.commit
    }

    pub fn files_live(&self) -> u64 {
        self.totals.creates - self.totals.deletes
    }

    /// Plans again from here: a new limit, counted from the start of the run, for the existing files. The same plan, position
    /// and limit always give the same continuation.
    pub fn replan(&self, limit: Limit) -> Result<Planner, AgingError> {
        let mut order: Vec<u32> = self.live.indices().collect();
        order.sort_unstable_by_key(|index| self.live.record(*index).birth());
        let tree = &self.plan.tree;
        let depth = |directory| {
            let level = tree.level_of(directory);
            self.plan.depths.iter().position(|(depth, _)| *depth == level).unwrap_or(0) as u16
        };
        let survivor = |index: &u32| {
            let record = self.live.record(*index);
            Survivor { birth: record.birth(), class: record.class() as u16, depth: depth(record.directory) }
        };
        let state = State {
            operations: self.totals.operations,
            created: self.totals.created.clone(),
            bytes_created: self.totals.bytes_created as f64,
            survivors: order.iter().map(survivor).collect(),
        };
        let decision = replan(&self.plan, &state, limit)?;
        let records: Vec<Record> = order.iter().map(|index| *self.live.record(*index)).collect();
        let mut next = self.clone();
        next.live.rearrange(&records, &decision.stays);
        let stay = records.iter().zip(&decision.stays).filter(|(_, stays)| **stays);
        let directories: Vec<u32> = stay.map(|(record, _)| record.directory).collect();
        next.neighbours = Neighbours::after(&decision.plan, &directories);
        next.plan = Arc::new(decision.plan);
        next.segment = 0;
        (next.creates_left, next.deletes_left) = (0, 0);
        Ok(next)
    }

    pub(crate) fn totals(&self) -> &Totals {
        &self.totals
    }

    pub(crate) fn live(&self) -> &Live {
        &self.live
    }

    pub(crate) fn file(&self, record: &Record) -> File {
        let planned = self.planned(record);
        self.changes.as_ref().map_or(planned, |changes| changes.now(record.class(), planned))
    }

    fn planned(&self, record: &Record) -> File {
        let (birth, directory) = (record.birth(), record.directory);
        let size = self.sizes.size(record.class(), birth);
        File { birth, size, directory, renamed: false, padding: self.padding }
    }
}

impl Totals {
    pub(crate) fn live_now(&self) -> u64 {
        self.bytes_live.wrapping_add_signed(self.bytes_under_way)
    }
}

impl AsRef<AgingPlan> for Planner {
    fn as_ref(&self) -> &AgingPlan {
        &self.plan
    }
}

impl DirectoryRotation {
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
