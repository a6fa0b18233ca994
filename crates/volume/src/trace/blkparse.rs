//! The default text format of blkparse(1): `8,0 1 17 0.000123456 4242 D WS 2048 + 8 [fio]`.

use super::blktrace::{assemble, choose, with_problems};
use super::packed::BlockTrace;
use super::pairing::Event;
use super::request::{Operation, Request};
use crate::error::TargetError;
use senesce_core::input;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

/// Reads the text. Ignores lines of other actions (queue, merge, plug ...); from the summary it uses only the number of
/// skipped events. [`TargetError::Damaged`] for other formats and for joined recordings, [`TargetError::Usage`] for
/// several devices without a choice.
pub fn import(path: &Path, device: Option<(u32, u32)>) -> Result<BlockTrace, TargetError> {
    parse(&text_of(input::file_or_pipe(path), path)?, path, device)
}

/// Reads the text for timing: a regular file with every request in order. Also refuses decreasing issue times and
/// completions without an issue.
pub fn import_complete(path: &Path, device: Option<(u32, u32)>) -> Result<BlockTrace, TargetError> {
    let text = text_of(input::regular(path), path)?;
    let found = read(&text, path, device)?;
    check_order(&found.events, path)?;
    let (skipped, failed) = (found.skipped, found.failed);
    let (trace, unmatched) = found.assemble();
    match unmatched {
        0 => Ok(with_problems(trace, skipped, 0, failed)),
        _ => Err(TargetError::damaged(
            path,
            format!(
                "it has {unmatched} completions of requests without their issue: it is incomplete and cannot be \
                 timed; start the recording while the device is idle"
            ),
        )),
    }
}

pub fn parse(text: &str, path: &Path, device: Option<(u32, u32)>) -> Result<BlockTrace, TargetError> {
    let found = read(text, path, device)?;
    let (skipped, failed) = (found.skipped, found.failed);
    let (trace, unissued) = found.assemble();
    Ok(with_problems(trace, skipped, unissued, failed))
}

fn text_of(bytes: io::Result<Vec<u8>>, path: &Path) -> Result<String, TargetError> {
    String::from_utf8(bytes.map_err(TargetError::named("read", path))?).map_err(|_| {
        TargetError::damaged(path, "it is not text; import binary traces with `senesce runs import blktrace`")
    })
}

/// Events with their line numbers, from 1.
type Numbered = Vec<(usize, Event)>;

#[derive(Default)]
struct PrintedEvents {
    events: Numbered,
    skipped: u64,
    failed: u64,
    number: String,
}

impl PrintedEvents {
    fn assemble(self) -> (BlockTrace, u64) {
        assemble(self.events.into_iter().map(|(_, event)| event).collect(), &self.number)
    }
}

fn read(text: &str, path: &Path, device: Option<(u32, u32)>) -> Result<PrintedEvents, TargetError> {
    let mut devices: BTreeMap<(u32, u32), PrintedEvents> = BTreeMap::new();
    let (mut skipped, mut in_summary) = (0, false);
    for (index, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if in_summary {
            skipped = skipped_events(line).saturating_add(skipped);
            if words.first().is_some_and(|first| parse_device(first).is_some()) {
                let problem = "an event after the summary: several recordings were joined; import each separately";
                return Err(TargetError::damaged(path, format!("line {}: {problem}", index + 1)));
            }
            continue;
        }
        match parse_line(&words) {
            Line::Event(number, event) => {
                let found = devices.entry(number).or_default();
                found.failed += u64::from(has_failed(&words, &event));
                found.events.push((index + 1, event));
            }
            Line::Other => {}
            // The summary begins with the first CPU; no events follow it.
            Line::Summary => in_summary = true,
            Line::Wrong(problem) => {
                return Err(TargetError::damaged(
                    path,
                    format!("line {}: {problem}; expected the default text of blkparse", index + 1),
                ));
            }
        }
    }
    let numbers: Vec<(u32, u32)> = devices.keys().copied().collect();
    let chosen = choose(&numbers, device, path)?;
    let found = devices.remove(&chosen).unwrap_or_default();
    Ok(PrintedEvents { skipped, number: format!("{},{}", chosen.0, chosen.1), ..found })
}

