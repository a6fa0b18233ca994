//! Models of the drives that reads are timed on.

use senesce_devmodel::simulate::history_of_reads;
use senesce_devmodel::{DeviceModel, ModelError, Request};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Models {
    pub disk: String,
    pub flash: String,
}

impl Default for Models {
    /// Returns the study's disk drive, with zones and cache segments, and an SSD of the class of the study's, with a
    /// flash translation layer.
    fn default() -> Self {
        Self { disk: "hdd:st500dm002".into(), flash: "ssd:mlc-sata".into() }
    }
}

impl Models {
    pub(crate) fn disk(&self) -> Result<DeviceModel, ModelError> {
        DeviceModel::load(&self.disk)
    }

    pub(crate) fn flash(&self) -> Result<DeviceModel, ModelError> {
        DeviceModel::load(&self.flash)
    }
}

/// Returns everything written to a drive before it is read. Blocks that are read but were not written while tracing
/// (the initial file system) come first, in address order. The traced writes follow.
pub(crate) fn history(written: &[Request], reads: &[Request]) -> Vec<Request> {
    let mut all = written.to_vec();
    all.extend(reads);
    let mut history = history_of_reads(&all);
    history.extend(written);
    history
}

/// Returns the seconds per GiB of a sequential read in requests of 128 KiB, four at a time, after a write in the same
/// order.
pub(crate) fn sequential_seconds_per_gib(model: &DeviceModel) -> Option<f64> {
    const READ: u64 = 128 << 10;
    let one = |number: u64| Request { queue_depth: 4, ..Request::read_bytes(number * READ, READ) };
    model.time(&(0..2048).map(one).collect::<Vec<_>>()).ok()?.seconds_per_gib
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_devmodel::Operation;

    #[test]
    fn order_of_writing_decides_the_cost_on_the_ssd() {
        let flash = Models::default().flash().unwrap();
        // 32 files of 16 pieces, each piece the size that one of the 32 dies takes at once.
        let (files, pieces, piece) = (32u64, 16u64, 64u64 << 10);
        let reads: Vec<Request> =
            (0..files).map(|file| Request::read_bytes(file * pieces * piece, pieces * piece)).collect();
        let cost = |order: &dyn Fn(u64) -> u64| {
            let write = |number: u64| Request::of_bytes(Operation::Write, order(number) * piece, piece);
            let written: Vec<Request> = (0..files * pieces).map(write).collect();
            flash.seconds_after(&history(&written, &reads), &reads).unwrap()
        };
        let (in_order, in_turn) = (cost(&|number| number), cost(&|number| number % files * pieces + number / files));
        assert!(in_turn > 2.0 * in_order, "{in_turn} {in_order}");
        assert_eq!(cost(&|number| number), flash.seconds(&reads).unwrap(), "addresses, where nothing was traced");
    }

    #[test]
    fn sequential_read_runs_at_the_rate_of_the_drive() {
        let rate = |model: DeviceModel| 1024.0 / sequential_seconds_per_gib(&model).unwrap();
        let (disk, flash) = (rate(Models::default().disk().unwrap()), rate(Models::default().flash().unwrap()));
        assert!((130.0..145.0).contains(&disk), "{disk} MiB/s");
        assert!((400.0..530.0).contains(&flash), "{flash} MiB/s");
    }
}
