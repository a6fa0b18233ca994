//! Fingerprint of a run's data on a drive, so that a resumed run recognises it.

use super::noise::is_noise;
use crate::geometry::{ZoneInfo, ZoneState};
use senesce_sys::zeros::is_zero;
use serde::{Deserialize, Serialize};
use std::io;

const SAMPLES: usize = 32;

/// How far each zone of a drive is written, and with which content. Reports with equal write pointers are equal, even
/// if a power cycle closed zones in between. Write pointers alone do not identify the data of full zones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leftover {
    /// Serial number, or the path if the drive has none.
    pub drive: String,
    /// Run-length encoded zones: count, and how far each is written; `full` has no pointer.
    pub zones: Vec<(u32, Fill)>,
    /// BLAKE3 of the first blocks of up to 32 written zones; `None`: unreadable, so the data cannot be identified.
    #[serde(default)]
    pub content: Option<String>,
}

/// How far a zone is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fill {
    /// Up to this number of blocks.
    Blocks(u64),
    /// Full, possibly by a finish.
    Full,
    /// Without a write pointer: conventional, read-only or offline.
    None,
}

impl Fill {
    fn of(info: &ZoneInfo) -> Self {
        match info.state {
            ZoneState::Full => Self::Full,
            ZoneState::Conventional | ZoneState::ReadOnly | ZoneState::Offline => Self::None,
            _ => Self::Blocks(info.written()),
        }
    }
}

impl Leftover {
    /// Creates the fingerprint from a zone report, and `read`, which returns the logical block of a number.
    pub(crate) fn of(drive: &str, zones: &[ZoneInfo], read: impl FnMut(u64) -> io::Result<Vec<u8>>) -> Self {
        let mut runs: Vec<(u32, Fill)> = Vec::new();
        for fill in zones.iter().map(Fill::of) {
            match runs.last_mut() {
                Some((count, last)) if *last == fill => *count += 1,
                _ => runs.push((1, fill)),
            }
        }
        Self { drive: drive.into(), zones: runs, content: content(zones, read).ok() }
    }

    /// Removes the content hash: only noise is recognised then.
    #[must_use]
    pub(crate) fn vouching_for_nothing(self) -> Self {
        Self { content: None, ..self }
    }

    pub(crate) fn is_found(&self, now: &Self) -> bool {
        self.content.is_some() && self == now
    }
}

