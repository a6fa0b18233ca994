//! Chooses the drive model.

use crate::error::PrognosisError;
use senesce_devmodel::{DeviceModel, model::Parameters};
use senesce_volume::BlockDevice;
use serde::Serialize;
use std::path::Path;

/// The models that give the range for an unknown drive: those of local drives that need no history of writes. One for each
/// drive: hdd:st500dm002 gives almost the numbers of st500dm002.
pub(crate) const RANGE: [&str; 3] = ["st500dm002", "850-evo", "970-evo-plus"];

/// A model with the reason of its choice.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Drive {
    /// Name on the command line.
    pub name: String,
    /// Its full name.
    pub model: String,
    /// Whether the drive is known: named by the user, or detected. Otherwise the first of [`RANGE`] is used.
    pub known: bool,
    /// The reason of its choice.
    pub reason: String,
    #[serde(skip)]
    parameters: Option<DeviceModel>,
}

impl Drive {
    /// Chooses the model by `--model`: `auto`, a built-in name or a device file. `place` is a device, or a directory on
    /// it. Refuses a model whose time depends on the order of writes.
    pub(crate) fn choose(wanted: &str, place: &Path) -> Result<Self, PrognosisError> {
        let (name, known, reason) = match wanted {
            "auto" => by_device(BlockDevice::open(place).ok().or_else(|| BlockDevice::below(place)).as_ref()),
            name => (name.to_string(), true, "named with --model".into()),
        };
        let model = DeviceModel::load(&name)?;
        if matches!(model.parameters, Parameters::FlashSsd(_)) {
            return Err(PrognosisError::NeedsHistory { name });
        }
        Ok(Self { name, model: model.name.clone(), known, reason, parameters: Some(model) })
    }

    pub(crate) fn of_image(self) -> Self {
        let reason = "an image does not name its future drive; name it with --model".to_string();
        let parameters = DeviceModel::builtin(RANGE[0]).ok();
        let model = parameters.as_ref().map_or(String::new(), |model| model.name.clone());
        Self { name: RANGE[0].into(), model, known: false, reason, parameters }
    }

    /// Loads the model. Returns [`PrognosisError::Model`] for an unknown built-in model, or a file that is not a model.
    pub fn parameters(&self) -> Result<DeviceModel, PrognosisError> {
        match &self.parameters {
            Some(model) => Ok(model.clone()),
            None => Ok(DeviceModel::load(&self.name)?),
        }
    }
}

/// Drives report whether they rotate; virtual drives report nothing reliable.
fn by_device(device: Option<&BlockDevice>) -> (String, bool, String) {
    let unknown = |what: &str| {
        let reason = format!("{what}; name the drive with --model, or measure it with `senesce device measure`");
        (RANGE[0].to_string(), false, reason)
    };
    let Some(device) = device.map(BlockDevice::disk) else {
        return unknown("the drive of the files is unknown");
    };
    let name = device.name().to_string();
    let virtual_drive =
        ["loop", "vd", "xvd", "ram", "zram", "nbd", "dm-", "md", "ublk"].iter().any(|kind| name.starts_with(kind));
    if virtual_drive {
        return unknown(&format!("{name} is a virtual drive"));
    }
    match device.queue("rotational").as_deref().map(str::trim) {
        Some("1") => ("st500dm002".into(), true, format!("{name} rotates: modelled as the reference disk")),
        Some("0") if name.starts_with("nvme") => ("970-evo-plus".into(), true, format!("{name} is an NVMe drive")),
        Some("0") => {
            ("850-evo".into(), true, format!("{name} does not rotate: modelled as the reference solid-state drive"))
        }
        _ => unknown(&format!("{name} does not report whether it rotates")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_that_needs_the_write_history_is_refused() {
        let refused = Drive::choose("ssd:fast24", Path::new("/")).unwrap_err();
        assert!(matches!(refused, PrognosisError::NeedsHistory { .. }), "{refused}");
        assert!(Drive::choose("850-evo", Path::new("/")).unwrap().known);
    }
}
