//! Manual zone commands behind the guard: `senesce zoned list` and related.

use crate::command::{Command, Operation, ZoneFault};
use crate::device::ZonedDevice;
use crate::error::ZonedError;
use crate::geometry::{Geometry, ZoneInfo, ZoneState};
use crate::hardware::ClaimedDrive;
use crate::job::Zones;
use crate::map::zone_map;
use crate::run::{DeviceName, open};
use crate::sim::HostPath;
use senesce_core::{Figure, Seed};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    All,
    /// First and one past the last.
    Range(u32, u32),
}

impl Choice {
    pub fn parse(text: &str) -> Result<Self, ZonedError> {
        Ok(match text.parse::<Zones>()? {
            Zones::Count(zone) => Self::Range(zone, zone.saturating_add(1)),
            Zones::Range(first, end) => Self::Range(first, end),
        })
    }

    fn range(self, geometry: &Geometry) -> Result<(u32, u32), ZonedError> {
        match self {
            Self::All => Ok((0, geometry.zones)),
            Self::Range(first, end) if end <= geometry.zones => Ok((first, end)),
            Self::Range(first, end) => Err(ZonedError::Usage(format!(
                "zones {first}..{end} do not exist; {} has {} zones",
                geometry.name, geometry.zones
            ))),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Action(Operation);

impl Action {
    pub const OPEN: Self = Self(Operation::Open);
    pub const CLOSE: Self = Self(Operation::Close);
    pub const FINISH: Self = Self(Operation::Finish);
    pub const RESET: Self = Self(Operation::Reset);

    fn loses_data(self) -> bool {
        self.0 == Operation::Reset
    }
}

#[derive(Debug, Clone)]
pub struct Outcome {
    pub geometry: Geometry,
    /// State of the selected zones after the command.
    pub zones: Vec<ZoneInfo>,
    pub refused: Vec<(u32, ZoneFault)>,
    /// Conventional zones that were skipped when all were selected, because zone commands do not apply to them.
    pub left_conventional: usize,
}

impl Outcome {
    pub fn map(&self) -> Figure {
        zone_map(&self.geometry, &self.zones)
    }

    pub fn headline(&self) -> String {
        let geometry = &self.geometry;
        let limit = |limit: u32| if limit == 0 { "no limit".to_string() } else { limit.to_string() };
        format!(
            "{}: {} zones of {} every {}, blocks of {} B, open at most {}, active at most {}",
            geometry.name,
            geometry.zones,
            senesce_core::Bytes(geometry.capacity_bytes()),
            senesce_core::Bytes(geometry.zone_blocks * u64::from(geometry.block_bytes)),
            geometry.block_bytes,
            limit(geometry.max_open),
            limit(geometry.max_active)
        )
    }

    /// Returns one line per zone; adjacent zones in the same state share a line.
    pub fn rows(&self) -> Vec<String> {
        let alike = |a: &ZoneInfo, b: &ZoneInfo| a.state == b.state && a.written() == b.written();
        let groups = self.zones.chunk_by(alike);
        let line = |group: &[ZoneInfo]| {
            let (first, last) = (&group[0], &group[group.len() - 1]);
            let zones = if group.len() == 1 { first.zone.to_string() } else { format!("{}-{}", first.zone, last.zone) };
            let share = first.written() as f64 / first.capacity.max(1) as f64 * 100.0;
            let pointer = if first.state.is_active() { first.pointer.to_string() } else { "-".into() };
            format!("{zones:>8}  {:<16} {:>16} {pointer:>16} {share:>7.2}%", first.state, first.start)
        };
        groups.map(line).collect()
    }
}

/// Reads zone states; claims nothing.
pub fn list(name: &DeviceName, choice: Choice) -> Result<Outcome, ZonedError> {
    let mut device: Box<dyn ZonedDevice> = match name {
        DeviceName::Path(path) if crate::hardware::has_passthrough(path) => {
            crate::hardware::open_for_reading(path, HostPath::Direct)?
        }
        DeviceName::Path(path) => crate::hardware::open_for_reading(path, HostPath::None)?,
        other => open(other, None, None, Seed(0))?,
    };
    report_zones(&mut *device, choice)
}

fn report_zones(device: &mut dyn ZonedDevice, choice: Choice) -> Result<Outcome, ZonedError> {
    let geometry = device.geometry().clone();
    let (first, end) = choice.range(&geometry)?;
    Ok(Outcome { zones: device.report(first, end - first)?, geometry, refused: Vec::new(), left_conventional: 0 })
}

/// Runs one zone command on the selected zones; if all are selected, on those with a write pointer. The guard requires
/// `erase` if data would be lost.
pub fn manage(name: &DeviceName, choice: Choice, action: Action, erase: Option<&str>) -> Result<Outcome, ZonedError> {
    let mut device: Box<dyn ZonedDevice> = match name {
        DeviceName::Path(path) if !action.loses_data() => crate::hardware::open_unused(path)?,
        other => open(other, None, erase, Seed(0))?,
    };
    let geometry = device.geometry();
    if !geometry.zoned {
        return Err(ZonedError::Usage(format!("{} has no zones: it is a conventional drive", geometry.name)));
    }
    command_zones(&mut *device, choice, action)
}

fn command_zones(device: &mut dyn ZonedDevice, choice: Choice, action: Action) -> Result<Outcome, ZonedError> {
    let (mut refused, mut left_conventional) = (Vec::new(), 0);
    for ZoneInfo { zone, state, start, .. } in report_zones(device, choice)?.zones {
        if choice == Choice::All && state == ZoneState::Conventional {
            left_conventional += 1;
            continue;
        }
        let command = Command { tag: 0, queue: 0, operation: action.0, zone, block: start, blocks: 0 };
        if let Err(fault) = device.execute(command)?.result {
            refused.push((zone, fault));
        }
    }
    Ok(Outcome { refused, left_conventional, ..report_zones(device, choice)? })
}

/// Changes the LBA format of an NVMe namespace, destroying all data.
pub fn format_drive(name: &DeviceName, block_bytes: u32, erase: Option<&str>) -> Result<Outcome, ZonedError> {
    let DeviceName::Path(path) = name else {
        return Err(ZonedError::Usage(format!("{name} cannot be formatted; give --lbaf to the command that uses it")));
    };
    if !crate::hardware::has_passthrough(path) {
        return Err(ZonedError::Missing {
            what: format!("{name} cannot be formatted: it is not an NVMe namespace, and its block size is fixed"),
            remedy: "`senesce zoned list DEVICE` shows its block size".into(),
        });
    }
    let drive = ClaimedDrive::claim(path, HostPath::Direct, erase)?;
    drive.format(block_bytes)?;
    drop(drive);
    list(name, Choice::All)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_opened_and_listed_in_groups() {
        let action = Action::OPEN;
        let outcome = manage(&DeviceName::Null, Choice::parse("3..5").unwrap(), action, None).unwrap();
        assert_eq!(outcome.rows().len(), 1);
        assert!(outcome.rows()[0].contains("3-4  explicitly open"), "{:?}", outcome.rows());
        let all = manage(&DeviceName::Null, Choice::All, action, None).unwrap();
        assert_eq!(all.refused.len(), 904 - 14);
        // Both limits are 14; active resources are checked first.
        assert_eq!(all.refused[0].1, ZoneFault::TooManyActive, "explicitly open zones are not closed for room");
    }

    #[test]
    fn zones_that_do_not_exist_are_named() {
        let error = list(&DeviceName::Null, Choice::parse("900..910").unwrap()).unwrap_err();
        assert!(error.to_string().contains("has 904 zones"), "{error}");
    }
}
