//! Changes of files between create and delete.
//!
//! They are added to the creates and deletes of a plan and do not advance its time. Births, directories and ages are those of the
//! plan without changes. Sizes are too, once every pending change is done. The changes of a file follow from its birth, with
//! sizes computed backwards from the planned one; only files with a pending change are stored. With K live files, the changes
//! of a file are spread over K / 8 operations. They come earlier at the end of the plan, or if pending bytes would move
//! fullness too far.

use super::File;
use super::random::mix;
use super::size::SizeDraw;
use crate::plan::{AgingPlan, BLOCK, ChangeCounts, OVERWRITTEN_BLOCKS, UNDER_WAY, blocks, blocks_of_one_file, padding};
use crate::profile::{ChangeRow, KINDS, ROUNDING};
use std::collections::{HashMap, VecDeque};

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
    /// The blocks of a part of it are freed, and the part is written again.
    Punch {
        /// First byte, at a block boundary.
        from: u64,
        bytes: u64,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    pub kind: ChangeKind,
    pub file: File,
}

impl Change {
    pub fn before(&self) -> File {
        match self.kind {
            ChangeKind::Append { from } | ChangeKind::Truncate { from } => File { size: from, ..self.file },
            ChangeKind::Overwrite { .. } | ChangeKind::Punch { .. } => self.file,
            ChangeKind::Rename => File { renamed: !self.file.renamed, ..self.file },
        }
    }
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
            ChangeKind::Punch { bytes, .. } => {
                self.punches += 1;
                self.bytes_punched += bytes;
            }
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Waiting {
    birth: u64,
    due: u64,
    class: u16,
    directory: u32,
}

#[derive(Debug, Clone)]
pub(super) struct Changes {
    key: u64,
    padding: u8,
    /// For each class: cumulative rates by kind.
    rates: Vec<[f64; KINDS]>,
    budget: u64,
    /// Operations between two changes of a file.
    delay: u64,
    /// In the order of due times; includes files deleted meanwhile.
    waiting: VecDeque<Waiting>,
    /// Completed changes of existing files with a pending change, by birth.
    pending: HashMap<u64, u32>,
    /// Bytes by which files with pending changes are smaller, and larger, than planned; in whole blocks.
    missing: u64,
    extra: u64,
    freed: i64,
    due: Vec<Change>,
    done: ChangeCounts,
}

/// The changes of one file: a random number that they follow from, and how many they are.
#[derive(Debug, Clone, Copy)]
struct FileChanges {
    draw: u64,
    count: u32,
}

fn unit(draw: u64) -> f64 {
    (draw >> 11) as f64 / (1u64 << 53) as f64
}

fn total(sums: &[f64; KINDS]) -> f64 {
    sums[KINDS - 1]
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
        if rows.iter().all(|row| row.rates() == [0.0; KINDS]) {
            return None;
        }
        let rates: Vec<[f64; KINDS]> = plan.classes.iter().map(|class| sums(class.high)).collect();
        let most = rates.iter().map(|sums| (total(sums) - ROUNDING).ceil() as u64).max().unwrap_or(1).max(1);
        Some(Box::new(Self {
            key: plan.spec.seed.child("aging/changes").0,
            padding: padding(&plan.spec.profile),
            rates,
            budget: (UNDER_WAY * plan.spec.capacity.0 as f64) as u64,
            delay: (plan.fill / 8 / most).max(1),
            waiting: VecDeque::new(),
            pending: HashMap::new(),
            missing: 0,
            extra: 0,
            freed: 0,
            due: Vec::new(),
            done: ChangeCounts::default(),
        }))
    }