/// Returns whether every written zone begins and ends with this program's noise. A finished zone may end unwritten: it
/// must hold noise up to some point and zeros after it, at all sampled positions.
pub(crate) fn holds_only_noise(
    zones: &[ZoneInfo],
    mut read: impl FnMut(u64) -> io::Result<Vec<u8>>,
) -> io::Result<bool> {
    for zone in zones {
        let (blocks, may_be_unwritten) = match Fill::of(zone) {
            Fill::Blocks(0) | Fill::None => continue,
            Fill::Blocks(blocks) => (blocks, false),
            Fill::Full => (zone.capacity, true),
        };
        let last = read(zone.start + blocks.max(1) - 1)?;
        let is_own = is_noise(&read(zone.start)?)
            && (is_noise(&last) || may_be_unwritten && is_zero(&last) && ends_in_zeros(zone, &mut read)?);
        if !is_own {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Sampled positions of a zone with a boundary between noise and zeros.
const PLACES: u64 = 32;

fn ends_in_zeros(zone: &ZoneInfo, mut read: impl FnMut(u64) -> io::Result<Vec<u8>>) -> io::Result<bool> {
    let mut has_ended = false;
    for place in 1..PLACES {
        let content = read(zone.start + zone.capacity * place / PLACES)?;
        has_ended |= is_zero(&content);
        if !(has_ended && is_zero(&content) || !has_ended && is_noise(&content)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Samples zones at equal distances among the written ones, including the first and the last.
fn content(zones: &[ZoneInfo], mut read: impl FnMut(u64) -> io::Result<Vec<u8>>) -> io::Result<String> {
    let is_written = |info: &&ZoneInfo| !matches!(Fill::of(info), Fill::Blocks(0) | Fill::None);
    let written: Vec<&ZoneInfo> = zones.iter().filter(is_written).collect();
    let samples = written.len().min(SAMPLES);
    let mut sum = blake3::Hasher::new();
    for sample in 0..samples {
        let place = if samples > 1 { sample * (written.len() - 1) / (samples - 1) } else { 0 };
        sum.update(&written[place].start.to_le_bytes());
        sum.update(&read(written[place].start)?);
    }
    Ok(sum.finalize().to_hex().to_string())
}

#[cfg(test)]
mod tests {
    use super::super::noise::fill;
    use super::*;
    use crate::device::ZonedDevice;
    use crate::null::NullDevice;

    fn inspect(drive: &mut NullDevice, read: impl FnMut(u64) -> io::Result<Vec<u8>>) -> Leftover {
        let zones = drive.geometry().zones;
        Leftover::of("null", &drive.report(0, zones).unwrap(), read)
    }

    fn same(block: u64) -> io::Result<Vec<u8>> {
        Ok(vec![block as u8; 512])
    }

    #[test]
    fn zone_written_or_reset_by_others_changes_the_leftover() {
        let mut drive = NullDevice::new(None).unwrap();
        drive.preset(3, Some(100)).unwrap();
        drive.preset(5, Some(u64::MAX)).unwrap();
        let ours = inspect(&mut drive, same);
        let runs = [(3, Fill::Blocks(0)), (1, Fill::Blocks(100)), (1, Fill::Blocks(0)), (1, Fill::Full)];
        assert_eq!(ours.zones[..4], runs);
        assert!(ours.is_found(&inspect(&mut drive, same)));
        drive.preset(3, Some(101)).unwrap();
        assert!(!ours.is_found(&inspect(&mut drive, same)), "one more block");
        drive.preset(3, None).unwrap();
        assert!(!ours.is_found(&inspect(&mut drive, same)), "reset");
    }

    #[test]
    fn other_data_at_equal_pointers_changes_the_leftover() {
        let mut drive = NullDevice::new(None).unwrap();
        let all = drive.geometry().zones;
        (0..all).for_each(|zone| assert!(drive.preset(zone, Some(u64::MAX)).unwrap()));
        let ours = inspect(&mut drive, same);
        assert_eq!(ours.zones, [(all, Fill::Full)]);
        assert!(ours.is_found(&inspect(&mut drive, same)));
        let filled = inspect(&mut drive, |_| Ok(vec![7; 512]));
        assert!(!ours.is_found(&filled), "another program filled the whole drive");
        let last = drive.report(all - 1, 1).unwrap()[0].start;
        let one = inspect(&mut drive, |block| if block == last { Ok(vec![7; 512]) } else { same(block) });
        assert!(!ours.is_found(&one), "a sampled zone");
    }

    #[test]
    fn unreadable_content_is_not_ours() {
        let mut drive = NullDevice::new(None).unwrap();
        drive.preset(0, Some(u64::MAX)).unwrap();
        let unreadable = inspect(&mut drive, |_| Err(io::Error::from_raw_os_error(5)));
        assert!(!unreadable.is_found(&inspect(&mut drive, same)));
        assert!(!unreadable.is_found(&unreadable.clone()));
        assert!(!inspect(&mut drive, same).is_found(&unreadable));
        let old = r#"{"drive":"null","zones":[[1,"full"]]}"#;
        let old: Leftover = serde_json::from_str(old).unwrap();
        assert!(!old.is_found(&old.clone()), "a record that says nothing of content");
    }

    #[test]
    fn noise_at_both_ends_of_all_written_zones_is_ours() {
        let mut drive = NullDevice::new(None).unwrap();
        drive.preset(3, Some(100)).unwrap();
        drive.preset(5, Some(u64::MAX)).unwrap();
        let all = drive.geometry().zones;
        let zones = drive.report(0, all).unwrap();
        let capacity = zones[5].capacity;
        let (three, five) = (zones[3].start, zones[5].start);
        let mut noise = vec![0; 4096];
        fill(&mut noise);
        let with = |other: Option<(u64, Vec<u8>)>| {
            let read =
                |block| Ok(other.as_ref().filter(|one| one.0 == block).map_or(noise.clone(), |one| one.1.clone()));
            holds_only_noise(&zones, read).unwrap()
        };
        assert!(with(None));
        let (zero, other) = (vec![0; 4096], vec![7; 4096]);
        for place in [three, three + 99, five] {
            assert!(!with(Some((place, zero.clone()))), "block {place}");
        }
        assert!(!with(Some((five + capacity - 1, vec![7; 4096]))));
        // Noise, then foreign data, then zeros.
        let finished = |noise_blocks: u64, other_blocks: u64| {
            let read = |block: u64| {
                let at = block.saturating_sub(five);
                let content = if at < noise_blocks {
                    &noise
                } else if at < other_blocks {
                    &other
                } else {
                    &zero
                };
                Ok(content.clone())
            };
            holds_only_noise(&zones, read).unwrap()
        };
        assert!(
            finished(1, 0) && finished(capacity / 2, 0) && finished(capacity - 1, 0),
            "finished before it was full"
        );
        assert!(!finished(capacity / 3, capacity / 2) && !finished(1, capacity - 1));
        assert!(holds_only_noise(&zones, |_| Err(io::Error::from_raw_os_error(5))).is_err());
        drive.preset(3, None).unwrap();
        drive.preset(5, None).unwrap();
        assert!(holds_only_noise(&drive.report(0, all).unwrap(), |_| Ok(vec![7; 4096])).unwrap(), "nothing is written");
    }
}
