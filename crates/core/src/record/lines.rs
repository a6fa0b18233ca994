//! Lines of `events.jsonl`: one event each, with its checksum.

use super::Event;
use super::error::{RecordError, io_error};
use crate::input::Within;
use crate::units::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::time::Instant;

pub(super) const EVENTS: &str = "events.jsonl";

/// Maximum size of events: a reader holds them in memory, at several times this size. One event per second for two weeks is less.
pub(super) const MOST_EVENTS: Bytes = Bytes::mib(256);

/// Refuses a size that could not be read back.
pub(super) fn check_size(size: u64, path: &Path) -> Result<(), RecordError> {
    match size > MOST_EVENTS.0 {
        true => Err(RecordError::TooLong { path: path.into(), size: Bytes(size) }),
        false => Ok(()),
    }
}

pub(super) fn line(started: Instant, kind: &str, data: &impl Serialize) -> String {
    let data = serde_json::to_value(data).expect("event data are plain");
    let event = Event { t: started.elapsed().as_secs_f64(), kind: kind.into(), data, batch: 0 };
    let body = serde_json::to_string(&event).expect("an event is plain");
    format!("{{\"crc\":\"{:08x}\",\"event\":{body}}}\n", crc32fast::hash(body.as_bytes()))
}

/// Lines of events that contain their kind, with the current time. They are recorded all or none: each but the last is marked.
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
    let body = serde_json::to_string(&Timed { t, kind, data, more }).expect("an event is plain");
    format!("{{\"crc\":\"{:08x}\",\"event\":{body}}}\n", crc32fast::hash(body.as_bytes()))
}

#[derive(Deserialize)]
struct Line<'a> {
    crc: &'a str,
    #[serde(borrow)]
    event: &'a RawValue,
}

/// All events of the run directory `path`, and the bytes of their lines; drops a torn last line and an incomplete last batch.
pub(super) fn read_events(folder: &Within, path: &Path) -> Result<(Vec<Event>, u64), RecordError> {
    let path = &path.join(EVENTS);
    let file = match folder.file_for_memory(Path::new(EVENTS)) {
        Ok((file, size)) => {
            check_size(size, path)?;
            // Lines appended during the read are ignored.
            file.take(size)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), 0)),
        Err(error) => return Err(io_error("open", path)(error)),
    };
    let mut reader = BufReader::new(file);
    let (mut events, mut number, mut batch): (Vec<Event>, usize, usize) = (Vec::new(), 0, 0);
    // Events and bytes of complete batches.
    let (mut whole, mut valid, mut read) = (0, 0, 0);
    let mut line = Vec::new();
    loop {
        line.clear();
        let length = reader.read_until(b'\n', &mut line).map_err(io_error("read", path))?;
        if length == 0 {
            break;
        }
        number += 1;
        match decode(&line) {
            Ok((event, more)) => {
                if let Some(first) = events.last().filter(|last| last.batch == batch && last.t != event.t) {
                    let problem = format!("it belongs to an event of {} s, but has the time {} s", first.t, event.t);
                    return Err(RecordError::Damaged { path: path.clone(), line: number, problem });
                }
                events.push(Event { batch, ..event });
                read += length as u64;
                if !more {
                    (whole, valid, batch) = (events.len(), read, batch + 1);
                }
            }
            Err(problem) => {
                let at_end = reader.fill_buf().map_err(io_error("read", path))?.is_empty();
                if at_end {
                    break;
                }
                return Err(RecordError::Damaged { path: path.clone(), line: number, problem });
            }
        }
    }
    events.truncate(whole);
    Ok((events, valid))
}

/// An event, and whether more of its batch follow.
fn decode(line: &[u8]) -> Result<(Event, bool), String> {
    #[derive(Deserialize)]
    struct More {
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
    let More { more } = serde_json::from_str(body).map_err(|error| error.to_string())?;
    Ok((serde_json::from_str(body).map_err(|error| error.to_string())?, more))
}
