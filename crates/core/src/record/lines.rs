//! Lines of `events.jsonl`: one event each, with its checksum.

use super::Event;
use super::data::Data;
use super::error::{RecordError, io_error, read_error};
use super::files::EVENTS;
use super::identity::{self, Identity};
use super::limits::{EventMemory, MOST_LINE};
use crate::input::InputFolder;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::time::Instant;

pub(super) fn line(started: Instant, kind: &str, data: &impl Serialize) -> String {
    let data = serde_json::to_value(data).expect("event data are plain").into();
    signed(&Event { t: started.elapsed().as_secs_f64(), kind: kind.into(), data, batch: 0, line: 0 })
}

/// Formats lines of events that contain their kind, with the current time. They are recorded all or none: each but the
/// last is marked.
pub(super) fn named_lines(started: Instant, events: &[impl Serialize]) -> String {
    let t = started.elapsed().as_secs_f64();
    let values = events.iter().map(|event| serde_json::to_value(event).expect("event data are plain"));
    values.enumerate().map(|(index, event)| named_line(t, event, index + 1 < events.len())).collect()
}

fn named_line(t: f64, event: Value, more: bool) -> String {
    #[derive(Serialize)]
    struct Timed {
        t: f64,
        kind: String,
        #[serde(skip_serializing_if = "Value::is_null")]
        data: Value,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        more: bool,
    }
    let (kind, data) = match event {
        Value::String(kind) => (kind, Value::Null),
        Value::Object(named) if named.len() == 1 => named.into_iter().next().expect("one"),
        other => panic!("an event names its kind: {other}"),
    };
    signed(&Timed { t, kind, data, more })
}

/// Returns the line of an event with its checksum.
fn signed(event: &impl Serialize) -> String {
    let body = serde_json::to_string(event).expect("an event is plain");
    format!("{{\"crc\":\"{:08x}\",\"event\":{body}}}\n", crc32fast::hash(body.as_bytes()))
}

#[derive(Deserialize)]
struct Line<'a> {
    crc: &'a str,
    #[serde(borrow)]
    event: &'a RawValue,
}

/// Events that were read, and how much of the file they cover.
#[derive(Debug, Default)]
pub(super) struct Lines {
    pub events: Vec<Event>,
    /// Bytes of the lines of whole batches.
    pub valid_bytes: u64,
    /// Memory of these lines.
    pub held: EventMemory,
    /// The last one.
    pub identity: Option<Identity>,
    pub identity_bytes: u64,
    /// Whether there are whole lines of an incomplete last batch.
    pub has_partial_batch: bool,
}

impl Lines {
    /// Returns whether no line is an event besides the identity.
    pub(super) fn records_nothing(&self) -> bool {
        self.events.is_empty() && !self.has_partial_batch
    }

    /// Takes an event that identifies the run; all of them must name the same run.
    fn identify(&mut self, event: &Event, bytes: u64) -> Result<(), String> {
        let next: Identity = serde_json::from_value(event.data.value()).map_err(|error| error.to_string())?;
        if let Some(other) = self.identity.as_ref().filter(|known| known.run != next.run) {
            return Err(format!("it belongs to the run {}, not to {}", next.run, other.run));
        }
        self.identity = Some(next);
        self.identity_bytes += bytes;
        Ok(())
    }
}

/// Reads all events of the run directory `path`; drops a torn last line and an incomplete last batch. Events that identify the
/// run are not among the others.
pub(super) fn read_events(folder: &InputFolder, path: &Path) -> Result<Lines, RecordError> {
    let path = &path.join(EVENTS);
    let (file, size) = match folder.file(Path::new(EVENTS)).and_then(|file| Ok((file.metadata()?.len(), file))) {
        Ok((size, file)) => (file, size),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Lines::default()),
        Err(error) => return Err(read_error("open", path)(error)),
    };
    // Lines appended during the read are ignored.
    let mut reader = BufReader::new(file.take(size));
    let (mut found, mut earlier) = (Lines::default(), EarlierLines::default());
    let (mut number, mut batch, mut read, mut whole) = (0, 0, 0, 0);
    let (mut line, mut held) = (Vec::new(), EventMemory::default());
    loop {
        line.clear();
        reader.by_ref().take(MOST_LINE.0 + 1).read_until(b'\n', &mut line).map_err(io_error("read", path))?;
        if line.is_empty() {
            break;
        }
        number += 1;
        let with_line = held.and(&line, path)?;
        let damaged = |problem| RecordError::Damaged { path: path.clone(), line: number, problem };
        match decode(&line) {
            Ok((event, more)) => {
                if let Some(first) = found.events.last().filter(|last| last.batch == batch && last.t != event.t) {
                    return Err(damaged(format!(
                        "it belongs to an event at {} s, but has the time {} s",
                        first.t, event.t
                    )));
                }
                if let Some(copied) = earlier.repeated(&line, &event, batch, number) {
                    return Err(damaged(format!("it repeats line {copied}")));
                }
                held = with_line;
                read += line.len() as u64;
                if event.kind == identity::KIND {
                    found.identify(&event, line.len() as u64).map_err(damaged)?;
                    (found.valid_bytes, found.held) = (read, held);
                    continue;
                }
                found.events.push(Event { batch, line: number, ..event });
                if !more {
                    (whole, batch) = (found.events.len(), batch + 1);
                    (found.valid_bytes, found.held) = (read, held);
                }
            }
            Err(problem) => {
                let at_end = reader.fill_buf().map_err(io_error("read", path))?.is_empty();
                if at_end {
                    break;
                }
                return Err(damaged(problem));
            }
        }
    }
    found.has_partial_batch = found.events.len() > whole;
    found.events.truncate(whole);
    Ok(found)
}

/// Lines of earlier batches. The times of two batches differ, unless the clock is coarse.
#[derive(Default)]
struct EarlierLines {
    by_hash: HashMap<u64, (usize, usize)>,
    hasher: RandomState,
}

/// Decimal places of a time in seconds that two batches do not share by chance.
const PLACES: usize = 7;

impl EarlierLines {
    /// Returns the number of an earlier line with the same content.
    fn repeated(&mut self, line: &[u8], event: &Event, batch: usize, number: usize) -> Option<usize> {
        let is_exact = event.t.to_string().split_once('.').is_some_and(|(_, places)| places.len() >= PLACES);
        let (of_batch, first) = *self.by_hash.entry(self.hasher.hash_one(line)).or_insert((batch, number));
        (is_exact && of_batch != batch).then_some(first)
    }
}

/// Decodes an event, and whether more of its batch follow.
fn decode(line: &[u8]) -> Result<(Event, bool), String> {
    #[derive(Deserialize)]
    struct Body {
        t: f64,
        kind: String,
        data: Option<Box<RawValue>>,
        #[serde(default)]
        more: bool,
    }

    let text = std::str::from_utf8(line).map_err(|_| "not UTF-8".to_string())?;
    let text = text.strip_suffix('\n').ok_or("the line is incomplete")?;
    let parsed: Line = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let body = parsed.event.get();
    let expected = format!("{:08x}", crc32fast::hash(body.as_bytes()));
    if expected != parsed.crc {
        return Err(format!("checksum {expected} was expected, {} was found", parsed.crc));
    }
    let Body { t, kind, data, more } = serde_json::from_str(body).map_err(|error| error.to_string())?;
    let data = data.map(Data::checked).transpose()?.unwrap_or_default();
    Ok((Event { t, kind, data, batch: 0, line: 0 }, more))
}
