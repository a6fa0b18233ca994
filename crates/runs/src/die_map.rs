//! The dies of a flash drive on which the files of an image would lie after the image's aging on that drive.

use crate::write_order::{self, Copying};
use senesce_core::analysis::{CellRow, Figure, FigureKind};
use senesce_core::{Better, Bytes, Failure, Seed, failure::failed};
use senesce_devmodel::last_write::{BLOCK, LastWrites, Order};
use senesce_devmodel::ssd::Drive;
use senesce_devmodel::{DeviceModel, Operation, Parameters, Request};
use senesce_layout::Layout;
use senesce_volume::sparse;
use serde::Serialize;
use std::fs::File;
use std::path::Path;

const DRAWN_FILES: usize = 32;
const DRAWN_READS: usize = 256;

/// The dies of all files.
#[derive(Debug, Clone, Serialize)]
pub struct DieMap {
    pub model: String,
    pub dies: u32,
    /// Die-collision index of a read of all files in `find` order; none without data on flash.
    pub collision_index: Option<f64>,
    /// Every file with data on flash, in `find` order.
    pub per_file: Vec<FileDies>,
}

#[derive(Debug, Clone, Serialize)]
pub struct FileDies {
    /// Its path below the root of the image.
    pub path: String,
    /// Flash reads needed to read it in order.
    pub flash_reads: usize,
    /// Reads of the busiest die over those of an even spread, in groups of four reads of every die: 1 to the number of
    /// dies.
    pub collision_index: f64,
    /// The die of each read, up to the drawn length.
    #[serde(skip)]
    dies: Vec<u32>,
}

/// Writes the blocks of an image to a modelled drive in the order of their last writes and locates its files. `layout`
/// must have been examined with `extents` and `per_file`.
pub fn die_map(image: &Path, layout: &Layout, model: &str, writes: &LastWrites) -> Result<DieMap, Failure> {
    let Parameters::FlashSsd(flash) = DeviceModel::load(model)?.parameters else {
        return Err(Failure::usage(format!("--model {model}: it has no flash translation layer, and so no dies")));
    };
    let file = File::open(image).map_err(failed("open", image))?;
    let size = file.metadata().map_err(failed("inspect", image))?.len();
    if size > flash.capacity_bytes {
        return Err(Failure::usage(format!(
            "--model {model} has {}, but the image needs {}",
            Bytes(flash.capacity_bytes),
            Bytes(size)
        )));
    }
    let copying = Copying { order: Order::LastWrite, steady_state: None, seed: Seed(0) };
    let mut drive = Drive::new(&flash);
    for piece in write_order::sequence(writes, &sparse::data_ranges(&file, size, image)?, size, &copying) {
        drive.prepare_request(&Request::of_bytes(Operation::Write, piece.start, piece.length()));
    }
    let pages = |extent: &senesce_layout::MapExtent| extent.start..extent.start + u64::from(extent.blocks);
    debug_assert_eq!(BLOCK, senesce_layout::extent::SCORE_BLOCK);
    let of_file = |extents: &[senesce_layout::MapExtent]| {
        let dies = drive.dies_of(extents.iter().map(pages));
        let path = layout.files.get(extents[0].file as usize).map(|file| file.path.clone()).unwrap_or_default();
        let collision_index = drive.collision_index_of(extents.iter().map(pages))?;
        let drawn = dies.iter().copied().take(DRAWN_READS).collect();
        Some(FileDies { path, flash_reads: dies.len(), collision_index, dies: drawn })
    };
    Ok(DieMap {
        model: model.into(),
        dies: flash.geometry.dies(),
        collision_index: drive.collision_index_of(layout.extents.iter().map(pages)),
        per_file: layout.extents.chunk_by(|a, b| a.file == b.file).filter_map(of_file).collect(),
    })
}

impl DieMap {
    pub fn figure(&self) -> Figure {
        let mut files: Vec<&FileDies> = self.per_file.iter().filter(|file| file.flash_reads > 1).collect();
        files.sort_by(|a, b| {
            (b.collision_index, b.flash_reads)
                .partial_cmp(&(a.collision_index, a.flash_reads))
                .unwrap_or(std::cmp::Ordering::Equal)
        });
        let row = |file: &&FileDies| CellRow {
            name: format!("{} ({:.1})", file.path, file.collision_index),
            cells: file.dies.iter().map(|die| *die as i32).collect(),
            fill: Vec::new(),
        };
        Figure {
            id: "die-map".into(),
            title: "Dies of the files whose reads collide most".into(),
            caption: format!(
                "Each strip shows the first reads of a file in file order, at most {DRAWN_READS}, each coloured by \
                 its die. The collision index follows the name. A file that was written without interruption cycles \
                 through all dies."
            ),
            device: format!("modelled: {}", self.model),
            better: Better::Neither,
            kind: FigureKind::Cells {
                rows: files.iter().take(DRAWN_FILES).map(row).collect(),
                heads: Vec::new(),
                legend: (0..self.dies).map(|die| format!("die {die}")).collect(),
                unit: "one read of the flash".into(),
            },
        }
    }
}
