//! Full blocks, and the choice of the next one to clean.

use super::parameters::Policy;
use std::collections::VecDeque;

const NONE: u32 = u32::MAX;

/// Full blocks of one allocation unit.
#[derive(Debug, Clone)]
pub(crate) struct Closed {
    policy: Policy,
    /// Blocks in the order in which they were filled (first in, first out).
    order: VecDeque<u32>,
    /// Greedy: a list of blocks for each number of valid pages.
    heads: Vec<u32>,
    next: Vec<u32>,
    previous: Vec<u32>,
    /// All lists below this one are empty.
    least: usize,
}

impl Closed {
    pub(crate) fn new(policy: Policy, blocks: u32, pages: u32) -> Self {
        let lists = policy == Policy::Greedy;
        let links = if lists { blocks as usize } else { 0 };
        Self {
            policy,
            order: VecDeque::new(),
            heads: vec![NONE; if lists { pages as usize + 1 } else { 0 }],
            next: vec![NONE; links],
            previous: vec![NONE; links],
            least: usize::MAX,
        }
    }

    pub(crate) fn add(&mut self, block: u32, valid: u32) {
        match self.policy {
            Policy::Greedy => self.push(block, valid),
            Policy::Fifo | Policy::CostBenefit => self.order.push_back(block),
        }
    }

    /// Records that a full block has lost a valid page; `valid` are left.
    pub(crate) fn lost_a_page(&mut self, block: u32, valid: u32) {
        if self.policy == Policy::Greedy {
            self.unlink(block, valid + 1);
            self.push(block, valid);
        }
    }

    /// Takes the block to clean. `state` returns valid pages, capacity in pages, and age of a block.
    pub(crate) fn take(&mut self, state: impl Fn(u32) -> (u32, u32, u64)) -> Option<u32> {
        match self.policy {
            Policy::Greedy => {
                let valid = (self.least..self.heads.len()).find(|valid| self.heads[*valid] != NONE)?;
                self.least = valid;
                let block = self.heads[valid];
                self.unlink(block, valid as u32);
                Some(block)
            }
            // Cleaning a fully valid block gains nothing; it goes to the end of the queue, as if rewritten.
            Policy::Fifo => {
                for _ in 0..self.order.len() {
                    let block = self.order.pop_front()?;
                    let (valid, pages, _) = state(block);
                    if valid < pages {
                        return Some(block);
                    }
                    self.order.push_back(block);
                }
                None
            }
            Policy::CostBenefit => {
                let benefit = |block: u32| {
                    let (valid, pages, age) = state(block);
                    let share = f64::from(valid) / f64::from(pages);
                    (age as f64 + 1.0) * (1.0 - share) / (2.0 * share).max(f64::MIN_POSITIVE)
                };
                let best =
                    (0..self.order.len()).max_by(|a, b| benefit(self.order[*a]).total_cmp(&benefit(self.order[*b])))?;
                self.order.swap_remove_back(best)
            }
        }
    }

    fn push(&mut self, block: u32, valid: u32) {
        let first = std::mem::replace(&mut self.heads[valid as usize], block);
        self.next[block as usize] = first;
        self.previous[block as usize] = NONE;
        if first != NONE {
            self.previous[first as usize] = block;
        }
        self.least = self.least.min(valid as usize);
    }

    fn unlink(&mut self, block: u32, valid: u32) {
        let (previous, next) = (self.previous[block as usize], self.next[block as usize]);
        match previous {
            NONE => self.heads[valid as usize] = next,
            _ => self.next[previous as usize] = next,
        }
        if next != NONE {
            self.previous[next as usize] = previous;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_policy_chooses_its_block() {
        let valid = [3u32, 1, 2];
        let age = [90u64, 10, 1];
        let taken = |policy| {
            let mut closed = Closed::new(policy, 3, 4);
            for block in 0..3 {
                closed.add(block, valid[block as usize]);
            }
            std::iter::from_fn(|| closed.take(|block| (valid[block as usize], 4, age[block as usize])))
                .collect::<Vec<_>>()
        };
        assert_eq!(taken(Policy::Greedy), [1, 2, 0]);
        assert_eq!(taken(Policy::Fifo), [0, 1, 2]);
        // 91/6, 11 x 3/2, 1: 15.2, 16.5, 1.
        assert_eq!(taken(Policy::CostBenefit), [1, 0, 2]);
    }

    #[test]
    fn greedy_cleans_blocks_with_fewest_valid_pages() {
        let mut closed = Closed::new(Policy::Greedy, 4, 8);
        for block in 0..4 {
            closed.add(block, 8);
        }
        for (block, valid) in [(2, 7), (1, 7), (2, 6)] {
            closed.lost_a_page(block, valid);
        }
        assert_eq!(closed.take(|_| (0, 1, 0)), Some(2));
        assert_eq!(closed.take(|_| (0, 1, 0)), Some(1));
    }
}
