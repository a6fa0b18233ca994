//! The file form of a trace: a line of JSON, then 16 bytes per request, then the rare large ones, all in little endian and
//! closed by a BLAKE3 hash.

use super::packed::{BlockTrace, Large, Packed};
use crate::error::TargetError;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::Path;

const MAGIC: &str = "senesce-block-trace-1";
const HASH: usize = 32;
const LARGE: usize = 36;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    format: String,
    device: String,
    device_bytes: u64,
    lost_events: u64,
    requests: u64,
    large: u64,
}

impl BlockTrace {
    /// The bytes of a trace file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let head = Head {
            format: MAGIC.into(),
            device: self.device.clone(),
            device_bytes: self.device_bytes,
            lost_events: self.lost_events,
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

    /// Reads a trace file back; `path` is for messages.
    pub fn from_bytes(bytes: &[u8], path: &Path) -> Result<Self, TargetError> {
        let foreign =
            || TargetError::damaged(path, "it is not a senesce block trace (import others with `senesce import`)");
        let line = bytes.iter().position(|byte| *byte == b'\n').ok_or_else(foreign)?;
        let head: Head = serde_json::from_slice(&bytes[..line]).map_err(|_| foreign())?;
        if head.format != MAGIC {
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
        trace.set_lost_events(head.lost_events);
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

    /// Writes a trace file.
    pub fn save(&self, path: &Path) -> Result<(), TargetError> {
        let mut file = std::fs::File::create(path).map_err(TargetError::io("make", path))?;
        file.write_all(&self.to_bytes()).map_err(TargetError::io("write", path))?;
        file.sync_all().map_err(TargetError::io("sync", path))
    }

    /// Reads a trace file.
    pub fn load(path: &Path) -> Result<Self, TargetError> {
        Self::from_bytes(&std::fs::read(path).map_err(TargetError::io("read", path))?, path)
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
    fn a_foreign_file_is_named_as_such() {
        let error = BlockTrace::from_bytes(b"\x7fELF....", Path::new("t")).unwrap_err();
        assert!(error.to_string().contains("not a senesce block trace"), "{error}");
    }
}
