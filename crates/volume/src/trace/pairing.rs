//! Matches completions to requests.

use super::packed::BlockTrace;
use super::request::{Operation, Request, ZoneAction};
use super::tally::{Group, Tally};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::ops::Range;

/// Zone commands that the kernel's letters do not distinguish (all kernels before 6.19).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ZoneCommand {
    Append,
    Action(ZoneAction),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// The driver made a zone command of the request that is issued next for this sector.
    Made {
        now_ns: u64,
        sector: u64,
        command: ZoneCommand,
    },
    Issue(Request),
    /// An issued zone append: its sector is that of the zone; the completion has the position.
    Append(Request),
    /// The driver could not take a request (or its rest): it will be issued again.
    Requeue {
        now_ns: u64,
        sector: u64,
        operation: Operation,
    },
    Complete {
        now_ns: u64,
        sector: u64,
        sectors: u32,
        operation: Operation,
        group: Group,
    },
}

impl Event {
    pub(crate) fn completion(request: &Request) -> Self {
        let Request { issue_ns: now_ns, sector, sectors, operation, .. } = *request;
        Self::Complete { now_ns, sector, sectors, operation, group: Group::of_operation(operation) }
    }

    pub(crate) fn requeue(request: &Request) -> Self {
        let Request { issue_ns: now_ns, sector, operation, .. } = *request;
        Self::Requeue { now_ns, sector, operation }
    }

    pub(crate) fn time_ns(&self) -> u64 {
        match self {
            Self::Issue(request) | Self::Append(request) => request.issue_ns,
            Self::Complete { now_ns, .. } | Self::Requeue { now_ns, .. } | Self::Made { now_ns, .. } => *now_ns,
        }
    }

    /// Returns whether it is a completion outside a partition. One without sectors may end a flush of any partition.
    pub(crate) fn is_elsewhere(&self, part: &Range<u64>) -> bool {
        match self {
            Self::Complete { sectors: 0, group: Group::Write, .. } => false,
            Self::Complete { sector, .. } => !part.contains(sector),
            _ => false,
        }
    }

    /// Makes its time relative to `start_ns` and its sector to `first_sector`.
    pub(crate) fn relative_to(&mut self, start_ns: u64, first_sector: u64) {
        let (time_ns, sector) = match self {
            Self::Issue(request) | Self::Append(request) => (&mut request.issue_ns, &mut request.sector),
            Self::Complete { now_ns, sector, .. }
            | Self::Requeue { now_ns, sector, .. }
            | Self::Made { now_ns, sector, .. } => (now_ns, sector),
        };
        *time_ns = time_ns.saturating_sub(start_ns);
        *sector = sector.saturating_sub(first_sector);
    }
}

type Key = (u64, Operation);

#[derive(Debug, Clone, Copy)]
struct Open {
    index: usize,
    issue_ns: u64,
    begin: u64,
    end: u64,
    requeued: bool,
}

#[derive(Debug)]
pub(crate) struct Pairing {
    trace: BlockTrace,
    /// By kind and first sector still to be completed.
    open: HashMap<Key, Open>,
    also_open: HashMap<Key, VecDeque<Open>>,
    appends: Vec<Open>,
    /// Zone commands whose requests are issued next, by the sector of the zone.
    made: HashMap<u64, ZoneCommand>,
    tally: Tally,
}

impl Pairing {
    pub(crate) fn new(trace: BlockTrace) -> Self {
        let (open, also_open, made) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self { trace, open, also_open, appends: Vec::new(), made, tally: Tally::default() }
    }

    pub(crate) fn take(&mut self, event: &Event) {
        match event {
            Event::Made { sector, command, .. } => {
                self.made.insert(*sector, *command);
            }
            Event::Issue(request) => self.issue(request),
            Event::Append(request) => self.append(request),
            Event::Requeue { sector, operation, .. } => {
                if let Some(open) = self.open.get_mut(&(*sector, *operation)) {
                    open.requeued = true;
                }
            }
            Event::Complete { now_ns, sector, sectors, operation, group } => {
                self.tally.moved(*group, u64::from(*sectors) * 512);
                self.complete(*now_ns, (*sector, *operation), *sectors, *group);
            }
        }
    }

    fn append(&mut self, request: &Request) {
        let open = self.push(request);
        self.appends.push(open);
    }

    fn issue(&mut self, request: &Request) {
        let key = (request.sector, request.operation);
        let mut stated = *request;
        if request.operation == Operation::Other {
            match (self.made.remove(&request.sector), request.sectors) {
                (Some(ZoneCommand::Append), 1..) => {
                    return self.append(&Request { operation: Operation::Write, append: true, ..stated });
                }
                (Some(ZoneCommand::Action(action)), 0) => stated.operation = Operation::Zone(action),
                _ => {}
            }
        }
        // A reissued request keeps its position in the order.
        if let Some(open) = self.open.get_mut(&key).filter(|open| open.requeued && open.end == request.end_sector()) {
            open.requeued = false;
            return;
        }
        let open = self.push(&stated);
        self.insert(key, open);
    }

