//! Requests before a drive that chooses which it serves next.

use super::layout::SectorPosition;
use super::{DiskState, Here};
use crate::request::{Operation, Request};
use crate::simulate::{Command, Finished, Queue, opened};
use std::collections::VecDeque;

/// A request that has waited this long is served before all others.
const PATIENCE_NS: f64 = 1e9;

/// Requests that are not served yet, oldest first.
#[derive(Debug, Clone, Default)]
pub(super) struct Waiting {
    requests: VecDeque<(Request, Finished, SectorPosition)>,
    count: u64,
}

impl DiskState {
    /// The moment at which the drive chooses: it is free, and something is there.
    fn choosing(&self) -> Option<f64> {
        let (_, oldest, _) = self.waiting.requests.front()?;
        Some((oldest.issued_ns as f64).max(self.free_ns))
    }

    fn choose(&self, at: f64) -> usize {
        let among = self.disk.queue_depth.max(1) as usize;
        let oldest = self.waiting.requests.front().map_or(0.0, |(_, oldest, _)| oldest.issued_ns as f64);
        if among == 1 || at - oldest > PATIENCE_NS || self.waiting.requests.len() == 1 {
            return 0;
        }
        let here = self.here(at);
        let (mut best, mut soonest) = (0, f64::INFINITY);
        for (number, (request, open, place)) in self.waiting.requests.iter().take(among).enumerate() {
            // A flush waits for what came before it, and nothing passes it.
            if open.issued_ns as f64 > at || request.operation == Operation::Flush {
                break;
            }
            let arrives = self.estimate(request, place, &here, soonest);
            if arrives < soonest {
                (best, soonest) = (number, arrives);
            }
        }
        best
    }

    /// When a request would have its first sector; any later time than `bound` where it is later.
    fn estimate(&self, request: &Request, place: &SectorPosition, here: &Here, bound: f64) -> f64 {
        let (start, end) = (request.offset(), request.end());
        match request.operation {
            Operation::Read if self.segments.holding(start, end).is_some() => here.begin,
            Operation::Read => {
                let arrives = self.arrives(here, place, false, bound);
                if !self.is_near(start) {
                    return arrives;
                }
                let streamed = self.streaming(start, self.layout.end_ns(end), here.begin);
                streamed.map_or(arrives, |(_, passed)| passed.min(arrives))
            }
            Operation::Write if self.disk.write_cache_bytes == 0 => self.arrives(here, place, true, bound),
            _ => here.begin,
        }
    }

    fn serve_waiting(&mut self, at: f64) -> Option<Finished> {
        let (request, open, _) = self.waiting.requests.remove(self.choose(at))?;
        let begin = open.issued_ns as f64;
        let done = if request.moves_data() && request.sectors == 0 { begin } else { self.serve_at(&request, begin) };
        Some(Finished { done_ns: done.ceil().max(begin) as u64, ..open })
    }
}

impl Queue for DiskState {
    fn submit(&mut self, command: &Command, at_ns: u64) {
        let open = opened(&command.request, self.waiting.count, at_ns);
        let place = self.layout.place(command.request.offset().min(self.disk.capacity_bytes - 1));
        self.waiting.requests.push_back((command.request, open, place));
        self.waiting.count += 1;
    }

    fn next(&mut self) -> Option<Finished> {
        let at = self.choosing()?;
        self.serve_waiting(at)
    }

    fn next_before(&mut self, ns: u64) -> Option<Finished> {
        let at = self.choosing()?;
        if at >= ns as f64 { None } else { self.serve_waiting(at) }
    }
}
