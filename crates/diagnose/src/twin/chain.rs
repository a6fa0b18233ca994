//! Chooses the files to move if the gain of a file depends on the previous one.
//!
//! Between two files the head moves from the end of one to the beginning of the next. So a moved file saves more if the
//! previous file was moved next to it. The cost of reading is a sum over pairs of neighbours. Starting with all files,
//! the file that saves least per byte is left out again and again while the rest saves enough, so files that save only
//! together stay together.

use super::remedy::moved_bytes_of;
use crate::estimate::CostedLayout;
use crate::plan::{SHARES, Step};
use crate::reading;
use senesce_devmodel::DeviceModel;
use std::collections::BTreeSet;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Link {
    pub file: u32,
    pub bytes: u64,
    /// Nanoseconds to read it, by whether the previous file and this one have been moved.
    pub ns: [[u64; 2]; 2],
}

pub(super) struct Chain {
    links: Vec<Link>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct ChosenFiles {
    pub files: Vec<u32>,
    pub bytes: u64,
    pub gain_ns: i64,
}

impl Chain {
    pub(super) fn new(links: Vec<Link>) -> Self {
        Self { links }
    }

    pub(super) fn of(model: &DeviceModel, before: &CostedLayout, after: &CostedLayout) -> Self {
        let order: Vec<u32> = before
            .order
            .iter()
            .copied()
            .filter(|file| (*file as usize) < after.files.len() && !before.files.of(*file as usize).is_empty())
            .collect();
        let mut is_odd = vec![false; before.files.len()];
        order.iter().skip(1).step_by(2).for_each(|file| is_odd[*file as usize] = true);
        // With every other file moved, each moved file follows an unmoved one, and vice versa.
        let every_other = |odd: bool| {
            let runs = |file: usize| if is_odd[file] == odd { after.files.of(file) } else { before.files.of(file) };
            reading::cost_where(model, before.files.len(), &order, runs).file_ns
        };
        let (even_moved, odd_moved) = rayon::join(|| every_other(false), || every_other(true));
        let link = |file: &u32| {
            let index = *file as usize;
            let (alone, behind_moved) = match is_odd[index] {
                true => (odd_moved[index], even_moved[index]),
                false => (even_moved[index], odd_moved[index]),
            };
            Link {
                file: *file,
                bytes: moved_bytes_of(&before.files, &after.files, index),
                ns: [[before.costs[0].file_ns[index], alone], [behind_moved, after.costs[0].file_ns[index]]],
            }
        };
        Self::new(order.iter().map(link).collect())
    }

    pub(super) fn whole(&self) -> ChosenFiles {
        self.without(|_, _| false)
    }

    /// Chooses a small set that is expected to save this share of the total gain.
    pub(super) fn reaching(&self, share: f64) -> ChosenFiles {
        let mut surplus = (1.0 - share) * self.whole().gain_ns as f64;
        self.without(|loss_ns, _| {
            let spared = loss_ns <= surplus;
            surplus -= if spared { loss_ns } else { 0.0 };
            spared
        })
    }

    /// Chooses a set within `bytes` with a large expected gain, including files without a gain.
    pub(super) fn within(&self, bytes: u64) -> ChosenFiles {
        let mut excess = self.whole().bytes.saturating_sub(bytes);
        self.without(|_, bytes| {
            let spared = excess > 0;
            excess = excess.saturating_sub(bytes);
            spared
        })
    }

    /// Chooses all movable files, except those that may be left out (loss in ns, bytes), the smallest saving per byte
    /// first.
    fn without(&self, mut may_leave: impl FnMut(f64, u64) -> bool) -> ChosenFiles {
        let mut moved: Vec<bool> = self.links.iter().map(|link| link.bytes > 0).collect();
        let key = |moved: &[bool], index: usize| (self.density(moved, index), index);
        let mut queue: BTreeSet<(i64, usize)> =
            (0..moved.len()).filter(|index| moved[*index]).map(|index| key(&moved, index)).collect();
        while let Some((_, index)) = queue.pop_first() {
            if !may_leave(self.loss_ns(&moved, index) as f64, self.links[index].bytes) {
                continue;
            }
            let beside = [index.wrapping_sub(1), index + 1].into_iter().filter(|other| *other < moved.len());
            let waiting: Vec<usize> = beside.filter(|other| queue.remove(&key(&moved, *other))).collect();
            moved[index] = false;
            queue.extend(waiting.into_iter().map(|other| key(&moved, other)));
        }
        self.chosen(&moved)
    }

