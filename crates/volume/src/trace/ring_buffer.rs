//! Pages of the kernel's trace ring buffer from `trace_pipe_raw`.
//!
//! Layout: the kernel's `include/linux/ring_buffer.h` and tracefs' `events/header_page` and `events/header_event`.

use super::event_format::{CommandFormat, EventFormat};
use super::pairing::Event;
use super::request::{Operation, Request};
use super::tally::Group;

/// In the commit word of a page: events were lost before it, and their number follows its data.
const MISSED_EVENTS: u64 = 1 << 31;
const MISSED_STORED: u64 = 1 << 30;
const COMMIT_MASK: u64 = (1 << 30) - 1;

const HEAD: usize = 16;
/// The kernel's sector number of a request without a sector.
const NO_PLACE: u64 = u64::MAX;

const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Formats {
    pub issue: EventFormat,
    pub complete: EventFormat,
    pub requeue: EventFormat,
    pub command: Option<CommandFormat>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PageCount {
    pub entries: u64,
    /// Events that were not understood, and pages that end inside an entry.
    pub undecoded: u64,
    /// Events that were lost before the page, according to the kernel.
    pub missed: u64,
    pub failed: u64,
}

impl std::ops::AddAssign for PageCount {
    fn add_assign(&mut self, other: Self) {
        self.entries += other.entries;
        self.undecoded += other.undecoded;
        self.missed += other.missed;
        self.failed += other.failed;
    }
}

/// Appends the events of one page to `events`, and counts all unreadable ones.
pub(crate) fn parse_page(page: &[u8], formats: &Formats, events: &mut Vec<Event>) -> PageCount {
    let mut count = PageCount::default();
    let (Some(mut now_ns), Some(commit)) = (number(page, 0, 8), number(page, 8, 8)) else {
        return PageCount { undecoded: 1, ..count };
    };
    let length = (commit & COMMIT_MASK) as usize;
    let body = page.get(HEAD..HEAD + length).unwrap_or_else(|| {
        count.undecoded += 1;
        &page[HEAD..]
    });
    let mut rest = body;
    while !rest.is_empty() {
        let Some((entry, behind)) = next_entry(rest) else {
            count.undecoded += 1;
            break;
        };
        rest = behind;
        match entry {
            RingEntry::End => break,
            RingEntry::Gap { delta_ns } => now_ns = now_ns.wrapping_add(delta_ns),
            // An absolute stamp has 59 bits; the highest five are those of the time before it.
            RingEntry::Stamp { lower_ns } => now_ns = now_ns & !((1 << 59) - 1) | lower_ns,
            RingEntry::Event { delta_ns, data } => {
                now_ns = now_ns.wrapping_add(delta_ns);
                count.entries += 1;
                match parse_event(data, now_ns, formats) {
                    Some((event, failed)) => {
                        events.push(event);
                        count.failed += u64::from(failed);
                    }
                    None => count.undecoded += 1,
                }
            }
        }
    }
    count.missed = match (commit & MISSED_EVENTS != 0, commit & MISSED_STORED != 0) {
        (true, true) => number(page, HEAD + length, 8).unwrap_or(1),
        (true, false) => 1,
        _ => 0,
    };
    count
}

pub(crate) fn judge_page(bytes: &[u8]) {
    let issue = EventFormat { id: 2104, sector: 16, nr_sector: 24, rwbs: 34, rwbs_length: 10, error: None };
    let complete = EventFormat { id: 2107, error: Some(28), ..issue };
    let command = CommandFormat { id: 2109, opcode: 24, words: 36, block_sectors: 8 };
    let formats = Formats { issue, complete, requeue: EventFormat { id: 2108, ..issue }, command: Some(command) };
    let mut events = Vec::new();
    let count = parse_page(bytes, &formats, &mut events);
    assert!(events.len() as u64 <= count.entries, "no event without an entry");
    assert!(events.len() as u64 + count.undecoded >= count.entries, "an entry is neither understood nor counted");
}

enum RingEntry<'a> {
    End,
    Gap {
        delta_ns: u64,
    },
    /// The time is set, except its highest bits.
    Stamp {
        lower_ns: u64,
    },
    Event {
        delta_ns: u64,
        data: &'a [u8],
    },
}

