//! Emulated drives: `zns,size=4G,zone=64M,cap=62M,open=14,active=14,lba=4096` and `nvme,size=2G`.

use crate::error::GuestError;
use senesce_core::parameter::suggest;
use senesce_core::units::UnitError;
use senesce_core::{Bytes, Span};
use serde::Serialize;
use std::time::Duration;

/// One emulated drive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Drive {
    pub size: Bytes,
    /// Logical block size: 512 or 4096 bytes.
    pub lba: u32,
    pub kind: DriveKind,
    /// Whether it is another namespace of the previous drive, instead of a drive with its own controller.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub same_controller: bool,
    /// Minimum time of each request. `None`: that of the emulation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<Span>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DriveKind {
    /// A conventional NVMe namespace.
    Nvme,
    /// A zoned namespace.
    Zns {
        /// Zone size in bytes, a power of two.
        zone: Bytes,
        /// Writable bytes of each zone, at most `zone`.
        capacity: Bytes,
        /// Maximum number of open zones, 0 for no limit.
        open: u32,
        /// Maximum number of active zones, 0 for no limit.
        active: u32,
    },
}

const KEYS: [&str; 8] = ["size", "zone", "cap", "open", "active", "lba", "controller", "latency"];

/// Drivers abort a request after 30 s (nvme_core.io_timeout), and requests wait for earlier ones.
const LONGEST_LATENCY: Duration = Duration::from_millis(100);

impl Drive {
    /// Parses one `--drive` value and checks that its numbers are consistent.
    pub fn parse(text: &str) -> Result<Self, GuestError> {
        let wrong = |problem: String| GuestError::Usage(format!("--drive {text}: {problem}"));
        let mut words = text.split(',');
        let kind = words.next().unwrap_or_default();
        if !["nvme", "zns"].contains(&kind) {
            return Err(wrong(format!(
                "'{kind}' is not a type of drive{}; use nvme or zns",
                suggest(kind, ["nvme", "zns"])
            )));
        }
        let mut fields = Fields { open: 14, active: 14, lba: 4096, ..Fields::default() };
        for word in words {
            let (key, value) = word.split_once('=').ok_or_else(|| wrong(format!("'{word}' is not KEY=VALUE")))?;
            fields.set(key, value, kind).map_err(&wrong)?;
        }
        fields.finish(kind).map_err(&wrong)
    }

    pub(crate) fn word(&self) -> &'static str {
        match self.kind {
            DriveKind::Nvme => "nvme",
            DriveKind::Zns { .. } => "zns",
        }
    }
}

#[derive(Default)]
struct Fields {
    size: Option<Bytes>,
    zone: Option<Bytes>,
    cap: Option<Bytes>,
    open: u32,
    active: u32,
    lba: u32,
    same_controller: bool,
    latency: Option<Span>,
}

impl Fields {
    fn set(&mut self, key: &str, value: &str, kind: &str) -> Result<(), String> {
        let size = || value.parse::<Bytes>().map_err(|error| error.to_string());
        let count = || value.parse::<u32>().map_err(|_| format!("'{value}' is not a whole number"));
        if kind == "nvme" && ["zone", "cap", "open", "active"].contains(&key) {
            return Err(format!("{key} is only for zns drives"));
        }
        match key {
            "size" => self.size = Some(size()?),
            "zone" => self.zone = Some(size()?),
            "cap" => self.cap = Some(size()?),
            "open" => self.open = count()?,
            "active" => self.active = count()?,
            "lba" => self.lba = count()?,
            "latency" => {
                let span: Span = value.parse().map_err(|error: UnitError| error.to_string())?;
                if span.0 > LONGEST_LATENCY {
                    return Err(format!("latency={span} is more than {}", Span(LONGEST_LATENCY)));
                }
                self.latency = Some(span).filter(|span| !span.0.is_zero());
            }
            "controller" if ["own", "same"].contains(&value) => self.same_controller = value == "same",
            "controller" => return Err(format!("controller={value}: must be own or same")),
            _ => return Err(format!("unknown key '{key}'{}; keys: {}", suggest(key, KEYS), KEYS.join(", "))),
        }
        Ok(())
    }

