//! Simulates the growth of a directory with an index (fs/ext4/namei.c, ext4_dx_add_entry, do_split).
//!
//! Hashes of names are uniform. A full leaf is split at the middle of its bytes, and a full block of the index in
//! halves. A leaf with a narrow range of hashes takes longer to fill, so the growth is simulated leaf by leaf and not
//! computed from averages.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

const MOST_LEAVES: usize = 1 << 19;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct IndexShape {
    pub names: u64,
    /// Names that a split moves to the new leaf.
    pub moved: u64,
    pub root: usize,
    pub node: usize,
    /// Maximum number of index levels above a leaf.
    pub levels: u32,
}

impl IndexShape {
    pub(super) fn of(block_size: u64, name_bytes: u64, checksums: bool, large_dir: bool) -> Self {
        let entry = (8 + name_bytes).next_multiple_of(4);
        let (tail, index_tail) = if checksums { (12, 8) } else { (0, 0) };
        let names = ((block_size - tail) / entry).max(1);
        let half = block_size / 2;
        // Entries of the upper half; the last may cross the middle by less than half of itself.
        let moved = ((half + entry / 2) / entry).clamp(1, names);
        Self {
            names,
            moved: if moved == names { names / 2 } else { moved },
            root: ((block_size - 32 - index_tail) / 8) as usize,
            node: ((block_size - 8 - index_tail) / 8) as usize,
            levels: if large_dir { 3 } else { 2 },
        }
    }

    pub(super) fn fullest(&self) -> f64 {
        self.root as f64 * (self.node as f64).powi(self.levels as i32 - 1) * self.names as f64
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Growth {
    added: Vec<f64>,
    pub full: Option<f64>,
}

#[derive(Debug, Clone, Copy)]
struct Leaf {
    width: f64,
    node: usize,
}

impl Growth {
    pub(super) fn drawn(shape: IndexShape, most: f64, seed: u64) -> Self {
        IndexSimulation::new(shape, seed).until(most)
    }

    pub(super) fn blocks(&self, names: f64) -> f64 {
        let (count, last) = (self.added.len() as f64, self.added.last().copied().unwrap_or(0.0));
        match names > last && self.full.is_none() && last > 0.0 {
            true => 1.0 + count * names / last,
            false => 1.0 + self.added.partition_point(|at| *at <= names) as f64,
        }
    }
}

struct IndexSimulation {
    shape: IndexShape,
    random: Random,
    leaves: Vec<Leaf>,
    nodes: Vec<Vec<u32>>,
    /// When each leaf is full: bits of a non-negative float, which sort like the number.
    full_at: BinaryHeap<Reverse<(u64, u32)>>,
    added: Vec<f64>,
    levels: u32,
}

impl IndexSimulation {
    fn new(shape: IndexShape, seed: u64) -> Self {
        let leaf = Leaf { width: 1.0, node: 0 };
        let first = Reverse(((shape.names as f64).to_bits(), 0));
        Self {
            shape,
            random: Random(seed),
            leaves: vec![leaf],
            nodes: vec![vec![0]],
            full_at: BinaryHeap::from([first]),
            added: Vec::new(),
            levels: 1,
        }
    }

    fn until(mut self, most: f64) -> Growth {
        let mut full = None;
        while let Some(Reverse((bits, leaf))) = self.full_at.pop() {
            let now = f64::from_bits(bits);
            if now > most || self.leaves.len() >= MOST_LEAVES {
                break;
            }
            if !self.has_place_for_leaf(leaf, now) {
                full = Some(now);
                break;
            }
            self.split(leaf, now);
        }
        Growth { added: self.added, full }
    }

    /// Splits the block of the index above a leaf if it is full; `false` if the blocks above are full too.
    fn has_place_for_leaf(&mut self, leaf: u32, now: f64) -> bool {
        let node = self.leaves[leaf as usize].node;
        let most = if self.levels == 1 { self.shape.root } else { self.shape.node };
        if self.nodes[node].len() < most {
            return true;
        }
        if self.levels == 1 {
            // The root is copied into a block of its own, which holds more.
            self.levels = 2;
            self.added.push(now);
            return true;
        }
        // With a third level the limit is that of the caller.
        if self.nodes.len() >= self.shape.root && self.shape.levels == 2 {
            return false;
        }
        let half = self.nodes[node].len() / 2;
        let upper = self.nodes[node].split_off(half);
        let new = self.nodes.len();
        upper.iter().for_each(|leaf| self.leaves[*leaf as usize].node = new);
        self.nodes.push(upper);
        self.added.push(now);
        true
    }

    fn split(&mut self, leaf: u32, now: f64) {
        let IndexShape { names, moved, .. } = self.shape;
        let Leaf { width, node } = self.leaves[leaf as usize];
        let stays = names - moved;
        // Position of the first moved hash among uniform ones.
        let below = self.random.gamma(stays.max(1) as f64);
        let share = below / (below + self.random.gamma(moved.max(1) as f64));
        let new = self.leaves.len() as u32;
        self.leaves[leaf as usize].width = width * share;
        self.leaves.push(Leaf { width: width * (1.0 - share), node });
        let place = self.nodes[node].iter().position(|other| *other == leaf).unwrap_or(0);
        self.nodes[node].insert(place + 1, new);
        self.added.push(now);
        let goes_below = self.random.next() < share;
        for (leaf, count) in [(leaf, stays + u64::from(goes_below)), (new, moved + u64::from(!goes_below))] {
            let width = self.leaves[leaf as usize].width.max(f64::MIN_POSITIVE);
            // The name after the last that fits splits it.
            let arrivals = names.saturating_sub(count) + 1;
            let full = now + self.random.gamma(arrivals as f64) / width;
            self.full_at.push(Reverse((full.to_bits(), leaf)));
        }
    }
}

/// SplitMix64 (Steele et al., OOPSLA 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64 + f64::EPSILON / 2.0
    }