    fn push(&mut self, request: &Request) -> Open {
        let (index, begin, end) = (self.trace.len(), request.sector, request.end_sector());
        self.trace.push(request);
        Open { index, issue_ns: request.issue_ns, begin, end, requeued: false }
    }

    fn insert(&mut self, key: Key, open: Open) {
        match self.open.entry(key) {
            Entry::Vacant(entry) => {
                entry.insert(open);
            }
            Entry::Occupied(_) => self.also_open.entry(key).or_default().push_back(open),
        }
    }

    fn remove(&mut self, key: Key) {
        self.open.remove(&key);
        let Entry::Occupied(mut waiting) = self.also_open.entry(key) else { return };
        if let Some(next) = waiting.get_mut().pop_front() {
            self.open.insert(key, next);
        }
        if waiting.get().is_empty() {
            waiting.remove();
        }
    }

    /// Completes a request, or one of its parts; the last part counts.
    fn complete(&mut self, now_ns: u64, key: Key, sectors: u32, group: Group) {
        let (sector, operation) = key;
        if sectors == 0 && group == Group::Write {
            // A write between flushes is completed once more after them, at its end; a flush without data is an empty
            // write at sector 0 (`blk_flush_complete_seq` in block/blk-flush.c).
            self.tally.empty_writes += u64::from(sector == 0);
            return;
        }
        let is_append = group == Group::Append;
        let open = if is_append { None } else { self.take_open(key) };
        // Kernels that do not mark appends complete them with the issued kind.
        let may_be_append = is_append || operation == Operation::Other && sectors > 0;
        let (open, group) = match open {
            None if may_be_append => (self.take_append(sector, sectors), Group::Append),
            open => (open, group),
        };
        let Some(open) = open else {
            self.tally.unmatched += 1;
            self.tally.ended(group, sector);
            return;
        };
        self.trace.set_latency(open.index, now_ns.saturating_sub(open.issue_ns));
        if group == Group::Append {
            self.trace.set_place(open.index, sector);
        }
        let done = sector.saturating_add(u64::from(sectors));
        match done < open.end && !matches!(group, Group::Command | Group::Append) {
            true => self.insert((done, operation), open),
            false => self.tally.ended(group, open.begin),
        }
    }

    fn take_open(&mut self, key: Key) -> Option<Open> {
        let open = self.open.get(&key).copied()?;
        self.remove(key);
        Some(open)
    }

    /// Takes the oldest append of this length to the zone that holds the sector: the last one that begins before it.
    fn take_append(&mut self, sector: u64, sectors: u32) -> Option<Open> {
        let fits = |open: &Open| open.begin <= sector && open.end - open.begin == u64::from(sectors);
        let zone = self.appends.iter().filter(|open| fits(open)).map(|open| open.begin).max()?;
        let at = self.appends.iter().position(|open| open.begin == zone && fits(open))?;
        Some(self.appends.remove(at))
    }

