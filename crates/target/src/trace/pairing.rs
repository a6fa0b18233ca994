//! Completions find their requests.

use super::packed::BlockTrace;
use super::request::{Operation, Request};
use std::collections::HashMap;

/// Issue or completion of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// A request was issued.
    Issue(Request),
    /// A part of a request, or all of it, was completed.
    Complete {
        /// When.
        now_ns: u64,
        /// First sector that was completed.
        sector: u64,
        /// How many were.
        sectors: u32,
        /// What the request does.
        operation: Operation,
    },
}

impl Event {
    /// When it happened.
    pub(crate) fn time_ns(&self) -> u64 {
        match self {
            Self::Issue(request) => request.issue_ns,
            Self::Complete { now_ns, .. } => *now_ns,
        }
    }
}

/// Fills a trace from issues and completions that come in the order of time.
#[derive(Debug)]
pub(crate) struct Pairing {
    trace: BlockTrace,
    /// By first sector still to be completed and kind: index, time of issue, end of the request.
    open: HashMap<(u64, Operation), (usize, u64, u64)>,
}

impl Pairing {
    pub(crate) fn new(trace: BlockTrace) -> Self {
        Self { trace, open: HashMap::new() }
    }

    /// Takes the next event.
    pub(crate) fn take(&mut self, event: &Event) {
        match event {
            Event::Issue(request) => {
                let key = (request.sector, request.operation);
                self.open.insert(key, (self.trace.len(), request.issue_ns, request.end_sector()));
                self.trace.push(request);
            }
            Event::Complete { now_ns, sector, sectors, operation } => {
                self.complete(*now_ns, *sector, *sectors, *operation);
            }
        }
    }

    /// A request may be completed in parts; the last part counts.
    fn complete(&mut self, now_ns: u64, sector: u64, sectors: u32, operation: Operation) {
        let key = (sector, operation);
        let Some((index, issue_ns, end)) = self.open.get(&key).copied() else { return };
        if sectors == 0 && end > sector {
            // The end of a flush around a write that was completed before.
            return;
        }
        self.open.remove(&key);
        self.trace.set_latency(index, now_ns.saturating_sub(issue_ns));
        let done = sector.saturating_add(u64::from(sectors));
        if done < end {
            self.open.insert((done, operation), (index, issue_ns, end));
        }
    }

    /// The trace.
    pub(crate) fn finish(self) -> BlockTrace {
        self.trace
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completions_in_parts_and_out_of_order_are_paired() {
        let mut pairing = Pairing::new(BlockTrace::new("sdx", 0));
        let issue = |now, sector| Event::Issue(Request { issue_ns: now, ..Request::new(Operation::Read, sector, 16) });
        let complete =
            |now_ns, sector, sectors| Event::Complete { now_ns, sector, sectors, operation: Operation::Read };
        let events = [
            issue(10, 0),
            issue(20, 100),
            complete(50, 100, 16),
            complete(60, 0, 8),
            complete(70, 8, 8),
            complete(80, 5, 8),
        ];
        events.iter().for_each(|event| pairing.take(event));
        let latencies: Vec<_> = pairing.finish().iter().map(|request| request.latency_ns).collect();
        assert_eq!(latencies, [Some(60), Some(30)]);
    }
}