/// Returns whether a completion failed: it ends with its error in brackets, 0 for none (blkparse_fmt.c,
/// `process_default`).
fn has_failed(words: &[&str], event: &Event) -> bool {
    let error = words.last().and_then(|word| word.strip_prefix('[')?.strip_suffix(']')?.parse::<i64>().ok());
    matches!(event, Event::Complete { .. }) && error.is_some_and(|error| error != 0)
}

/// Reads the number of events missing from the sequence, from a line such as `Skips: 2 forward (57 -   0.3%)`
/// (blkparse.c, `show_device_and_cpu_stats`).
fn skipped_events(line: &str) -> u64 {
    let count = line.trim().strip_prefix("Skips:").and_then(|rest| rest.split_once('(')).and_then(|(_, rest)| {
        let digits: String = rest.trim_start().chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    });
    count.unwrap_or(0)
}

fn check_order(events: &Numbered, path: &Path) -> Result<(), TargetError> {
    let issues = events.iter().filter(|(_, event)| matches!(event, Event::Issue(_)));
    let mut before = 0;
    for (line, event) in issues {
        let now = event.time_ns();
        if now < before {
            let seconds = |ns: u64| format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
            return Err(TargetError::damaged(
                path,
                format!(
                    "line {line}: issued at {} s, but a line before it at {} s: times decrease; sort the lines by time",
                    seconds(now),
                    seconds(before)
                ),
            ));
        }
        before = now;
    }
    Ok(())
}

enum Line {
    Event((u32, u32), Event),
    Other,
    Summary,
    Wrong(String),
}

fn parse_line(words: &[&str]) -> Line {
    let Some(first) = words.first() else { return Line::Other };
    if first.starts_with("CPU") || matches!(*first, "Total" | "Events" | "Throughput") {
        return Line::Summary;
    }
    // "Input file sda.blktrace.0 added".
    if *first == "Input" {
        return Line::Other;
    }
    let Some(device) = parse_device(first) else {
        return Line::Wrong(format!("'{first}' is not a device number MAJOR,MINOR"));
    };
    let [_, _, _, time, _, action, rwbs, place @ ..] = words else {
        // Notes and messages have fewer columns.
        return if words.get(5).is_some_and(|action| *action == "m") {
            Line::Other
        } else {
            Line::Wrong("it is cut off".into())
        };
    };
    if !matches!(*action, "D" | "C" | "R") {
        return Line::Other;
    }
    let Some(time_ns) = parse_time(time) else { return Line::Wrong(format!("'{time}' is not a time in seconds")) };
    let (sector, sectors) = match place {
        [sector, "+", sectors, ..] => match (sector.parse(), sectors.parse()) {
            (Ok(sector), Ok(sectors)) => (sector, sectors),
            _ => return Line::Wrong(format!("'{sector} + {sectors}' is not a range of sectors")),
        },
        // A flush has no sector; a driver's command shows its bytes there.
        _ => (0, 0),
    };
    let Some(request) = Request::new(Operation::Other, sector, sectors).with_rwbs(rwbs) else {
        return Line::Wrong(format!("'{rwbs}' is not a kind of request"));
    };
    if request.is_nowhere() {
        return Line::Wrong(format!("no device has sector {sector}"));
    }
    let request = Request { issue_ns: time_ns, ..request };
    let event = match *action {
        "D" => Event::Issue(request),
        "R" => Event::requeue(&request),
        _ => Event::completion(&request),
    };
    Line::Event(device, event)
}