    pub(crate) fn finish(self) -> (BlockTrace, Tally, u64) {
        let unfinished =
            self.open.len() + self.also_open.values().map(VecDeque::len).sum::<usize>() + self.appends.len();
        (self.trace, self.tally, unfinished as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Operation::{Read, Write};

    fn issue(now: u64, operation: Operation, sector: u64) -> Event {
        Event::Issue(Request { issue_ns: now, ..Request::new(operation, sector, 16) })
    }

    fn complete(now_ns: u64, operation: Operation, sector: u64, sectors: u32) -> Event {
        Event::Complete { now_ns, sector, sectors, operation, group: Group::of_operation(operation) }
    }

    fn paired(events: &[Event]) -> (Vec<Option<u64>>, Tally, u64) {
        let mut pairing = Pairing::new(BlockTrace::new("sdx", 0));
        events.iter().for_each(|event| pairing.take(event));
        let (trace, tally, unfinished) = pairing.finish();
        (trace.iter().map(|request| request.latency_ns).collect(), tally, unfinished)
    }

    #[test]
    fn completions_in_parts_and_out_of_order_are_paired() {
        let (latencies, tally, unfinished) = paired(&[
            issue(10, Read, 0),
            issue(20, Read, 100),
            complete(50, Read, 100, 16),
            complete(60, Read, 0, 8),
            complete(70, Read, 8, 8),
            complete(80, Read, 5, 8),
        ]);
        assert_eq!(latencies, [Some(60), Some(30)]);
        assert_eq!((tally.requests[0], tally.bytes[0], tally.unmatched, unfinished), (3, 40 * 512, 1, 0));
    }

    #[test]
    fn two_requests_at_one_sector_are_both_completed() {
        let events = [issue(10, Read, 8), issue(20, Read, 8), complete(50, Read, 8, 16), complete(70, Read, 8, 16)];
        let (latencies, tally, unfinished) = paired(&events);
        assert_eq!(latencies, [Some(40), Some(50)]);
        assert_eq!((tally.requests[0], tally.unmatched, unfinished), (2, 0, 0));
    }

    /// Guards against a linear search for each request, which would take hours.
    #[test]
    fn many_requests_at_one_sector_complete_in_order() {
        const COUNT: u64 = 400_000;
        let issues = (0..COUNT).map(|number| issue(number, Read, 8));
        let completions = (0..COUNT).map(|number| complete(COUNT + 2 * number, Read, 8, 16));
        let (latencies, tally, unfinished) = paired(&issues.chain(completions).collect::<Vec<_>>());
        assert!(latencies.iter().enumerate().all(|(number, latency)| *latency == Some(COUNT + number as u64)));
        assert_eq!((tally.requests[0], tally.unmatched, unfinished), (COUNT, 0, 0));
    }

    #[test]
    fn a_request_that_is_issued_again_counts_once() {
        let again = Event::Requeue { now_ns: 15, sector: 8, operation: Read };
        let events = [issue(10, Read, 8), again, issue(20, Read, 8), complete(50, Read, 8, 16)];
        let (latencies, tally, unfinished) = paired(&events);
        assert_eq!((latencies.as_slice(), tally.requests[0], unfinished), (&[Some(40)][..], 1, 0));
    }

    #[test]
    fn append_completes_at_its_position_in_zone() {
        let append = Event::Append(Request { issue_ns: 1, ..Request::new(Write, 0, 16) });
        let done = Event::Complete { now_ns: 9, sector: 480, sectors: 16, operation: Write, group: Group::Append };
        let (latencies, tally, unfinished) = paired(&[append, done]);
        assert_eq!((latencies.as_slice(), tally.requests[1], unfinished), (&[Some(8)][..], 1, 0));
    }

    #[test]
    fn appends_to_several_zones_get_their_positions() {
        let append =
            |issue_ns, sector| Event::Append(Request { issue_ns, append: true, ..Request::new(Write, sector, 16) });
        let done =
            |now_ns, sector| Event::Complete { now_ns, sector, sectors: 16, operation: Write, group: Group::Append };
        let mut pairing = Pairing::new(BlockTrace::new("sdx", 0));
        [append(1, 0), append(2, 1000), done(5, 1480), done(9, 480)].iter().for_each(|event| pairing.take(event));
        let (trace, tally, unfinished) = pairing.finish();
        let found: Vec<_> = trace.iter().map(|one| (one.sector, one.latency_ns, one.append)).collect();
        assert_eq!(found, [(480, Some(8), true), (1480, Some(3), true)]);
        assert_eq!((tally.requests[1], tally.unmatched, unfinished), (2, 0, 0));
    }

    #[test]
    fn driver_commands_identify_zone_commands() {
        let made = |now_ns, sector, command| Event::Made { now_ns, sector, command };
        let issue = |issue_ns, sector, sectors| {
            Event::Issue(Request { issue_ns, ..Request::new(Operation::Other, sector, sectors) })
        };
        let done = |now_ns, sector, sectors, group| Event::Complete {
            now_ns,
            sector,
            sectors,
            operation: Operation::Other,
            group,
        };
        let reset = ZoneCommand::Action(ZoneAction::Reset);
        let events = [
            made(1, 1000, reset),
            issue(2, 1000, 0),
            done(4, 1000, 0, Group::Command),
            made(5, 1000, ZoneCommand::Append),
            issue(6, 1000, 16),
            done(9, 1032, 16, Group::Write),
            // Zeros, and a command of unknown kind.
            issue(10, 3000, 16),
            issue(11, 5000, 0),
            done(12, 3000, 16, Group::Write),
            done(13, 5000, 0, Group::Command),
        ];
        let mut pairing = Pairing::new(BlockTrace::new("sdx", 0));
        events.iter().for_each(|event| pairing.take(event));
        let (trace, tally, unfinished) = pairing.finish();
        let found: Vec<_> = trace.iter().map(|one| (one.operation, one.sector, one.latency_ns, one.append)).collect();
        assert_eq!(
            found,
            [
                (Operation::Zone(ZoneAction::Reset), 1000, Some(2), false),
                (Write, 1032, Some(3), true),
                (Operation::Other, 3000, Some(2), false),
                (Operation::Other, 5000, Some(2), false),
            ]
        );
        assert_eq!((tally.requests[1], tally.commands, tally.unmatched, unfinished), (2, 2, 0, 0));
    }

    #[test]
    fn flushes_are_counted_as_the_kernel_counts_them() {
        let (_, tally, unfinished) = paired(&[
            // fsync without a journal: a flush for an empty write.
            Event::Issue(Request { issue_ns: 1, ..Request::new(Operation::Flush, 0, 0) }),
            complete(2, Operation::Flush, 0, 0),
            complete(3, Write, 0, 0),
            // A journal's commit: the write ends, and once more after the second flush.
            issue(10, Write, 800),
            complete(20, Write, 800, 16),
            complete(30, Write, 816, 0),
        ]);
        assert_eq!((tally.requests, tally.empty_writes, unfinished), ([0, 1, 0, 1], 1, 0));
    }
}
