//! Number of files of each size, rounded so that their bytes meet the target fullness.

use super::sizes::SizeBin;

const JOINT: usize = 12;
/// Allowed deviation of the bytes, as a share of the capacity.
const TOLERANCE: f64 = 2e-4;

#[derive(Clone)]
struct Rounding {
    up: Vec<bool>,
    square: f64,
    excess: f64,
}

struct Choice<'a> {
    bins: &'a [SizeBin],
    floors: Vec<f64>,
    rests: Vec<f64>,
    tolerance: f64,
    /// Size of the largest files, and the allowed deviation of the fullness, in bytes.
    largest: f64,
    band: f64,
    /// Keeps the RMSE of the shares at or below 0.5 / K.
    most_square: f64,
}

/// Chooses the number of files of each bin: the floor or ceiling of its share. The sum is `total`, the bytes are near
/// `target`, and the RMSE is at most 0.5 / K. All roundings of the largest bins are tried, the others by largest
/// remainder; then pairs of bins are exchanged.
pub(crate) fn choose_counts(bins: &[SizeBin], total: u64, target: f64, capacity: f64) -> Vec<u64> {
    let exact: Vec<f64> = bins.iter().map(|bin| bin.share * total as f64).collect();
    let floors: Vec<f64> = exact.iter().map(|exact| (exact + 1e-9).floor()).collect();
    let rests: Vec<f64> = exact.iter().zip(&floors).map(|(exact, floor)| (exact - floor).max(0.0)).collect();
    let ups = (total as f64 - floors.iter().sum::<f64>()) as usize;
    let likely = bins.iter().zip(&exact).filter(|(_, exact)| **exact >= 0.5);
    let largest = likely.map(|(bin, _)| bin.allocated).fold(0.0, f64::max);
    let choice = Choice {
        bins,
        floors,
        rests,
        tolerance: TOLERANCE * capacity,
        largest,
        band: largest.max(0.01 * capacity),
        most_square: 0.25 * bins.len() as f64 + 1e-9,
    };
    let chosen = choice.refine(choice.joint(ups, target));
    let count = |(floor, up): (&f64, &bool)| *floor as u64 + u64::from(*up);
    choice.floors.iter().zip(&chosen.up).map(count).collect()
}

impl Choice<'_> {
    /// Returns the penalty of an excess in bytes. Leaving the band of fullness counts most: too little when the largest
    /// file is deleted, too much when small ones are added.
    fn distance(&self, excess: f64) -> f64 {
        let below = (self.largest - excess.min(0.0) - self.band).max(0.0);
        let above = (excess - self.band / 2.0).max(0.0);
        1e3 * (below + above) + (excess.abs() - self.tolerance).max(0.0)
    }

    fn better(&self, one: (f64, f64), other: (f64, f64)) -> bool {
        let (mine, theirs) = (self.distance(one.0), self.distance(other.0));
        mine < theirs || (mine == theirs && one.1 < other.1)
    }

    /// Tries every rounding of the bins of the largest files, the others by largest remainder.
    fn joint(&self, ups: usize, target: f64) -> Rounding {
        let mut open: Vec<usize> = (0..self.bins.len()).filter(|index| self.rests[*index] > 1e-9).collect();
        let large = open.split_off(open.len().saturating_sub(JOINT));
        open.sort_by(|a, b| self.rests[*b].total_cmp(&self.rests[*a]));
        let lowest = self.floors.iter().zip(self.bins).map(|(floor, bin)| floor * bin.allocated).sum::<f64>() - target;
        let all_down: f64 = self.rests.iter().map(|rest| rest * rest).sum();
        let gain = |index: usize| 1.0 - 2.0 * self.rests[index];
        // Bytes and squared error if the first n of the others are rounded up.
        let mut others = vec![(lowest, all_down)];
        for index in &open {
            let (bytes, square) = others[others.len() - 1];
            others.push((bytes + self.bins[*index].allocated, square + gain(*index)));
        }
        let mut best: Option<(u32, (f64, f64))> = None;
        for mask in 0u32..1 << large.len() {
            let Some(rest) = ups.checked_sub(mask.count_ones() as usize).and_then(|rest| others.get(rest)) else {
                continue;
            };
            let chosen = large.iter().enumerate().filter(|(bit, _)| mask >> bit & 1 == 1);
            let state = chosen.fold(*rest, |(bytes, square), (_, index)| {
                (bytes + self.bins[*index].allocated, square + gain(*index))
            });
            if state.1 <= self.most_square && best.is_none_or(|(_, known)| self.better(state, known)) {
                best = Some((mask, state));
            }
        }
        let (mask, (excess, square)) = best.unwrap_or((0, others[ups.min(open.len())]));
        let mut up = vec![false; self.bins.len()];
        for (_, index) in large.iter().enumerate().filter(|(bit, _)| mask >> bit & 1 == 1) {
            up[*index] = true;
        }
        for index in open.iter().take(ups - mask.count_ones() as usize) {
            up[*index] = true;
        }
        Rounding { up, square, excess }
    }

    /// Exchanges a bin rounded up for one rounded down as long as the bytes approach the target.
    fn refine(&self, mut rounding: Rounding) -> Rounding {
        while self.distance(rounding.excess) > 0.0 {
            let mut best: Option<(usize, usize, (f64, f64))> = None;
            for up in (0..self.bins.len()).filter(|index| !rounding.up[*index] && self.rests[*index] > 1e-9) {
                for down in (0..self.bins.len()).filter(|index| rounding.up[*index]) {
                    let excess = rounding.excess + self.bins[up].allocated - self.bins[down].allocated;
                    let square = rounding.square + 2.0 * (self.rests[down] - self.rests[up]);
                    let known = best.map_or((rounding.excess, rounding.square), |(_, _, state)| state);
                    let nearer = self.distance(excess) < self.distance(known.0);
                    if square <= self.most_square && nearer {
                        best = Some((up, down, (excess, square)));
                    }
                }
            }
            let Some((up, down, (excess, square))) = best else { break };
            rounding.up[up] = true;
            rounding.up[down] = false;
            (rounding.excess, rounding.square) = (excess, square);
        }
        rounding
    }
}
