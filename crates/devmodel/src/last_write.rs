//! Writing an aged image so that the drive is as old as the image: each block once, in the order of the last writes.
//!
//! On flash the order of writing decides which die holds a block. A copy in the order of addresses lays an aged image out as
//! if it were new. What a block's earlier writes left behind is invalid, so only the last ones need be done again.

use crate::request::{Operation, Request, SECTOR};

/// Bytes of a block whose last write is recorded.
pub const BLOCK: u64 = 4096;

/// When each block was last written: four bytes for each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastWrites {
    /// Number of the request that wrote the block last, from 1; 0: not written, or discarded since.
    order: Vec<u32>,
    next: u32,
}

/// Blocks that lie one behind the other and are written together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Number of the first block.
    pub block: u64,
    /// How many.
    pub blocks: u64,
}

/// What order a copy is made in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// From the first address to the last: the drive is as good as new.
    Address,
    /// As the blocks were last written: the drive is as old as the image.
    LastWrite,
}

impl LastWrites {
    /// Nothing written on `bytes`.
    pub fn new(bytes: u64) -> Self {
        Self { order: vec![0; bytes.div_ceil(BLOCK) as usize], next: 1 }
    }

    /// A recorded order: any number for each block that grows with the time of its last write, 0 for those not written.
    pub fn from_order(order: Vec<u32>) -> Self {
        let next = order.iter().copied().max().unwrap_or(0).saturating_add(1);
        Self { order, next }
    }

    /// The recorded order.
    pub fn order(&self) -> &[u32] {
        &self.order
    }

    /// The next request of the trace. A write counts for every block that it touches, a discard for those that it covers;
    /// what lies behind the end is left out.
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

    /// The writes to be sent, each of at most `largest` bytes (at least one block).
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

    /// Blocks that hold something, in an order; blocks of one request by address.
    fn written(&self, order: Order) -> Vec<u32> {
        let blocks = u32::try_from(self.order.len()).unwrap_or(u32::MAX);
        let mut written: Vec<u32> = (0..blocks).filter(|block| self.order[*block as usize] != 0).collect();
        if order == Order::LastWrite {
            written.sort_unstable_by_key(|block| (self.order[*block as usize], *block));
        }
        written
    }

    /// Makes the numbers as small as they can be.
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

impl Run {
    /// The write of these blocks; on a device of `bytes`, whose last block may be cut.
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
