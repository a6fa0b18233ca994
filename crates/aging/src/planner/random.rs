//! Small, fast, portable random numbers.

use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;

/// Draws a number below `bound` (> 0) by multiplication (Lemire 2019); the bias is below `bound / 2^64`.
pub(crate) fn below(generator: &mut Pcg64, bound: u64) -> u64 {
    scale(generator.next_u64(), bound)
}

fn scale(raw: u64, bound: u64) -> u64 {
    ((u128::from(raw) * u128::from(bound)) >> 64) as u64
}

/// Number of draws known in advance: long enough for the latency of memory.
const AHEAD: usize = 8;

/// The same numbers as [`below`], drawn in advance. The bounds change slowly, so the coming numbers can be predicted well
/// enough to prefetch their records.
#[derive(Debug, Clone)]
pub(crate) struct Draws {
    generator: Pcg64,
    raw: [u64; AHEAD],
    next: usize,
}

impl Draws {
    pub(crate) fn new(mut generator: Pcg64) -> Self {
        Self { raw: std::array::from_fn(|_| generator.next_u64()), generator, next: 0 }
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        let raw = std::mem::replace(&mut self.raw[self.next], self.generator.next_u64());
        self.next = (self.next + 1) % AHEAD;
        scale(raw, bound)
    }

    pub(crate) fn farthest(&self, bound: u64) -> u64 {
        scale(self.raw[(self.next + AHEAD - 1) % AHEAD], bound)
    }
}

/// Mixes the bits with the finaliser of SplitMix64 (Steele, Lea, Flood 2014).
pub(crate) fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// A fair coin that uses one number for 64 tosses.
#[derive(Debug, Clone)]
pub(crate) struct Coin {
    generator: Pcg64,
    bits: u64,
    left: u32,
}

impl Coin {
    pub(crate) fn new(generator: Pcg64) -> Self {
        Self { generator, bits: 0, left: 0 }
    }

    pub(crate) fn toss(&mut self) -> bool {
        if self.left == 0 {
            self.bits = self.generator.next_u64();
            self.left = 64;
        }
        self.left -= 1;
        let side = self.bits & 1 == 1;
        self.bits >>= 1;
        side
    }
}

/// Draws from fixed shares in constant time (Walker 1977, Vose 1991).
#[derive(Debug, Clone)]
pub(crate) struct Alias {
    columns: Vec<(u64, u32)>,
}

impl Alias {
    /// Builds the table for these shares, of which at least one must be above 0.
    pub(crate) fn new(shares: &[f64]) -> Self {
        let sum: f64 = shares.iter().sum();
        let mut scaled: Vec<f64> = shares.iter().map(|share| share / sum * shares.len() as f64).collect();
        let (mut small, mut large): (Vec<usize>, Vec<usize>) =
            (0..shares.len()).partition(|index| scaled[*index] < 1.0);
        let mut columns = vec![(u64::MAX, 0); shares.len()];
        for (index, column) in columns.iter_mut().enumerate() {
            column.1 = index as u32;
        }
        while let (Some(low), Some(high)) = (small.pop(), large.last().copied()) {
            columns[low] = ((scaled[low] * 2f64.powi(64)) as u64, high as u32);
            scaled[high] -= 1.0 - scaled[low];
            if scaled[high] < 1.0 {
                large.pop();
                small.push(high);
            }
        }
        Self { columns }
    }

    pub(crate) fn draw(&self, generator: &mut Pcg64) -> usize {
        let product = u128::from(generator.next_u64()) * self.columns.len() as u128;
        let index = (product >> 64) as usize;
        let (threshold, other) = self.columns[index];
        if (product as u64) < threshold { index } else { other as usize }
    }
}

/// Changing weights with draws and updates in logarithmic time (Fenwick 1994).
#[derive(Debug, Clone)]
pub(crate) struct Fenwick {
    tree: Vec<u64>,
    weights: Vec<u64>,
    total: u64,
}

impl Fenwick {
    pub(crate) fn new(count: usize) -> Self {
        Self { tree: vec![0; count.next_power_of_two() + 1], weights: vec![0; count], total: 0 }
    }

    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    pub(crate) fn set(&mut self, index: usize, weight: u64) {
        let old = self.weights[index];
        if weight >= old {
            self.add(index, weight - old);
        } else {
            self.subtract(index, old - weight);
        }
    }

    pub(crate) fn add(&mut self, index: usize, weight: u64) {
        self.total += weight;
        self.weights[index] += weight;
        let mut at = index + 1;
        while at < self.tree.len() {
            self.tree[at] += weight;
            at += at & at.wrapping_neg();
        }
    }

    pub(crate) fn subtract(&mut self, index: usize, weight: u64) {
        self.total -= weight;
        self.weights[index] -= weight;
        let mut at = index + 1;
        while at < self.tree.len() {
            self.tree[at] -= weight;
            at += at & at.wrapping_neg();
        }
    }

    /// Returns the index for `place`, which must be below the total.
    pub(crate) fn find(&self, mut place: u64) -> usize {
        let mut at = 0;
        let mut step = (self.tree.len() - 1) / 2;
        while step > 0 {
            let sum = self.tree[at + step];
            if sum <= place {
                at += step;
                place -= sum;
            }
            step /= 2;
        }
        at
    }
}
