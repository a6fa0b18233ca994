//! A layout and what reading it costs.

use super::Options;
use crate::error::PrognosisError;
use crate::plan::{self, Move};
use crate::reading::{self, Cost};
use senesce_devmodel::DeviceModel;
use senesce_layout::{FileRuns, Layout, LayoutSummary};
use std::path::Path;

pub struct CostedLayout {
    pub summary: LayoutSummary,
    pub files: FileRuns,
    pub order: Vec<u32>,
    /// Costs of reading: at present addresses, defragmented, in order.
    pub costs: [Cost; 3],
}

impl CostedLayout {
    pub fn of(directory: &Path, model: &DeviceModel, options: &Options) -> Result<Self, PrognosisError> {
        let look = senesce_layout::Options {
            threads: options.threads,
            runs: true,
            skip_denied: true,
            ..senesce_layout::Options::default()
        };
        let layout = Layout::examine(directory, &look)?;
        let files = layout.runs.unwrap_or_default();
        let order = options.order.of(&files);
        let costs = reading::costs(model, &files, &order);
        Ok(Self { summary: layout.summary, files, order, costs })
    }

    pub(super) fn ideal_moves(&self, may_move: impl Fn(usize) -> bool) -> Vec<Move> {
        let in_pieces = (0..self.files.len()).filter(|file| self.files.of(*file).len() > 1 && may_move(*file));
        let one =
            |file| Move { file: file as u32, bytes: self.bytes(file), gain_ns: self.gain_ns(&self.costs[1], file) };
        plan::best_first(in_pieces.map(one).filter(|one| one.gain_ns > 0).collect())
    }

    /// Returns by how many ns a file is read faster with the cost `after`.
    pub(crate) fn gain_ns(&self, after: &Cost, file: usize) -> i64 {
        self.costs[0].file_ns[file] as i64 - after.file_ns[file] as i64
    }

    pub(super) fn bytes(&self, file: usize) -> u64 {
        reading::length(self.files.of(file))
    }

    pub(crate) fn reach(&self) -> u64 {
        reading::lowest(&self.files).saturating_add(self.all_bytes()).max(reading::highest(&self.files))
    }

    pub(crate) fn all_bytes(&self) -> u64 {
        self.files.bytes()
    }
}
