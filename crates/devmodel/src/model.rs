//! Device files: parameters with their sources, as TOML.

use crate::cold::ColdStore;
use crate::disk::Disk;
use crate::error::ModelError;
use crate::hdd::Hdd;
use crate::measure::Measurement;
use crate::ssd::{Drive, Flash, Ssd};
use crate::{Device, request};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceModel {
    /// Name in reports.
    pub name: String,
    /// Source of each parameter: data sheets, papers, the measurement.
    pub sources: Vec<String>,
    /// The parameters.
    pub parameters: Parameters,
    /// Results of `senesce device measure`, if the file was created by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measurement: Option<Measurement>,
}

/// Minimum of positive parameters: beyond, times of single requests in nanoseconds do not fit in 64 bits.
const LEAST: f64 = 1e-3;
const MOST: f64 = 1e12;

/// Maximum of times, in ms or us, that may be zero.
const MOST_OR_NONE: f64 = 1e9;

/// Parameters by kind of device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Parameters {
    /// A disk drive.
    Hdd(Hdd),
    /// A solid-state drive.
    Ssd(Ssd),
    /// A disk drive with zones, cache segments and reordering.
    Disk(Disk),
    /// A solid-state drive with a flash translation layer.
    FlashSsd(Flash),
    /// A store behind a network.
    ColdStore(ColdStore),
}

impl Parameters {
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Hdd(_) => "hdd",
            Self::Ssd(_) => "ssd",
            Self::Disk(_) => "disk",
            Self::FlashSsd(_) => "flash-ssd",
            Self::ColdStore(_) => "cold-store",
        }
    }
}

