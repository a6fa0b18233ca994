//! The rate of a phase, and its remaining time.

use senesce_core::machine::time_is_virtual;
use senesce_core::progress::KNOWN_SHARE;
use senesce_core::significant;
use std::time::{Duration, Instant};

/// Time after which the rate of a long phase is known, whatever share is done.
const KNOWN_TIME: Duration = Duration::from_secs(60);

/// The work of a phase since its first report: that of a resumed run begins in the middle.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Number of units in all; 0: unknown.
    total: u64,
    first: u64,
    done: u64,
    begun: Option<Instant>,
}

impl Pace {
    pub(crate) fn of(total: u64) -> Self {
        Self { total, ..Self::default() }
    }

    /// Returns the pace of work that began at a known time.
    pub(crate) fn since(begun: Instant, total: u64) -> Self {
        Self { total, begun: Some(begun), ..Self::default() }
    }

    pub(crate) fn report(&mut self, done: u64) {
        if self.begun.is_none() {
            (self.begun, self.first) = (Some(Instant::now()), done);
        }
        self.done = done;
    }

    pub(crate) fn has_total(&self) -> bool {
        self.total > 0
    }

    /// Formats rate and remaining time: `85 MiB/s, 40 s left` for the unit ` MiB`. Empty in the first second, and in
    /// virtual time: only a pace and timers move that clock, not the work.
    pub(crate) fn words(&self, unit: &str) -> String {
        self.words_after(self.begun.map_or(Duration::ZERO, |begun| begun.elapsed()), unit, time_is_virtual())
    }

    fn words_after(&self, elapsed: Duration, unit: &str, is_virtual: bool) -> String {
        if is_virtual || elapsed < Duration::from_secs(1) {
            return String::new();
        }
        let rate = significant(self.worked() as f64 / elapsed.as_secs_f64());
        let left = match self.seconds_left(elapsed) {
            _ if self.done >= self.total => String::new(),
            Some(seconds) => format!(", {} left", duration(seconds)),
            None => ", estimating the time left".into(),
        };
        format!("{rate}{unit}/s{left}")
    }

    /// Formats the remaining time: `40 s left`; `None` if it is unknown or zero.
    pub(crate) fn left(&self) -> Option<String> {
        let elapsed = self.begun?.elapsed();
        let seconds =
            self.seconds_left(elapsed).filter(|_| elapsed >= Duration::from_secs(1) && self.done < self.total)?;
        Some(format!("{} left", duration(seconds)))
    }

    fn worked(&self) -> u64 {
        self.done.saturating_sub(self.first)
    }

    fn seconds_left(&self, elapsed: Duration) -> Option<f64> {
        let (worked, all) = (self.worked() as f64, self.total.saturating_sub(self.first) as f64);
        let is_known = worked > 0.0 && (worked >= KNOWN_SHARE * all || elapsed >= KNOWN_TIME);
        is_known.then(|| elapsed.as_secs_f64() * (all - worked) / worked)
    }
}

pub(crate) fn duration(seconds: f64) -> String {
    match seconds {
        ..90.0 => format!("{seconds:.0} s"),
        ..5400.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.1} h", seconds / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(first: u64, done: u64, total: u64) -> Pace {
        Pace { total, first, done, begun: None }
    }

    #[test]
    fn remaining_time_follows_from_the_rate_since_the_first_report() {
        let minute = Duration::from_secs(60);
        assert_eq!(pace(0, 60, 100).seconds_left(minute), Some(40.0));
        assert_eq!(pace(1000, 1060, 1100).seconds_left(minute), Some(40.0), "of a resumed run");
        assert_eq!(pace(0, 0, 100).seconds_left(minute), None);
    }

    #[test]
    fn remaining_time_is_unknown_before_three_percent_or_a_minute() {
        let known = |done, seconds| pace(0, done, 1000).seconds_left(Duration::from_secs(seconds)).is_some();
        assert!(!known(29, 59) && known(30, 2) && known(1, 60));
    }

    #[test]
    fn words_have_no_remaining_time_at_the_end_or_without_a_total() {
        let words = |pace: Pace| pace.words_after(Duration::from_secs(10), " files", false);
        assert_eq!(words(pace(0, 100, 100)), "10 files/s");
        assert_eq!(words(pace(0, 100, 0)), "10 files/s");
        assert_eq!(words(pace(0, 100, 200)), "10 files/s, 10 s left");
        assert_eq!(pace(0, 100, 200).words_after(Duration::ZERO, " files", false), "");
        assert_eq!([100.0, 5400.0].map(duration), ["2 min", "1.5 h"]);
    }

    #[test]
    fn virtual_time_has_no_rate() {
        // The waits for ticks of the kernel add up to seconds.
        assert_eq!(pace(0, 100, 200).words_after(Duration::from_secs(10), " MiB", true), "");
    }
}
