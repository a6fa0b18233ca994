//! Lines of `events.jsonl`: one event each, with its checksum.

use super::Event;
use super::error::{RecordError, io_error};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::time::Instant;

/// The line of an event that happens now.
pub(super) fn line(started: Instant, kind: &str, data: &impl Serialize) -> String {
    let data = serde_json::to_value(data).expect("event data are plain");
    let event = Event { t: started.elapsed().as_secs_f64(), kind: kind.into(), data };
    let body = serde_json::to_string(&event).expect("an event is plain");
    format!("{{\"crc\":\"{:08x}\",\"event\":{body}}}\n", crc32fast::hash(body.as_bytes()))
}

/// The line of an event that names its kind itself.
pub(super) fn tagged_line(started: Instant, event: &impl Serialize) -> String {
    #[derive(Serialize)]
    struct Timed<'a, E> {
        t: f64,
        #[serde(flatten)]
        event: &'a E,
    }
    let timed = Timed { t: started.elapsed().as_secs_f64(), event };
    let body = serde_json::to_string(&timed).expect("an event is plain");
    format!("{{\"crc\":\"{:08x}\",\"event\":{body}}}\n", crc32fast::hash(body.as_bytes()))
}

#[derive(Deserialize)]
struct Line<'a> {
    crc: &'a str,
    #[serde(borrow)]
    event: &'a RawValue,
}

/// All events, and the bytes of their lines; a torn last line is left out.
pub(super) fn read_events(path: &Path) -> Result<(Vec<Event>, u64), RecordError> {
    let file = match crate::input::open_for_memory(path) {
        Ok((file, _)) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), 0)),
        Err(error) => return Err(io_error("open", path)(error)),
    };
    let mut reader = BufReader::new(file);
    let (mut events, mut valid, mut number) = (Vec::new(), 0, 0);
    let mut line = Vec::new();
    loop {
        line.clear();
        let length = reader.read_until(b'\n', &mut line).map_err(io_error("read", path))?;
        if length == 0 {
            return Ok((events, valid));
        }
        number += 1;
        match decode(&line) {
            Ok(event) => events.push(event),
            Err(problem) => {
                let at_end = reader.fill_buf().map_err(io_error("read", path))?.is_empty();
                if at_end {
                    return Ok((events, valid));
                }
                return Err(RecordError::Damaged { path: path.into(), line: number, problem });
            }
        }
        valid += length as u64;
    }
}

fn decode(line: &[u8]) -> Result<Event, String> {
    let text = std::str::from_utf8(line).map_err(|_| "not UTF-8".to_string())?;
    let text = text.strip_suffix('\n').ok_or("the line is not ended")?;
    let parsed: Line = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let body = parsed.event.get();
    let expected = format!("{:08x}", crc32fast::hash(body.as_bytes()));
    if expected != parsed.crc {
        return Err(format!("checksum {expected} was expected, {} was found", parsed.crc));
    }
    serde_json::from_str(body).map_err(|error| error.to_string())
}
