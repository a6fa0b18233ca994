//! Copies an aged image so that the drive reaches the same age: each block once, in the order of the last writes.
//!
//! On flash, the order of writing decides which die holds a block. A copy in address order would lay out an aged image as if it
//! were new. Earlier writes of a block are invalid, so only the last ones need to be repeated.

use crate::request::{Operation, Request, SECTOR};
use crate::ssd::amplification::desnoyers;
use rand_pcg::rand_core::Rng;
use senesce_core::Seed;

/// Granularity of recorded writes, bytes.
pub const BLOCK: u64 = 4096;

/// Order of the last writes of all blocks: four bytes for each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastWrites {
    /// Number of the last request that wrote the block, from 1; 0: unwritten, or discarded.
    order: Vec<u32>,
    next: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    pub block: u64,
    pub blocks: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// By address: the drive is as good as new.
    Address,
    /// By last write: the drive is as old as the image.
    LastWrite,
}

impl LastWrites {
    /// Returns an unwritten device of `bytes`.
    pub fn new(bytes: u64) -> Self {
        Self { order: vec![0; bytes.div_ceil(BLOCK) as usize], next: 1 }
    }

    /// Creates the state from a recorded order. Each block has a number that grows with the time of its last write, 0
    /// if unwritten.
    pub fn from_order(order: Vec<u32>) -> Self {
        let next = order.iter().copied().max().unwrap_or(0).saturating_add(1);
        Self { order, next }
    }

    pub fn order(&self) -> &[u32] {
        &self.order
    }

    /// Records the next request of the trace. A write counts for every block that it touches, a discard for those that it covers.
    /// Ignores blocks past the end.
    pub fn record(&mut self, request: &Request) {
        let blocks = self.order.len() as u64;
        let (first, end) = match request.operation {
            Operation::Write => (request.offset() / BLOCK, request.end().div_ceil(BLOCK)),
            Operation::Discard => (request.offset().div_ceil(BLOCK), request.end() / BLOCK),
            Operation::Read | Operation::Flush => return,
        };
        let (first, end) = (first.min(blocks) as usize, end.min(blocks) as usize);
        if first >= end {
            return;
        }
        if request.operation == Operation::Discard {
            self.order[first..end].fill(0);
            return;
        }
        if self.next == u32::MAX {
            self.renumber();
        }
        self.order[first..end].fill(self.next);
        self.next += 1;
    }

    /// Writes of a copy, each of at most `largest` bytes (at least one block).
    pub fn runs(&self, order: Order, largest: u64) -> Vec<Run> {
        let most = (largest / BLOCK).max(1);
        let mut runs: Vec<Run> = Vec::new();
        for block in self.written(order) {
            match runs.last_mut() {
                Some(run) if run.block + run.blocks == u64::from(block) && run.blocks < most => run.blocks += 1,
                _ => runs.push(Run { block: u64::from(block), blocks: 1 }),
            }
        }
        runs
    }

    /// Returns the written blocks in an order; blocks of one request by address.
    fn written(&self, order: Order) -> Vec<u32> {
        let blocks = u32::try_from(self.order.len()).unwrap_or(u32::MAX);
        let mut written: Vec<u32> = (0..blocks).filter(|block| self.order[*block as usize] != 0).collect();
        if order == Order::LastWrite {
            written.sort_unstable_by_key(|block| (self.order[*block as usize], *block));
        }
        written
    }

    fn renumber(&mut self) {
        let (mut number, mut before) = (0, 0);
        for block in self.written(Order::LastWrite) {
            let order = &mut self.order[block as usize];
            if *order != before {
                before = *order;
                number += 1;
            }
            *order = number;
        }
        self.next = number + 1;
    }
}