type NamedValues = Vec<(&'static str, f64)>;

const BUILT_IN: &[(&str, &str)] = &[
    ("st500dm002", include_str!("../data/devices/st500dm002.toml")),
    ("hp-97560", include_str!("../data/devices/hp-97560.toml")),
    ("850-evo", include_str!("../data/devices/850-evo.toml")),
    ("970-evo-plus", include_str!("../data/devices/970-evo-plus.toml")),
    ("hdd:st500dm002", include_str!("../data/devices/hdd-st500dm002.toml")),
    ("hdd:atlas-10k", include_str!("../data/devices/hdd-atlas-10k.toml")),
    ("hdd:cheetah-9lp", include_str!("../data/devices/hdd-cheetah-9lp.toml")),
    ("ssd:fast24", include_str!("../data/devices/ssd-fast24.toml")),
    ("ssd:970-pro", include_str!("../data/devices/ssd-970-pro.toml")),
    ("ssd:970-evo-plus", include_str!("../data/devices/ssd-970-evo-plus.toml")),
    ("ssd:mlc-sata", include_str!("../data/devices/ssd-mlc-sata.toml")),
    ("object-store", include_str!("../data/devices/object-store.toml")),
];

impl DeviceModel {
    /// Returns the disk drive of the published fragmentation study.
    pub fn reference_hdd() -> Result<Self, ModelError> {
        Self::builtin("st500dm002")
    }

    /// Returns the solid-state drive of the published fragmentation study.
    pub fn reference_ssd() -> Result<Self, ModelError> {
        Self::builtin("850-evo")
    }

    pub fn builtin_names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }

    pub fn builtin(name: &str) -> Result<Self, ModelError> {
        let text = BUILT_IN.iter().find(|(known, _)| *known == name).map(|(_, text)| *text);
        let known = Self::builtin_names().collect::<Vec<_>>().join(", ");
        Self::from_toml(name, text.ok_or_else(|| ModelError::Unknown { name: name.into(), known })?)
    }

    /// Loads a built-in device, or the device file at a path.
    pub fn load(name: &str) -> Result<Self, ModelError> {
        if Self::builtin_names().any(|known| known == name) || !std::path::Path::new(name).exists() {
            return Self::builtin(name);
        }
        let text = senesce_core::input::text(name.as_ref())
            .map_err(|source| ModelError::File { path: name.into(), source })?;
        Self::from_toml(name, &text)
    }

    /// Parses a device file; `name` names it in errors.
    pub fn from_toml(name: &str, text: &str) -> Result<Self, ModelError> {
        let model: Self = toml::from_str(text)
            .map_err(|error| ModelError::Malformed { name: name.into(), problem: error.to_string() })?;
        model.check(name)?;
        Ok(model)
    }

    pub fn to_toml(&self) -> Result<String, ModelError> {
        toml::to_string_pretty(self)
            .map_err(|error| ModelError::Malformed { name: self.name.clone(), problem: error.to_string() })
    }

    pub fn start(&self) -> Box<dyn Device> {
        match &self.parameters {
            Parameters::Hdd(hdd) => Box::new(hdd.start()),
            Parameters::Ssd(ssd) => Box::new(ssd.start()),
            Parameters::Disk(disk) => Box::new(disk.start()),
            Parameters::FlashSsd(flash) => Box::new(Drive::new(flash)),
            Parameters::ColdStore(store) => Box::new(store.start()),
        }
    }

    pub fn capacity_bytes(&self) -> u64 {
        match &self.parameters {
            Parameters::Hdd(hdd) => hdd.capacity_bytes,
            Parameters::Ssd(ssd) => ssd.capacity_bytes,
            Parameters::Disk(disk) => disk.capacity_bytes,
            Parameters::FlashSsd(flash) => flash.capacity_bytes,
            Parameters::ColdStore(store) => store.capacity_bytes,
        }
    }

    /// Returns whether the times of requests depend on the capacity. A drive without seeks or earlier content has the same times
    /// at any capacity.
    pub fn depends_on_capacity(&self) -> bool {
        !matches!(self.parameters, Parameters::Ssd(_))
    }

    /// Returns the same drive with space for the trace, unless its times [depend](Self::depends_on_capacity) on the capacity.
    pub fn with_space_for(mut self, trace: &[request::Request]) -> Self {
        if let Parameters::Ssd(ssd) = &mut self.parameters {
            let end = trace.iter().map(request::Request::end).max().unwrap_or(0);
            ssd.capacity_bytes = ssd.capacity_bytes.max(end);
        }
        self
    }

    /// Returns the modelled seconds of a few requests over the whole device; for the fuzzer.
    pub fn exercise(&self) -> Result<f64, ModelError> {
        let sectors = self.capacity_bytes() / request::SECTOR;
        let length = sectors.min(8);
        let request = |operation, start: u64| request::Request {
            queue_depth: 3,
            ..request::Request::new(operation, start.min(sectors - length), length as u32)
        };
        use request::Operation::{Discard, Flush, Read, Write};
        let last = sectors - 1;
        self.seconds(&[
            request(Read, 0),
            request(Write, last),
            request(Flush, 0),
            request(Read, last / 2),
            request(Discard, 1),
        ])
    }

    fn check(&self, name: &str) -> Result<(), ModelError> {
        let wrong =
            |parameter, value, expected| Err(ModelError::Parameter { name: name.into(), parameter, value, expected });
        if self.capacity_bytes() < request::SECTOR {
            return wrong("capacity_bytes", self.capacity_bytes() as f64, "at least one sector");
        }
        let (above_zero, zero_or_above) = self.numbers();
        for (parameter, value) in above_zero {
            if !(LEAST..=MOST).contains(&value) {
                return wrong(parameter, value, "from 0.001 to 1e12");
            }
        }
        for (parameter, value) in zero_or_above {
            if !(0.0..=MOST_OR_NONE).contains(&value) {
                return wrong(parameter, value, "from 0 to 1e9");
            }
        }
        match &self.parameters {
            Parameters::Hdd(hdd) if hdd.inner_mb_per_s > hdd.outer_mb_per_s => {
                wrong("inner_mb_per_s", hdd.inner_mb_per_s, "at most outer_mb_per_s")
            }
            Parameters::Hdd(hdd) => hdd
                .seek
                .problem()
                .map_or(Ok(()), |problem| Err(ModelError::Malformed { name: name.into(), problem: problem.into() })),
            Parameters::Disk(disk) => disk.check(name),
            Parameters::FlashSsd(flash) => flash.check(name),
            _ => Ok(()),
        }
    }

    /// Returns the positive parameters, and those that may be zero.
    fn numbers(&self) -> (NamedValues, NamedValues) {
        match &self.parameters {
            Parameters::Hdd(hdd) => (
                vec![
                    ("rpm", hdd.rpm),
                    ("outer_mb_per_s", hdd.outer_mb_per_s),
                    ("inner_mb_per_s", hdd.inner_mb_per_s),
                    ("interface_mb_per_s", hdd.interface_mb_per_s),
                ],
                vec![("command_us", hdd.command_us), ("write_settle_ms", hdd.write_settle_ms)],
            ),
            Parameters::Ssd(ssd) => (
                vec![
                    ("parallel_units", f64::from(ssd.parallel_units)),
                    ("stripe_bytes", ssd.stripe_bytes as f64),
                    ("read_mb_per_s", ssd.read_mb_per_s),
                    ("write_mb_per_s", ssd.write_mb_per_s),
                ],
                vec![
                    ("read_command_us", ssd.read_command_us),
                    ("write_command_us", ssd.write_command_us),
                    ("read_us", ssd.read_us),
                    ("write_us", ssd.write_us),
                ],
            ),
            // They have their own check.
            Parameters::Disk(_) | Parameters::FlashSsd(_) => (Vec::new(), Vec::new()),
            Parameters::ColdStore(store) => (
                vec![("mb_per_s", store.mb_per_s), ("connections", f64::from(store.connections))],
                vec![("first_byte_ms", store.first_byte_ms)],
            ),
        }
    }
}