    fn loss_ns(&self, moved: &[bool], index: usize) -> i64 {
        let before = usize::from(index > 0 && moved[index - 1]);
        let own = self.links[index].ns[before];
        let next = self.links.get(index + 1).map_or(0, |next| {
            let state = usize::from(moved[index + 1]);
            next.ns[0][state] as i64 - next.ns[1][state] as i64
        });
        own[0] as i64 - own[1] as i64 + next
    }

    /// Returns the loss per byte, as a whole number that keeps the order.
    fn density(&self, moved: &[bool], index: usize) -> i64 {
        (self.loss_ns(moved, index) as f64 / self.links[index].bytes as f64 * 1e6) as i64
    }

    pub(super) fn steps(&self) -> Vec<Step> {
        if self.whole().gain_ns <= 0 {
            return Vec::new();
        }
        let step = |share_of_gain: f64| {
            let chosen = self.reaching(share_of_gain);
            let (files, seconds) = (chosen.files.len() as u64, chosen.gain_ns as f64 * 1e-9);
            Step { share_of_gain, bytes: chosen.bytes, files, seconds }
        };
        SHARES.map(step).to_vec()
    }

    fn chosen(&self, moved: &[bool]) -> ChosenFiles {
        let mut found = ChosenFiles::default();
        let mut before = 0;
        for (link, is_moved) in self.links.iter().zip(moved) {
            let state = usize::from(*is_moved);
            found.gain_ns += link.ns[0][0] as i64 - link.ns[before][state] as i64;
            if *is_moved {
                found.files.push(link.file);
                found.bytes += link.bytes;
            }
            before = state;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn link(file: u32, bytes: u64, ns: [[u64; 2]; 2]) -> Link {
        Link { file, bytes, ns }
    }

    #[test]
    fn neighbours_that_save_together_are_moved_together() {
        let pair = |first| [link(first, 100, [[50, 48], [50, 48]]), link(first + 1, 100, [[50, 48], [50, 10]])];
        let alone = link(2, 100, [[50, 35], [50, 35]]);
        let chain = Chain::new([pair(0).as_slice(), &[alone], &pair(3)].concat());
        // The pairs save 21 per file, the single one 15.
        assert_eq!(chain.reaching(0.8).files, [0, 1, 3, 4]);
        assert_eq!(chain.reaching(1.0), chain.whole());
        assert_eq!((chain.whole().bytes, chain.whole().gain_ns), (500, 99));
    }

    /// Uses ten files in a row, each of which saves much after a moved file: at no price a part of them is worthwhile.
    #[test]
    fn part_of_a_group_is_chosen_for_a_byte_limit() {
        let row = (0..10).map(|file| link(file, 10, [[50, 50], [50, 20]])).collect();
        let chain = Chain::new(row);
        assert_eq!(chain.whole().gain_ns, 270);
        let half = chain.reaching(0.5);
        assert_eq!((half.files.len(), half.bytes, half.gain_ns), (6, 60, 150), "{half:?}");
    }

    #[test]
    fn unmovable_and_useless_files_stay() {
        let links = vec![
            link(7, 10, [[90, 20], [90, 20]]),
            link(5, 0, [[50, 50], [60, 60]]),
            link(6, 10, [[40, 45], [40, 45]]),
        ];
        let chain = Chain::new(links);
        let best = chain.reaching(1.0);
        assert_eq!((best.files, best.gain_ns), (vec![7], 60), "the distance to the next file grows by 10");
        assert_eq!((chain.whole().gain_ns, chain.steps()[5].bytes), (55, 10));
        assert_eq!([19, 20].map(|bytes| chain.within(bytes).files.len()), [1, 2]);
        assert!(Chain::new(vec![link(0, 10, [[5, 9], [5, 9]])]).steps().is_empty());
    }

    proptest! {
        #[test]
        fn chosen_sets_respect_byte_limit_and_required_gain(
            given in prop::collection::vec((0u64..4, 0u64..100, 0u64..100, 0u64..100, 0u64..100), 1..9), share in 0.0f64..1.0
        ) {
            let links = given.iter().enumerate().map(|(file, one)| {
                link(file as u32, one.0 * 10, [[one.1, one.2], [one.3, one.4]])
            });
            let chain = Chain::new(links.collect());
            let whole = chain.whole();
            let limit = (share * whole.bytes as f64) as u64;
            prop_assert!(chain.within(limit).bytes <= limit);
            let fewer = chain.reaching(share);
            let wanted = share * whole.gain_ns as f64;
            prop_assert!(whole.gain_ns < 0 || fewer.gain_ns as f64 >= wanted - 1e-6, "{fewer:?}");
        }
    }
}
