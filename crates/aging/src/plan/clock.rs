//! The clock of an aging: when the file system must commit.
//!
//! A file system reuses freed blocks only when the transaction that freed them is on the device, because a crash must find the
//! old file intact (ext4: `ext4_process_freed_data`; xfs: busy extents; btrfs: pinned extents). With few operations per commit,
//! as in real use, new files fill the holes of the last deletes. A replay that is done before the first commit must avoid those
//! holes. The clock selects between the two.

use crate::error::AgingError;
use senesce_core::Bytes;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Share of the free space that may be freed between two commits, or `none`: only the file system's own commits.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CommitShare {
    percent: Option<f64>,
}

impl CommitShare {
    /// Only the file system's own commits, with deletes as fast as possible, as in published agings.
    pub const NONE: Self = Self { percent: None };
    /// Smaller shares no longer change the layout (measurement in docs/verbs/age.md).
    pub const DEFAULT: Self = Self { percent: Some(5.0) };

    /// Creates a share of the free space, above 0; 1 is all of it.
    pub fn of(share: f64) -> Option<Self> {
        // Floating-point products may differ slightly from the intended number.
        let percent = (share * 1e11).round() / 1e9;
        (percent > 0.0 && percent.is_finite()).then_some(Self { percent: Some(percent) })
    }

    pub fn share(self) -> Option<f64> {
        self.percent.map(|percent| percent / 100.0)
    }
}

impl Default for CommitShare {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl fmt::Display for CommitShare {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.percent {
            Some(percent) => write!(formatter, "{percent}%"),
            None => formatter.write_str("none"),
        }
    }
}

senesce_core::text_form!(CommitShare);

impl FromStr for CommitShare {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is not a share of the free space: write 5%, 0.05 or none");
        if text == "none" {
            return Ok(Self::NONE);
        }
        let share = match text.strip_suffix('%') {
            Some(percent) => percent.trim().parse::<f64>().map_err(|_| wrong())? / 100.0,
            None => text.parse::<f64>().ok().filter(|share| *share <= 1.0).ok_or_else(wrong)?,
        };
        Self::of(share).ok_or_else(wrong)
    }
}

/// When the file system must commit. Both can be combined; with neither it commits by itself.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Clock {
    /// Share of the free space that may be freed between two commits, or created during the fill.
    pub commit_share: CommitShare,
    /// Operations between two commits; 0: no limit.
    pub sync_every: u64,
}

impl Clock {
    pub const NONE: Self = Self { commit_share: CommitShare::NONE, sync_every: 0 };

    pub fn is_none(&self) -> bool {
        *self == Self::NONE
    }

    pub fn bytes_between(&self, capacity: Bytes, fullness: f64) -> Option<Bytes> {
        let share = self.commit_share.share()?;
        Some(Bytes((share * (1.0 - fullness) * capacity.0 as f64) as u64))
    }

    /// Refuses a clock with more than one commit per operation when files of `mean` bytes are replaced. The default is always
    /// allowed: on a volume of a few files it commits after every delete.
    pub(super) fn check(&self, capacity: Bytes, fullness: f64, mean: f64) -> Result<(), AgingError> {
        let Some(between) = self.bytes_between(capacity, fullness) else { return Ok(()) };
        if between.0 as f64 >= mean / 2.0 || self.commit_share.percent >= CommitShare::DEFAULT.percent {
            return Ok(());
        }
        let least = mean / 2.0 / ((1.0 - fullness) * capacity.0 as f64);
        Err(AgingError::Plan(format!(
            "--commit-share {}: {between} freed per commit are less than one operation frees ({} on average); use at least \
             {:.3}%, or --sync-every 1",
            self.commit_share,
            Bytes(mean as u64 / 2),
            (least * 1e5).ceil() / 1e3,
        )))
    }
}

impl fmt::Display for Clock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by_count = format!("after every {} operations", self.sync_every);
        match (self.commit_share.share(), self.sync_every) {
            (None, 0) => formatter.write_str("commit only when the file system itself does"),
            (None, _) => write!(formatter, "commit {by_count}"),
            (Some(_), 0) => write!(formatter, "commit after {} of the free space was freed", self.commit_share),
            (Some(_), _) => {
                write!(formatter, "commit after {} of the free space was freed and {by_count}", self.commit_share)
            }
        }
    }
}

/// Computes the commits from the progress so far; stores only the next one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ticks {
    between: u64,
    every: u64,
    next: (u64, u64),
    pub commits: u64,
}

impl Ticks {
    pub(crate) fn new(clock: &Clock, capacity: Bytes, fullness: f64) -> Self {
        let between = clock.bytes_between(capacity, fullness).map_or(u64::MAX, |bytes| bytes.0.max(1));
        let every = if clock.sync_every == 0 { u64::MAX } else { clock.sync_every };
        Self { between, every, next: (between, every), commits: 0 }
    }

    /// Returns whether a commit follows the operation after which `turnover` bytes were freed (or created in the fill)
    /// and `operations` are done.
    #[inline]
    pub(crate) fn tick(&mut self, turnover: u64, operations: u64) -> bool {
        let (by_bytes, by_count) = (turnover >= self.next.0, operations >= self.next.1);
        if by_bytes {
            self.next.0 = (turnover / self.between + 1).saturating_mul(self.between);
        }
        if by_count {
            self.next.1 = operations.saturating_add(self.every);
        }
        self.commits += u64::from(by_bytes || by_count);
        by_bytes || by_count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_round_trip_through_text() {
        for (text, share) in
            [("5%", Some(0.05)), ("0.07", Some(0.07)), ("0.1%", Some(0.001)), ("none", None), ("1", Some(1.0))]
        {
            let read: CommitShare = text.parse().unwrap();
            assert_eq!(read.share(), share, "{text}");
            assert_eq!(read.to_string().parse::<CommitShare>().unwrap(), read);
            assert_eq!(serde_json::from_str::<CommitShare>(&serde_json::to_string(&read).unwrap()).unwrap(), read);
        }
        assert_eq!("0.07".parse::<CommitShare>().unwrap().to_string(), "7%");
        for text in ["5", "0", "-1%", "0%", "NaN", "inf", "five", "", "%", "1e400%"] {
            assert!(text.parse::<CommitShare>().unwrap_err().contains("5%, 0.05 or none"), "{text}");
        }
    }

    #[test]
    fn ticks_follow_bytes_and_operations() {
        let clock = Clock { commit_share: CommitShare::of(0.5).unwrap(), sync_every: 4 };
        let mut ticks = Ticks::new(&clock, Bytes(400), 0.5);
        let stated: Vec<bool> =
            [0, 99, 100, 100, 350, 399, 400, 400].iter().zip(1..).map(|(b, o)| ticks.tick(*b, o)).collect();
        assert_eq!(stated, [false, false, true, true, true, false, true, true]);
        assert_eq!(ticks.commits, 5);
        let mut none = Ticks::new(&Clock::NONE, Bytes(400), 0.5);
        assert!((1..1000).all(|operations| !none.tick(operations << 40, operations)));
    }
}