    fn changes_of(&self, class: usize, birth: u64) -> FileChanges {
        let draw = mix(self.key ^ birth.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let total = total(&self.rates[class]);
        let whole = if total <= 1.0 + ROUNDING { 0.0 } else { total.floor() };
        FileChanges { draw, count: whole as u32 + u32::from(unit(draw) < total - whole) }
    }

    /// Returns the index of the kind of a file's change `number`, in the order of [`ChangeRow::rates`].
    fn kind(&self, class: usize, fate: FileChanges, number: u32) -> Option<usize> {
        let sums = &self.rates[class];
        let place = match total(sums) {
            total if total <= 1.0 + ROUNDING => unit(fate.draw),
            total => total * unit(mix(fate.draw ^ (u64::from(number) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))),
        };
        sums.iter().position(|sum| place < *sum)
    }

    /// Returns a file's change `number`, which leaves it at `size` bytes; `planned` is its planned size. `None` if it
    /// is impossible, such as an append to an empty file.
    fn change(&self, class: usize, fate: FileChanges, number: u32, size: u64, planned: u64) -> Option<ChangeKind> {
        let (most, has) = (blocks_of_one_file(self.budget), blocks(size));
        let (least, most) = (blocks(planned).saturating_sub(most), blocks(planned) + most);
        let draw = fate.draw.wrapping_add(2 * u64::from(number));
        let (place, length) = (mix(draw), mix(draw.wrapping_add(1)));
        let below = |bound: u64| (unit(place) * bound as f64) as u64;
        match self.kind(class, fate, number)? {
            0 if has > least => Some(ChangeKind::Append { from: below(has).max(least) * BLOCK }),
            1 if has < most => Some(ChangeKind::Truncate { from: (has + 1 + below(has)).min(most) * BLOCK }),
            kind @ (2 | 4) if has > 0 => {
                let (first, count) = (below(has), 1 + length % OVERWRITTEN_BLOCKS);
                let from = first * BLOCK;
                let bytes = (count * BLOCK).min(size - from);
                Some(if kind == 2 { ChangeKind::Overwrite { from, bytes } } else { ChangeKind::Punch { from, bytes } })
            }
            3 => Some(ChangeKind::Rename),
            _ => None,
        }
    }

    /// Returns the form of a `planned` file after `done` of its changes, and its next change.
    fn after(&self, class: usize, planned: File, fate: FileChanges, done: u32) -> (File, Option<ChangeKind>) {
        let (mut size, mut next) = (planned.size, None);
        for number in (done..fate.count).rev() {
            next = self.change(class, fate, number, size, planned.size);
            if let Some(ChangeKind::Append { from } | ChangeKind::Truncate { from }) = next {
                size = from;
            }
        }
        let is_rename = |number: &u32| self.kind(class, fate, *number) == Some(3);
        let renamed = (0..done).filter(is_rename).count() % 2 == 1;
        (File { size, renamed, ..planned }, next)
    }

    pub(crate) fn now(&self, class: usize, planned: File) -> File {
        let fate = self.changes_of(class, planned.birth);
        let done = self.pending.get(&planned.birth).copied().unwrap_or(fate.count);
        self.after(class, planned, fate, done).0
    }

    /// Registers a file that the plan created and returns its initial form.
    pub(crate) fn born(&mut self, class: usize, file: File) -> File {
        let fate = self.changes_of(class, file.birth);
        if (0..fate.count).all(|done| self.after(class, file, fate, done).1.is_none()) {
            return file;
        }
        self.pending.insert(file.birth, 0);
        self.wait(file.birth, class, &file);
        let now = self.after(class, file, fate, 0).0;
        self.differ(&now, &file);
        now
    }

    fn wait(&mut self, now: u64, class: usize, file: &File) {
        let (due, directory) = (now + self.delay, file.directory);
        self.waiting.push_back(Waiting { birth: file.birth, due, class: class as u16, directory });
    }

    /// Forgets a file that the plan deleted and returns its current form.
    pub(crate) fn gone(&mut self, class: usize, file: File) -> File {
        let now = self.now(class, file);
        if self.pending.remove(&file.birth).is_some() {
            self.freed += self.agree(&now, &file);
        }
        now
    }

    /// Adds the difference of a file from the plan.
    fn differ(&mut self, now: &File, planned: &File) {
        self.missing += blocks(planned.size).saturating_sub(blocks(now.size)) * BLOCK;
        self.extra += blocks(now.size).saturating_sub(blocks(planned.size)) * BLOCK;
    }

    /// Removes the difference of a file from the plan; returns the bytes by which it was larger than planned.
    fn agree(&mut self, now: &File, planned: &File) -> i64 {
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
            if !last && !off && next.due > now {
                return;
            }
            let Waiting { birth, class, directory, .. } = *next;
            self.waiting.pop_front();
            let class = usize::from(class);
            if let Some(done) = self.pending.get(&birth).copied() {
                let size = sizes.size(class, birth);
                let planned = File { birth, size, directory, renamed: false, padding: self.padding };
                self.step(now, class, planned, done);
            }
        }
    }

    /// Makes a file's next change after `done`, and skips those that are impossible before it.
    fn step(&mut self, now: u64, class: usize, planned: File, mut done: u32) {
        let fate = self.changes_of(class, planned.birth);
        let (before, mut kind) = self.after(class, planned, fate, done);
        while kind.is_none() && done < fate.count {
            done += 1;
            kind = self.after(class, planned, fate, done).1;
        }
        let done = (done + 1).min(fate.count);
        self.agree(&before, &planned);
        let (file, _) = self.after(class, planned, fate, done);
        if done < fate.count {
            self.pending.insert(planned.birth, done);
            self.differ(&file, &planned);
            self.wait(now, class, &planned);
        } else {
            self.pending.remove(&planned.birth);
        }
        if let Some(kind) = kind {
            let change = Change { kind, file };
            self.freed += (blocks(before.size) as i64 - blocks(file.size) as i64).max(0) * BLOCK as i64;
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

    pub(crate) fn pending_count(&self) -> u64 {
        self.pending.len() as u64
    }

    /// Returns the bytes by which live files are larger (negative: smaller) than planned, and the bytes freed in
    /// addition to deletes.
    pub(crate) fn bytes(&self) -> (i64, i64) {
        (self.extra as i64 - self.missing as i64, self.freed)
    }
}