/// Returns the next entry and the bytes after it; `None` if it does not end inside the page.
fn next_entry(bytes: &[u8]) -> Option<(RingEntry<'_>, &[u8])> {
    let head = number(bytes, 0, 4)? as u32;
    let (kind, delta_ns) = (head & 31, u64::from(head >> 5));
    let bytes = &bytes[4..];
    let word = || number(bytes, 0, 4);
    match kind {
        TIME_EXTEND => Some((RingEntry::Gap { delta_ns: word()? << 27 | delta_ns }, &bytes[4..])),
        TIME_STAMP => Some((RingEntry::Stamp { lower_ns: word()? << 27 | delta_ns }, &bytes[4..])),
        PADDING if delta_ns == 0 => Some((RingEntry::End, bytes)),
        PADDING => Some((RingEntry::Gap { delta_ns }, bytes.get(word()?.max(4) as usize..)?)),
        // The length word counts itself.
        0 => {
            let (whole, behind) = bytes.split_at_checked(word()? as usize)?;
            Some((RingEntry::Event { delta_ns, data: whole.get(4..)? }, behind))
        }
        words => {
            let (data, behind) = bytes.split_at_checked(words as usize * 4)?;
            Some((RingEntry::Event { delta_ns, data }, behind))
        }
    }
}

/// Parses an event, and whether the request failed. `None`: another event, or not understood.
fn parse_event(data: &[u8], now_ns: u64, formats: &Formats) -> Option<(Event, bool)> {
    let id = number(data, 0, 2)? as u16;
    if let Some(command) = formats.command.filter(|command| command.id == id) {
        return Some((command.event(data, now_ns)?, false));
    }
    let known = [formats.issue, formats.complete, formats.requeue];
    let format = known.into_iter().find(|format| format.id == id)?;
    let field = data.get(format.rwbs..format.rwbs + format.rwbs_length)?;
    // A NUL ends the letters; old bytes follow it.
    let rwbs = &field[..field.iter().position(|byte| *byte == 0)?];
    let sectors = number(data, format.nr_sector, 4)? as u32;
    let place = number(data, format.sector, 8)?;
    // A request without a sector is issued at sector 0 and completed at "-1".
    let sector = if place == NO_PLACE { 0 } else { place };
    let request = Request::new(Operation::Other, sector, sectors).with_rwbs_bytes(rwbs)?;
    let group = Group::of(rwbs, &request, place == NO_PLACE);
    let (request, operation) = (Request { issue_ns: now_ns, ..request }, request.operation);
    let error = match format.error {
        Some(at) if id == formats.complete.id => number(data, at, 4)? as u32 as i32,
        _ => 0,
    };
    let event = match id {
        id if id == formats.issue.id && group == Group::Append => Event::Append(request),
        id if id == formats.issue.id => Event::Issue(request),
        id if id == formats.requeue.id => Event::Requeue { now_ns, sector, operation },
        _ => Event::Complete { now_ns, sector, sectors, operation, group },
    };
    Some((event, has_failed(error, operation, group)))
}

/// Ignores errors of unsupported discards, flushes and zeroing, for which the block layer has a fallback, and of driver
/// commands, which are not the file system's.
fn has_failed(error: i32, operation: Operation, group: Group) -> bool {
    let may_be_unknown = matches!(operation, Operation::Discard | Operation::Flush | Operation::Other);
    error != 0 && group != Group::Command && !(may_be_unknown && error == -libc::EOPNOTSUPP)
}

