//! Lays files into free extents, largest extent first.

use senesce_layout::FileSystemSpace;
use std::collections::BTreeMap;

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct ConsumedSpace {
    pub files: f64,
    pub blocks: f64,
}

pub(super) struct SpaceDemand<F: Fn(f64) -> f64> {
    pub data: u64,
    /// Other blocks per file (directory, inodes).
    pub metadata: f64,
    pub map: F,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Pool(BTreeMap<u64, u64>);

impl Pool {
    pub(super) fn of(space: &FileSystemSpace) -> Self {
        match &space.free {
            Some(free) => free.iter().map(|extent| extent.blocks).collect(),
            None => std::iter::once(space.free_blocks).collect(),
        }
    }
}

impl FromIterator<u64> for Pool {
    fn from_iter<I: IntoIterator<Item = u64>>(lengths: I) -> Self {
        let mut pool = BTreeMap::<u64, u64>::new();
        lengths.into_iter().filter(|length| *length > 0).for_each(|length| *pool.entry(length).or_default() += 1);
        Self(pool)
    }
}

/// Fills free extents until `limit` blocks are taken. Files are in one piece in extents that hold whole files.
/// Remainders and shorter extents are joined into fragmented files.
pub(super) fn consume<F: Fn(f64) -> f64>(pool: &Pool, limit: f64, appetite: &SpaceDemand<F>) -> ConsumedSpace {
    let Pool(mut pool) = pool.clone();
    let mut taken = ConsumedSpace::default();
    let data = appetite.data.max(1);
    while let Some((length, count)) = pool.pop_last() {
        let left = limit - taken.blocks;
        let (pieces, blocks) = if length >= data {
            let rest = length % data;
            if rest > 0 {
                *pool.entry(rest).or_default() += count;
            }
            (1.0, (length - rest) * count)
        } else {
            (data as f64 / length as f64, length * count)
        };
        let each = data as f64 + appetite.metadata + (appetite.map)(pieces);
        // The maps of the files are taken from the same blocks, so that fewer are left for data.
        let files = (blocks as f64 / data as f64).min(left / each);
        taken.files += files;
        taken.blocks += files * each;
        if files * data as f64 + 0.5 < blocks as f64 {
            break;
        }
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn whole_extents_hold_whole_files_and_pieces_cost_maps() {
        let map = |pieces: f64| if pieces > 4.0 { 1.0 } else { 0.0 };
        let appetite = SpaceDemand { data: 16, metadata: 0.0, map };
        let one = consume(&Pool::from_iter([160]), 1e9, &appetite);
        assert_eq!(one, ConsumedSpace { files: 10.0, blocks: 160.0 });
        let pieces = consume(&std::iter::repeat_n(3, 170).collect(), 510.0, &appetite);
        assert!((pieces.files - 510.0 / 17.0).abs() < 1e-9, "{pieces:?}");
    }

    proptest! {
        #[test]
        fn files_fit_the_limit_and_the_extents(
            lengths in prop::collection::vec(1u64..500, 0..60), data in 1u64..300, limit in 0.0f64..20_000.0
        ) {
            let appetite = SpaceDemand { data, metadata: 0.01, map: |pieces: f64| (pieces / 300.0).floor() };
            let taken = consume(&lengths.iter().copied().collect(), limit, &appetite);
            prop_assert!(taken.blocks <= limit + 1e-6);
            prop_assert!(taken.files * data as f64 <= lengths.iter().sum::<u64>() as f64 + 1e-6);
        }
    }
}
