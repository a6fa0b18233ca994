//! Size classes: the bins of the profile, or strata of them, with their files, slots and share of the churn.

use super::sizes::{BLOCK, Sizes, ghosts, mean_allocated};
use super::{Churn, PlanSpec};

/// Files of one size, or of one stratum of a size bin if sizes are spread.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Class {
    pub row: usize,
    /// Exclusive lower bound of sizes (equal to `high`: every file has exactly that size).
    pub low: f64,
    pub high: f64,
    pub allocated: f64,
    /// Live files when the volume is filled.
    pub files: u64,
    /// Additional slots, empty at every edge of an age bin.
    pub ghosts: u64,
    pub churn: f64,
}

/// Strata of one size bin if sizes are spread. Sizes within a stratum differ too little to move fullness.
const STRATA: u64 = 16;

pub(super) fn classes(spec: &PlanSpec, sizes: &Sizes, fullness: f64) -> (Vec<Class>, Shortfall) {
    let filled = sizes.files.iter().filter(|files| **files > 0).count().max(1) as f64;
    let mut classes = Vec::new();
    for (bin, files) in sizes.bins.iter().zip(&sizes.files) {
        let share = match spec.churn {
            _ if *files == 0 => 0.0,
            Churn::Profile => bin.share,
            Churn::Bins => 1.0 / filled,
        };
        let strata = if bin.low == bin.high { 1 } else { (*files).clamp(1, STRATA) };
        let (low, high) = (bin.low as f64, bin.high as f64);
        let edge =
            |index: u64| if strata == 1 { high } else { low * libm::pow(high / low, index as f64 / strata as f64) };
        for index in 0..strata {
            let (from, to) =
                (if index == 0 { low } else { edge(index) }, if index + 1 == strata { high } else { edge(index + 1) });
            let count = files * (index + 1) / strata - files * index / strata;
            classes.push(Class {
                row: bin.row,
                low: from,
                high: to,
                allocated: if strata == 1 { bin.allocated } else { mean_allocated(from as u64, to as u64) },
                files: count,
                ghosts: 0,
                churn: if *files == 0 { 0.0 } else { share * count as f64 / *files as f64 },
            });
        }
    }
    normalise(&mut classes);
    let column = |pick: fn(&Class) -> f64| classes.iter().map(pick).collect::<Vec<f64>>();
    let files: Vec<u64> = classes.iter().map(|class| class.files).collect();
    let capacity = spec.capacity.0 as f64;
    let filled: f64 = classes.iter().map(|class| class.files as f64 * class.allocated).sum();
    let room = band(&classes, capacity) - (filled - fullness * capacity);
    let slots = ghosts(&column(|c| c.allocated), &column(|c| c.churn), &files, room.clamp(0.0, 0.005 * capacity));
    for (class, slots) in classes.iter_mut().zip(slots) {
        class.ghosts = slots;
    }
    let shortfall = Shortfall::new(&mut classes, fullness * capacity, capacity);
    (classes, shortfall)
}

/// Returns the allowed deviation of the fullness from its target, in bytes: the largest file, or 1 % of the capacity.
fn band(classes: &[Class], capacity: f64) -> f64 {
    let live = classes.iter().filter(|class| class.files > 0);
    live.map(|class| class.allocated).fold(0.01 * capacity, f64::max)
}

/// Handles a filled volume that rounding left below its target fullness: deleting the largest files would leave the band. They
/// are deleted while an extra file, beyond the K files, fills the gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shortfall {
    /// First class of too large files; the number of classes if none is too large.
    pub large: usize,
    filler: Option<usize>,
}

impl Shortfall {
    fn new(classes: &mut [Class], target: f64, capacity: f64) -> Self {
        let filled: f64 = classes.iter().map(|class| class.files as f64 * class.allocated).sum();
        let (missing, band) = (target - filled, band(classes, capacity));
        let fits = |class: &Class| class.high + BLOCK as f64 + missing <= band;
        let large = if missing <= 0.0 { classes.len() } else { classes.iter().take_while(|class| fits(class)).count() };
        let filler = (large < classes.len()).then(|| {
            let fills = |class: &Class| class.files > 0 && class.allocated >= missing;
            classes.iter().position(fills)
        });
        let filler = filler.flatten();
        if let Some(class) = filler {
            classes[class].ghosts += 1;
        }
        Self { large, filler }
    }

    /// Gives a stretch that replaces large files the pairs that fill the gap: one to stand in, two for the deletes at the start
    /// of a stretch. They come from the classes with most pairs to spare, large ones first if pairs are few.
    pub(crate) fn provide(&self, pairs: &mut [u64], stay: &[u64]) {
        let Some(filler) = self.filler else { return };
        let few = pairs.iter().sum::<u64>() <= 2 * FILLER_PAIRS;
        while pairs[filler] < FILLER_PAIRS && pairs[self.large..].iter().sum::<u64>() > 0 {
            let spare = |class: &usize| pairs[*class] - stay[*class];
            let weight = |class: &usize| (spare(class) > 0 && few && *class >= self.large, spare(class));
            let donor = (0..pairs.len()).filter(|class| *class != filler && spare(class) > 0).max_by_key(weight);
            let Some(donor) = donor else { return };
            pairs[donor] -= 1;
            pairs[filler] += 1;
        }
    }
}

const FILLER_PAIRS: u64 = 3;

fn normalise(classes: &mut [Class]) {
    let sum: f64 = classes.iter().map(|class| class.churn).sum();
    for class in classes {
        class.churn /= sum;
    }
}
