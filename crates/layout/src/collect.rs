//! What every walker fills: one per thread, merged at the end. Extents are folded into shapes as they come and are not kept.

use crate::extent::Extent;
use crate::map::MapExtent;
use crate::score::{FileShape, Totals};

/// Collects files in any order.
#[derive(Debug, Default)]
pub struct Collector {
    shapes: Vec<(u32, FileShape)>,
    totals: Totals,
    map: Option<Vec<MapExtent>>,
    vanished: Vec<u32>,
}

/// Everything that was collected, by file in `find` order.
#[derive(Debug, Default)]
pub struct Collected {
    /// Shape of each file.
    pub shapes: Vec<FileShape>,
    /// What accumulates over files.
    pub totals: Totals,
    /// Mappings for the layout map; empty unless asked for.
    pub map: Vec<MapExtent>,
    /// Indices of files that were deleted during the walk, ascending.
    pub vanished: Vec<u32>,
}

impl Collector {
    /// An empty collector; `keep_map` keeps every mapping (16 bytes each) for the layout map.
    pub fn new(keep_map: bool) -> Self {
        Self { map: keep_map.then(Vec::new), ..Self::default() }
    }

    /// Adds the file with index `file`; its mappings are in the order of the file.
    pub fn file(&mut self, file: u32, extents: &[Extent]) {
        let shape = self.totals.file(extents);
        self.shapes.push((file, shape));
        if let Some(map) = &mut self.map {
            map.extend(extents.iter().filter(|extent| extent.on_device()).flat_map(|e| MapExtent::pieces(file, e)));
        }
    }

    /// Notes a file that no longer exists.
    pub fn vanished(&mut self, file: u32) {
        self.vanished.push(file);
    }

    /// Everything together, in `find` order over `files` files. Files that no walker met have no extents.
    pub fn merge(parts: Vec<Collector>, files: usize) -> Collected {
        let mut all = Collected { shapes: vec![FileShape::default(); files], ..Collected::default() };
        for part in parts {
            for (file, shape) in part.shapes {
                all.shapes[file as usize] = shape;
            }
            all.totals.merge(&part.totals);
            all.map.extend(part.map.unwrap_or_default());
            all.vanished.extend(part.vanished);
        }
        all.vanished.sort_unstable();
        all
    }
}