/// Reads a number in the byte order of this machine, which wrote the page.
fn number(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    let field = bytes.get(at..at.checked_add(size)?)?;
    Some(match size {
        2 => u16::from_ne_bytes(field.try_into().ok()?).into(),
        4 => u32::from_ne_bytes(field.try_into().ok()?).into(),
        _ => u64::from_ne_bytes(field.try_into().ok()?),
    })
}

#[cfg(test)]
mod tests {
    use super::super::pairing::ZoneCommand;
    use super::super::request::ZoneAction;
    use super::*;
    use proptest::prelude::*;
    use std::path::Path;

    const ISSUE: &str = "name: block_rq_issue\nID: 2104\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
        \tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;\n\
        \tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;\n\
        \tfield:unsigned int nr_sector;\toffset:24;\tsize:4;\tsigned:0;\n\
        \tfield:char rwbs[10];\toffset:34;\tsize:10;\tsigned:0;\n";

    const COMPLETE: &str = "name: block_rq_complete\nID: 2107\nformat:\n\
        \tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;\n\
        \tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;\n\
        \tfield:unsigned int nr_sector;\toffset:24;\tsize:4;\tsigned:0;\n\
        \tfield:int error;\toffset:28;\tsize:4;\tsigned:1;\n\
        \tfield:char rwbs[10];\toffset:34;\tsize:10;\tsigned:0;\n";

    #[test]
    fn valid_page_is_parsed() {
        let parts = [(12, 5, event(2104, 800, 8, b"RA")), (TIME_EXTEND, 3, 2u32.to_ne_bytes().to_vec())];
        let bytes = page(1000, &parts);
        judge_page(&bytes);
        let sound = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/trace_page/sound");
        assert!(cfg!(target_endian = "big") || std::fs::read(sound).unwrap() == bytes);
    }

    fn formats() -> Formats {
        let issue = EventFormat::parse(ISSUE).unwrap();
        let complete = EventFormat::parse(COMPLETE).unwrap();
        Formats { issue, complete, requeue: EventFormat { id: 2108, ..issue }, command: None }
    }

    const SETUP: &str = "name: nvme_setup_cmd\nID: 2109\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
        \tfield:char disk[32];\toffset:8;\tsize:32;\tsigned:0;\n\
        \tfield:u8 opcode;\toffset:48;\tsize:1;\tsigned:0;\n\
        \tfield:u8 cdw10[24];\toffset:57;\tsize:24;\tsigned:0;\n";

    #[test]
    fn zone_commands_are_decoded() {
        let format = CommandFormat::parse(SETUP, 8).unwrap();
        assert_eq!(format, CommandFormat { id: 2109, opcode: 48, words: 57, block_sectors: 8 });
        let command = |opcode: u8, action: [u8; 2]| {
            let mut data = vec![0u8; 84];
            data[..2].copy_from_slice(&2109u16.to_ne_bytes());
            data[48] = opcode;
            data[57..65].copy_from_slice(&100u64.to_le_bytes());
            data[69..71].copy_from_slice(&action);
            let (mut events, formats) = (Vec::new(), Formats { command: Some(format), ..formats() });
            let count = parse_page(&page(0, &[(21, 5, data)]), &formats, &mut events);
            assert_eq!(count.entries, 1);
            assert_eq!(count.undecoded as usize + events.len(), 1);
            events.pop()
        };
        let made = |command| Some(Event::Made { now_ns: 5, sector: 800, command });
        assert_eq!(command(0x7D, [0, 0]), made(ZoneCommand::Append));
        assert_eq!(command(0x79, [4, 0]), made(ZoneCommand::Action(ZoneAction::Reset)));
        assert_eq!(command(0x79, [4, 1]), made(ZoneCommand::Action(ZoneAction::ResetAll)));
        assert_eq!(command(0x79, [2, 0]), made(ZoneCommand::Action(ZoneAction::Finish)));
        assert_eq!(command(0x79, [9, 0]), None, "an action of a later edition is counted as not understood");
        assert_eq!(CommandFormat::parse("ID: 7\n", 8), None);
    }

