//! Requests in 16 bytes each.

use super::request::{Operation, Request, ZoneAction};
use super::validity::Problem;
use crate::device_stat::DeviceStat;
use std::collections::BTreeMap;

/// Set in [`Packed::latency_ns`]: no recorded completion.
const NO_LATENCY: u32 = u32::MAX;
/// In any field: the value exceeds the field and is in [`BlockTrace::large`].
const LARGE_TIME: u32 = u32::MAX - 1;
const LARGE_SECTORS: u64 = 0xFFFF;
const LARGE_SECTOR: u64 = (1 << 40) - 1;

/// Operation bits: a write that is an append.
const APPEND: u8 = 5;
/// Operation bits: a zone action, stored in the flag bits that it cannot have (ahead, fua, preflush).
const ZONE: u8 = 7;
const ACTION_SHIFT: u8 = 5;

/// One request: sector (40 bits), sectors (16), flags and operation (8), time since the previous issue (32), latency
/// (32).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Packed {
    place: u64,
    delta_ns: u32,
    latency_ns: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Large {
    pub sector: u64,
    pub sectors: u32,
    pub delta_ns: u64,
    pub latency_ns: u64,
}

/// The requests of one device in issue order, 16 bytes each in memory and in a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlockTrace {
    pub(crate) device: String,
    pub(crate) device_bytes: u64,
    pub(crate) device_stat: Option<DeviceStat>,
    pub(crate) problems: Vec<Problem>,
    pub(crate) records: Vec<Packed>,
    pub(crate) large: BTreeMap<u64, Large>,
    last_issue_ns: u64,
}

impl BlockTrace {
    /// Creates an empty trace of a device: its name and size in bytes (0: unknown).
    pub fn new(device: &str, device_bytes: u64) -> Self {
        Self { device: device.into(), device_bytes, ..Self::default() }
    }

    pub fn from_requests(device: &str, device_bytes: u64, mut requests: Vec<Request>) -> Self {
        requests.sort_by_key(|request| request.issue_ns);
        let mut trace = Self::new(device, device_bytes);
        for request in &requests {
            trace.push(request);
        }
        trace
    }

    pub fn device(&self) -> &str {
        &self.device
    }

    pub(crate) fn device_bytes(&self) -> u64 {
        self.device_bytes
    }

    /// Completions by the device's own counters. `None` for imported or synthetic traces.
    pub fn device_stat(&self) -> Option<DeviceStat> {
        self.device_stat
    }

    /// Returns the problems, none for a valid trace. See [`BlockTrace::valid`].
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    pub fn lost_events(&self) -> u64 {
        let lost = |problem: &Problem| match problem {
            Problem::Lost { events } | Problem::Undecoded { events } => *events,
            _ => 0,
        };
        self.problems.iter().map(lost).sum()
    }

    pub fn set_account(&mut self, device_stat: Option<DeviceStat>, problems: Vec<Problem>) {
        (self.device_stat, self.problems) = (device_stat, problems);
    }

    pub fn len(&self) -> usize {
        self.records.len()
    }

    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Appends a request; an issue time before the last one is raised to it.
    pub(crate) fn push(&mut self, request: &Request) {
        let delta_ns = request.issue_ns.saturating_sub(self.last_issue_ns);
        self.last_issue_ns = self.last_issue_ns.max(request.issue_ns);
        let sectors = u64::from(request.sectors).min(LARGE_SECTORS);
        let sector = request.sector.min(LARGE_SECTOR);
        let index = self.records.len();
        if small(delta_ns).is_none() || sectors == LARGE_SECTORS || sector == LARGE_SECTOR {
            let large = Large { sector: request.sector, sectors: request.sectors, delta_ns, latency_ns: 0 };
            self.large.insert(index as u64, large);
        }
        let place = sector << 24 | sectors << 8 | u64::from(kind(request));
        let delta_ns = small(delta_ns).unwrap_or(LARGE_TIME);
        self.records.push(Packed { place, delta_ns, latency_ns: NO_LATENCY });
        if let Some(latency_ns) = request.latency_ns {
            self.set_latency(index, latency_ns);
        }
    }

    pub(crate) fn set_latency(&mut self, index: usize, latency_ns: u64) {
        let Some(record) = self.records.get_mut(index) else { return };
        record.latency_ns = small(latency_ns).unwrap_or(LARGE_TIME);
        if record.latency_ns == LARGE_TIME {
            self.large.entry(index as u64).or_default().latency_ns = latency_ns;
        }
    }

