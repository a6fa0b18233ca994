//! Limits of the files of a record. A record may come from anyone, and reading it must not exhaust memory.

use super::data;
use super::error::RecordError;
use super::files;
use crate::units::Bytes;
use std::path::Path;

/// All events of a run in memory: the text of their data, and [`PER_EVENT`] for each.
pub(super) const MOST_EVENTS: Bytes = Bytes::mib(192);

/// Memory of an event in addition to its text.
const PER_EVENT: u64 = 320;

/// Kept free for the last messages of a second writer, whose lines are not counted.
const FOR_WITNESS: u64 = 1 << 20;

/// One line of `events.jsonl`.
pub(super) const MOST_LINE: Bytes = Bytes::mib(16);

/// The decoded values of one event, or of `summary.json`, in memory.
pub(super) const MOST_VALUES: Bytes = Bytes::mib(128);

/// `summary.json`.
pub(super) const MOST_SUMMARY: Bytes = Bytes::mib(16);

/// `plan.toml`.
pub(super) const MOST_PLAN: Bytes = Bytes::mib(4);

/// `env.json`.
pub(super) const MOST_ENVIRONMENT: Bytes = Bytes::mib(1);

/// `format`.
pub(super) const MOST_FORMAT: Bytes = Bytes(64);

/// A stored histogram, compressed, and its counts after that.
pub(super) const MOST_HISTOGRAM: Bytes = Bytes::mib(16);

/// Returns the limit of a file of a run directory that is read or written whole.
pub(super) fn of_file(name: &str) -> Bytes {
    match name {
        files::PLAN => MOST_PLAN,
        files::ENVIRONMENT => MOST_ENVIRONMENT,
        files::FORMAT => MOST_FORMAT,
        _ => MOST_SUMMARY,
    }
}

/// Refuses to write a file that would not be read back.
pub(super) fn check_file(name: &str, path: &Path, bytes: &[u8]) -> Result<(), RecordError> {
    let most = of_file(name);
    if bytes.len() as u64 > most.0 {
        return Err(RecordError::TooLarge { path: path.into(), most });
    }
    match name == files::SUMMARY && exceed_memory(bytes) {
        true => Err(RecordError::TooLarge { path: path.into(), most: MOST_VALUES }),
        false => Ok(()),
    }
}

/// Text whose values cannot exceed [`MOST_VALUES`]: a byte of JSON takes less than 64 bytes of memory.
const SURELY_SMALL: usize = (MOST_VALUES.0 / 64) as usize;

/// Returns whether the values of a text do not fit in memory when they are read back.
fn exceed_memory(text: &[u8]) -> bool {
    text.len() > SURELY_SMALL && data::check_values(text).is_err()
}

/// Memory of the events read or written so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct EventMemory {
    lines: usize,
    bytes: u64,
}

impl EventMemory {
    pub(super) fn lines(self) -> usize {
        self.lines
    }

    /// Adds lines of text.
    ///
    /// # Errors
    /// [`RecordError::TooLong`] with the line that passes a limit.
    pub(crate) fn and(self, lines: &[u8], path: &Path) -> Result<Self, RecordError> {
        let mut held = self;
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            held = Self { lines: held.lines + 1, bytes: held.bytes + line.len() as u64 + PER_EVENT };
            let passed = [(line.len() as u64, MOST_LINE), (held.bytes, MOST_EVENTS)];
            if let Some((_, most)) = passed.into_iter().find(|(bytes, most)| *bytes > most.0) {
                return Err(RecordError::TooLong { path: path.into(), line: held.lines, most });
            }
        }
        Ok(held)
    }

    /// Adds lines that are written, as [`Self::and`] does: those whose values would not be read back are refused too.
    pub(crate) fn and_written(self, lines: &[u8], path: &Path) -> Result<Self, RecordError> {
        let too_many = lines.split_inclusive(|byte| *byte == b'\n').position(exceed_memory);
        match too_many {
            Some(at) => Err(RecordError::TooLong { path: path.into(), line: self.lines + at + 1, most: MOST_VALUES }),
            None => self.and(lines, path).and_then(|held| match held.bytes > MOST_EVENTS.0 - FOR_WITNESS {
                true => Err(RecordError::TooLong { path: path.into(), line: held.lines, most: MOST_EVENTS }),
                false => Ok(held),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_messages_of_a_second_writer_can_be_read_back() {
        let full = EventMemory { lines: 1, bytes: MOST_EVENTS.0 - FOR_WITNESS };
        let path = Path::new("events.jsonl");
        assert!(full.and(b"{}\n", path).is_ok());
        assert!(matches!(full.and_written(b"{}\n", path), Err(RecordError::TooLong { line: 2, .. })));
    }
}
