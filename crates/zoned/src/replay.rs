//! Replays recorded commands on another drive in a closed loop: the host waits for this drive where it waited for the
//! recorded one.

use crate::command::{Command, Completion, Operation, ZoneFault};
use crate::device::ZonedDevice;
use crate::error::ZonedError;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Times are nanoseconds of the recording's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recorded {
    pub issue_ns: u64,
    /// Completion time; `None`: unknown, and no later command is known to depend on it.
    pub completed_ns: Option<u64>,
    pub work: Work,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// A command of this drive: operation, zone, first block (for appends and zone commands the start of the zone) and
    /// number of blocks.
    Drive(Operation, u32, u64, u32),
    /// Takes no time: a command of another drive, or one unknown to the model.
    Nothing,
}

/// Submission and completion in nanoseconds of this drive's clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Times {
    pub submitted_ns: u64,
    pub completed_ns: u64,
}

/// Totals of one operation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct OperationTotals {
    /// Completed commands.
    pub commands: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Sum of their latencies in seconds.
    pub latency_seconds: f64,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Replayed {
    pub times: Vec<Times>,
    pub kinds: BTreeMap<&'static str, OperationTotals>,
    /// Refused commands: index and fault.
    pub refused: Vec<(usize, ZoneFault)>,
    /// Seconds of host time between commands.
    pub host_seconds: f64,
    /// Seconds with at least one command in flight.
    pub busy_seconds: f64,
}

impl Replayed {
    /// Returns the seconds from the first submission to the last completion.
    pub fn seconds(&self) -> f64 {
        let first = self.times.first().map_or(0, |times| times.submitted_ns);
        let last = self.times.iter().map(|times| times.completed_ns).max().unwrap_or(first);
        (last - first) as f64 * 1e-9
    }
}

/// Replays commands in the recorded order. Each waits until all commands that had completed when it was issued are
/// complete here. Then the host's time since the last issue or completion passes, multiplied by `host_share` (0: no
/// host time). Decisions that the host would make differently on this drive are not modelled.
pub fn replay(device: &mut dyn ZonedDevice, recorded: &[Recorded], host_share: f64) -> Result<Replayed, ZonedError> {
    if !(0.0..=1000.0).contains(&host_share) {
        return Err(ZonedError::Usage(format!("host share {host_share} is out of range; use 0 to 1000")));
    }
    device.reserve(most_open(recorded).max(1), device.geometry().transfer_limit)?;
    let mut player = Player::new(device, recorded);
    let mut issued_ns = recorded.first().map_or(0, |one| one.issue_ns);
    let (mut before_ns, mut at) = (issued_ns, player.device.now_ns());
    for (index, one) in recorded.iter().enumerate() {
        if one.issue_ns < std::mem::replace(&mut issued_ns, one.issue_ns) {
            return Err(ZonedError::Usage(format!("recorded command {index} was issued before the previous one")));
        }
        while let Some(Reverse((completed_ns, _))) = player.known.peek().filter(|next| next.0.0 <= one.issue_ns) {
            before_ns = before_ns.max(*completed_ns);
            let Some(Reverse((_, other))) = player.known.pop() else { break };
            at = at.max(player.wait_for(other)?);
        }
        let host_ns = one.issue_ns.saturating_sub(before_ns) as f64 * host_share;
        player.outcome.host_seconds += host_ns * 1e-9;
        at = at.saturating_add(host_ns as u64);
        player.submit(index, at)?;
        before_ns = before_ns.max(one.issue_ns);
    }
    player.finish()
}

/// Returns the maximum number of commands in flight in the recording, an upper bound for the replay.
fn most_open(recorded: &[Recorded]) -> u32 {
    let mut open = BinaryHeap::new();
    let (mut most, mut never) = (0, 0);
    for one in recorded {
        while open.peek().is_some_and(|Reverse(at)| *at <= one.issue_ns) {
            open.pop();
        }
        match one.completed_ns {
            Some(at) => open.push(Reverse(at)),
            None => never += 1,
        }
        most = most.max(open.len() + never);
    }
    most.min(u32::MAX as usize) as u32
}