    /// Sets the position where the append at `index` was written.
    pub(crate) fn set_place(&mut self, index: usize, sector: u64) {
        let Some(record) = self.records.get_mut(index) else { return };
        let (sectors, kind) = (record.place >> 8 & LARGE_SECTORS, record.place & 0xFF);
        record.place = sector.min(LARGE_SECTOR) << 24 | sectors << 8 | kind;
        if sector >= LARGE_SECTOR || sectors == LARGE_SECTORS {
            self.large.entry(index as u64).or_default().sector = sector;
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = Request> + '_ {
        let mut issue_ns = 0;
        self.records.iter().enumerate().map(move |(index, packed)| {
            let large = || self.large.get(&(index as u64)).copied().unwrap_or_default();
            let delta = if packed.delta_ns == LARGE_TIME { large().delta_ns } else { u64::from(packed.delta_ns) };
            issue_ns = u64::saturating_add(issue_ns, delta);
            packed.unpack(issue_ns, large)
        })
    }

    pub(crate) fn push_packed(&mut self, packed: Packed) {
        self.records.push(packed);
    }

    pub(crate) fn find_last_issue(&mut self) {
        self.last_issue_ns = self.iter().last().map_or(0, |request| request.issue_ns);
    }
}

impl Packed {
    pub(crate) fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.place.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.delta_ns.to_le_bytes());
        bytes[12..].copy_from_slice(&self.latency_ns.to_le_bytes());
        bytes
    }

    pub(crate) fn from_bytes(bytes: [u8; 16]) -> Self {
        let number = u128::from_le_bytes(bytes);
        Self { place: number as u64, delta_ns: (number >> 64) as u32, latency_ns: (number >> 96) as u32 }
    }

    fn unpack(self, issue_ns: u64, large: impl Fn() -> Large) -> Request {
        let (sector, sectors) = (self.place >> 24, self.place >> 8 & 0xFFFF);
        let flags = self.place as u8;
        let (operation, append) = operation(flags);
        let flags = if matches!(operation, Operation::Zone(_)) { flags & 0x18 } else { flags };
        Request {
            issue_ns,
            latency_ns: match self.latency_ns {
                NO_LATENCY => None,
                LARGE_TIME => Some(large().latency_ns),
                latency => Some(latency.into()),
            },
            sector: if sector == LARGE_SECTOR { large().sector } else { sector },
            sectors: if sectors == LARGE_SECTORS { large().sectors } else { sectors as u32 },
            operation,
            sync: flags & 8 != 0,
            meta: flags & 16 != 0,
            ahead: flags & 32 != 0,
            fua: flags & 64 != 0,
            preflush: flags & 128 != 0,
            append,
        }
    }
}

fn operation(flags: u8) -> (Operation, bool) {
    match flags & 7 {
        APPEND => (Operation::Write, true),
        ZONE => match ZoneAction::ALL.get(usize::from(flags >> ACTION_SHIFT)) {
            Some(action) => (Operation::Zone(*action), false),
            None => (Operation::Other, false),
        },
        code => (Operation::ALL.get(usize::from(code)).copied().unwrap_or(Operation::Other), false),
    }
}

fn small(value_ns: u64) -> Option<u32> {
    u32::try_from(value_ns).ok().filter(|value| *value < LARGE_TIME)
}

fn kind(request: &Request) -> u8 {
    let flags = [request.sync, request.meta, request.ahead, request.fua, request.preflush];
    let bits = flags.iter().enumerate().map(|(index, set)| u8::from(*set) << (index + 3)).sum::<u8>();
    match request.operation {
        Operation::Read => bits,
        Operation::Write if request.append => APPEND | bits,
        Operation::Write => 1 | bits,
        Operation::Discard => 2 | bits,
        Operation::Flush => 3 | bits,
        Operation::Other => 4 | bits,
        Operation::Zone(action) => ZONE | (action as u8) << ACTION_SHIFT | bits & 0x18,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn requests() -> impl Strategy<Value = Vec<Request>> {
        let large = |limit: u64| prop_oneof![9 => 0..limit, 1 => any::<u64>().prop_map(|value| value >> 2)];
        let one = (
            large(1 << 33),
            prop_oneof![9 => 1u32..2048, 1 => 1u32..=u32::MAX],
            large(1 << 20),
            large(1 << 24),
            any::<u8>(),
        );
        prop::collection::vec(one, 0..60).prop_map(|list| {
            let mut now = 0u64;
            list.into_iter()
                .map(|(sector, sectors, delta, latency, flags)| {
                    now = now.saturating_add(delta >> 8);
                    let code = usize::from(flags & 7);
                    let mut request = Request::new(Operation::ALL[code % 5], sector, sectors);
                    request.append = code == 6;
                    (request.issue_ns, request.sync, request.fua) = (now, flags & 8 != 0, flags & 16 != 0);
                    (request.meta, request.ahead, request.preflush) =
                        (flags & 32 != 0, flags & 64 != 0, flags & 128 != 0);
                    request.latency_ns = (flags % 3 != 0).then_some(latency);
                    if code == 7 {
                        request.operation = Operation::Zone(ZoneAction::ALL[sector as usize % 5]);
                        (request.fua, request.ahead, request.preflush) = (false, false, false);
                    }
                    request
                })
                .collect()
        })
    }

    #[test]
    fn a_request_takes_sixteen_bytes() {
        assert_eq!(size_of::<Packed>(), 16);
    }

    #[test]
    fn append_position_set_later_is_kept() {
        for (sector, sectors) in [(8, 8), (1 << 41, 8), (8, 70_000), (1 << 41, 70_000)] {
            let append = Request { append: true, ..Request::new(Operation::Write, 0, sectors) };
            let mut trace = BlockTrace::from_requests("sdx", 0, vec![append, append]);
            trace.set_place(1, sector);
            let places: Vec<u64> = trace.iter().map(|request| request.sector).collect();
            assert_eq!(places, [0, sector]);
            assert!(trace.iter().all(|request| request.append && request.sectors == sectors));
        }
    }

    proptest! {
        #[test]
        fn packing_preserves_all_requests(requests in requests()) {
            let trace = BlockTrace::from_requests("sdx", 0, requests.clone());
            prop_assert_eq!(trace.iter().collect::<Vec<_>>(), requests);
        }

        #[test]
        fn packed_bytes_round_trip(bytes: [u8; 16]) {
            prop_assert_eq!(Packed::from_bytes(bytes).to_bytes(), bytes);
        }
    }
}
