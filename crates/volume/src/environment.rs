//! Environment facts of a result below the mount point: file system, mount options, queue, device and wear.

use crate::block_device::{BlockDevice, chosen};
use crate::file_system::{self, FileSystem};
use crate::guard::{self, MountLine};
use senesce_core::Environment;
use std::path::Path;

const QUEUE: [&str; 16] = [
    "read_ahead_kb",
    "rotational",
    "nr_requests",
    "nomerges",
    "max_sectors_kb",
    "max_hw_sectors_kb",
    "logical_block_size",
    "physical_block_size",
    "optimal_io_size",
    "discard_granularity",
    "discard_max_bytes",
    "write_cache",
    "fua",
    "wbt_lat_usec",
    "zoned",
    "rq_affinity",
];

pub(crate) fn mounted(facts: &mut Environment, point: &Path, known: Option<FileSystem>, device: Option<&Path>) {
    if let Some(line) = mount_line(point) {
        facts.put("fs.name", &line.file_system);
        facts.put("fs.mount_options", &line.options);
    }
    let Some(file_system) = known else { return };
    match file_system.mkfs_version() {
        Ok(version) => facts.put("mkfs.version", version),
        Err(error) => facts.put("mkfs.version", format!("not readable: {error}")),
    }
    if let Some(features) = device.and_then(|device| file_system.features(device, point)) {
        facts.put("fs.features", features);
    }
}

pub(crate) fn device(facts: &mut Environment, device: &BlockDevice) {
    facts.put("device.name", device.name());
    facts.put("device.size_bytes", device.size().0.to_string());
    for name in QUEUE {
        if let Some(value) = device.queue(name) {
            facts.put(&format!("queue.{name}"), value);
        }
    }
    if let Some(value) = device.queue("scheduler") {
        facts.put("queue.scheduler", chosen(&value));
    }
    let disk = device.disk();
    for (fact, names) in [
        ("device.model", ["device/model", "device/name"]),
        ("device.firmware", ["device/firmware_rev", "device/rev"]),
        ("device.vendor", ["device/vendor", "device/vendor"]),
    ] {
        if let Some(value) = names.iter().find_map(|name| disk.attribute(name)).filter(|value| !value.is_empty()) {
            facts.put(fact, value);
        }
    }
    facts.put("device.wear", wear(&disk));
}

fn wear(disk: &BlockDevice) -> String {
    if ["loop", "ram", "zram"].iter().any(|kind| disk.name().starts_with(kind)) {
        return "not applicable: not a drive".into();
    }
    let path = disk.path().to_string_lossy().into_owned();
    let (command, package) = match disk.name().starts_with("nvme") {
        true => (["nvme", "smart-log", "--output-format=json"], "nvme-cli"),
        false => (["smartctl", "--json=c", "--attributes"], "smartmontools"),
    };
    let output = match file_system::programs::run(&command, &[&path], package) {
        Ok(output) if output.success => output.text,
        Ok(output) => return format!("not readable: {} {}", output.command, output.status),
        Err(error) => return format!("not readable: {error}"),
    };
    wear_from_json(&output).unwrap_or_else(|| "not reported by the drive".into())
}

/// Reads the percentage used of NVMe (NVM Express base specification, SMART log, byte 5), or the ATA wear attributes:
/// 177 Wear_Leveling_Count, 231 SSD_Life_Left, 233 Media_Wearout_Indicator.
fn wear_from_json(text: &str) -> Option<String> {
    let start = text.find('{')?;
    let value: serde_json::Value = serde_json::Deserializer::from_str(&text[start..]).into_iter().next()?.ok()?;
    let nvme = &value["nvme_smart_health_information_log"]["percentage_used"];
    for used in [&value["percent_used"], &value["percentage_used"], nvme] {
        if let Some(used) = used.as_u64() {
            return Some(format!("{used} % used"));
        }
    }
    let table = value["ata_smart_attributes"]["table"].as_array()?;
    let row = table.iter().find(|row| matches!(row["id"].as_u64(), Some(177 | 231 | 233)))?;
    Some(format!("{} = {}", row["name"].as_str()?, row["value"]))
}

fn mount_line(point: &Path) -> Option<MountLine> {
    let real = point.canonicalize().ok()?;
    let lines = guard::mounts().ok()?;
    let below = lines.into_iter().filter(|line| real.starts_with(&line.mount_point));
    // The longest mount point wins, and the last of several mounts on it.
    below.enumerate().max_by_key(|(index, line)| (line.mount_point.as_os_str().len(), *index)).map(|(_, line)| line)
}

pub(crate) fn file_system_name(path: &Path) -> String {
    mount_line(path).map_or_else(|| "unknown".into(), |line| line.file_system)
}

pub(crate) fn file_system_of(path: &Path) -> Option<FileSystem> {
    file_system_name(path).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wear_is_read_from_both_kinds_of_drives() {
        assert_eq!(wear_from_json(r#"{"percent_used":7}"#).unwrap(), "7 % used");
        let ata = r#"{"ata_smart_attributes":{"table":[{"id":9,"name":"Hours","value":1},{"id":177,"name":"Wear_Leveling_Count","value":96}]}}"#;
        assert_eq!(wear_from_json(ata).unwrap(), "Wear_Leveling_Count = 96");
        assert_eq!(wear_from_json("no json"), None);
    }

    #[test]
    fn the_file_system_of_proc_is_proc() {
        assert_eq!(file_system_name(Path::new("/proc/self")), "proc");
    }
}
