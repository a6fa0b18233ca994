//! Surveys a drive before planning: zones, formats, paths, and whether its times are physical.

use crate::device::ZonedDevice;
use crate::error::ZonedError;
use crate::geometry::{Geometry, ZoneInfo, ZoneState};
use crate::hardware;
use crate::null::NullDevice;
use crate::run::DeviceName;
use crate::sim::HostPath;
use crate::sim::model::Model;
use std::ops::Range;
use std::path::Path;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriveNature {
    Simulated,
    /// Emulated in software, or the null drive: times are those of this machine.
    Emulated,
    Real,
}

impl DriveNature {
    pub fn name(self) -> &'static str {
        match self {
            Self::Simulated => "simulated",
            Self::Emulated => "emulated",
            Self::Real => "real",
        }
    }
}

#[derive(Debug, Clone)]
pub struct Survey {
    pub name: String,
    /// Model name: of the simulator's file, or reported by the drive.
    pub model: String,
    pub nature: DriveNature,
    /// Zones and limits, in the current or default format.
    pub geometry: Geometry,
    pub zones: Vec<ZoneInfo>,
    pub ways: Vec<HostPath>,
}

impl Survey {
    /// Surveys a drive; claims nothing.
    pub fn of(name: &DeviceName) -> Result<Self, ZonedError> {
        match name {
            DeviceName::Sim(model) => Ok(Self::of_model(name, &Model::load(model)?)?),
            DeviceName::Null => {
                let mut device = NullDevice::new(None)?;
                let geometry = device.geometry().clone();
                let zones = device.report(0, geometry.zones)?;
                let (model, nature) = ("null".into(), DriveNature::Emulated);
                Ok(Self { name: name.to_string(), model, nature, geometry, zones, ways: HostPath::ALL.into() })
            }
            DeviceName::Path(path) => Self::of_path(name, path),
        }
    }

    fn of_model(name: &DeviceName, model: &Model) -> Result<Self, ZonedError> {
        let geometry = model.geometry(None)?;
        let conventional = if geometry.zoned { model.geometry.conventional_zones } else { geometry.zones };
        let zone = |zone| ZoneInfo {
            zone,
            state: if zone < conventional { ZoneState::Conventional } else { ZoneState::Empty },
            start: geometry.start(zone),
            capacity: if geometry.zoned && zone < conventional {
                geometry.zone_blocks
            } else {
                geometry.capacity_blocks
            },
            pointer: geometry.start(zone),
        };
        Ok(Self {
            name: name.to_string(),
            model: model.name.clone(),
            nature: DriveNature::Simulated,
            zones: (0..geometry.zones).map(zone).collect(),
            geometry,
            ways: HostPath::ALL.into_iter().filter(|way| way.model(model).is_some()).collect(),
        })
    }

    fn of_path(name: &DeviceName, path: &Path) -> Result<Self, ZonedError> {
        let passthrough = hardware::has_passthrough(path);
        let way = if passthrough { HostPath::Direct } else { HostPath::None };
        let mut device = hardware::open_for_reading(path, way)?;
        let geometry = device.geometry().clone();
        let zones = device.report(0, geometry.zones)?;
        let mut ways = if passthrough { vec![HostPath::Direct, HostPath::Passthrough] } else { Vec::new() };
        if hardware::has_block_device(path) {
            ways.extend([HostPath::None, HostPath::MqDeadline]);
        }
        let model = hardware::model_of(path).unwrap_or_else(|| geometry.name.clone());
        let nature = if is_software(&model) { DriveNature::Emulated } else { DriveNature::Real };
        Ok(Self { name: name.to_string(), model, nature, geometry, zones, ways })
    }

    /// Returns the longest run of zones that can be written in sequence and read; all regions of a conventional drive.
    pub fn usable(&self) -> Range<u32> {
        let usable = |info: &&ZoneInfo| match info.state {
            ZoneState::ReadOnly | ZoneState::Offline => false,
            ZoneState::Conventional => !self.geometry.zoned,
            _ => true,
        };
        let (mut best, mut current) = (0..0, 0..0);
        for info in self.zones.iter().filter(usable) {
            let follows = info.zone == current.end && !current.is_empty();
            current = if follows { current.start..info.zone + 1 } else { info.zone..info.zone + 1 };
            if current.len() > best.len() {
                best = current.clone();
            }
        }
        best
    }

    pub fn usable_words(&self) -> String {
        match self.usable().len() {
            0 => "no usable zone".into(),
            1 => "one usable zone".into(),
            count => format!("{count} usable adjacent zones"),
        }
    }

    /// Returns the bytes per block that a job may choose: all formats if the format is selectable per run, otherwise
    /// the current one.
    pub fn block_sizes(&self) -> Vec<u32> {
        match self.nature {
            DriveNature::Simulated => self.geometry.formats.iter().map(|format| format.block_bytes).collect(),
            _ if self.model == "null" => self.geometry.formats.iter().map(|format| format.block_bytes).collect(),
            _ => vec![self.geometry.block_bytes],
        }
    }

