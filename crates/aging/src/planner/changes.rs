//! Changes of files between create and delete.
//!
//! They are added to the creates and deletes of a plan and take none of its time. Births, directories and ages are those of the
//! plan without changes. Sizes are too, once every pending change is done. The change of a file follows from its birth; only
//! files with a pending change are stored, in the order of their creation. With K live files, a change is
//! due after K / 8 operations, at the end of the plan, or earlier if pending bytes would move fullness too far.

use super::File;
use super::random::mix;
use super::size::SizeDraw;
use crate::plan::{AgingPlan, BLOCK, ChangeCounts, OVERWRITTEN_BLOCKS, UNDER_WAY, blocks, blocks_of_one_file};
use crate::profile::ChangeRow;
use std::collections::{HashSet, VecDeque};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    Append {
        /// Bytes before the change, in whole blocks.
        from: u64,
    },
    Truncate {
        /// Bytes before the change, in whole blocks.
        from: u64,
    },
    /// A part of it is rewritten.
    Overwrite {
        /// First byte, at a block boundary.
        from: u64,
        bytes: u64,
    },
    Rename,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    pub kind: ChangeKind,
    pub file: File,
}

impl ChangeCounts {
    pub fn count(&mut self, change: &Change) {
        let size = change.file.size;
        match change.kind {
            ChangeKind::Append { from } => {
                self.appends += 1;
                self.bytes_appended += size - from;
            }
            ChangeKind::Truncate { from } => {
                self.truncations += 1;
                self.bytes_truncated += from - size;
            }
            ChangeKind::Overwrite { bytes, .. } => {
                self.overwrites += 1;
                self.bytes_overwritten += bytes;
            }
            ChangeKind::Rename => self.renames += 1,
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Waiting {
    birth: u64,
    class: u16,
    directory: u32,
}

#[derive(Debug, Clone)]
pub(super) struct Changes {
    key: u64,
    /// For each class: cumulative rates by kind.
    rates: Vec<[f64; 4]>,
    budget: u64,
    delay: u64,
    /// In the order of births; includes files deleted meanwhile.
    waiting: VecDeque<Waiting>,
    /// Births of existing files with a pending change.
    pending: HashSet<u64>,
    /// Bytes by which files with pending changes are smaller, and larger, than planned; in whole blocks.
    missing: u64,
    extra: u64,
    freed: i64,
    due: Vec<Change>,
    done: ChangeCounts,
}

fn unit(draw: u64) -> f64 {
    (draw >> 11) as f64 / (1u64 << 53) as f64
}

impl Changes {
    pub(crate) fn new(plan: &AgingPlan) -> Option<Box<Self>> {
        let rows = &plan.spec.profile.changes;
        let sums = |bytes: f64| {
            let mut sum = 0.0;
            let row = ChangeRow::of(rows, bytes as u64).copied().unwrap_or_default();
            row.rates().map(|rate| {
                sum += rate;
                sum
            })
        };
        if rows.iter().all(|row| row.rates() == [0.0; 4]) {
            return None;
        }
        Some(Box::new(Self {
            key: plan.spec.seed.child("aging/changes").0,
            rates: plan.classes.iter().map(|class| sums(class.high)).collect(),
            budget: (UNDER_WAY * plan.spec.capacity.0 as f64) as u64,
            delay: (plan.fill / 8).max(1),
            waiting: VecDeque::new(),
            pending: HashSet::new(),
            missing: 0,
            extra: 0,
            freed: 0,
            due: Vec::new(),
            done: ChangeCounts::default(),
        }))
    }

    fn fate(&self, class: usize, birth: u64, size: u64) -> Option<ChangeKind> {
        let draw = mix(self.key ^ birth.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let kind = self.rates[class].iter().position(|sum| unit(draw) < *sum)?;
        let (most, has) = (blocks_of_one_file(self.budget), blocks(size));
        let (place, length) = (mix(draw), mix(draw.wrapping_add(1)));
        let below = |bound: u64| (unit(place) * bound as f64) as u64;
        match kind {
            0 if has > 0 && most > 0 => {
                Some(ChangeKind::Append { from: below(has).max(has.saturating_sub(most)) * BLOCK })
            }
            1 if most > 0 => Some(ChangeKind::Truncate { from: (has + (1 + below(has)).min(most)) * BLOCK }),
            2 if has > 0 => {
                let (first, count) = (below(has), 1 + length % OVERWRITTEN_BLOCKS);
                let from = first * BLOCK;
                Some(ChangeKind::Overwrite { from, bytes: (count * BLOCK).min(size - from) })
            }
            3 => Some(ChangeKind::Rename),
            _ => None,
        }
    }

    pub(crate) fn now(&self, class: usize, file: File) -> File {
        match (self.fate(class, file.birth, file.size), self.pending.contains(&file.birth)) {
            (Some(ChangeKind::Append { from } | ChangeKind::Truncate { from }), true) => File { size: from, ..file },
            (Some(ChangeKind::Rename), false) => File { renamed: true, ..file },
            _ => file,
        }
    }

    /// A file of the plan is created; returns its initial form.
    pub(crate) fn born(&mut self, class: usize, file: File) -> File {
        if self.fate(class, file.birth, file.size).is_none() {
            return file;
        }
        self.waiting.push_back(Waiting { birth: file.birth, class: class as u16, directory: file.directory });
        self.pending.insert(file.birth);
        let now = self.now(class, file);
        self.missing += blocks(file.size).saturating_sub(blocks(now.size)) * BLOCK;
        self.extra += blocks(now.size).saturating_sub(blocks(file.size)) * BLOCK;
        now
    }

    /// A file of the plan is deleted; returns its current form.
    pub(crate) fn gone(&mut self, class: usize, file: File) -> File {
        let now = self.now(class, file);
        if self.pending.contains(&file.birth) {
            self.freed += self.arrive(&now, &file);
        }
        now
    }

    /// A file's change is done; returns the bytes by which it was larger than planned.
    fn arrive(&mut self, now: &File, planned: &File) -> i64 {
        self.pending.remove(&planned.birth);
        let missing = blocks(planned.size).saturating_sub(blocks(now.size)) * BLOCK;
        let extra = blocks(now.size).saturating_sub(blocks(planned.size)) * BLOCK;
        self.missing -= missing;
        self.extra -= extra;
        extra as i64 - missing as i64
    }

    /// Collects the changes that follow the operation `now`; after the `last` one of a plan, all pending ones.
    pub(crate) fn follow(&mut self, now: u64, last: bool, sizes: &SizeDraw) {
        self.due.clear();
        while let Some(next) = self.waiting.front() {
            let off = self.missing > self.budget || self.extra > self.budget;
            if !last && !off && next.birth + self.delay > now {
                return;
            }
            let Waiting { birth, class, directory } = *next;
            self.waiting.pop_front();
            let class = usize::from(class);
            let planned = File { birth, size: sizes.size(class, birth), directory, renamed: false };
            let Some(kind) = self.fate(class, birth, planned.size).filter(|_| self.pending.contains(&birth)) else {
                continue;
            };
            let cut = self.arrive(&self.now(class, planned), &planned);
            self.freed += cut.max(0);
            let change = Change { kind, file: self.now(class, planned) };
            self.done.count(&change);
            self.due.push(change);
        }
    }

    pub(crate) fn due(&self) -> &[Change] {
        &self.due
    }

    pub(crate) fn done(&self) -> ChangeCounts {
        self.done
    }

    pub(crate) fn under_way(&self) -> u64 {
        self.pending.len() as u64
    }

    /// Bytes by which live files are larger (negative: smaller) than planned, and bytes freed in addition to deletes.
    pub(crate) fn bytes(&self) -> (i64, i64) {
        (self.extra as i64 - self.missing as i64, self.freed)
    }
}