/// Marks incomplete commands in [`Player::done_ns`].
const OPEN: u64 = u64::MAX;

struct Player<'a> {
    device: &'a mut dyn ZonedDevice,
    recorded: &'a [Recorded],
    /// Recorded completion times of submitted commands, with the index.
    known: BinaryHeap<Reverse<(u64, usize)>>,
    done_ns: Vec<u64>,
    of_tag: Vec<usize>,
    free_tags: Vec<u32>,
    flying: usize,
    busy_since: u64,
    outcome: Replayed,
}

impl<'a> Player<'a> {
    fn new(device: &'a mut dyn ZonedDevice, recorded: &'a [Recorded]) -> Self {
        let outcome = Replayed { times: vec![Times::default(); recorded.len()], ..Replayed::default() };
        let (known, done_ns) = (BinaryHeap::new(), vec![OPEN; recorded.len()]);
        let (of_tag, free_tags) = (Vec::new(), Vec::new());
        Self { device, recorded, known, done_ns, of_tag, free_tags, flying: 0, busy_since: 0, outcome }
    }

    /// Runs the drive until a command is complete; returns its completion time.
    fn wait_for(&mut self, index: usize) -> Result<u64, ZonedError> {
        while self.done_ns[index] == OPEN {
            if let Some(completion) = self.device.next(u64::MAX)? {
                self.complete(&completion);
            }
        }
        Ok(self.done_ns[index])
    }

    fn submit(&mut self, index: usize, at: u64) -> Result<(), ZonedError> {
        while let Some(completion) = self.device.next(at)? {
            self.complete(&completion);
        }
        let one = self.recorded[index];
        self.known.extend(one.completed_ns.map(|completed| Reverse((completed, index))));
        self.outcome.times[index].submitted_ns = at;
        let Work::Drive(operation, zone, block, blocks) = one.work else {
            self.outcome.times[index].completed_ns = at;
            self.done_ns[index] = at;
            return Ok(());
        };
        let tag = self.free_tags.pop().unwrap_or_else(|| {
            self.of_tag.push(0);
            (self.of_tag.len() - 1) as u32
        });
        self.of_tag[tag as usize] = index;
        if self.flying == 0 {
            self.busy_since = at;
        }
        self.flying += 1;
        self.device.submit(Command { tag, queue: 0, operation, zone, block, blocks })
    }

    fn complete(&mut self, completion: &Completion) {
        let index = self.of_tag[completion.tag as usize];
        self.free_tags.push(completion.tag);
        self.done_ns[index] = completion.completed_ns;
        self.outcome.times[index].completed_ns = completion.completed_ns;
        self.flying -= 1;
        if self.flying == 0 {
            self.outcome.busy_seconds += completion.completed_ns.saturating_sub(self.busy_since) as f64 * 1e-9;
        }
        let Work::Drive(operation, _, _, blocks) = self.recorded[index].work else { return };
        if let Err(fault) = completion.result {
            return self.outcome.refused.push((index, fault));
        }
        let kind = self.outcome.kinds.entry(operation.name()).or_default();
        kind.commands += 1;
        kind.bytes += u64::from(blocks) * u64::from(self.device.geometry().block_bytes);
        let submitted = self.outcome.times[index].submitted_ns;
        kind.latency_seconds += completion.completed_ns.saturating_sub(submitted) as f64 * 1e-9;
    }

    fn finish(mut self) -> Result<Replayed, ZonedError> {
        while self.flying > 0 {
            if let Some(completion) = self.device.next(u64::MAX)? {
                self.complete(&completion);
            }
        }
        Ok(self.outcome)
    }
}

#[cfg(test)]
mod tests;
