//! Divides a plan into parts. Each part is a separate plan for an equal share of the volume, with the same profile, its own
//! seed and its own directory. A process needs only the planners of its parts.

use crate::plan::BLOCK;
use crate::planner::{Change, Operation, Planner};
use senesce_core::{Bytes, Seed};
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// Maximum number of parts: names have four digits.
pub const MOST_PARTS: u32 = 9999;

pub fn part_name(part: u32) -> String {
    format!("part-{part:04}")
}

pub fn part_of_name(name: &[u8]) -> Option<u32> {
    let digits = name.strip_prefix(b"part-").filter(|digits| digits.len() == 4)?;
    digits.iter().all(u8::is_ascii_digit).then(|| std::str::from_utf8(digits).ok()?.parse().ok())?
}

/// Returns the share of each of `parts` in the volume: equal and in whole blocks. Less than a block per part is unused.
pub fn part_capacity(capacity: Bytes, parts: u32) -> Bytes {
    if parts <= 1 { capacity } else { Bytes(capacity.0 / u64::from(parts) / BLOCK * BLOCK) }
}

/// Returns the seed of one of `parts`; an undivided plan has the root seed.
pub fn part_seed(seed: Seed, part: u32, parts: u32) -> Seed {
    if parts <= 1 { seed } else { seed.child(&format!("part/{part}")) }
}

/// Returns the digest of the whole namespace from those of its parts, in order. An undivided plan keeps its own digest.
/// Otherwise it is SHA-256 over one line "part-NNNN digest" each.
pub fn whole_sha256(parts: &[String]) -> String {
    if let [only] = parts {
        return only.clone();
    }
    let mut digest = Sha256::new();
    for (part, sha256) in (0..).zip(parts) {
        digest.update(format!("{} {sha256}\n", part_name(part)));
    }
    digest.finalize().iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Interleaves some parts of a divided plan by age: operation i of every part precedes operation i + 1 of any. A position
/// counts the operations of all parts, including those of other processes: operation i of part p of P is at i P + p. An
/// undivided plan is its only part.
///
/// All parts free blocks at the same rate relative to their free space, so the commits of the first part are those of all,
/// independent of who executes the others.
pub struct Interleaved<'a> {
    parts: u32,
    own: Vec<(u32, &'a mut Planner)>,
    len: u64,
    position: u64,
    turn: usize,
    due: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlacedOperation {
    pub position: u64,
    pub own: usize,
    pub operation: Operation,
    /// Whether the file system must commit after all operations up to this one.
    pub commit: bool,
}

impl<'a> Interleaved<'a> {
    /// Interleaves the planners of some parts (ascending) of `parts`, up to the position `len`; all have done
    /// everything below `position`.
    pub fn new(parts: u32, own: Vec<(u32, &'a mut Planner)>, position: u64, len: u64) -> Self {
        let mut all = Self { parts: parts.max(1), own, len, position: 0, turn: 0, due: 0 };
        all.go_to(position);
        all
    }

    pub fn whole(planner: &'a mut Planner) -> Self {
        let (position, len) = (planner.operations_done(), planner.plan().len());
        Self::new(1, vec![(0, planner)], position, len)
    }

    pub fn operations_of(part: u32, parts: u32, position: u64) -> u64 {
        (position + u64::from(parts) - 1 - u64::from(part)) / u64::from(parts)
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn position(&self) -> u64 {
        self.position
    }

    pub fn own(&self) -> impl ExactSizeIterator<Item = (u32, &Planner)> {
        self.own.iter().map(|(part, planner)| (*part, &**planner))
    }

    /// Returns the allocated bytes of live files over the capacity, of the parts in this process.
    pub fn fullness(&self) -> f64 {
        self.mean(Planner::fullness)
    }

    /// Returns the bytes created so far over the capacity, of the parts in this process.
    pub fn overwrites(&self) -> f64 {
        self.mean(Planner::overwrites)
    }

    fn mean(&self, of: fn(&Planner) -> f64) -> f64 {
        self.own().map(|(_, planner)| of(planner)).sum::<f64>() / self.own.len().max(1) as f64
    }

    /// Returns the next operation of the parts in this process below `end`; otherwise `end` is reached.
    pub fn next_below(&mut self, end: u64) -> Option<PlacedOperation> {
        while let Some((part, planner)) = self.own.get_mut(self.turn) {
            let position = self.due * u64::from(self.parts) + u64::from(*part);
            if position >= end {
                break;
            }
            let own = self.turn;
            let operation = planner.next();
            let commit = *part == 0 && planner.commit_follows();
            self.turn += 1;
            if self.turn == self.own.len() {
                (self.turn, self.due) = (0, self.due + 1);
            }
            // A part with new limits may end before the others.
            if let Some(operation) = operation {
                self.position = position + 1;
                return Some(PlacedOperation { position, own, operation, commit });
            }
        }
        self.position = end.min(self.len).max(self.position);
        None
    }

    pub(crate) fn changes(&self, own: usize) -> &[Change] {
        self.own.get(own).map_or(&[], |(_, planner)| planner.changes())
    }

    pub(crate) fn creates(&self, own: usize) -> u64 {
        self.own.get(own).map_or(0, |(_, planner)| planner.creates())
    }

    fn go_to(&mut self, position: u64) {
        let parts = u64::from(self.parts);
        self.position = position;
        self.due = position / parts;
        self.turn = self.own.iter().position(|(part, _)| u64::from(*part) >= position % parts).unwrap_or_else(|| {
            self.due += 1;
            0
        });
    }
}