    /// Draws the sum of `count` waiting times of mean 1; large counts by the approximation of Wilson and Hilferty
    /// (1931).
    fn gamma(&mut self, count: f64) -> f64 {
        if count < 12.0 {
            return -(0..count as u32).map(|_| self.next()).product::<f64>().ln();
        }
        let normal = (-2.0 * self.next().ln()).sqrt() * (std::f64::consts::TAU * self.next()).cos();
        let ninth = 1.0 / (9.0 * count);
        count * (1.0 - ninth + normal * ninth.sqrt()).max(0.0).powi(3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with mkfs.ext4 -b 1024 -N 700000 -O ^has_journal of 700 MiB: files until "Directory index full".
    #[test]
    fn index_fills_as_measured() {
        for (name_bytes, measured) in [(8, 391_107.0), (64, 94_072.0), (200, 29_205.0)] {
            let shape = IndexShape::of(1024, name_bytes, true, false);
            let full = (0..8).map(|seed| Growth::drawn(shape, 1e9, seed).full.unwrap()).sum::<f64>() / 8.0;
            assert!((full / measured - 1.0).abs() < 0.04, "{name_bytes}: {full}");
        }
    }

    #[test]
    fn blocks_grow_with_names_and_are_extrapolated() {
        let growth = Growth::drawn(IndexShape::of(4096, 8, true, false), 10_000.0, 1);
        assert_eq!((growth.blocks(10.0), growth.full), (1.0, None));
        let blocks = [1000.0, 5000.0, 10_000.0, 20_000.0].map(|names| growth.blocks(names));
        assert!(blocks.windows(2).all(|pair| pair[0] < pair[1]), "{blocks:?}");
        assert!((blocks[3] / blocks[2] - 2.0).abs() < 0.1, "{blocks:?}");
    }

    #[test]
    fn shapes_match_the_kernel() {
        let shape = IndexShape::of(1024, 8, true, false);
        assert_eq!((shape.names, shape.moved, shape.root, shape.node), (63, 32, 123, 126));
        let shape = IndexShape::of(1024, 200, true, false);
        assert_eq!((shape.names, shape.moved), (4, 2));
        let shape = IndexShape::of(4096, 250, false, true);
        assert_eq!((shape.names, shape.root, shape.node, shape.levels), (15, 508, 511, 3));
    }
}
