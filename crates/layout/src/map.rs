//! The layout map: the address space as cells, one colour per file.

use crate::extent::{Extent, SCORE_BLOCK};
use senesce_core::{Better, Figure, FigureKind, analysis::CellRow};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Maximum cells of one state; smaller address ranges are drawn block by block, larger ones shaded.
pub(crate) const CELLS: u64 = 8192;
/// Maximum number of files with their own colour and legend entry.
const NAMED_FILES: usize = 24;
/// Colours of a small tree with more files: the colour depends on the path, so that a file keeps it across states.
const COLOURS: u32 = 12;
/// Upper bounds of the mixing classes of a shaded cell, by number of files with blocks in it.
const MIXING: [(usize, &str); 6] =
    [(1, "1 file"), (2, "2 files"), (4, "3-4 files"), (8, "5-8 files"), (16, "9-16 files"), (usize::MAX, "17 or more")];

/// Blocks of one file: 16 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MapExtent {
    /// First 4 KiB block.
    pub start: u64,
    pub blocks: u32,
    /// Index of the file in `find` order.
    pub file: u32,
}

impl MapExtent {
    /// Returns the blocks that an extent touches, in as many pieces as u32 counts need (one below 16 TiB).
    pub(crate) fn pieces(file: u32, extent: &Extent) -> impl Iterator<Item = MapExtent> {
        let end = extent.physical_end().div_ceil(SCORE_BLOCK);
        let start = extent.physical / SCORE_BLOCK;
        (start..end).step_by(u32::MAX as usize).map(move |start| Self {
            start,
            blocks: (end - start).min(u64::from(u32::MAX)) as u32,
            file,
        })
    }

    fn end(&self) -> u64 {
        self.start + u64::from(self.blocks)
    }
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LayoutMap {
    extents: Vec<MapExtent>,
    /// Paths, if there are few files.
    names: Vec<String>,
    /// Hash of each file's path.
    hashes: Vec<u32>,
}

impl LayoutMap {
    /// Creates the map; `paths` are in `find` order.
    pub(crate) fn new(mut extents: Vec<MapExtent>, paths: impl Iterator<Item = String>) -> Self {
        extents.sort_unstable();
        let (mut names, mut hashes) = (Vec::new(), Vec::new());
        for path in paths {
            hashes.push(fnv1a(path.as_bytes()));
            if names.len() <= NAMED_FILES {
                names.push(path);
            }
        }
        if names.len() > NAMED_FILES {
            names.clear();
        }
        Self { extents, names, hashes }
    }

    /// Returns the map of the same files packed without gaps from the lowest address. `files`: index and bytes of each
    /// file, in their new order.
    pub fn packed(&self, files: impl Iterator<Item = (u32, u64)>) -> Self {
        let mut cursor = self.span().start * SCORE_BLOCK;
        let mut extents = Vec::new();
        for (file, bytes) in files.filter(|(_, bytes)| *bytes > 0) {
            extents.extend(MapExtent::pieces(file, &Extent::plain(0, cursor, bytes)));
            cursor += bytes;
        }
        Self { extents, names: self.names.clone(), hashes: self.hashes.clone() }
    }

    /// Returns whether no file has data on the device.
    pub fn is_empty(&self) -> bool {
        self.extents.is_empty()
    }

