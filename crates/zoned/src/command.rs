//! Commands, completions and zone faults.

use senesce_sys::errno::errno_message;
use serde::{Deserialize, Serialize};
use std::{fmt, io};

/// Kinds of commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    Read,
    /// Write blocks at the write pointer.
    Write,
    /// Write blocks at a position that the drive chooses and returns.
    Append,
    /// Open the zone explicitly.
    Open,
    Close,
    /// Make the zone full.
    Finish,
    /// Make the zone empty.
    Reset,
}

impl Operation {
    pub const ALL: [Self; 7] =
        [Self::Read, Self::Write, Self::Append, Self::Open, Self::Close, Self::Finish, Self::Reset];

    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Append => "append",
            Self::Open => "open",
            Self::Close => "close",
            Self::Finish => "finish",
            Self::Reset => "reset",
        }
    }

    pub fn moves_data(self) -> bool {
        matches!(self, Self::Read | Self::Write | Self::Append)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// One command. A tag must not be reused until its completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Command {
    /// Chosen by the caller, below the number passed to `reserve`.
    pub tag: u32,
    /// Submitting thread; a model charges host time per queue.
    pub queue: u16,
    pub operation: Operation,
    pub zone: u32,
    /// First logical block; the zone's start for an append or a zone command.
    pub block: u64,
    /// Logical blocks to move; 0 for a zone command.
    pub blocks: u32,
}

/// Times are nanoseconds of the device's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    pub tag: u32,
    pub submitted_ns: u64,
    pub completed_ns: u64,
    /// First logical block moved (for an append: where the drive put it), or the fault.
    pub result: Result<u64, ZoneFault>,
}

/// Error reported by a drive. The codes in brackets are from the NVMe Zoned Namespace Command Set 1.1, figure 13
/// (status code type 1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum ZoneFault {
    /// The transfer crosses the zone's capacity or end (B8h).
    #[error("the transfer crosses the end of the zone")]
    Boundary,
    /// The zone is full (B9h).
    #[error("the zone is full")]
    Full,
    /// The zone is read-only (BAh).
    #[error("the zone is read-only")]
    ReadOnly,
    /// The zone is offline (BBh).
    #[error("the zone is offline")]
    Offline,
    /// The write is not at the write pointer (BCh).
    #[error("the write is not at the write pointer")]
    NotAtPointer,
    /// No active resource is left (BDh).
    #[error("too many zones are active")]
    TooManyActive,
    /// No open resource is left (BEh).
    #[error("too many zones are open")]
    TooManyOpen,
    /// The zone's state does not allow this transition (BFh).
    #[error("the zone's state does not allow that transition")]
    InvalidTransition,
    /// A field of the command is wrong, for example an append that does not name the zone's start (generic 02h).
    #[error("a field of the command is invalid")]
    InvalidField,
    /// Beyond the end of the drive (generic 80h).
    #[error("the address is beyond the end of the drive")]
    OutOfRange,
    /// The device or the path to it has no such command.
    #[error("the device has no such command")]
    Unsupported,
    /// Another NVMe status: code type in the high byte, code in the low byte.
    #[error("NVMe status {status:#06x}{words}", status = .0, words = status_words(*.0))]
    Status(u16),
    /// A kernel error.
    #[error("{words}", words = errno_message(&io::Error::from_raw_os_error(*.0)))]
    Errno(i32),
}

/// Returns the text of generic statuses and media errors (NVMe Base Specification; NVME_SC_* of include/linux/nvme.h).
fn status_words(status: u16) -> &'static str {
    match status {
        0x004 => ", data transfer error",
        0x006 => ", internal error",
        0x007 => ", command abort requested",
        0x00b => ", invalid namespace or format",
        0x015 => ", operation denied",
        0x01c => ", sanitize failed",
        0x01d => ", sanitize in progress",
        0x020 => ", namespace is write protected",
        0x081 => ", capacity exceeded",
        0x082 => ", namespace not ready",
        0x083 => ", reservation conflict",
        0x084 => ", format in progress",
        0x280 => ", write fault",
        0x281 => ", unrecovered read error",
        0x286 => ", access denied",
        0x287 => ", deallocated or unwritten block",
        _ => "",
    }
}

impl ZoneFault {
    /// Takes an NVMe status (code type << 8 | code, without the do-not-retry bits).
    pub(crate) fn from_status(status: u16) -> Self {
        match status & 0x7ff {
            0x1b8 => Self::Boundary,
            0x1b9 => Self::Full,
            0x1ba => Self::ReadOnly,
            0x1bb => Self::Offline,
            0x1bc => Self::NotAtPointer,
            0x1bd => Self::TooManyActive,
            0x1be => Self::TooManyOpen,
            0x1bf => Self::InvalidTransition,
            0x001 => Self::Unsupported,
            0x002 => Self::InvalidField,
            0x080 => Self::OutOfRange,
            other => Self::Status(other),
        }
    }

    pub fn name(self) -> String {
        match self {
            Self::Boundary => "boundary".into(),
            Self::Full => "full".into(),
            Self::ReadOnly => "read-only".into(),
            Self::Offline => "offline".into(),
            Self::NotAtPointer => "not-at-write-pointer".into(),
            Self::TooManyActive => "too-many-active".into(),
            Self::TooManyOpen => "too-many-open".into(),
            Self::InvalidTransition => "invalid-transition".into(),
            Self::InvalidField => "invalid-field".into(),
            Self::OutOfRange => "out-of-range".into(),
            Self::Unsupported => "unsupported".into(),
            Self::Status(status) => format!("status-{status:#06x}"),
            Self::Errno(number) => format!("errno-{number}"),
        }
    }

    pub(crate) fn loses_zone(self) -> bool {
        matches!(self, Self::ReadOnly | Self::Offline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_have_readable_messages() {
        assert_eq!(ZoneFault::Errno(libc::EIO).to_string(), "Input/output error (EIO)");
        assert_eq!(ZoneFault::from_status(0x4281).to_string(), "NVMe status 0x0281, unrecovered read error");
        assert_eq!(ZoneFault::from_status(0x7ff).to_string(), "NVMe status 0x07ff");
        let mut tally = crate::job::Tally::default();
        [ZoneFault::Full, ZoneFault::Errno(libc::EIO), ZoneFault::Full]
            .into_iter()
            .for_each(|fault| tally.refuse(fault));
        assert_eq!(tally.error_words(), "2 x the zone is full, 1 x Input/output error (EIO)");
        assert_eq!(tally.errors["errno-5"], 1);
    }
}
