//! Collector of a walker: one per thread, merged at the end. Extents are folded into shapes and not kept.

use crate::extent::Extent;
use crate::map::MapExtent;
use crate::runs::Runs;
use crate::score::{FileShape, Totals};

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct KeptDetails {
    /// Every mapping (16 bytes each) for the layout map.
    pub map: bool,
    /// Location of each file's data (16 bytes per run, 16 per file).
    pub runs: bool,
    /// Block size if blocks of a file's map may lie between its data (ext2, ext3): data and map read in one go are one run.
    pub mapped_between: Option<u64>,
    /// Whether to count files that may not be opened, instead of failing.
    pub skip_denied: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Collector {
    shapes: Vec<(u32, FileShape)>,
    totals: Totals,
    map: Option<Vec<MapExtent>>,
    runs: Option<Runs>,
    vanished: Vec<u32>,
    denied: Vec<u32>,
}

/// Collected data by file in `find` order.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    pub shapes: Vec<FileShape>,
    pub totals: Totals,
    /// Mappings for the layout map; empty unless requested.
    pub map: Vec<MapExtent>,
    /// Location of each file's data; empty unless requested.
    pub runs: Runs,
    /// Indices of files that were deleted during the walk, ascending.
    pub vanished: Vec<u32>,
    /// Indices of files that may not be opened, ascending.
    pub denied: Vec<u32>,
}

impl Collected {
    /// Returns whether the file with this index was not examined: it is neither counted nor scored.
    pub(crate) fn is_unknown(&self, index: usize) -> bool {
        let has = |list: &[u32]| list.binary_search(&(index as u32)).is_ok();
        has(&self.vanished) || has(&self.denied)
    }
}

impl Collector {
    pub(crate) fn new(keep: KeptDetails) -> Self {
        Self {
            map: keep.map.then(Vec::new),
            runs: keep.runs.then(|| Runs::new(keep.mapped_between)),
            ..Self::default()
        }
    }

    /// Adds a file; `extents` are in file order.
    pub(crate) fn file(&mut self, file: u32, extents: &[Extent]) {
        let shape = self.totals.file(extents);
        self.shapes.push((file, shape));
        if let Some(runs) = &mut self.runs {
            runs.add(file, extents);
        }
        if let Some(map) = &mut self.map {
            map.extend(extents.iter().filter(|extent| extent.on_device()).flat_map(|e| MapExtent::pieces(file, e)));
        }
    }

    pub(crate) fn denied(&mut self, file: u32) {
        self.denied.push(file);
    }

    pub(crate) fn vanished(&mut self, file: u32) {
        self.vanished.push(file);
    }

    /// Merges collectors, in `find` order over `files` files. Files without a walker have no extents.
    pub(crate) fn merge(parts: Vec<Collector>, files: usize) -> Collected {
        let mut all = Collected { shapes: vec![FileShape::default(); files], ..Collected::default() };
        for part in parts {
            for (file, shape) in part.shapes {
                all.shapes[file as usize] = shape;
            }
            all.totals.merge(&part.totals);
            all.map.extend(part.map.unwrap_or_default());
            all.runs.append(part.runs.unwrap_or_default());
            all.denied.extend(part.denied);
            all.vanished.extend(part.vanished);
        }
        all.vanished.sort_unstable();
        all.denied.sort_unstable();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_may_not_be_opened_are_unknown() {
        let (mut one, mut two) = (Collector::new(KeptDetails::default()), Collector::new(KeptDetails::default()));
        one.denied(4);
        one.file(1, &[]);
        two.vanished(2);
        two.denied(0);
        let all = Collector::merge(vec![one, two], 5);
        let unknown: Vec<usize> = (0..5).filter(|index| all.is_unknown(*index)).collect();
        assert_eq!(unknown, [0, 2, 4]);
    }
}