    /// Returns the first and last address with data, in 4 KiB blocks.
    pub(crate) fn span(&self) -> Range<u64> {
        let end = self.extents.iter().map(MapExtent::end).max().unwrap_or(0);
        self.extents.first().map_or(0, |extent| extent.start)..end
    }
}

/// Draws one map, or several states of the same address space next to each other on one scale.
pub(crate) fn figure(id: &str, title: &str, device: &str, states: &[(String, LayoutMap)]) -> Figure {
    let spans = states.iter().map(|(_, map)| map.span()).filter(|span| !span.is_empty());
    let span = spans.reduce(|all, span| all.start.min(span.start)..all.end.max(span.end)).unwrap_or(0..0);
    let per_cell = (span.end - span.start).div_ceil(CELLS).max(1).next_power_of_two();
    // Cells begin at multiples of their size, so that a cell covers the same addresses in every figure.
    let span = span.start / per_cell * per_cell..span.end;
    let (rows, legend) = if per_cell == 1 { by_block(states, &span) } else { by_shade(states, &span, per_cell) };
    let unit = if per_cell == 1 { "one 4 KiB block".into() } else { format!("{} of address space", size(per_cell)) };
    let range = format!("{} to {} of the address space", size(span.start), size(span.end));
    let caption = match per_cell {
        1 => format!(
            "{range}, each cell one 4 KiB block, each colour one file. A contiguous file is one unbroken run of its colour."
        ),
        _ => format!(
            "{range}, each cell {} of it, filled by the share that contains file data. The colour shows how many \
             files have blocks in the cell.",
            size(per_cell)
        ),
    };
    Figure {
        id: id.into(),
        title: title.into(),
        caption,
        device: device.into(),
        better: Better::Neither,
        kind: FigureKind::Cells { rows, heads: Vec::new(), legend, unit },
    }
}

fn by_block(states: &[(String, LayoutMap)], span: &Range<u64>) -> (Vec<CellRow>, Vec<String>) {
    let legend = names_of_all(states);
    let named = legend.is_some();
    let legend = legend.unwrap_or_else(|| (1..=COLOURS).map(|colour| format!("files of colour {colour}")).collect());
    let rows = states.iter().map(|(name, map)| {
        let colour = |file: u32| match named {
            true => legend.iter().position(|name| Some(name) == map.names.get(file as usize)).unwrap_or(0) as i32,
            false => map.hashes.get(file as usize).map_or(0, |hash| (hash % COLOURS) as i32),
        };
        let mut cells = vec![-1; (span.end - span.start) as usize];
        for extent in &map.extents {
            let from = (extent.start - span.start) as usize;
            cells[from..from + extent.blocks as usize].fill(colour(extent.file));
        }
        CellRow { name: name.clone(), cells, fill: Vec::new() }
    });
    (rows.collect(), legend)
}

/// Returns the paths in all states, if there are few enough.
fn names_of_all(states: &[(String, LayoutMap)]) -> Option<Vec<String>> {
    let mut all = Vec::new();
    for (_, map) in states {
        if map.names.len() < map.hashes.len() {
            return None;
        }
        for name in &map.names {
            if !all.contains(name) {
                all.push(name.clone());
            }
        }
    }
    (all.len() <= NAMED_FILES).then_some(all)
}

/// Computes the FNV-1a hash, 32 bits (Fowler, Noll, Vo), which is equal on every machine.
fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811C_9DC5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

fn by_shade(states: &[(String, LayoutMap)], span: &Range<u64>, per_cell: u64) -> (Vec<CellRow>, Vec<String>) {
    let count = (span.end - span.start).div_ceil(per_cell) as usize;
    let rows = states.iter().map(|(name, map)| {
        let (cells, fill) = shade(&map.extents, span.start, per_cell, count);
        CellRow { name: name.clone(), cells, fill }
    });
    (rows.collect(), MIXING.iter().map(|(_, name)| (*name).to_string()).collect())
}

/// Returns the mixing class and occupied share of each cell; extents ascend.
fn shade(extents: &[MapExtent], start: u64, per_cell: u64, count: usize) -> (Vec<i32>, Vec<f32>) {
    let mut occupied = vec![0u64; count];
    let mut files: Vec<Vec<u32>> = vec![Vec::new(); count];
    let mut covered_to = start;
    for extent in extents {
        for cell in (extent.start - start) / per_cell..(extent.end() - start).div_ceil(per_cell) {
            let begin = (start + cell * per_cell).max(extent.start);
            let end = (start + (cell + 1) * per_cell).min(extent.end());
            // Shared blocks count once.
            occupied[cell as usize] += end.saturating_sub(begin.max(covered_to));
            let present = &mut files[cell as usize];
            if present.last() != Some(&extent.file) && present.len() < 64 && !present.contains(&extent.file) {
                present.push(extent.file);
            }
        }
        covered_to = covered_to.max(extent.end());
    }
    let class = |files: &Vec<u32>| match files.len() {
        0 => -1,
        count => MIXING.iter().position(|(most, _)| count <= *most).unwrap_or(MIXING.len() - 1) as i32,
    };
    (files.iter().map(class).collect(), occupied.iter().map(|blocks| *blocks as f32 / per_cell as f32).collect())
}

/// Formats a size in 4 KiB blocks, in the largest unit that divides it.
fn size(blocks: u64) -> String {
    match blocks * 4 {
        0 => "0".into(),
        kib if kib % (1 << 20) == 0 => format!("{} GiB", kib >> 20),
        kib if kib % (1 << 10) == 0 => format!("{} MiB", kib >> 10),
        kib => format!("{kib} KiB"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(extents: &[(u64, u32, u32)]) -> LayoutMap {
        let files = extents.iter().map(|extent| u64::from(extent.2) + 1).max().unwrap_or(0);
        let extents = extents.iter().map(|&(start, blocks, file)| MapExtent { start, blocks, file }).collect();
        LayoutMap::new(extents, (0..files).map(|file| format!("f{file}")))
    }

    fn cells(figure: &Figure) -> (&Vec<CellRow>, &Vec<String>) {
        let FigureKind::Cells { rows, legend, .. } = &figure.kind else { panic!("cells") };
        (rows, legend)
    }

    #[test]
    fn a_small_tree_is_drawn_block_by_block_on_one_scale() {
        let fresh = map(&[(10, 3, 0), (13, 2, 1)]);
        let aged = map(&[(10, 1, 0), (12, 2, 1), (20, 2, 0)]);
        let figure = figure("map", "t", "d", &[("fresh".into(), fresh), ("aged".into(), aged)]);
        let (rows, legend) = cells(&figure);
        assert_eq!(legend, &["f0", "f1"]);
        assert_eq!(rows[0].cells, vec![0, 0, 0, 1, 1, -1, -1, -1, -1, -1, -1, -1]);
        assert_eq!(rows[1].cells, vec![0, -1, 1, 1, -1, -1, -1, -1, -1, -1, 0, 0]);
        assert_eq!(rows[1].name, "aged");
    }

    #[test]
    fn packed_files_have_no_gaps_and_keep_their_colours() {
        let aged = map(&[(10, 1, 0), (12, 2, 1), (20, 2, 0)]);
        let unaged = aged.packed([(1, 2 * SCORE_BLOCK), (0, 3 * SCORE_BLOCK)].into_iter());
        assert_eq!(unaged.span(), 10..15);
        assert!(aged.packed([(0, 0)].into_iter()).is_empty());
        let figure = figure("map", "t", "d", &[("unaged".into(), unaged), ("aged".into(), aged)]);
        let (rows, legend) = cells(&figure);
        assert_eq!(legend, &["f0", "f1"]);
        assert_eq!(rows[0].cells, vec![1, 1, 0, 0, 0, -1, -1, -1, -1, -1, -1, -1]);
        assert_eq!(rows[1].cells, vec![0, -1, 1, 1, -1, -1, -1, -1, -1, -1, 0, 0]);
    }

    #[test]
    fn a_large_tree_is_shaded_by_occupancy_and_mixing() {
        let blocks = CELLS as u32 * 4;
        let mut extents = vec![(0, 4, 0), (4, 1, 1), (6, 1, 2), (0, 2, 3)];
        extents.push((u64::from(blocks) - 1, 1, 1));
        let figure = figure("map", "t", "d", &[(String::new(), map(&extents))]);
        let (rows, _) = cells(&figure);
        assert_eq!((rows.len(), rows[0].cells.len()), (1, CELLS as usize));
        assert_eq!((&rows[0].cells[..3], &rows[0].fill[..3]), (&[1, 1, -1][..], &[1.0, 0.5, 0.0][..]));
    }

    #[test]
    fn an_empty_tree_has_an_empty_map() {
        let figure = figure("map", "t", "d", &[(String::new(), map(&[]))]);
        assert!(cells(&figure).0[0].cells.is_empty());
    }
}
