//! Zones, limits and formats of a drive.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Condition of a zone (NVMe Zoned Namespace Command Set 1.1, section 2.1.1.2: zone state machine).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ZoneState {
    /// Holds no data; the write pointer is at its start.
    Empty,
    /// Opened by a write or append.
    ImplicitlyOpen,
    /// Opened by the open command.
    ExplicitlyOpen,
    /// Active but not open.
    Closed,
    /// Takes no more data until it is reset.
    Full,
    /// Can be read only.
    ReadOnly,
    /// Cannot be read or written.
    Offline,
    /// Not a sequential zone: writes go anywhere.
    Conventional,
}

impl ZoneState {
    pub(crate) const ALL: [Self; 8] = [
        Self::Empty,
        Self::ImplicitlyOpen,
        Self::ExplicitlyOpen,
        Self::Closed,
        Self::Full,
        Self::ReadOnly,
        Self::Offline,
        Self::Conventional,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::ImplicitlyOpen => "implicitly open",
            Self::ExplicitlyOpen => "explicitly open",
            Self::Closed => "closed",
            Self::Full => "full",
            Self::ReadOnly => "read-only",
            Self::Offline => "offline",
            Self::Conventional => "conventional",
        }
    }

    /// Decodes a state. The codes are the same in the NVMe zone descriptor (figure 38) and in `linux/blkzoned.h`.
    pub(crate) fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0x0 => Self::Conventional,
            0x1 => Self::Empty,
            0x2 => Self::ImplicitlyOpen,
            0x3 => Self::ExplicitlyOpen,
            0x4 => Self::Closed,
            0xD => Self::ReadOnly,
            0xE => Self::Full,
            0xF => Self::Offline,
            _ => return None,
        })
    }

    pub fn is_open(self) -> bool {
        matches!(self, Self::ImplicitlyOpen | Self::ExplicitlyOpen)
    }

    pub fn is_active(self) -> bool {
        self.is_open() || self == Self::Closed
    }
}

impl fmt::Display for ZoneState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZoneInfo {
    pub zone: u32,
    pub state: ZoneState,
    /// First logical block.
    pub start: u64,
    /// Logical blocks that can be written.
    pub capacity: u64,
    /// Next logical block to be written; the end of the capacity of a full zone, the start of a read-only or offline
    /// one.
    pub pointer: u64,
}

impl ZoneInfo {
    /// Returns the written logical blocks according to the report: a full zone counts up to its capacity.
    pub fn written(&self) -> u64 {
        match self.state {
            ZoneState::Full => self.capacity,
            ZoneState::ReadOnly | ZoneState::Offline | ZoneState::Conventional => 0,
            _ => self.pointer.saturating_sub(self.start).min(self.capacity),
        }
    }

    /// Returns whether the guard must assume that the zone holds data.
    pub(crate) fn may_hold_data(&self) -> bool {
        !matches!(self.state, ZoneState::Empty | ZoneState::Offline)
    }
}

/// A logical block format of a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LbaFormat {
    /// Its index in the namespace's list.
    pub index: u8,
    /// Bytes of data per block.
    pub block_bytes: u32,
    /// Bytes of metadata per block; only 0 is used here.
    pub metadata_bytes: u16,
}

/// Block numbers count logical blocks of [`Geometry::block_bytes`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Geometry {
    /// Name, model or path.
    pub name: String,
    /// Whether zones have write pointers. A conventional drive is divided into equal regions in place of zones.
    pub zoned: bool,
    /// Number of zones.
    pub zones: u32,
    /// Bytes of a logical block.
    pub block_bytes: u32,
    /// Logical blocks from one zone's start to the next one's.
    pub zone_blocks: u64,
    /// Logical blocks of a zone that can be written.
    pub capacity_blocks: u64,
    /// Zones that can be open at once; 0: no limit.
    pub max_open: u32,
    /// Zones that can be active (open or closed) at once; 0: no limit.
    pub max_active: u32,
    /// Maximum bytes of one read or write.
    pub transfer_limit: u32,
    /// Maximum bytes of one append; 0: the drive or the path has no append.
    pub append_limit: u32,
    /// Formats of the drive.
    pub formats: Vec<LbaFormat>,
}

impl Geometry {
    pub fn start(&self, zone: u32) -> u64 {
        u64::from(zone) * self.zone_blocks
    }

    pub fn zone_of(&self, block: u64) -> u32 {
        (block / self.zone_blocks) as u32
    }

    pub fn capacity_bytes(&self) -> u64 {
        self.capacity_blocks * u64::from(self.block_bytes)
    }

    /// Returns the smaller of both limits, or all zones.
    pub fn writable_at_once(&self) -> u32 {
        [self.max_open, self.max_active].into_iter().filter(|limit| *limit > 0).min().unwrap_or(self.zones)
    }
}