    fn finish(self, kind: &str) -> Result<Drive, String> {
        let default = if kind == "zns" { Bytes::gib(4) } else { Bytes::gib(2) };
        let size = self.size.unwrap_or(default);
        if ![512, 4096].contains(&self.lba) {
            return Err(format!("lba={}: must be 512 or 4096", self.lba));
        }
        if size.0 == 0 || !size.0.is_multiple_of(u64::from(self.lba)) {
            return Err(format!("size {size} is not a multiple of the {} byte block", self.lba));
        }
        if kind == "nvme" {
            return Ok(self.drive(size, DriveKind::Nvme));
        }
        let zone = self.zone.unwrap_or(Bytes::mib(64));
        let capacity = self.cap.unwrap_or(zone);
        check_zones(size, zone, capacity, self.open, self.active, self.lba)?;
        let kind = DriveKind::Zns { zone, capacity, open: self.open, active: self.active };
        Ok(self.drive(size, kind))
    }

    fn drive(&self, size: Bytes, kind: DriveKind) -> Drive {
        Drive { size, lba: self.lba, kind, same_controller: self.same_controller, latency: self.latency }
    }
}

fn check_zones(size: Bytes, zone: Bytes, capacity: Bytes, open: u32, active: u32, lba: u32) -> Result<(), String> {
    if !zone.0.is_power_of_two() {
        return Err(format!("zone={zone} is not a power of two, which Linux requires of zoned block devices"));
    }
    if capacity > zone || capacity.0 == 0 {
        return Err(format!("cap={capacity} does not fit zones of {zone}: the capacity is at most the zone size"));
    }
    if !capacity.0.is_multiple_of(u64::from(lba)) {
        return Err(format!("cap={capacity} is not a multiple of the {lba} byte block"));
    }
    if !size.0.is_multiple_of(zone.0) {
        return Err(format!("size={size} is not a multiple of the zone size {zone}"));
    }
    if active != 0 && (open == 0 || open > active) {
        return Err(format!("open={open} is above active={active}: every open zone is also active"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_description_is_parsed() {
        let drive = Drive::parse("zns,size=1G,zone=64M,cap=62M,open=14,active=14,lba=512").unwrap();
        assert_eq!(drive.size, Bytes::gib(1));
        assert_eq!(drive.kind, DriveKind::Zns { zone: Bytes::mib(64), capacity: Bytes::mib(62), open: 14, active: 14 });
        assert_eq!(Drive::parse("nvme").unwrap().size, Bytes::gib(2));
        assert!(Drive::parse("nvme,controller=same").unwrap().same_controller && !drive.same_controller);
        assert_eq!(Drive::parse("nvme,latency=2ms").unwrap().latency, Some(Span::from_millis(2)));
        assert_eq!((drive.latency, Drive::parse("nvme,latency=0ms").unwrap().latency), (None, None));
    }

    #[test]
    fn conflicts_are_refused_with_the_numbers() {
        for (text, message) in [
            ("zns,zone=64M,cap=65M", "at most the zone size"),
            ("zns,open=20,active=14", "open=20 is above active=14"),
            ("zns,zone=60M", "power of two"),
            ("zns,size=100M,zone=64M", "multiple of the zone size"),
            ("nvme,zone=64M", "for zns drives"),
            ("nvme,sise=1G", "did you mean 'size'"),
            ("nvmf", "did you mean 'nvme'"),
            ("nvme,lba=1024", "512 or 4096"),
            ("nvme,controller=first", "must be own or same"),
            ("nvme,latency=2", "2"),
            ("nvme,latency=1s", "more than 100ms"),
        ] {
            let error = Drive::parse(text).unwrap_err().to_string();
            assert!(error.contains(message), "{text}: {error}");
        }
    }
}
