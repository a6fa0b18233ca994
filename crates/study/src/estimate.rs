//! Estimates the cost of a study's images and runs in advance.

use crate::command::Program;
use crate::matrix::{ImageId, RunId, aging_plan, is_planned, planned_runs, runs};
use crate::spec::{StateKind, StudySpec};
use senesce_aging::Data;
use senesce_core::Failure;
use senesce_volume::FileSystem;

/// Estimates roughly the seconds to make an image, and the bytes written for it. The image is made as in memory, where
/// a second writes about 1 GB. Unknown file systems count as ext4.
pub(crate) fn image_cost(spec: &StudySpec, id: ImageId) -> Result<(u64, f64), Failure> {
    let state = &spec.state[id.state];
    if let Some(program) = Program::of_state(state) {
        return Ok((program.space().0, program.seconds() + IMAGE_SECONDS));
    }
    if !is_planned(state) {
        return Ok((0, IMAGE_SECONDS));
    }
    let planned = aging_plan(spec, state, id.image)?;
    let summary = planned.summary();
    let (operations, created) = match state.kind {
        StateKind::Aged => (summary.t_end, summary.bytes_created.0),
        _ => (summary.files, summary.bytes_live.0),
    };
    let file_system = spec.file_system[id.fs].kind().unwrap_or(FileSystem::Ext4);
    let written = if spec.source(state).data == Data::Write { created } else { 0 };
    Ok((written, file_system.seconds_of_operations(operations) + written as f64 / 1e9 + IMAGE_SECONDS))
}

const IMAGE_SECONDS: f64 = 0.7;

pub(crate) fn of(spec: &StudySpec, images: &[ImageId], is_left: impl Fn(&RunId) -> bool) -> Result<f64, Failure> {
    let of_images = images.iter().map(|id| Ok(image_cost(spec, *id)?.1)).sum::<Result<f64, Failure>>()?;
    let of_runs: f64 = planned_runs(spec)?.iter().filter(|one| is_left(&one.step)).map(|one| one.seconds).sum();
    Ok(of_images + of_runs + guest_seconds(spec))
}

pub(crate) fn guest_seconds(spec: &StudySpec) -> f64 {
    const BOOT_SECONDS: f64 = 20.0;
    let (_, groups) = crate::guest::split(spec, runs(spec));
    groups.len() as f64 * BOOT_SECONDS
}
