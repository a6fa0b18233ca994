//! What a run leaves on a drive, so that it knows its own data when it goes on.

use crate::geometry::{ZoneInfo, ZoneState};
use serde::{Deserialize, Serialize};

/// How far each zone of a drive is written. Two reports with the same write pointers are the same leftover, whether zones
/// are open or were closed meanwhile by a power cycle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leftover {
    /// Its serial number, or its path where it has none.
    pub drive: String,
    /// Runs of equal zones: how many, and how far each is written; `full` has no pointer.
    pub zones: Vec<(u32, Fill)>,
}

/// How far a zone is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fill {
    /// So many blocks.
    Blocks(u64),
    /// Full, also by a finish.
    Full,
    /// Without a write pointer: conventional, read-only or offline.
    None,
}

impl Leftover {
    /// What a report says.
    pub fn of(drive: &str, zones: &[ZoneInfo]) -> Self {
        let mut runs: Vec<(u32, Fill)> = Vec::new();
        for info in zones {
            let fill = match info.state {
                ZoneState::Full => Fill::Full,
                ZoneState::Conventional | ZoneState::ReadOnly | ZoneState::Offline => Fill::None,
                _ => Fill::Blocks(info.written()),
            };
            match runs.last_mut() {
                Some((count, last)) if *last == fill => *count += 1,
                _ => runs.push((1, fill)),
            }
        }
        Self { drive: drive.into(), zones: runs }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::ZonedDevice;
    use crate::null::NullDevice;

    #[test]
    fn a_zone_that_another_wrote_or_reset_makes_a_difference() {
        let mut drive = NullDevice::new(None).unwrap();
        let look = |drive: &mut NullDevice| {
            let zones = drive.geometry().zones;
            Leftover::of("null", &drive.report(0, zones).unwrap())
        };
        drive.preset(3, Some(100)).unwrap();
        drive.preset(5, Some(u64::MAX)).unwrap();
        let ours = look(&mut drive);
        let runs = [(3, Fill::Blocks(0)), (1, Fill::Blocks(100)), (1, Fill::Blocks(0)), (1, Fill::Full)];
        assert_eq!(ours.zones[..4], runs);
        assert_eq!(look(&mut drive), ours);
        drive.preset(3, Some(101)).unwrap();
        assert_ne!(look(&mut drive), ours, "one more block");
        drive.preset(3, None).unwrap();
        assert_ne!(look(&mut drive), ours, "reset");
    }
}
