//! Write pointers derived from the run's own commands: a cross-check of the drive's report. A difference means that
//! another program wrote or reset a zone, even if no command of the run failed.

use super::check::CheckedStep;
use super::spec::PrepareStep;
use crate::error::ZonedError;
use crate::geometry::{ZoneInfo, ZoneState};

/// Blocks written in each zone; `None`: no write pointer, or unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pointers(Vec<Option<u64>>);

fn reported(info: &ZoneInfo) -> Option<u64> {
    match info.state {
        ZoneState::ReadOnly | ZoneState::Offline | ZoneState::Conventional => None,
        _ => Some(info.written()),
    }
}

impl Pointers {
    pub(crate) fn of(zones: &[ZoneInfo]) -> Self {
        Self(zones.iter().map(reported).collect())
    }

    pub(crate) fn prepare(&mut self, steps: &[CheckedStep], zones: &[ZoneInfo]) {
        for step in steps {
            for zone in step.zones.clone() {
                let (Some(place), Some(info)) = (self.0.get_mut(zone as usize), zones.get(zone as usize)) else {
                    continue;
                };
                let Some(written) = place else { continue };
                *written = match step.step {
                    PrepareStep::Reset => 0,
                    PrepareStep::Fill => step.blocks.min(info.capacity),
                    PrepareStep::Finish => info.capacity,
                    PrepareStep::Open | PrepareStep::Close | PrepareStep::Wear => *written,
                };
            }
        }
    }

    pub(crate) fn follow(&mut self, written: &[(u32, Option<u64>)]) {
        for (zone, blocks) in written {
            if let Some(place) = self.0.get_mut(*zone as usize) {
                *place = *blocks;
            }
        }
    }

    pub(crate) fn check(&self, zones: &[ZoneInfo]) -> Result<(), ZonedError> {
        let differs = |(info, ours): (&ZoneInfo, &Option<u64>)| Some((info.zone, (*ours)?, reported(info)?));
        let others: Vec<_> =
            zones.iter().zip(&self.0).filter_map(differs).filter(|(_, ours, found)| ours != found).collect();
        match others.first() {
            None => Ok(()),
            Some((zone, ours, found)) => {
                Err(ZonedError::Disturbed { zone: *zone, ours: *ours, found: *found, more: others.len() - 1 })
            }
        }
    }
}

#[cfg(test)]
mod tests;