/// Writes of a copy with additional ones that are overwritten later, so that a drive of `ratio` = physical / logical size ends in
/// the steady state of random overwriting: each stretch of written data has the same share of valid pages. `runs`: each block
/// once, in the order of the last writes. The total is `ratio` times the number of blocks.
///
/// By Desnoyers' model (ACM Transactions on Storage 10(2), 2014) of first-in-first-out cleaning, a page written s pages of flash
/// ago is still valid with probability exp(-s / (A L)). A is the write amplification, L the number of logical pages. Over all
/// physical pages these are L valid ones. The tool SPRandom of fio prepares drives in this way.
pub fn steady_state(runs: &[Run], ratio: f64, seed: Seed) -> Vec<Run> {
    let logical = runs.iter().map(|run| run.blocks).sum::<u64>() as f64;
    let scale = desnoyers(ratio) * logical;
    if !scale.is_finite() || runs.is_empty() {
        return runs.to_vec();
    }
    let physical = ratio * logical;
    // Valid blocks among the first `written`.
    let valid = |written: f64| scale * (((written - physical) / scale).exp() - (-physical / scale).exp());
    let mut random = seed.stream("devmodel/last-write/steady-state");
    let (mut sequence, mut written, mut last) = (Vec::new(), 0u64, 0u64);
    let mut next = 0;
    while next < runs.len() {
        let run = runs[next];
        if valid((written + run.blocks) as f64) >= (last + run.blocks) as f64 || next + 1 == runs.len() {
            next += 1;
            last += run.blocks;
            written += run.blocks;
            sequence.push(run);
        } else {
            let later = next as u64 + random.next_u64() % (runs.len() - next) as u64;
            let run = runs[later as usize];
            // Single blocks, because random overwriting does not follow runs.
            let run = Run { block: run.block + random.next_u64() % run.blocks, blocks: 1 };
            written += 1;
            sequence.push(run);
        }
    }
    sequence
}

impl Run {
    /// Returns the write of these blocks on a device of `bytes`, whose last block may be truncated.
    pub fn request(&self, bytes: u64) -> Request {
        let start = self.block * BLOCK;
        let end = (start + self.blocks * BLOCK).min(bytes);
        Request::of_bytes(Operation::Write, start, end.saturating_sub(start) / SECTOR * SECTOR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn write(block: u64, blocks: u64) -> Request {
        Request::of_bytes(Operation::Write, block * BLOCK, blocks * BLOCK)
    }

    #[test]
    fn the_last_write_of_each_block_counts() {
        let mut writes = LastWrites::new(10 * BLOCK);
        for request in
            [write(0, 4), write(6, 2), write(2, 1), Request::of_bytes(Operation::Discard, 0, BLOCK), write(8, 2)]
        {
            writes.record(&request);
        }
        let run = |block, blocks| Run { block, blocks };
        let last = [run(1, 1), run(3, 1), run(6, 2), run(2, 1), run(8, 2)];
        assert_eq!(writes.runs(Order::LastWrite, 1 << 20), last);
        assert_eq!(writes.runs(Order::Address, 1 << 20), [run(1, 3), run(6, 4)]);
        assert_eq!(writes.runs(Order::Address, 2 * BLOCK)[..2], [run(1, 2), run(3, 1)]);
    }

    #[test]
    fn renumbering_keeps_the_order() {
        let mut writes = LastWrites::from_order(vec![7, 0, u32::MAX - 1, 7, 100]);
        let before = writes.runs(Order::LastWrite, BLOCK);
        writes.record(&write(1, 1));
        assert_eq!(writes.order(), [1, 4, 3, 1, 2]);
        assert_eq!(writes.runs(Order::LastWrite, BLOCK)[..4], before);
    }

    #[test]
    fn steady_state_copy_ends_with_the_same_blocks_and_fills_the_spare_area() {
        let runs: Vec<Run> = (0..20_000).map(|number| Run { block: number * 7919 % 20_000 * 4, blocks: 4 }).collect();
        let sequence = steady_state(&runs, 1.1, Seed(1));
        let written: u64 = sequence.iter().map(|run| run.blocks).sum();
        assert!((written as f64 / 80_000.0 - 1.1).abs() < 0.01, "{written}");
        let mut order = LastWrites::new(80_000 * BLOCK);
        sequence.iter().for_each(|run| order.record(&run.request(80_000 * BLOCK)));
        assert_eq!(order.runs(Order::LastWrite, 4 * BLOCK), runs);
        assert_eq!(steady_state(&runs, 1.0, Seed(1)), runs);
        assert_eq!(steady_state(&[], 1.1, Seed(1)), []);
    }

    proptest! {
        #[test]
        fn a_copy_writes_each_block_once_and_in_order(requests in proptest::collection::vec((0u64..64, 1u64..9, 0u8..5), 0..80)) {
            let mut writes = LastWrites::new(64 * BLOCK);
            for (block, blocks, kind) in requests {
                let operation = if kind == 0 { Operation::Discard } else { Operation::Write };
                writes.record(&Request { operation, ..write(block, blocks) });
            }
            let runs = writes.runs(Order::LastWrite, 4 * BLOCK);
            let copied: Vec<u64> = runs.iter().flat_map(|run| run.block..run.block + run.blocks).collect();
            let order: Vec<u32> = copied.iter().map(|block| writes.order()[*block as usize]).collect();
            prop_assert!(order.is_sorted() && !order.contains(&0));
            prop_assert_eq!(copied.len(), writes.order().iter().filter(|order| **order != 0).count());
        }
    }
}
