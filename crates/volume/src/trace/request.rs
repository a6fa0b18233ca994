//! One request of a block trace.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// Reads.
    Read,
    /// Writes (a zone append too).
    Write,
    /// Discards (also securely).
    Discard,
    /// Flushes the device's cache and moves no data.
    Flush,
    /// Any other operation with a sector: writing zeros, commands of unknown kind.
    Other,
    Zone(ZoneAction),
}

/// Zone actions (REQ_OP_ZONE_* in the kernel's include/linux/blk_types.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ZoneAction {
    Reset,
    ResetAll,
    Open,
    Close,
    /// Makes it full.
    Finish,
}

impl ZoneAction {
    pub(crate) const ALL: [Self; 5] = [Self::Reset, Self::ResetAll, Self::Open, Self::Close, Self::Finish];

    fn letters(self) -> &'static str {
        match self {
            Self::Reset => "R",
            Self::ResetAll => "RA",
            Self::Open => "O",
            Self::Close => "C",
            Self::Finish => "F",
        }
    }
}

impl Operation {
    pub(crate) const ALL: [Operation; 5] = [Self::Read, Self::Write, Self::Discard, Self::Flush, Self::Other];

    pub(crate) fn alters(self) -> bool {
        match self {
            Self::Write | Self::Discard | Self::Other => true,
            Self::Zone(action) => matches!(action, ZoneAction::Reset | ZoneAction::ResetAll),
            Self::Read | Self::Flush => false,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Nanoseconds since the start of the trace.
    pub issue_ns: u64,
    /// From issue to completion in nanoseconds.
    pub latency_ns: Option<u64>,
    /// First sector, in units of 512 bytes from the start of the traced device; for an append the position of the
    /// write, if its completion was recorded.
    pub sector: u64,
    /// Length in units of 512 bytes.
    pub sectors: u32,
    pub operation: Operation,
    pub sync: bool,
    pub meta: bool,
    pub ahead: bool,
    /// Bypasses the device's write cache (force unit access).
    pub fua: bool,
    pub preflush: bool,
    pub append: bool,
}

/// Limit of sectors whose bytes can be numbered in 64 bits.
const SECTORS_MOST: u64 = 1 << 55;

impl Request {
    /// Returns whether it is beyond every device. Requests without sectors are not.
    pub(crate) fn is_nowhere(&self) -> bool {
        self.sectors > 0 && self.end_sector() > SECTORS_MOST
    }

    pub fn new(operation: Operation, sector: u64, sectors: u32) -> Self {
        let (sync, meta, ahead, fua, preflush, append) = (false, false, false, false, false, false);
        Self { issue_ns: 0, latency_ns: None, sector, sectors, operation, sync, meta, ahead, fua, preflush, append }
    }

    pub fn end_sector(&self) -> u64 {
        self.sector.saturating_add(u64::from(self.sectors))
    }

    pub fn bytes(&self) -> u64 {
        u64::from(self.sectors) * 512
    }

    /// Takes kind and flags from the letters of the kernel's block events and of blkparse (`blk_fill_rwbs` in the
    /// kernel's `kernel/trace/blktrace.c`, RWBS DESCRIPTION in blkparse(1)). `None` for other letters.
    pub(crate) fn with_rwbs(self, rwbs: &str) -> Option<Self> {
        self.with_rwbs_bytes(rwbs.trim_end_matches('\0').as_bytes())
    }

    pub(crate) fn with_rwbs_bytes(mut self, rwbs: &[u8]) -> Option<Self> {
        let mut letters = rwbs;
        // A first F is a flush before the operation if an operation follows it, else it is the operation.
        if let [b'F', b'R' | b'W' | b'D' | b'F' | b'N' | b'Z', ..] = letters {
            letters = &letters[1..];
            self.preflush = true;
        }
        (self.operation, letters) = match letters {
            // Writing zeros (since Linux 6.19); before, it has the letter N.
            [b'W', b'Z', rest @ ..] => (Operation::Other, rest),
            [b'R', rest @ ..] => (Operation::Read, rest),
            [b'W', rest @ ..] => (Operation::Write, rest),
            [b'D', rest @ ..] => (Operation::Discard, rest),
            [b'F', rest @ ..] => (Operation::Flush, rest),
            // blkparse prints FN for a flush without data.
            [b'N', rest @ ..] if self.preflush && self.sectors == 0 => (Operation::Flush, rest),
            // N: no letter of its own (writing zeroes, driver commands).
            [b'N', rest @ ..] => (Operation::Other, rest),
            // Z: zone commands with a second letter, the reset of all zones with a third.
            [b'Z', b'A', rest @ ..] => {
                self.append = true;
                (Operation::Write, rest)
            }
            [b'Z', b'R', b'A', rest @ ..] => (Operation::Zone(ZoneAction::ResetAll), rest),
            [b'Z', b'R', rest @ ..] => (Operation::Zone(ZoneAction::Reset), rest),
            [b'Z', b'O', rest @ ..] => (Operation::Zone(ZoneAction::Open), rest),
            [b'Z', b'C', rest @ ..] => (Operation::Zone(ZoneAction::Close), rest),
            [b'Z', b'F', rest @ ..] => (Operation::Zone(ZoneAction::Finish), rest),
            [b'Z', _, rest @ ..] => (Operation::Other, rest),
            _ => return None,
        };
        for letter in letters {
            match letter {
                b'S' => self.sync = true,
                b'M' => self.meta = true,
                b'A' => self.ahead = true,
                b'F' => self.fua = true,
                // E: secure erase; B: barrier of old kernels; U: atomic.
                b'E' | b'B' | b'U' => {}
                _ => return None,
            }
        }
        Some(self)
    }

    pub(crate) fn rwbs(&self) -> String {
        let mut letters = String::new();
        if self.preflush {
            letters.push('F');
        }
        letters.push_str(match self.operation {
            Operation::Read => "R",
            Operation::Write if self.append => "ZA",
            Operation::Write => "W",
            Operation::Discard => "D",
            Operation::Flush => "F",
            Operation::Other => "N",
            Operation::Zone(_) => "Z",
        });
        if let Operation::Zone(action) = self.operation {
            letters.push_str(action.letters());
        }
        for (set, letter) in [(self.fua, 'F'), (self.ahead, 'A'), (self.sync, 'S'), (self.meta, 'M')] {
            if set {
                letters.push(letter);
            }
        }
        letters
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn kernel_request_letters_are_parsed() {
        let read = |rwbs| Request::new(Operation::Other, 0, 8).with_rwbs(rwbs);
        assert_eq!(read("RAM").unwrap(), Request { ahead: true, meta: true, ..Request::new(Operation::Read, 0, 8) });
        let journal = read("FWFS\0\0\0").unwrap();
        assert_eq!((journal.operation, journal.preflush, journal.fua), (Operation::Write, true, true));
        assert_eq!(read("FF").unwrap().operation, Operation::Flush);
        assert_eq!(read("F").unwrap().operation, Operation::Flush);
        assert_eq!(read("DE").unwrap().operation, Operation::Discard);
        assert_eq!(read("NS").unwrap().operation, Operation::Other);
        let append = Request { sync: true, append: true, ..Request::new(Operation::Write, 0, 8) };
        assert_eq!(read("ZAS").unwrap(), append);
        assert_eq!(read("WZS").unwrap(), Request { sync: true, ..Request::new(Operation::Other, 0, 8) });
        let zone = |action| Request { sync: true, ..Request::new(Operation::Zone(action), 0, 8) };
        assert_eq!(read("ZRAS").unwrap(), zone(ZoneAction::ResetAll));
        for (letters, action) in [("ZRS", ZoneAction::Reset), ("ZFS", ZoneAction::Finish), ("ZOS", ZoneAction::Open)] {
            assert_eq!(read(letters).unwrap(), zone(action));
        }
        assert_eq!(read("ZX").unwrap().operation, Operation::Other, "a letter of a later kernel");
        assert_eq!(Request::new(Operation::Other, 0, 0).with_rwbs("FN").unwrap().operation, Operation::Flush);
        assert_eq!(read("?"), None);
        assert_eq!(read(""), None);
    }

    proptest! {
        #[test]
        fn request_letters_round_trip(kind in 0usize..5, flags in 0u8..32) {
            let mut request = Request::new(Operation::ALL[kind], 8, 8);
            request.append = kind == 1 && flags & 3 == 3;
            [request.sync, request.meta, request.ahead, request.fua, request.preflush] =
                [1, 2, 4, 8, 16].map(|bit| flags & bit != 0);
            request.fua &= request.operation != Operation::Flush;
            let read = Request::new(Operation::Other, 8, 8).with_rwbs(&request.rwbs());
            prop_assert_eq!(read, Some(request));
        }

        #[test]
        fn zone_command_letters_round_trip(kind in 0usize..5, sync: bool) {
            let request = Request { sync, ..Request::new(Operation::Zone(ZoneAction::ALL[kind]), 8, 0) };
            let read = Request::new(Operation::Other, 8, 0).with_rwbs(&request.rwbs());
            prop_assert_eq!(read, Some(request));
        }
    }
}
