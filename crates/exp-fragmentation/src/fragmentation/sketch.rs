//! Data for figures of single points: where each file is, and the order of requests.

use super::read::Reads;
use super::volume::Volume;
use senesce_core::Failure;
use senesce_core::failure::failed;
use senesce_layout::Fiemap;
use senesce_runs::tree::Tree;
use serde::{Deserialize, Serialize};
use std::fs::File;

/// Maximum number of requests to keep; a longer list is sampled at equal steps.
const REQUESTS: usize = 1500;

/// Location of the files of a point, and the requests of its read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sketch {
    /// File system.
    pub fs: String,
    /// Round.
    pub round: u64,
    /// Whether the experiment laid out the files; otherwise the copy.
    pub aged: bool,
    /// First 4 KiB block, number of blocks, number of the file in directory order.
    pub extents: Vec<(u64, u64, u32)>,
    /// Requests of the last reading: number in issue order, 4 KiB block address.
    pub requests: Vec<(u64, u64)>,
}

impl Sketch {
    pub(crate) fn of(volume: &Volume, data: &Reads) -> Result<Self, Failure> {
        let every = data.requests.len().div_ceil(REQUESTS).max(1);
        let numbered = (0u64..).zip(data.requests.iter().copied());
        Ok(Self {
            fs: data.point.fs.clone(),
            round: data.point.round,
            aged: data.point.aged,
            extents: extents(volume)?,
            requests: numbered.step_by(every).collect(),
        })
    }
}

/// Reads the extents of all files; empty if the file system does not report them.
fn extents(volume: &Volume) -> Result<Vec<(u64, u64, u32)>, Failure> {
    let (mut reader, mut extents, mut found) = (Fiemap::default(), Vec::new(), Vec::new());
    for (number, path) in (0u32..).zip(Tree::below(volume.folder())?.files) {
        let path = volume.folder().join(path);
        let file = File::open(&path).map_err(failed("open", &path))?;
        extents.clear();
        match reader.read(&file, &mut extents) {
            Err(error) if error.kind() == std::io::ErrorKind::Unsupported => return Ok(Vec::new()),
            other => other.map_err(failed("read the extents of", &path))?,
        }
        let placed = extents.iter().filter(|extent| extent.on_device());
        found.extend(placed.map(|extent| (extent.physical / 4096, extent.physical_length.div_ceil(4096), number)));
    }
    Ok(found)
}