pub(crate) fn parse_device(word: &str) -> Option<(u32, u32)> {
    let (major, minor) = word.split_once(',')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Parses seconds and nine digits, without rounding.
fn parse_time(word: &str) -> Option<u64> {
    let (seconds, fraction) = word.split_once('.')?;
    let digits = fraction.len();
    if !(1..=9).contains(&digits) || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let nanoseconds = fraction.parse::<u64>().ok()? * 10u64.pow(9 - digits as u32);
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(nanoseconds)
}

/// Writes a trace as such text: a line for each issue and each completion, in the order of time. `device` is printed as
/// its number.
pub fn export(trace: &BlockTrace, device: (u32, u32), out: &mut impl Write) -> io::Result<()> {
    let mut lines: Vec<(u64, bool, Request)> = Vec::with_capacity(trace.len() * 2);
    for request in trace.iter() {
        lines.push((request.issue_ns, false, request));
        lines.extend(request.latency_ns.map(|latency| (request.issue_ns.saturating_add(latency), true, request)));
    }
    lines.sort_by_key(|(time_ns, ..)| *time_ns);
    for (index, (time_ns, completed, request)) in lines.into_iter().enumerate() {
        let (seconds, nanoseconds) = (time_ns / 1_000_000_000, time_ns % 1_000_000_000);
        let action = if completed { 'C' } else { 'D' };
        write!(
            out,
            "{:3},{:<3} {:2} {:8} {seconds:5}.{nanoseconds:09} {:5}  {action} {:>3} ",
            device.0,
            device.1,
            0,
            index + 1,
            0,
            request.rwbs()
        )?;
        match request.operation {
            Operation::Flush => writeln!(out, "[0]")?,
            _ => writeln!(out, "{} + {} [0]", request.sector, request.sectors)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::packed::tests::requests;
    use super::super::validity::Problem;
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = "\
  8,0    3        1     0.000000000   697  G   W 223490 + 8 [kjournald]
  8,0    3        2     0.000001829   697  P   R [kjournald]
  8,0    3        3     0.000002197   697  Q  WS 223490 + 8 [kjournald]
  8,0    3        4     0.000010000   697  D  WS 223490 + 8 [kjournald]
  8,0    3        5     0.000012000     0  m   N cfq workload slice:100
  8,0    1        6     0.000500000   697  D   R 1000 + 16 [grep]
  8,0    3        7     0.001010000     0  C  WS 223490 + 8 [0]
  8,0    3        8     0.001020000   697  D  FN [kworker]
  8,0    1        9     0.001500000     0  C   R 1000 + 16 [0]
CPU3 (8,0):
 Reads Queued:           0,        0KiB\t Writes Queued:           7,      128KiB
";

    #[test]
    fn default_blkparse_output_is_parsed() {
        let trace = parse(TEXT, Path::new("t"), None).unwrap();
        let requests: Vec<_> = trace.iter().collect();
        assert_eq!(requests.len(), 3);
        assert_eq!(requests[0].latency_ns, Some(1_000_000));
        assert_eq!((requests[1].issue_ns, requests[1].sector, requests[1].sectors), (490_000, 1000, 16));
    }

    fn complete(text: &str) -> Result<BlockTrace, TargetError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        import_complete(file.path(), None)
    }

    #[test]
    fn events_skipped_by_blkparse_invalidate_trace() {
        let trace = parse(&format!("{TEXT}Skips: 2 forward (57 -   0.3%)\n"), Path::new("t"), None).unwrap();
        assert_eq!(trace.problems(), [Problem::Lost { events: 57 }]);
        assert!(parse(&format!("{TEXT}Skips: 0 forward (0 -   0.0%)\n"), Path::new("t"), None).unwrap().is_valid());
        let more_than_fit = format!("{TEXT}Skips: 1 forward ({} -   0.1%)\nSkips: 1 forward (1 -   0.1%)\n", u64::MAX);
        assert!(!parse(&more_than_fit, Path::new("t"), None).unwrap().is_valid());
    }

    #[test]
    fn busy_start_errors_and_joined_texts_invalidate_trace() {
        let early =
            parse(&format!("  8,0    3        1     0.000000000     0  C   R 8 + 8 [0]\n{TEXT}"), Path::new("t"), None);
        assert_eq!(early.unwrap().problems(), [Problem::Unissued { completions: 1 }]);
        let failed = TEXT.replace("223490 + 8 [0]", "223490 + 8 [65531]");
        assert_eq!(parse(&failed, Path::new("t"), None).unwrap().problems(), [Problem::Failed { requests: 1 }]);
        let error = parse(&format!("{TEXT}{TEXT}"), Path::new("t"), None).unwrap_err().to_string();
        assert!(error.contains("line 12: an event after the summary"), "{error}");
        let late = TEXT.replace("  8,0    1        9     0.001500000     0  C   R 1000 + 16 [0]\n", "");
        let late = parse(&late, Path::new("t"), None).unwrap();
        assert_eq!(late.problems(), [Problem::Uncompleted { requests: 1 }]);
        let issues: String =
            TEXT.lines().filter(|line| !line.contains("  C  ")).map(|line| format!("{line}\n")).collect();
        assert!(parse(&issues, Path::new("t"), None).unwrap().is_valid(), "a recording of issues only");
        let far = "8,0 3 1 0.5 697 D R 36028797018963968 + 8 [a]\n";
        assert!(parse(far, Path::new("t"), None).unwrap_err().to_string().contains("no device has sector"));
    }

    #[test]
    fn timed_text_must_be_complete_and_ordered() {
        assert_eq!(complete(TEXT).unwrap().len(), 3);
        let message = |text: &str| complete(text).unwrap_err().to_string();
        let backwards = "8,0 3 1 0.5 697 D R 8 + 8 [a]\n8,0 3 2 0.25 697 D R 16 + 8 [a]\n";
        assert!(message(backwards).contains("line 2: issued at 0.250000000 s"), "{}", message(backwards));
        assert!(parse(backwards, Path::new("t"), None).is_ok());
        let halved = "8,0 3 1 0.5 697 C R 8 + 8 [a]\n8,0 3 2 0.75 697 D R 16 + 8 [a]\n";
        assert!(message(halved).contains("1 completions of requests without their issue"), "{}", message(halved));
    }

    #[test]
    fn foreign_text_names_the_line() {
        let message = |text: &str| parse(text, Path::new("t"), None).unwrap_err().to_string();
        assert!(message("hello world\n").contains("line 1"));
        assert!(message("8,0 3 1 0.1 697 D W x + 8 [a]\n").contains("not a range of sectors"));
        assert!(message("8,0 3 1 abc 697 D W 1 + 8 [a]\n").contains("is not a time"));
        assert!(message("8,0 3 1\n").contains("cut off"));
        assert!(message("").contains("no issued"));
    }

    proptest! {
        #[test]
        fn export_round_trips(list in requests()) {
            // Kinds, sectors and order survive; times outside the text's range and open requests at one sector do
            // not matter here.
            let list: Vec<Request> = list.into_iter().enumerate().map(|(index, request)| Request {
                issue_ns: index as u64 * 1000, latency_ns: None, sector: request.sector >> 9, ..request
            }).map(|request| if request.operation == Operation::Flush { Request { sector: 0, sectors: 0, fua: false, ..request } } else { request }).collect();
            prop_assume!(!list.is_empty());
            let mut text = Vec::new();
            export(&BlockTrace::from_requests("sdx", 0, list.clone()), (8, 0), &mut text).unwrap();
            let read = parse(&String::from_utf8(text).unwrap(), Path::new("t"), None).unwrap();
            prop_assert_eq!(read.iter().collect::<Vec<_>>(), list);
        }

        #[test]
        fn arbitrary_text_never_panics(text in "[ 0-9,.+DCRWF\\[\\]\n]{0,200}") {
            let _ = parse(&text, Path::new("t"), None);
        }
    }
}
