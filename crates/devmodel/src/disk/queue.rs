//! Request queue of a drive that reorders.

use super::choice::Window;
use super::layout::SectorPosition;
use super::{DiskState, HeadPosition};
use crate::request::{Operation, Request};
use crate::simulate::{Command, CompletedRequest, Queue, opened};
use std::collections::VecDeque;

/// A request that has waited this long is served first.
const PATIENCE_NS: f64 = 1e9;

/// Waiting requests, oldest first.
#[derive(Debug, Clone)]
pub(super) struct Waiting {
    requests: VecDeque<Open>,
    window: Window,
    count: u64,
    flushes: u64,
    /// Number of window entries that were compared with the cache, and the number of segment extensions then.
    compared: usize,
    changes: u64,
}

#[derive(Debug, Clone, Copy)]
struct Open {
    request: Request,
    index: u64,
    issued_ns: u64,
    place: SectorPosition,
}

impl Waiting {
    /// Returns an empty queue with a window of at most `queue_depth`.
    pub(crate) fn of(queue_depth: u32) -> Self {
        let window = Window::of(queue_depth);
        Self { requests: VecDeque::new(), window, count: 0, flushes: 0, compared: 0, changes: 0 }
    }

    /// Returns the number of requests that may be chosen at `at`.
    fn choosable(&self, at: f64) -> usize {
        let mut among = self.window.len();
        while among > 0 && self.requests[among - 1].issued_ns as f64 > at {
            among -= 1;
        }
        // A flush waits for earlier requests, and no request passes it.
        let is_flush = |open: &Open| open.request.operation == Operation::Flush;
        match self.flushes {
            0 => among,
            _ => self.requests.iter().take(among).position(is_flush).unwrap_or(among),
        }
    }
}

impl DiskState {
    /// Returns when the drive chooses: it is free, and a request is waiting.
    fn choosing(&self) -> Option<f64> {
        let oldest = self.waiting.requests.front()?;
        Some((oldest.issued_ns as f64).max(self.free_ns))
    }

    /// Returns the next request, and when the head is there if known.
    fn choose(&mut self, at: f64) -> (usize, Option<f64>) {
        let among = self.disk.queue_depth.max(1) as usize;
        let oldest = self.waiting.requests.front().map_or(0.0, |oldest| oldest.issued_ns as f64);
        if among == 1 || at - oldest > PATIENCE_NS || self.waiting.requests.len() == 1 {
            return (0, None);
        }
        #[cfg(test)]
        if self.is_plain {
            let waiting = self.waiting.requests.iter().map(|open| (&open.request, open.issued_ns));
            return (self.choose_plainly(at, waiting), None);
        }
        let among = self.waiting.choosable(at);
        if among == 0 {
            return (0, None);
        }
        self.compare_with_cache(among);
        let here = self.here(at);
        let near = self.near();
        let view = self.rough.view(&here, self.head_ns, &near);
        self.waiting.window.estimate_steps(&self.rough, &view, among);
        let (best, arrives) = self.waiting.window.first(&self.rough, &view, |number| self.estimate(number, &here));
        let by_arm =
            !self.waiting.window.is_exact(best) && !near.contains(&self.waiting.requests[best].request.offset());
        (best, by_arm.then_some(arrives))
    }

    /// Marks requests that may be in the cache: those in segments extended since the last comparison.
    fn compare_with_cache(&mut self, among: usize) {
        let Waiting { requests, window, compared, changes, .. } = &mut self.waiting;
        match self.segments.changed_since(*changes) {
            Some(changed) => changed.for_each(|range| window.may_need_none(*compared, &range)),
            None => *compared = 0,
        }
        let first = among.min(*compared);
        for (number, Open { request, .. }) in (first..).zip(requests.range(first..among)) {
            if self.segments.holding(request.offset(), request.end()).is_some() {
                window.needs_none(number);
            }
        }
        (*compared, *changes) = (among.max(*compared), self.segments.changes());
    }

    /// Returns when a request would get its first sector.
    fn estimate(&self, number: usize, here: &HeadPosition) -> f64 {
        let Open { request, place, .. } = &self.waiting.requests[number];
        let in_cache = |start, end| self.waiting.window.is_exact(number) && self.segments.holding(start, end).is_some();
        let (start, end) = (request.offset(), request.end());
        match request.operation {
            Operation::Read if in_cache(start, end) => here.begin,
            Operation::Read => {
                let arrives = self.arrives(here, place, false);
                if !self.near().contains(&start) {
                    return arrives;
                }
                let (_, end_ns) = self.layout.end_from(place, start, end);
                let streamed = self.streaming(start, end_ns, here.begin);
                streamed.map_or(arrives, |(_, passed)| passed.min(arrives))
            }
            Operation::Write if self.disk.write_cache_bytes == 0 => self.arrives(here, place, true),
            _ => here.begin,
        }
    }

    fn fill_waiting_window(&mut self) {
        let Waiting { requests, window, .. } = &mut self.waiting;
        while let (false, Some(Open { request, place, .. })) = (window.is_full(), requests.get(window.len())) {
            let (settles, by_arm) = match request.operation {
                Operation::Read => (false, true),
                Operation::Write => (true, self.disk.write_cache_bytes == 0),
                Operation::Flush | Operation::Discard => (false, false),
            };
            window.push(&self.rough, place, request.offset(), settles, !by_arm);
        }
    }

    fn serve_waiting(&mut self, at: f64) -> Option<CompletedRequest> {
        let (chosen, arrives) = self.choose(at);
        let waiting = &mut self.waiting;
        let Open { request, index, issued_ns, place } = waiting.requests.remove(chosen)?;
        waiting.window.remove(chosen);
        waiting.compared -= usize::from(chosen < waiting.compared);
        waiting.flushes -= u64::from(request.operation == Operation::Flush);
        self.fill_waiting_window();
        let begin = issued_ns as f64;
        let is_empty = request.moves_data() && request.sectors == 0;
        let done = if is_empty { begin } else { self.serve_at(&request, &place, arrives, begin) };
        Some(CompletedRequest { done_ns: done.ceil().max(begin) as u64, ..opened(&request, index, issued_ns) })
    }
}

impl Queue for DiskState {
    fn submit(&mut self, command: &Command, at_ns: u64) {
        let request = command.request;
        let place = self.layout.place(request.offset().min(self.disk.capacity_bytes - 1));
        self.waiting.requests.push_back(Open { request, index: self.waiting.count, issued_ns: at_ns, place });
        self.waiting.count += 1;
        self.waiting.flushes += u64::from(request.operation == Operation::Flush);
        self.fill_waiting_window();
    }

    fn next(&mut self) -> Option<CompletedRequest> {
        let at = self.choosing()?;
        self.serve_waiting(at)
    }

    fn next_before(&mut self, ns: u64) -> Option<CompletedRequest> {
        let at = self.choosing()?;
        if at >= ns as f64 { None } else { self.serve_waiting(at) }
    }
}
