//! Devices with a request queue.

use super::Command;
use crate::Device;
use crate::request::{Operation, Request};
use crate::ssd::Drive;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A completed request; all times in ns of the simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompletedRequest {
    pub operation: Operation,
    pub bytes: u64,
    /// Index in order of issue, from 0.
    pub index: u64,
    pub issued_ns: u64,
    pub done_ns: u64,
}

impl CompletedRequest {
    pub(crate) fn latency_ns(&self) -> u64 {
        self.done_ns - self.issued_ns
    }
}

pub(crate) trait Queue {
    /// Submits a request that reaches the device at `at_ns`, not before the last submitted one.
    fn submit(&mut self, command: &Command, at_ns: u64);

    /// Returns the next request to complete, if any is open. A device that reorders chooses among those submitted.
    fn next(&mut self) -> Option<CompletedRequest>;

    /// Works like `next`, but only if the result does not depend on later submissions, at or after `ns`.
    fn next_before(&mut self, ns: u64) -> Option<CompletedRequest>;
}

pub(crate) struct Immediate<D> {
    pub device: D,
    open: BinaryHeap<Reverse<(u64, u64)>>,
    /// Open requests by index, from the oldest open one.
    requests: std::collections::VecDeque<Option<CompletedRequest>>,
    first: u64,
    free: u64,
}

pub(crate) trait HintedDevice {
    fn serve_command(&mut self, command: &Command, at_ns: u64) -> u64;
}

impl HintedDevice for Drive {
    fn serve_command(&mut self, command: &Command, at_ns: u64) -> u64 {
        self.serve_hinted(&command.request, command.hint, at_ns)
    }
}

impl HintedDevice for Box<dyn Device> {
    fn serve_command(&mut self, command: &Command, at_ns: u64) -> u64 {
        self.serve(&command.request, at_ns)
    }
}

pub(crate) fn opened(request: &Request, index: u64, at_ns: u64) -> CompletedRequest {
    let bytes = if request.moves_data() { request.bytes() } else { 0 };
    CompletedRequest { operation: request.operation, bytes, index, issued_ns: at_ns, done_ns: at_ns }
}

impl<D: HintedDevice> Immediate<D> {
    pub(crate) fn new(device: D) -> Self {
        Self { device, open: BinaryHeap::new(), requests: std::collections::VecDeque::new(), first: 0, free: 0 }
    }

    fn take(&mut self, index: u64) -> Option<CompletedRequest> {
        let finished = self.requests.get_mut((index - self.first) as usize)?.take();
        while self.requests.front().is_some_and(Option::is_none) {
            self.requests.pop_front();
            self.first += 1;
        }
        finished
    }
}

impl<D: HintedDevice> Queue for Immediate<D> {
    fn submit(&mut self, command: &Command, at_ns: u64) {
        let done_ns = self.device.serve_command(command, at_ns);
        let finished = CompletedRequest { done_ns, ..opened(&command.request, self.free, at_ns) };
        self.open.push(Reverse((done_ns, self.free)));
        self.requests.push_back(Some(finished));
        self.free += 1;
    }

    fn next(&mut self) -> Option<CompletedRequest> {
        let Reverse((_, index)) = self.open.pop()?;
        self.take(index)
    }

    fn next_before(&mut self, ns: u64) -> Option<CompletedRequest> {
        let Reverse((done, _)) = self.open.peek()?;
        if *done > ns { None } else { self.next() }
    }
}
