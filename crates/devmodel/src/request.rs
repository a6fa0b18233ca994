//! The request type of all models.

/// Bytes per sector in all traces, independent of the device's logical block size.
pub(crate) const SECTOR: u64 = 512;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Read,
    Write,
    Discard,
    /// Flushes the device's write cache.
    Flush,
}

impl Operation {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Discard => "discard",
            Self::Flush => "flush",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// First sector of 512 bytes.
    pub start_sector: u64,
    pub sectors: u32,
    pub operation: Operation,
    /// Issue time, nanoseconds since the start of the trace.
    pub issue_time_ns: u64,
    /// Open requests at the device when it was issued, including itself; at least 1. A replay keeps this depth.
    pub queue_depth: u32,
}

impl Request {
    /// Creates a request with queue depth 1.
    pub const fn new(operation: Operation, start_sector: u64, sectors: u32) -> Self {
        Self { start_sector, sectors, operation, issue_time_ns: 0, queue_depth: 1 }
    }

    /// Creates a read of `bytes` at `offset`, both rounded outwards to sectors.
    pub fn read_bytes(offset: u64, bytes: u64) -> Self {
        Self::of_bytes(Operation::Read, offset, bytes)
    }

    /// Creates a request for `bytes` at `offset`, both rounded outwards to sectors; at most 2 TiB.
    pub fn of_bytes(operation: Operation, offset: u64, bytes: u64) -> Self {
        let start = offset / SECTOR;
        let end = offset.saturating_add(bytes).div_ceil(SECTOR);
        Self::new(operation, start, u32::try_from(end - start).unwrap_or(u32::MAX))
    }

    pub const fn offset(&self) -> u64 {
        self.start_sector.saturating_mul(SECTOR)
    }

    pub const fn bytes(&self) -> u64 {
        self.sectors as u64 * SECTOR
    }

    /// Returns the first byte after the request.
    pub const fn end(&self) -> u64 {
        self.offset().saturating_add(self.bytes())
    }

    pub(crate) const fn moves_data(&self) -> bool {
        matches!(self.operation, Operation::Read | Operation::Write)
    }
}

/// Sets the queue depths of requests in issue order from their completion times, if known.
pub fn set_queue_depths(requests: &mut [Request], completion_ns: impl Iterator<Item = Option<u64>>) {
    let mut open = std::collections::BinaryHeap::new();
    for (request, completion) in requests.iter_mut().zip(completion_ns) {
        while open.peek().is_some_and(|std::cmp::Reverse(end)| *end <= request.issue_time_ns) {
            open.pop();
        }
        request.queue_depth = u32::try_from(open.len()).unwrap_or(u32::MAX).saturating_add(1);
        open.extend(completion.map(std::cmp::Reverse));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depths_follow_from_completions() {
        let mut requests = [(0, 1), (10, 2), (20, 3), (30, 4)]
            .map(|(issue_time_ns, sector)| Request { issue_time_ns, ..Request::new(Operation::Read, sector, 1) });
        set_queue_depths(&mut requests, [Some(25), Some(15), None, Some(40)].into_iter());
        assert_eq!(requests.map(|request| request.queue_depth), [1, 2, 2, 1]);
    }

    #[test]
    fn bytes_are_rounded_outwards() {
        let request = Request::read_bytes(1000, 100);
        assert_eq!((request.start_sector, request.sectors), (1, 2));
    }
}
