//! Cross-check of a trace: the kernel's counters of the device (Documentation/block/stat.rst).

use super::tally::Tally;
use super::validity::Problem;
use crate::block_device::BlockDevice;
use crate::device_stat::DeviceStat;
use crate::error::TargetError;
use std::time::{Duration, Instant};

const IDLE_LIMIT: Duration = Duration::from_secs(1);
const IDLE_STEP: Duration = Duration::from_millis(2);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sample {
    stat: DeviceStat,
    in_flight: u64,
}

impl Sample {
    fn read(device: &BlockDevice) -> Result<Self, TargetError> {
        let text = device.attribute("stat").unwrap_or_default();
        // The error of the other path names the missing part.
        Self::parse(&text).map_or_else(|| Ok(Self { stat: DeviceStat::of(device)?, in_flight: 0 }), Ok)
    }

    /// Parses the counters; column 9: requests in flight.
    fn parse(text: &str) -> Option<Self> {
        let in_flight = text.split_whitespace().nth(8)?.parse().ok()?;
        Some(Self { stat: DeviceStat::parse(text)?, in_flight })
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Border {
    before: Sample,
    after: Sample,
}

impl Border {
    pub(crate) fn begin(
        device: &BlockDevice,
        switch_on: impl FnOnce() -> Result<(), TargetError>,
    ) -> Result<Self, TargetError> {
        let before = quiet(device)?;
        switch_on()?;
        Ok(Self { before, after: Sample::read(device)? })
    }

    /// Turns the recording off while the device is idle, if possible. The last events are counted a moment later, so
    /// the second reading waits again.
    pub(crate) fn end(
        device: &BlockDevice,
        switch_off: impl FnOnce() -> Result<(), TargetError>,
    ) -> Result<Self, TargetError> {
        let before = quiet(device)?;
        switch_off()?;
        Ok(Self { before, after: quiet(device)? })
    }

    /// Requests that may be on different sides of the border in the trace and in the counters.
    fn in_flight(&self) -> u64 {
        self.before.in_flight + self.after.in_flight + self.after.stat.since(&self.before.stat).requests()
    }
}

/// Returns a reading without requests in flight that equals the previous one; after a second, any reading.
fn quiet(device: &BlockDevice) -> Result<Sample, TargetError> {
    let deadline = Instant::now() + IDLE_LIMIT;
    let mut last = Sample::read(device)?;
    loop {
        std::thread::sleep(IDLE_STEP);
        let now = Sample::read(device)?;
        if (now.in_flight == 0 && now == last) || Instant::now() >= deadline {
            return Ok(now);
        }
        last = now;
    }
}

#[derive(Debug)]
pub(crate) struct Accounts {
    pub borders: [Border; 2],
    pub tally: Tally,
    pub unfinished: u64,
    /// Flushes are counted for the whole disk, and those of a partition cannot be distinguished.
    pub is_partition: bool,
    pub max_request_bytes: u64,
}

impl Accounts {
    pub(crate) fn device_stat(&self) -> DeviceStat {
        let [start, end] = &self.borders;
        end.after.stat.since(&start.before.stat)
    }

    /// Differences between trace and counters that exceed the requests in flight at both ends of the recording.
    pub(crate) fn problems(&self) -> Vec<Problem> {
        let [start, end] = &self.borders;
        let mut problems = self.disagreements(start, end);
        let (first, last) = (start.in_flight(), end.in_flight());
        let unmatched = self.tally.unmatched;
        if unmatched > first {
            problems.push(Problem::Unmatched { completions: unmatched, in_flight: first });
        }
        if self.unfinished > last {
            problems.push(Problem::Unfinished { requests: self.unfinished, in_flight: last });
        }
        problems
    }

    fn disagreements(&self, start: &Border, end: &Border) -> Vec<Problem> {
        let tally = &self.tally;
        // Between the two readings inside the recording and the two around it.
        let (least, most) = (end.before.stat.since(&start.after.stat), end.after.stat.since(&start.before.stat));
        let open = [start.before, start.after, end.before, end.after].iter().map(|one| one.in_flight).sum::<u64>();
        let open_bytes = open * self.max_request_bytes;
        let [reads, writes, discards, flushes] = tally.requests;
        let [read_bytes, write_bytes, discard_bytes] = tally.bytes;
        let (commands, command_bytes, empty) = (tally.commands, tally.command_bytes, tally.empty_writes);
        let surely_empty = if self.is_partition { 0 } else { empty.saturating_sub(tally.writes_at_zero) };
        let rows = [
            ("reads", (reads, reads + commands), (least.reads, most.reads), open),
            ("writes", (writes + surely_empty, writes + empty + commands), (least.writes, most.writes), open),
            ("discards", (discards, discards), (least.discards, most.discards), open),
            ("flushes", (flushes, flushes), (least.flushes, most.flushes), open),
            ("read_bytes", (read_bytes, read_bytes + command_bytes), (least.read_bytes, most.read_bytes), open_bytes),
            (
                "write_bytes",
                (write_bytes, write_bytes + command_bytes),
                (least.write_bytes, most.write_bytes),
                open_bytes,
            ),
            ("discard_bytes", (discard_bytes, discard_bytes), (least.discard_bytes, most.discard_bytes), open_bytes),
        ];
        rows.into_iter()
            .filter(|(name, ..)| !(self.is_partition && *name == "flushes"))
            .filter(|(_, (low, high), (least, most), open)| *high + open < *least || *low > *most + open)
            .map(|(name, (low, _), (_, most), _)| Problem::Disagrees {
                quantity: name.into(),
                trace: low,
                device: most,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "7 1 56 9 4 0 32 8 0 10 20 1 0 64 1 2 3";

    fn border(text: &str) -> Border {
        let sample = Sample::parse(text).unwrap();
        Border { before: sample, after: sample }
    }

    fn accounts(end: &str) -> Accounts {
        let borders = [border("0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0"), border(end)];
        let tally = Tally {
            requests: [7, 3, 1, 2],
            bytes: [56 * 512, 32 * 512, 64 * 512],
            empty_writes: 1,
            ..Tally::default()
        };
        Accounts { borders, tally, unfinished: 0, is_partition: false, max_request_bytes: 1 << 20 }
    }

    #[test]
    fn equal_counts_are_valid() {
        assert_eq!(accounts(STAT).problems(), []);
        let found = accounts(STAT).device_stat();
        assert_eq!([found.reads, found.writes, found.discards, found.flushes], [7, 4, 1, 2]);
        assert_eq!(
            [found.read_bytes, found.write_bytes, found.discard_bytes],
            [56, 32, 64].map(|sectors| sectors * 512)
        );
    }

    #[test]
    fn one_missing_request_of_any_kind_is_found() {
        for (quantity, text) in [
            ("reads", "8 1 56 9 4 0 32 8 0 10 20 1 0 64 1 2 3"),
            ("writes", "7 1 56 9 5 0 32 8 0 10 20 1 0 64 1 2 3"),
            ("writes", "7 1 56 9 3 0 32 8 0 10 20 1 0 64 1 2 3"),
            ("discards", "7 1 56 9 4 0 32 8 0 10 20 2 0 64 1 2 3"),
            ("flushes", "7 1 56 9 4 0 32 8 0 10 20 1 0 64 1 3 3"),
            ("read_bytes", "7 1 64 9 4 0 32 8 0 10 20 1 0 64 1 2 3"),
            ("write_bytes", "7 1 56 9 4 0 40 8 0 10 20 1 0 64 1 2 3"),
            ("discard_bytes", "7 1 56 9 4 0 32 8 0 10 20 1 0 72 1 2 3"),
            ("reads", "6 1 56 9 4 0 32 8 0 10 20 1 0 64 1 2 3"),
        ] {
            let found = accounts(text).problems();
            assert!(matches!(&found[..], [Problem::Disagrees { quantity: name, .. }] if name == quantity), "{found:?}");
        }
    }

    #[test]
    fn only_requests_in_flight_may_be_unmatched() {
        let mut both = accounts(STAT);
        (both.tally.unmatched, both.unfinished) = (1, 1);
        let unmatched = Problem::Unmatched { completions: 1, in_flight: 0 };
        assert_eq!(both.problems(), [unmatched, Problem::Unfinished { requests: 1, in_flight: 0 }]);
        both.borders[0].before.in_flight = 1;
        both.borders[1].after.in_flight = 1;
        assert_eq!(both.problems(), []);
    }

    #[test]
    fn partition_flushes_are_not_compared() {
        let mut partition = accounts("7 1 56 9 3 0 32 8 0 10 20 1 0 64 1 0 0");
        partition.is_partition = true;
        assert_eq!(partition.problems(), []);
    }
}
