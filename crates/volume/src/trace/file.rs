//! The file format of a trace: a line of JSON, 16 bytes per request, then the rare large ones, all little-endian,
//! closed by a BLAKE3 hash.

use super::packed::{BlockTrace, Large, Packed};
use super::validity::Problem;
use crate::device_stat::DeviceStat;
use crate::error::TargetError;
use senesce_core::input;
use senesce_core::output::NewFile;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::Path;

const MAGIC: &str = "senesce-block-trace-2";
/// The previous format, without the device's counters.
const UNWITNESSED: &str = "senesce-block-trace-1";
const HASH: usize = 32;
const LARGE: usize = 36;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    format: String,
    device: String,
    device_bytes: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lost_events: Option<u64>,
    #[serde(default)]
    device_stat: Option<DeviceStat>,
    #[serde(default)]
    problems: Vec<Problem>,
    requests: u64,
    large: u64,
}

impl Head {
    fn problems(&self) -> Vec<Problem> {
        let mut problems = self.problems.clone();
        if self.format == UNWITNESSED {
            let lost = self.lost_events.filter(|count| *count > 0).map(|events| Problem::Lost { events });
            problems.extend(lost);
            let reason = "the trace file has an old format without the device's counters; record it again".into();
            problems.push(Problem::Unwitnessed { reason });
        }
        problems
    }
}

impl BlockTrace {
    pub fn to_bytes(&self) -> Vec<u8> {
        let head = Head {
            format: MAGIC.into(),
            device: self.device.clone(),
            device_bytes: self.device_bytes,
            lost_events: None,
            device_stat: self.device_stat,
            problems: self.problems.clone(),
            requests: self.records.len() as u64,
            large: self.large.len() as u64,
        };
        let mut bytes = serde_json::to_vec(&head).unwrap_or_default();
        bytes.push(b'\n');
        bytes.reserve(self.records.len() * 16 + self.large.len() * LARGE + HASH);
        self.records.iter().for_each(|record| bytes.extend(record.to_bytes()));
        for (index, large) in &self.large {
            for number in [*index, large.sector, large.delta_ns, large.latency_ns] {
                bytes.extend(number.to_le_bytes());
            }
            bytes.extend(large.sectors.to_le_bytes());
        }
        let hash = blake3::hash(&bytes);
        bytes.extend(hash.as_bytes());
        bytes
    }

    /// Reads a trace file; `path` is for messages. [`TargetError::Damaged`] if it is another file, cut off, or has a
    /// wrong hash.
    pub fn from_bytes(bytes: &[u8], path: &Path) -> Result<Self, TargetError> {
        let foreign =
            || TargetError::damaged(path, "it is not a senesce block trace (import others with `senesce runs import`)");
        let line = bytes.iter().position(|byte| *byte == b'\n').ok_or_else(foreign)?;
        let head: Head = serde_json::from_slice(&bytes[..line]).map_err(|_| foreign())?;
        if ![MAGIC, UNWITNESSED].contains(&head.format.as_str()) {
            return Err(foreign());
        }
        let cut = || TargetError::damaged(path, "the trace is cut off or damaged; record it again");
        let body_end = bytes.len().checked_sub(HASH).filter(|end| *end > line).ok_or_else(cut)?;
        let (body, hash) = (&bytes[line + 1..body_end], &bytes[body_end..]);
        let wanted = head.requests.checked_mul(16).zip(head.large.checked_mul(LARGE as u64));
        let wanted = wanted.and_then(|(records, large)| records.checked_add(large)).ok_or_else(cut)?;
        if body.len() as u64 != wanted || blake3::hash(&bytes[..body_end]).as_bytes() != hash {
            return Err(cut());
        }
        let mut trace = BlockTrace::new(&head.device, head.device_bytes);
        trace.set_account(head.device_stat, head.problems());
        let (records, large) = body.split_at(head.requests as usize * 16);
        records.as_chunks::<16>().0.iter().for_each(|record| trace.push_packed(Packed::from_bytes(*record)));
        for entry in large.as_chunks::<LARGE>().0 {
            let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|index| entry[at + index]));
            let sectors = u32::from_le_bytes(std::array::from_fn(|index| entry[32 + index]));
            let value = Large { sector: number(8), delta_ns: number(16), latency_ns: number(24), sectors };
            trace.large.insert(number(0), value);
        }
        trace.find_last_issue();
        Ok(trace)
    }

    /// Writes a trace file atomically. Replaces a link itself, never its target.
    pub fn save(&self, path: &Path) -> Result<(), TargetError> {
        let new = NewFile::next_to(path).map_err(TargetError::io("make", path))?;
        new.file().write_all(&self.to_bytes()).map_err(TargetError::io("write", path))?;
        new.replace().map_err(TargetError::io("put into place", path))
    }

    pub fn is_saved(beginning: &[u8]) -> bool {
        beginning.starts_with(br#"{"format":"senesce-block-trace"#)
    }

    pub fn load(path: &Path) -> Result<Self, TargetError> {
        Self::from_bytes(&input::regular(path).map_err(TargetError::named("read", path))?, path)
    }
}

