//! Counts completed events in the categories of the kernel's `stat` counters.

use super::request::{Operation, Request};

/// The kernel's counter for a request (`op_stat_group` in include/linux/blk_types.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Group {
    Read,
    /// Field `writes`: also writing zeros and secure erases.
    Write,
    /// Field `writes`: zone appends.
    Append,
    Discard,
    /// Field `flushes`, of the whole disk only.
    Flush,
    /// A driver or zone command: its counter depends on the kernel version and on `queue/iostats_passthrough`.
    Command,
}

impl Group {
    /// Classifies by the letters of a completion. `placeless`: the kernel gives it no sector.
    pub(crate) fn of(letters: &[u8], request: &Request, placeless: bool) -> Self {
        match request.operation {
            Operation::Other if placeless || request.sectors == 0 => Self::Command,
            Operation::Write if request.append => Self::Append,
            Operation::Discard if letters.contains(&b'E') => Self::Write,
            operation => Self::of_operation(operation),
        }
    }

    pub(crate) fn of_operation(operation: Operation) -> Self {
        match operation {
            Operation::Read => Self::Read,
            Operation::Write | Operation::Other => Self::Write,
            Operation::Discard => Self::Discard,
            Operation::Flush => Self::Flush,
            Operation::Zone(_) => Self::Command,
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub requests: [u64; 4],
    /// Bytes of reads, writes and discards, also of parts of requests.
    pub bytes: [u64; 3],
    /// Flushes that a file system issued without data: the kernel also counts each as an empty write.
    pub empty_writes: u64,
    /// Writes that began at sector 0: older kernels report the end of the flushes around one like an empty write.
    pub writes_at_zero: u64,
    pub commands: u64,
    pub command_bytes: u64,
    /// Completions of requests that were issued before the recording began.
    pub unmatched: u64,
}

impl Tally {
    pub(crate) fn moved(&mut self, group: Group, bytes: u64) {
        match group {
            Group::Read => self.bytes[0] += bytes,
            Group::Write | Group::Append => self.bytes[1] += bytes,
            Group::Discard => self.bytes[2] += bytes,
            Group::Flush => {}
            Group::Command => self.command_bytes += bytes,
        }
    }

    pub(crate) fn ended(&mut self, group: Group, sector: u64) {
        match group {
            Group::Read => self.requests[0] += 1,
            Group::Write => {
                self.requests[1] += 1;
                self.writes_at_zero += u64::from(sector == 0);
            }
            Group::Append => self.requests[1] += 1,
            Group::Discard => self.requests[2] += 1,
            Group::Flush => self.requests[3] += 1,
            Group::Command => self.commands += 1,
        }
    }
}
