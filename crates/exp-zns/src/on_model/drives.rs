//! A simulated drive with the size and zones of the emulated one.

use super::recording::{Role, TracedDrives, Zones};
use super::{CONVENTIONAL_MODEL, ZONED_MODEL};
use senesce_core::{ExitCode, Failure, Seed};
use senesce_zoned::sim::model::Model;
use senesce_zoned::sim::{HostPath, SimDevice, SimOptions};
use senesce_zoned::{Geometry, ZoneInfo, ZonedDevice};

/// Builds the simulated drive of a recording, in the state at the start of the recording.
///
/// # Errors
/// A recording without such a drive, or a drive whose shape the model does not support.
pub(crate) fn simulated(traced: &TracedDrives, seed: Seed) -> Result<(SimDevice, Option<Zones>), Failure> {
    let main = traced.drives.iter().find(|drive| drive.role != Role::Metadata);
    let drive = main.ok_or_else(|| Failure::new(ExitCode::RunFailed, "the recording contains no drive to simulate"))?;
    let path = HostPath::None;
    let Some(zones) = &drive.zones else {
        let model = sized(Model::load(CONVENTIONAL_MODEL)?, drive.bytes);
        // Erased: mkfs discards the whole drive.
        let device = SimDevice::new(&model.checked()?, SimOptions { block_bytes: Some(512), path }, seed)?;
        return Ok((device, None));
    };
    let model = shaped(Model::load(ZONED_MODEL)?, &zones.geometry)?;
    let block_bytes = Some(zones.geometry.block_bytes);
    let mut device = SimDevice::new(&model, SimOptions { block_bytes, path }, seed)?;
    for (zone, blocks) in (0..).zip(&zones.before).filter(|(_, blocks)| **blocks > 0) {
        device.preset(zone, Some(*blocks))?;
    }
    Ok((device, Some(zones.clone())))
}

/// Returns a conventional model with another size. Its collector's free space shrinks in proportion; otherwise
/// collection would start or end only once per recording. A minimum remains so that requests in flight do not matter.
fn sized(mut model: Model, bytes: u64) -> Model {
    let region = model.geometry.zone_size_mib << 20;
    let share = bytes as f64 / (region * u64::from(model.geometry.zones)) as f64;
    model.geometry.zones = bytes.div_ceil(region).max(1) as u32;
    if let Some(garbage) = &mut model.garbage {
        let apart = (garbage.stop_above_mib - garbage.start_below_mib) as f64;
        let share = share.max(LEAST_COLLECTED_MIB / apart).min(1.0);
        let mib = |mib: u64| (mib as f64 * share).round() as u64;
        (garbage.start_below_mib, garbage.stop_above_mib) = (mib(garbage.start_below_mib), mib(garbage.stop_above_mib));
    }
    model
}

/// Ten times the data in flight of the published drive's model.
const LEAST_COLLECTED_MIB: f64 = 100.0;

/// Returns a model with the number, size and limits of another drive's zones. The fixed times of a reset and a finish
/// shrink with the zone. Managing all zones of one GiB takes as long as managing one published zone.
fn shaped(mut model: Model, geometry: &Geometry) -> Result<Model, Failure> {
    let mib = |blocks: u64| {
        let bytes = blocks.saturating_mul(geometry.block_bytes.into());
        let words = || format!("zones of {bytes} bytes: the model supports only zones of whole MiB");
        bytes.is_multiple_of(1 << 20).then_some(bytes >> 20).ok_or_else(|| Failure::new(ExitCode::RunFailed, words()))
    };
    let published_mib = model.geometry.zone_capacity_mib as f64;
    let shape = &mut model.geometry;
    shape.zones = geometry.zones;
    shape.zone_size_mib = mib(geometry.zone_blocks)?;
    shape.zone_capacity_mib = mib(geometry.capacity_blocks)?;
    (shape.max_open, shape.max_active) = (geometry.max_open, geometry.max_active);
    let share = (shape.zone_capacity_mib as f64 / published_mib).min(1.0);
    if let Some(zone) = &mut model.zones {
        for time_us in [
            &mut zone.reset_us,
            &mut zone.reset_open_us,
            &mut zone.finish_us,
            &mut zone.finish_tail_fast_us,
            &mut zone.finish_tail_slow_us,
        ] {
            *time_us *= share;
        }
    }
    Ok(model.checked()?)
}

/// Zones whose write pointer in the model differs from the emulated drive's at the end: the cross-check of every write
/// and reset. If a zone changed between the two final readings, any pointer between them is accepted.
pub(crate) fn unequal_zones(device: &mut SimDevice, zones: &Zones) -> Result<Vec<u32>, Failure> {
    let found = device.report(0, zones.geometry.zones)?;
    let is_unequal = |(index, (model, after)): (usize, (&ZoneInfo, &u64))| {
        let before = zones.shortly_before.get(index).unwrap_or(after);
        let between = *before.min(after)..=*before.max(after);
        (!between.contains(&model.written())).then_some(model.zone)
    };
    Ok(found.iter().zip(&zones.after).enumerate().filter_map(is_unequal).collect())
}