    fn event(id: u16, sector: u64, sectors: u32, rwbs: &[u8]) -> Vec<u8> {
        let mut data = vec![0u8; 48];
        data[..2].copy_from_slice(&id.to_ne_bytes());
        data[16..24].copy_from_slice(&sector.to_ne_bytes());
        data[24..28].copy_from_slice(&sectors.to_ne_bytes());
        data[34..34 + rwbs.len()].copy_from_slice(rwbs);
        data
    }

    fn page(start_ns: u64, parts: &[(u32, u64, Vec<u8>)]) -> Vec<u8> {
        let mut body = Vec::new();
        for (kind, delta, data) in parts {
            body.extend((kind | (*delta as u32) << 5).to_ne_bytes());
            body.extend(data);
        }
        let mut page = start_ns.to_ne_bytes().to_vec();
        page.extend((body.len() as u64).to_ne_bytes());
        page.extend(body);
        page.resize(4096, 0);
        page
    }

    #[test]
    fn offsets_are_read_from_the_format_file() {
        let format = formats().issue;
        assert_eq!(format, EventFormat { id: 2104, sector: 16, nr_sector: 24, rwbs: 34, rwbs_length: 10, error: None });
        assert_eq!(formats().complete, EventFormat { id: 2107, error: Some(28), ..format });
        assert_eq!(EventFormat::parse("ID: 7\n"), None);
    }

    #[test]
    fn times_run_through_extensions() {
        let parts = [
            (12, 5, event(2104, 800, 8, b"RA")),
            (12, 1, event(2108, 800, 8, b"RA")),
            (TIME_EXTEND, 3, 2u32.to_ne_bytes().to_vec()),
            (12, 4, event(2107, 800, 8, b"RA")),
        ];
        let mut events = Vec::new();
        let count = parse_page(&page(1000, &parts), &formats(), &mut events);
        assert_eq!(count, PageCount { entries: 3, ..PageCount::default() });
        let read = Request { issue_ns: 1005, ahead: true, ..Request::new(Operation::Read, 800, 8) };
        let again = Event::Requeue { now_ns: 1006, sector: 800, operation: Operation::Read };
        let now_ns = 1006 + (2 << 27) + 3 + 4;
        let (operation, group) = (Operation::Read, Group::Read);
        let complete = Event::Complete { now_ns, sector: 800, sectors: 8, operation, group };
        assert_eq!(events, [Event::Issue(read), again, complete]);
    }

    #[test]
    fn errors_of_completions_are_counted() {
        let failed = |sectors, rwbs: &[u8], error: i32| {
            let mut data = event(2107, 800, sectors, rwbs);
            data[28..32].copy_from_slice(&error.to_ne_bytes());
            let count = parse_page(&page(0, &[(12, 5, data)]), &formats(), &mut Vec::new());
            assert_eq!((count.entries, count.undecoded), (1, 0));
            count.failed
        };
        assert_eq!(failed(8, b"R", 0), 0);
        assert_eq!(failed(8, b"R", -libc::EIO), 1);
        assert_eq!(failed(8, b"W", -libc::EOPNOTSUPP), 1, "every device writes");
        assert_eq!([failed(8, b"D", -libc::EIO), failed(0, b"FF", -libc::EIO)], [1, 1]);
        let unknown = [&b"D"[..], b"FF", b"N", b"WZ"];
        assert_eq!(unknown.map(|rwbs| failed(8, rwbs, -libc::EOPNOTSUPP)), [0; 4]);
        assert_eq!(failed(0, b"N", -libc::EIO), 0, "a driver's own command");
        // An issue has bytes there instead of an error.
        let mut issue = event(2104, 800, 8, b"R");
        issue[28..32].copy_from_slice(&4096u32.to_ne_bytes());
        assert_eq!(parse_page(&page(0, &[(12, 5, issue)]), &formats(), &mut Vec::new()).failed, 0);
    }

