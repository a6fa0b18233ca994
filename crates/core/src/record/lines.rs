//! Lines of `events.jsonl`: one event each, with a checksum that continues the one of the line before.

use super::Event;
use super::data::Data;
use super::error::{RecordError, io_error, read_error};
use super::events_file::Tail;
use super::files::{EVENTS, SUMMARY};
use super::identity::{self, Identity};
use super::limits::MOST_LINE;
use super::side_files::{self, SideFile, SideFiles};
use crate::input::InputFolder;
use crc32fast::Hasher;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::time::Instant;

pub(super) fn body(started: Instant, kind: &str, data: &impl Serialize) -> String {
    let data = serde_json::to_value(data).expect("event data are plain").into();
    text(&Event { t: started.elapsed().as_secs_f64(), kind: kind.into(), data, batch: 0, line: 0 })
}

/// Formats events that contain their kind, with the current time. They are recorded all or none: each but the last is
/// marked.
pub(super) fn named_bodies(started: Instant, events: &[impl Serialize]) -> Vec<String> {
    let t = started.elapsed().as_secs_f64();
    let values = events.iter().map(|event| serde_json::to_value(event).expect("event data are plain"));
    values.enumerate().map(|(index, event)| named_body(t, event, index + 1 < events.len())).collect()
}

fn named_body(t: f64, event: Value, more: bool) -> String {
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
    text(&Timed { t, kind, data, more })
}

fn text(event: &impl Serialize) -> String {
    serde_json::to_string(event).expect("an event is plain")
}

/// Returns the lines of events and the checksum of the last one. `before`: checksum of the line before them.
pub(super) fn signed(before: u32, bodies: &[String]) -> (String, u32) {
    let mut sum = before;
    let line = |body: &String| {
        sum = continued(sum, body.as_bytes());
        format!("{{\"crc\":\"{sum:08x}\",\"event\":{body}}}\n")
    };
    (bodies.iter().map(line).collect(), sum)
}

/// Continues a CRC-32 (IEEE): that of a line covers all lines up to it, so that none can be removed, moved or repeated.
fn continued(before: u32, bytes: &[u8]) -> u32 {
    let mut hasher = Hasher::new_with_initial(before);
    hasher.update(bytes);
    hasher.finalize()
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
    /// State after these lines.
    pub tail: Tail,
    /// The last one.
    pub identity: Option<Identity>,
    pub files: SideFiles,
    /// Whether there are whole lines of an incomplete last batch.
    has_partial_batch: bool,
}

impl Lines {
    /// Returns whether no line is more than the identity.
    pub(super) fn records_nothing(&self) -> bool {
        self.events.is_empty() && !self.has_partial_batch && self.files.is_empty()
    }

    /// Takes an event that identifies the run; all of them must name the same run.
    fn identify(&mut self, event: &Event) -> Result<(), String> {
        let next: Identity = decoded(event)?;
        if let Some(other) = self.identity.as_ref().filter(|known| known.run != next.run) {
            return Err(format!("it belongs to the run {}, not to {}", next.run, other.run));
        }
        self.identity = Some(next);
        Ok(())
    }

    /// Takes a note of the record about itself; returns whether the event is one.
    fn take_note(&mut self, event: &Event, tail: &mut Tail) -> Result<bool, String> {
        match event.kind.as_str() {
            identity::KIND => self.identify(event)?,
            side_files::KIND => {
                let file: SideFile = decoded(event)?;
                if !file.is_within() {
                    return Err(format!("the file {} is not in the run directory", file.file));
                }
                match file.file == SUMMARY {
                    true => tail.summary = file.crc,
                    false => self.files.note(file),
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn decoded<T: DeserializeOwned>(event: &Event) -> Result<T, String> {
    serde_json::from_value(event.data.value()).map_err(|error| error.to_string())
}

/// Reads all events of the run directory `path`; drops a torn last line and an incomplete last batch. Notes of the record about
/// itself are not among the events.
pub(super) fn read_events(folder: &InputFolder, path: &Path) -> Result<Lines, RecordError> {
    let path = &path.join(EVENTS);
    let (file, size) = match folder.file(Path::new(EVENTS)).and_then(|file| Ok((file.metadata()?.len(), file))) {
        Ok((size, file)) => (file, size),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Lines::default()),
        Err(error) => return Err(read_error("open", path)(error)),
    };
    // Lines appended during the read are ignored.
    let mut reader = BufReader::new(file.take(size));
    let (mut found, mut tail, mut line) = (Lines::default(), Tail::default(), Vec::new());
    let (mut batch, mut read, mut whole) = (0, 0, 0);
    loop {
        line.clear();
        reader.by_ref().take(MOST_LINE.0 + 1).read_until(b'\n', &mut line).map_err(io_error("read", path))?;
        if line.is_empty() {
            break;
        }
        let held = tail.held.and(&line, path)?;
        let damaged = |problem| RecordError::Damaged { path: path.clone(), line: held.lines(), problem };
        let (event, more, sum) = match decode(&line, tail.sum) {
            Ok(decoded) => decoded,
            Err(Invalid::Torn(_)) if reader.fill_buf().map_err(io_error("read", path))?.is_empty() => break,
            Err(Invalid::Torn(problem) | Invalid::Wrong(problem)) => return Err(damaged(problem)),
        };
        if let Some(first) = found.events.last().filter(|last| last.batch == batch && last.t != event.t) {
            return Err(damaged(format!("it belongs to an event at {} s, but has the time {} s", first.t, event.t)));
        }
        (tail.held, tail.sum) = (held, sum);
        read += line.len() as u64;
        let is_note = found.take_note(&event, &mut tail).map_err(damaged)?;
        if !is_note {
            tail.pass_event();
            found.events.push(Event { batch, line: held.lines(), ..event });
            if more {
                continue;
            }
            (whole, batch) = (found.events.len(), batch + 1);
        }
        (found.valid_bytes, found.tail) = (read, tail.clone());
    }
    found.has_partial_batch = found.events.len() > whole;
    found.events.truncate(whole);
    Ok(found)
}

/// An invalid line.
enum Invalid {
    /// It is not whole, as the last one after a kill.
    Torn(String),
    /// It is whole, but was altered or is not where it was written.
    Wrong(String),
}

/// Decodes an event, whether more of its batch follow, and its checksum. `before`: checksum of the line before it.
fn decode(line: &[u8], before: u32) -> Result<(Event, bool, u32), Invalid> {
    #[derive(Deserialize)]
    struct Body {
        t: f64,
        kind: String,
        data: Option<Box<RawValue>>,
        #[serde(default)]
        more: bool,
    }

    let text = std::str::from_utf8(line).map_err(|_| Invalid::Torn("not UTF-8".into()))?;
    let text = text.strip_suffix('\n').ok_or_else(|| Invalid::Torn("the line is incomplete".into()))?;
    let parsed: Line = serde_json::from_str(text).map_err(|error| Invalid::Torn(error.to_string()))?;
    let body = parsed.event.get();
    let sum = continued(before, body.as_bytes());
    let expected = format!("{sum:08x}");
    if expected != parsed.crc {
        return Err(Invalid::Wrong(format!("checksum {expected} was expected, {} was found", parsed.crc)));
    }
    let wrong = |error: serde_json::Error| Invalid::Wrong(error.to_string());
    let Body { t, kind, data, more } = serde_json::from_str(body).map_err(wrong)?;
    let data = data.map(Data::checked).transpose().map_err(Invalid::Wrong)?.unwrap_or_default();
    Ok((Event { t, kind, data, batch: 0, line: 0 }, more, sum))
}