    /// Zones, limits and zone states in blocks of another size, one of [`Self::block_sizes`].
    pub fn in_blocks(&self, block_bytes: u32) -> (Geometry, Vec<ZoneInfo>) {
        let of = |blocks: u64| blocks * u64::from(self.geometry.block_bytes) / u64::from(block_bytes);
        let geometry = Geometry {
            block_bytes,
            zone_blocks: of(self.geometry.zone_blocks),
            capacity_blocks: of(self.geometry.capacity_blocks),
            ..self.geometry.clone()
        };
        let zone = |info: &ZoneInfo| ZoneInfo {
            start: of(info.start),
            capacity: of(info.capacity),
            pointer: of(info.pointer),
            ..*info
        };
        (geometry, self.zones.iter().map(zone).collect())
    }

    /// Returns the name in the published tables: "WD ZN540" for the zoned drive, "nvme-a" for the conventional one, or
    /// their models.
    pub fn published_name(&self) -> Option<&'static str> {
        let capacity = self.geometry.capacity_bytes();
        match self.nature {
            // A user's file may contain other constants under the same name.
            DriveNature::Simulated if self.name == "sim:zn540" => Some("WD ZN540"),
            DriveNature::Simulated if self.name == "sim:nvme-a" => Some("nvme-a"),
            // Prefix of the series' order numbers.
            DriveNature::Real if self.model.contains("WZS4C8T") && capacity == 1077 << 20 => Some("WD ZN540"),
            _ => None,
        }
    }
}

/// Returns whether this model name belongs to software: QEMU, null_blk, scsi_debug, a paravirtual or a stacked disk.
fn is_software(model: &str) -> bool {
    let name = model.to_lowercase();
    let words = ["qemu", "nullb", "scsi_debug", "virtual", "virtio", "loop", "dm-", "zram", "ublk", "vbox"];
    words.iter().any(|word| name.contains(word)) || name.starts_with("vd") || name.starts_with("xvd")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn survey(states: &[ZoneState]) -> Survey {
        let mut survey = Survey::of(&DeviceName::Null).unwrap();
        survey.zones.truncate(states.len());
        survey.zones.iter_mut().zip(states).for_each(|(zone, state)| zone.state = *state);
        survey
    }

    #[test]
    fn the_longest_run_of_sequential_zones_is_used() {
        use ZoneState::{Conventional, Empty, Full, Offline, ReadOnly};
        assert_eq!(survey(&[Conventional, Conventional, Empty, Full, Offline, Empty]).usable(), 2..4);
        assert_eq!(survey(&[Empty, ReadOnly, Empty, Full, Empty]).usable(), 2..5);
        assert_eq!(survey(&[Offline, Conventional]).usable(), 0..0);
        assert_eq!(survey(&[Offline]).usable_words(), "no usable zone");
        assert_eq!(survey(&[Conventional, Empty]).usable_words(), "one usable zone");
        assert_eq!(survey(&[Empty, Full]).usable_words(), "2 usable adjacent zones");
        assert_eq!(Survey::of(&"sim:nvme-a".parse().unwrap()).unwrap().usable().start, 0);
    }

    #[test]
    fn only_the_published_drive_and_its_model_have_the_published_name() {
        let of = |name: &str| Survey::of(&name.parse().unwrap()).unwrap();
        assert_eq!(of("sim:zn540").published_name(), Some("WD ZN540"));
        assert_eq!(of("sim:nvme-a").published_name(), Some("nvme-a"));
        assert_eq!(of("null").published_name(), None);
        let file = concat!("sim:", env!("CARGO_MANIFEST_DIR"), "/../../data/zoned/zn540.toml");
        assert_eq!(of(file).published_name(), None);
        let mut drive = of("sim:zn540");
        (drive.nature, drive.model) = (DriveNature::Real, "WZS4C8T1TDSP303".into());
        assert_eq!(drive.published_name(), Some("WD ZN540"));
        drive.model = "QEMU NVMe Ctrl".into();
        assert_eq!(drive.published_name(), None);
    }

    #[test]
    fn software_drives_are_recognised() {
        for name in ["QEMU NVMe Ctrl", "nullb0", "scsi_debug", "vda", "dm-3", "VMware Virtual NVMe Disk"] {
            assert!(is_software(name), "{name}");
        }
        assert!(!is_software("WZS4C8T1TDSP303") && !is_software("SAMSUNG MZQL23T8HCLS-00A07"));
    }

    #[test]
    fn states_convert_to_other_block_sizes() {
        let drive = Survey::of(&"sim:zn540".parse().unwrap()).unwrap();
        let (geometry, zones) = drive.in_blocks(512);
        assert_eq!(geometry.capacity_bytes(), drive.geometry.capacity_bytes());
        assert_eq!(zones[3].start, geometry.start(3));
        assert_eq!(drive.block_sizes(), [512, 4096]);
    }
}