    #[test]
    fn bytes_after_the_letters_are_ignored() {
        let mut events = Vec::new();
        let parts = [(12, 5, event(2104, 800, 8, b"RA\0\xC3\x28\xFF\xFE\x80\xF0\xCA"))];
        assert_eq!(parse_page(&page(0, &parts), &formats(), &mut events).undecoded, 0);
        let read = Request { issue_ns: 5, ahead: true, ..Request::new(Operation::Read, 800, 8) };
        assert_eq!(events, [Event::Issue(read)]);
    }

    #[test]
    fn unreadable_events_are_counted() {
        let good = || (12, 5, event(2104, 8, 8, b"W"));
        let undecoded = |part: (u32, u64, Vec<u8>)| {
            let mut events = Vec::new();
            let count = parse_page(&page(0, &[good(), part, good()]), &formats(), &mut events);
            assert_eq!(events.len() as u64 + count.undecoded, count.entries);
            count.undecoded
        };
        assert_eq!(undecoded(good()), 0);
        assert_eq!(undecoded((12, 1, event(99, 1, 1, b"R"))), 1, "another event");
        assert_eq!(undecoded((12, 1, event(2104, 1, 1, b"?"))), 1, "an unknown letter");
        assert_eq!(undecoded((12, 1, event(2104, 1, 1, b"RSSSSSSSSS"))), 1, "letters without an end");
        assert_eq!(undecoded((5, 1, event(2104, 1, 1, b"R")[..20].to_vec())), 1, "a short body");
        assert_eq!(undecoded((0, 1, 4u32.to_ne_bytes().to_vec())), 1, "no body");
    }

    #[test]
    fn a_page_that_ends_inside_an_entry_is_counted() {
        let whole = page(0, &[(12, 5, event(2104, 8, 8, b"W"))]);
        let length = u64::from_ne_bytes(whole[8..16].try_into().unwrap());
        for cut in 1..length {
            let mut bytes = whole.clone();
            bytes[8..16].copy_from_slice(&cut.to_ne_bytes());
            let mut events = Vec::new();
            assert_eq!((parse_page(&bytes, &formats(), &mut events).undecoded, events.len()), (1, 0), "{cut}");
        }
        assert_eq!(parse_page(&whole[..40], &formats(), &mut Vec::new()).undecoded, 2, "the page is cut off");
        assert_eq!(parse_page(&whole[..12], &formats(), &mut Vec::new()).undecoded, 1, "no page");
    }

    #[test]
    fn discarded_events_are_ignored() {
        let mut taken_back = event(2104, 8, 8, b"W");
        taken_back[..4].copy_from_slice(&48u32.to_ne_bytes());
        let parts = [(PADDING, 7, taken_back), (12, 5, event(2104, 8, 8, b"W")), (PADDING, 0, vec![1; 40])];
        let mut events = Vec::new();
        let count = parse_page(&page(0, &parts), &formats(), &mut events);
        assert_eq!(count, PageCount { entries: 1, ..PageCount::default() });
        assert_eq!(events.iter().map(Event::time_ns).collect::<Vec<_>>(), [12]);
    }

    #[test]
    fn lost_events_are_counted() {
        let mut bytes = page(0, &[(12, 5, event(2104, 0, 8, b"W"))]);
        let length = u64::from_ne_bytes(bytes[8..16].try_into().unwrap());
        bytes[8..16].copy_from_slice(&(length | MISSED_EVENTS | MISSED_STORED).to_ne_bytes());
        bytes[16 + length as usize..][..8].copy_from_slice(&77u64.to_ne_bytes());
        assert_eq!(parse_page(&bytes, &formats(), &mut Vec::new()).missed, 77);
    }

    proptest! {
        #[test]
        fn arbitrary_page_never_panics_or_hangs(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            parse_page(&bytes, &formats(), &mut Vec::new());
        }
    }
}
