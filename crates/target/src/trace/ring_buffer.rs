//! Pages of the kernel's trace ring buffer, as `trace_pipe_raw` gives them.
//!
//! Layout: the kernel's `include/linux/ring_buffer.h` and tracefs' `events/header_page` and `events/header_event`.

use super::pairing::Event;
use super::request::{Operation, Request};

/// In the commit word of a page: events were lost before it, and their number is stored behind its data.
const MISSED_EVENTS: u64 = 1 << 31;
const MISSED_STORED: u64 = 1 << 30;
const COMMIT_MASK: u64 = (1 << 30) - 1;

const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;

/// Where the fields of an event lie (`events/block/NAME/format`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EventFormat {
    pub id: u16,
    pub sector: usize,
    pub nr_sector: usize,
    pub rwbs: usize,
    pub rwbs_length: usize,
}

impl EventFormat {
    /// Reads a format file. `None`: it has not the expected fields.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let id = text.lines().find_map(|line| line.strip_prefix("ID:"))?.trim().parse().ok()?;
        let field = |name: &str| {
            let line = text.lines().find(|line| {
                let declaration = line.trim().strip_prefix("field:").and_then(|rest| rest.split(';').next());
                let word = declaration.and_then(|text| text.split_whitespace().last());
                word.and_then(|word| word.split('[').next()) == Some(name)
            })?;
            let number = |key: &str| line.split(';').find_map(|part| part.trim().strip_prefix(key)?.parse().ok());
            Some((number("offset:")?, number("size:")?))
        };
        let ((sector, _), (nr_sector, _), (rwbs, rwbs_length)) =
            (field("sector")?, field("nr_sector")?, field("rwbs")?);
        Some(Self { id, sector, nr_sector, rwbs, rwbs_length })
    }
}

/// The two events that are recorded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Formats {
    pub issue: EventFormat,
    pub complete: EventFormat,
}

/// Appends the events of one page to `events`; returns how many were lost before it, as far as the page says.
/// Malformed bytes end the page.
pub(crate) fn parse_page(page: &[u8], formats: &Formats, events: &mut Vec<Event>) -> u64 {
    let (Some(mut now_ns), Some(commit)) = (number(page, 0, 8), number(page, 8, 8)) else { return 0 };
    let length = (commit & COMMIT_MASK) as usize;
    let end = page.len().min(16 + length);
    let mut at = 16;
    while at + 4 <= end {
        let Some(head) = number(page, at, 4).map(|head| head as u32) else { break };
        let (kind, delta) = (head & 31, u64::from(head >> 5));
        at += 4;
        let (body, size) = match kind {
            TIME_EXTEND | TIME_STAMP => {
                let upper = number(page, at, 4).unwrap_or(0);
                let value = upper << 27 | delta;
                // An absolute stamp has 59 bits; the highest five are those of the time before it.
                now_ns =
                    if kind == TIME_EXTEND { now_ns.wrapping_add(value) } else { now_ns & !((1 << 59) - 1) | value };
                at += 4;
                continue;
            }
            PADDING if delta == 0 => break,
            PADDING => {
                at += number(page, at, 4).unwrap_or(4) as usize;
                now_ns = now_ns.wrapping_add(delta);
                continue;
            }
            // The length word counts itself.
            0 => (at + 4, (number(page, at, 4).unwrap_or(4) as usize).saturating_sub(4)),
            words => (at, words as usize * 4),
        };
        now_ns = now_ns.wrapping_add(delta);
        if let Some(data) = page.get(body..body + size) {
            events.extend(parse_event(data, now_ns, formats));
        }
        at = body + size.max(4);
    }
    match (commit & MISSED_EVENTS != 0, commit & MISSED_STORED != 0) {
        (true, true) => number(page, 16 + length, 8).unwrap_or(1),
        (true, false) => 1,
        _ => 0,
    }
}

fn parse_event(data: &[u8], now_ns: u64, formats: &Formats) -> Option<Event> {
    let id = number(data, 0, 2)? as u16;
    let format = [formats.issue, formats.complete].into_iter().find(|format| format.id == id)?;
    let rwbs = data.get(format.rwbs..format.rwbs + format.rwbs_length)?;
    let rwbs = std::str::from_utf8(rwbs).ok()?.split('\0').next()?;
    let sectors = number(data, format.nr_sector, 4)? as u32;
    // A flush has no place: it is issued at sector 0 and completed at "-1".
    let sector = number(data, format.sector, 8).map(|sector| if sector == u64::MAX { 0 } else { sector })?;
    let plain = Request::new(Operation::Other, sector, sectors);
    let request = Request { issue_ns: now_ns, ..plain }.with_rwbs(rwbs).unwrap_or(plain);
    Some(match id == formats.issue.id {
        true => Event::Issue(Request { issue_ns: now_ns, ..request }),
        false => Event::Complete { now_ns, sector: request.sector, sectors, operation: request.operation },
    })
}

/// A number in the byte order of this machine, which wrote the page.
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
    use super::*;
    use proptest::prelude::*;

    const ISSUE: &str = "name: block_rq_issue\nID: 2104\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
        \tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;\n\
        \tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;\n\
        \tfield:unsigned int nr_sector;\toffset:24;\tsize:4;\tsigned:0;\n\
        \tfield:char rwbs[10];\toffset:34;\tsize:10;\tsigned:0;\n";

    fn formats() -> Formats {
        let issue = EventFormat::parse(ISSUE).unwrap();
        Formats { issue, complete: EventFormat { id: 2107, ..issue } }
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
    fn a_format_file_gives_the_offsets() {
        let format = formats().issue;
        assert_eq!(format, EventFormat { id: 2104, sector: 16, nr_sector: 24, rwbs: 34, rwbs_length: 10 });
        assert_eq!(EventFormat::parse("ID: 7\n"), None);
    }

    #[test]
    fn times_run_through_extensions_and_other_events_are_passed_over() {
        let parts = [
            (12, 5, event(2104, 800, 8, b"RA")),
            (12, 1, event(99, 1, 1, b"R")),
            (TIME_EXTEND, 3, 2u32.to_ne_bytes().to_vec()),
            (12, 4, event(2107, 800, 8, b"RA")),
        ];
        let mut events = Vec::new();
        assert_eq!(parse_page(&page(1000, &parts), &formats(), &mut events), 0);
        let read = Request { issue_ns: 1005, ahead: true, ..Request::new(Operation::Read, 800, 8) };
        let now_ns = 1006 + (2 << 27) + 3 + 4;
        let complete = Event::Complete { now_ns, sector: 800, sectors: 8, operation: Operation::Read };
        assert_eq!(events, [Event::Issue(read), complete]);
    }

    #[test]
    fn lost_events_are_counted() {
        let mut bytes = page(0, &[(12, 5, event(2104, 0, 8, b"W"))]);
        let length = u64::from_ne_bytes(bytes[8..16].try_into().unwrap());
        bytes[8..16].copy_from_slice(&(length | MISSED_EVENTS | MISSED_STORED).to_ne_bytes());
        bytes[16 + length as usize..][..8].copy_from_slice(&77u64.to_ne_bytes());
        assert_eq!(parse_page(&bytes, &formats(), &mut Vec::new()), 77);
    }

    proptest! {
        #[test]
        fn no_page_makes_it_panic_or_run_forever(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            parse_page(&bytes, &formats(), &mut Vec::new());
        }
    }
}
