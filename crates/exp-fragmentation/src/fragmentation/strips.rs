//! Draws where blocks are: each block is a bar coloured by its file.

use super::analysis::RoundData;
use super::figures::figure;
use super::sketch::Sketch;
use senesce_core::analysis::{Better, CellRow, Figure, FigureKind};
use std::collections::BTreeSet;

/// Cells per strip, shared by all file systems: with many strips the cells are small. Also the cells between two file systems.
const MANY: usize = 8;
const SMALL_CELLS: usize = 670;
const LARGE_CELLS: usize = 240;
const GAP: usize = 5;
const NOTHING: i32 = -2;
/// Maximum number of colours; with more files, neighbours in directory order share one.
const COLOURS: u32 = 12;

pub(crate) fn strips(data: &RoundData) -> Option<Figure> {
    let sketches: Vec<&Sketch> = data.sketches.iter().filter(|one| !one.extents.is_empty()).collect();
    let systems: Vec<&String> =
        data.systems.iter().filter(|fs| sketches.iter().any(|sketch| sketch.fs == **fs)).collect();
    let files = sketches.iter().flat_map(|one| &one.extents).map(|extent| extent.2 + 1).max()?;
    // The copy of the last round stands for all copies.
    let rounds: BTreeSet<u64> = sketches.iter().map(|one| one.round).collect();
    let mut states: Vec<(u64, bool)> = rounds.iter().map(|round| (*round, true)).collect();
    states.push((*rounds.last()?, false));
    let total = if states.len() > MANY { SMALL_CELLS } else { LARGE_CELLS };
    let cells = (total + GAP) / systems.len().max(1) - GAP;
    let lenses: Vec<Lens> =
        systems.iter().map(|fs| Lens::of(blocks(sketches.iter().filter(|one| one.fs == **fs)))).collect();
    let colours = files.min(COLOURS);
    let rows = states.iter().map(|(round, aged)| {
        let mut row = Vec::new();
        for (fs, lens) in systems.iter().zip(&lenses) {
            if !row.is_empty() {
                row.extend([NOTHING; GAP]);
            }
            let found = sketches.iter().find(|one| one.fs == **fs && (one.round, one.aged) == (*round, *aged));
            row.extend(
                lens.strip(cells, found.map_or(&[], |one| &one.extents), |file| (file * colours / files) as i32),
            );
        }
        let name = if *aged { format!("{} {round}", data.round) } else { format!("copy of {round}") };
        CellRow { name, cells: row, fill: Vec::new() }
    });
    let rows = rows.collect();
    let heads = (0..).zip(&systems).map(|(index, fs)| (index * (cells + GAP), fs.to_string())).collect();
    let legend = match files <= COLOURS {
        true => (1..=files).map(|file| format!("file {file}")).collect(),
        false => (1..=colours).map(|part| format!("files, part {part} of {colours}")).collect(),
    };
    let blocks = lenses.iter().map(|lens| lens.per_cell(cells).to_string()).collect::<Vec<_>>().join(", ");
    Some(figure(
        "blocks".into(),
        "Positions of the blocks".into(),
        format!(
            "A strip is the address space without stretches that never hold a block. A cell shows one random \
             block of every {blocks} blocks of 4 KiB, coloured by its file in reading order. A volume that is \
             read sequentially shows each colour once."
        ),
        data.device.clone(),
        Better::Neither,
        FigureKind::Cells { rows, heads, legend, unit: "one 4 KiB block of every group".into() },
    ))
}

pub(crate) fn blocks<'a>(sketches: impl Iterator<Item = &'a &'a Sketch>) -> Vec<(u64, u64)> {
    sketches.flat_map(|one| one.extents.iter().map(|(start, blocks, _)| (*start, start + blocks))).collect()
}

/// The joined stretches of an address space that hold blocks in any of several states.
pub(crate) struct Lens {
    /// First block, end, and number of blocks in the previous stretches.
    stretches: Vec<(u64, u64, u64)>,
}

impl Lens {
    /// Stretches separated by fewer blocks are joined.
    const NEAR: u64 = 8;

    pub(crate) fn of(mut blocks: Vec<(u64, u64)>) -> Self {
        blocks.sort_unstable();
        let mut stretches: Vec<(u64, u64, u64)> = Vec::new();
        for (start, end) in blocks {
            match stretches.last_mut() {
                Some(last) if start <= last.1 + Self::NEAR => last.1 = last.1.max(end),
                _ => stretches.push((start, end, 0)),
            }
        }
        let mut total = 0;
        for (start, end, before) in &mut stretches {
            *before = total;
            total += *end - *start;
        }
        Self { stretches }
    }

    fn per_cell(&self, cells: usize) -> u64 {
        let total = self.stretches.last().map_or(0, |(start, end, before)| before + end - start);
        total.div_ceil(cells as u64).max(1)
    }

    pub(crate) fn place(&self, block: u64) -> Option<u64> {
        let after = self.stretches.partition_point(|(start, ..)| *start <= block);
        let (start, end, before) = self.stretches[after.checked_sub(1)?];
        (block < end).then(|| before + block - start)
    }

    /// Samples one block per cell at a varying offset. With a fixed offset, files with alternating blocks could be
    /// missed.
    fn strip(&self, count: usize, extents: &[(u64, u64, u32)], colour: impl Fn(u32) -> i32) -> Vec<i32> {
        let per_cell = self.per_cell(count);
        let shown = |cell: u64| cell * per_cell + scatter(cell) % per_cell;
        let mut cells = vec![-1; count];
        for (start, blocks, file) in extents {
            let Some(first) = self.place(*start) else { continue };
            for cell in first / per_cell..(first + blocks).div_ceil(per_cell) {
                if (first..first + blocks).contains(&shown(cell))
                    && let Some(slot) = cells.get_mut(cell as usize)
                {
                    *slot = colour(*file);
                }
            }
        }
        cells
    }
}

/// Scatters a number with the finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
fn scatter(number: u64) -> u64 {
    let mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lens_omits_empty_stretches() {
        let lens = Lens::of(vec![(100, 110), (1000, 1010), (112, 115)]);
        assert_eq!((lens.place(100), lens.place(114), lens.place(1000)), (Some(0), Some(14), Some(15)));
        assert_eq!(lens.place(500), None);
    }

    #[test]
    fn alternating_files_are_all_visible() {
        let turns: Vec<(u64, u64, u32)> = (0..1000).map(|block| (block, 1, (block % 10) as u32)).collect();
        let lens = Lens::of(vec![(0, 1000)]);
        let data: BTreeSet<i32> = lens.strip(125, &turns, |file| file as i32).into_iter().collect();
        assert_eq!(data, (0..10).collect());
    }

    #[test]
    fn each_cell_shows_a_different_block_if_possible() {
        let lens = Lens::of(vec![(0, 6)]);
        assert_eq!(lens.strip(8, &[(4, 2, 1), (0, 3, 0)], |file| file as i32), [0, 0, 0, -1, 1, 1, -1, -1]);
    }
}
