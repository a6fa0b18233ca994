//! Block traces as text in columns, by a pattern that names the columns: `time:us,device,op,offset,size`.

mod pattern;

pub use pattern::{FORMATS, Pattern};

use super::packed::BlockTrace;
use super::request::{Operation, Request};
use crate::error::TargetError;
use pattern::Field;
use senesce_core::machine::memory_available;
use senesce_core::{input, number_of};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

const MOST_LINE_BYTES: u64 = 4096;
const MOST_DEVICES: usize = 100_000;
const MOST_REQUESTS: u64 = 200_000_000;
const SECTOR_BYTES: u64 = 512;

#[derive(Debug)]
pub struct Columns {
    pub trace: BlockTrace,
    pub caveats: Vec<String>,
}

/// Reads the requests of a device, or of the only one. [`TargetError::Damaged`] with the line that does not fit the
/// pattern, [`TargetError::Usage`] for several devices without a choice.
pub fn import(path: &Path, pattern: &str, device: Option<&str>) -> Result<Columns, TargetError> {
    let pattern = Pattern::parse(pattern).map_err(TargetError::Usage)?;
    let is_pipe = path.metadata().is_ok_and(|found| found.file_type().is_fifo());
    let file = if is_pipe { File::open(path) } else { input::open_regular(path) };
    read(BufReader::new(file.map_err(TargetError::named("read", path))?), path, pattern, device)
}

pub(crate) fn parse(text: &[u8], path: &Path, pattern: &str, device: Option<&str>) -> Result<Columns, TargetError> {
    read(text, path, Pattern::parse(pattern).map_err(TargetError::Usage)?, device)
}

struct Row {
    time_ns: u128,
    is_aligned: bool,
    request: Request,
}

#[derive(Default)]
struct Counts {
    backwards: u64,
    unaligned: u64,
    empty: u64,
    actions: u64,
    without_latency: u64,
}

enum Line {
    Request(String, Row),
    /// An action of a log that moves no data, such as opening a file.
    Action,
}

fn read(
    mut lines: impl BufRead,
    path: &Path,
    mut pattern: Pattern,
    wanted: Option<&str>,
) -> Result<Columns, TargetError> {
    let most = memory_available().map_or(MOST_REQUESTS, |memory| memory.0 / 8 / size_of::<Row>() as u64);
    let most = most.min(MOST_REQUESTS);
    let (mut devices, mut rows, mut counts) = (BTreeMap::<String, u64>::new(), Vec::<Row>::new(), Counts::default());
    let (mut number, mut bytes) = (0u64, Vec::new());
    loop {
        bytes.clear();
        lines
            .by_ref()
            .take(MOST_LINE_BYTES + 1)
            .read_until(b'\n', &mut bytes)
            .map_err(TargetError::io("read", path))?;
        if bytes.is_empty() {
            break;
        }
        number += 1;
        let at = |problem: String| TargetError::damaged(path, format!("line {number}: {problem}"));
        if bytes.len() as u64 > MOST_LINE_BYTES {
            return Err(at(format!("it is longer than {MOST_LINE_BYTES} bytes")));
        }
        let line = std::str::from_utf8(&bytes).map_err(|_| at("it is not text".into()))?.trim();
        if line.is_empty() || line.starts_with('#') || number == 1 && pattern.takes_header(line).map_err(at)? {
            continue;
        }
        let (device, row) = match request(&pattern, line).map_err(at)? {
            Line::Request(device, row) => (device, row),
            Line::Action => {
                counts.actions += 1;
                continue;
            }
        };
        if !devices.contains_key(&device) && devices.len() == MOST_DEVICES {
            return Err(at(format!("it has more than {MOST_DEVICES} devices; check the column of the device")));
        }
        let is_chosen = wanted.is_none_or(|wanted| wanted == device);
        *devices.entry(device).or_default() += 1;
        if !is_chosen {
            continue;
        }
        // Several devices without a choice: collect their names for the error, but no requests.
        if wanted.is_none() && devices.len() > 1 {
            rows = Vec::new();
            continue;
        }
        if rows.len() as u64 == most {
            return Err(at(format!("it has more than {most} requests, which do not fit into memory")));
        }
        let request = &row.request;
        counts.unaligned += u64::from(!row.is_aligned);
        counts.empty += u64::from(request.sectors == 0 && request.operation != Operation::Flush);
        counts.without_latency += u64::from(request.latency_ns.is_none());
        counts.backwards += u64::from(rows.last().is_some_and(|last: &Row| last.time_ns > row.time_ns));
        rows.push(row);
    }
    let device = choose(&devices, wanted, path)?;
    finish(rows, &device, &pattern, &counts).map_err(|problem| TargetError::damaged(path, problem))
}