#[cfg(test)]
mod tests {
    use super::super::packed::tests::requests;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_file_is_read_back_and_damage_is_noticed(list in requests(), at: prop::sample::Index, cut: prop::sample::Index) {
            let trace = BlockTrace::from_requests("sdx", 1 << 30, list.clone());
            let bytes = trace.to_bytes();
            let read = BlockTrace::from_bytes(&bytes, Path::new("t")).unwrap();
            prop_assert_eq!(read.iter().collect::<Vec<_>>(), list);
            let mut damaged = bytes.clone();
            damaged[at.index(bytes.len())] ^= 1;
            prop_assert!(BlockTrace::from_bytes(&damaged, Path::new("t")).is_err());
            prop_assert!(BlockTrace::from_bytes(&bytes[..cut.index(bytes.len())], Path::new("t")).is_err());
        }
    }

    #[test]
    fn saving_replaces_a_link_not_its_target() {
        let directory = tempfile::tempdir().unwrap();
        let (path, precious) = (directory.path().join("trace-1.blocks"), directory.path().join("precious"));
        std::fs::write(&precious, "precious").unwrap();
        std::os::unix::fs::symlink(&precious, &path).unwrap();
        BlockTrace::new("sdx", 1 << 30).save(&path).unwrap();
        assert_eq!(std::fs::read(&precious).unwrap(), b"precious");
        assert_eq!(BlockTrace::load(&path).unwrap(), BlockTrace::new("sdx", 1 << 30));
    }

    #[test]
    fn problems_are_stored_with_the_trace() {
        let mut trace = BlockTrace::new("sdx", 1 << 30);
        let device = DeviceStat { reads: 7, read_bytes: 7 << 12, ..DeviceStat::default() };
        let problems = vec![
            Problem::Undecoded { events: 3 },
            Problem::Disagrees { quantity: "reads".into(), trace: 0, device: 7 },
        ];
        trace.set_account(Some(device), problems);
        let read = BlockTrace::from_bytes(&trace.to_bytes(), Path::new("t")).unwrap();
        assert_eq!(read, trace);
        assert_eq!(read.lost_events(), 3);
        assert!(read.valid().unwrap_err().to_string().contains("reads: 0 according to the trace, 7"));
    }

    #[test]
    fn file_of_previous_format_is_read_but_invalid() {
        let mut bytes = br#"{"format":"senesce-block-trace-1","device":"sdx","device_bytes":0,"lost_events":0,"requests":0,"large":0}"#.to_vec();
        bytes.push(b'\n');
        let hash = blake3::hash(&bytes);
        bytes.extend(hash.as_bytes());
        let read = BlockTrace::from_bytes(&bytes, Path::new("t")).unwrap();
        assert!(matches!(read.problems(), [Problem::Unwitnessed { .. }]));
    }

    #[test]
    fn foreign_file_is_reported() {
        let error = BlockTrace::from_bytes(b"\x7fELF....", Path::new("t")).unwrap_err();
        assert!(error.to_string().contains("not a senesce block trace"), "{error}");
    }
}
