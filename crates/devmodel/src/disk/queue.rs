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
    requests: VecDeque<Open>,
    count: u64,
}

#[derive(Debug, Clone, Copy)]
struct Open {
    request: Request,
    issued: Finished,
    place: SectorPosition,
    /// After so many changes of the cache's segments none held it.
    unheld_at: u64,
}

impl DiskState {
    /// The moment at which the drive chooses: it is free, and something is there.
    fn choosing(&self) -> Option<f64> {
        let oldest = self.waiting.requests.front()?;
        Some((oldest.issued.issued_ns as f64).max(self.free_ns))
    }

    fn choose(&mut self, at: f64) -> usize {
        let among = self.disk.queue_depth.max(1) as usize;
        let oldest = self.waiting.requests.front().map_or(0.0, |oldest| oldest.issued.issued_ns as f64);
        if among == 1 || at - oldest > PATIENCE_NS || self.waiting.requests.len() == 1 {
            return 0;
        }
        let here = self.here(at);
        let (mut best, mut soonest) = (0, f64::INFINITY);
        for number in 0..self.waiting.requests.len().min(among) {
            let open = self.waiting.requests[number];
            // A flush waits for what came before it, and nothing passes it.
            if open.issued.issued_ns as f64 > at || open.request.operation == Operation::Flush {
                break;
            }
            let arrives = if self.is_held(number) { here.begin } else { self.estimate(&open, &here, soonest) };
            if arrives < soonest {
                (best, soonest) = (number, arrives);
            }
        }
        best
    }

    /// Whether a read that waits is in the cache.
    fn is_held(&mut self, number: usize) -> bool {
        let open = &mut self.waiting.requests[number];
        let is_held = open.request.operation == Operation::Read
            && self.segments.holds_since(open.request.offset(), open.request.end(), open.unheld_at);
        if !is_held {
            open.unheld_at = self.segments.changes();
        }
        is_held
    }

    /// When a request that is not in the cache would have its first sector; any later time than `bound` where it is later.
    fn estimate(&self, Open { request, place, .. }: &Open, here: &Here, bound: f64) -> f64 {
        let (start, end) = (request.offset(), request.end());
        match request.operation {
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
        let chosen = self.choose(at);
        let Open { request, issued, .. } = self.waiting.requests.remove(chosen)?;
        let begin = issued.issued_ns as f64;
        let done = if request.moves_data() && request.sectors == 0 { begin } else { self.serve_at(&request, begin) };
        Some(Finished { done_ns: done.ceil().max(begin) as u64, ..issued })
    }
}

impl Queue for DiskState {
    fn submit(&mut self, command: &Command, at_ns: u64) {
        let issued = opened(&command.request, self.waiting.count, at_ns);
        let place = self.layout.place(command.request.offset().min(self.disk.capacity_bytes - 1));
        self.waiting.requests.push_back(Open { request: command.request, issued, place, unheld_at: 0 });
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