fn choose(devices: &BTreeMap<String, u64>, wanted: Option<&str>, path: &Path) -> Result<String, TargetError> {
    let shown = || {
        let mut all: Vec<_> = devices.iter().collect();
        all.sort_by_key(|(_, requests)| std::cmp::Reverse(**requests));
        let some: Vec<String> =
            all.iter().take(10).map(|(name, count)| format!("{name} ({})", number_of(**count, "request"))).collect();
        let more = if all.len() > 10 { format!(" and {} more", all.len() - 10) } else { String::new() };
        format!("{}{more}", some.join(", "))
    };
    match (wanted, devices.len()) {
        (_, 0) => Err(TargetError::damaged(path, "it has no requests")),
        (Some(wanted), _) if devices.contains_key(wanted) => Ok(wanted.into()),
        (Some(wanted), _) => Err(TargetError::damaged(path, format!("it has no device {wanted}; it has {}", shown()))),
        (None, 1) => Ok(devices.keys().next().cloned().unwrap_or_default()),
        (None, _) => Err(TargetError::Usage(format!(
            "{} holds the requests of several devices: {}\nhint: choose one by appending #DEVICE to the path",
            path.display(),
            shown()
        ))),
    }
}

fn finish(rows: Vec<Row>, device: &str, pattern: &Pattern, counts: &Counts) -> Result<Columns, String> {
    let start = rows.iter().map(|row| row.time_ns).min().unwrap_or(0);
    let issued = |row: Row| {
        let issue_ns = u64::try_from(row.time_ns - start).map_err(|_| "its times are centuries apart".to_string())?;
        Ok(Request { issue_ns, ..row.request })
    };
    let requests = rows.into_iter().map(issued).collect::<Result<Vec<_>, String>>()?;
    let has_latency = pattern.has(Field::Latency);
    let said = [
        (counts.backwards, "requests followed later ones: they were sorted by time"),
        (
            counts.unaligned,
            "requests did not begin or end at a sector of 512 bytes: they were rounded to whole sectors",
        ),
        (counts.empty, "requests have a size of 0"),
        (counts.actions, "lines are actions that move no data"),
        (if has_latency { counts.without_latency } else { 0 }, "requests have no latency"),
    ];
    let some = said.into_iter().filter(|(count, _)| *count > 0);
    let mut caveats: Vec<String> = some.map(|(count, what)| format!("{count} {what}")).collect();
    if !has_latency {
        caveats.push("the file has no latencies".into());
    }
    if !pattern.has(Field::Time) {
        caveats.push("the file has no times: requests are in the order of the file".into());
    }
    Ok(Columns { trace: BlockTrace::from_requests(device, 0, requests), caveats })
}

fn request(pattern: &Pattern, line: &str) -> Result<Line, String> {
    let cells = pattern.cells(line);
    let operation = match pattern::operation(cells.get(Field::Operation)?)? {
        Some(operation) => operation,
        None => return Ok(Line::Action),
    };
    let is_flush = operation == Operation::Flush;
    let (offset, size) = match is_flush {
        true => (0, 0),
        false => (pattern.bytes(&cells, Field::Offset)?, pattern.bytes(&cells, Field::Size)?),
    };
    let end = offset.checked_add(size).ok_or("no device is that large")?;
    let (first, after) = (offset / SECTOR_BYTES, end.div_ceil(SECTOR_BYTES));
    let sectors = if size == 0 { 0 } else { after - first };
    let sectors =
        u32::try_from(sectors).map_err(|_| format!("a size of {size} bytes is more than a request can have"))?;
    let mut request = Request::new(operation, first, sectors);
    request.latency_ns = pattern.latency_ns(&cells)?;
    let is_aligned = is_flush || (offset.is_multiple_of(SECTOR_BYTES) && size.is_multiple_of(SECTOR_BYTES));
    let time_ns = if pattern.has(Field::Time) { pattern.time_ns(&cells, Field::Time)? } else { 0 };
    Ok(Line::Request(cells.device(), Row { time_ns, is_aligned, request }))
}

#[cfg(test)]
mod tests;
