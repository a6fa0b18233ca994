//! Traces recorded by blktrace(8): `struct blk_io_trace` of include/uapi/linux/blktrace_api.h, one file per CPU.

use super::packed::BlockTrace;
use super::pairing::{Event, Pairing};
use super::request::{Operation, Request};
use super::validity::Problem;
use crate::error::TargetError;
use senesce_core::input;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const MAGIC: u32 = 0x6561_7400;
const MAGIC_MASK: u32 = 0xFFFF_FF00;
const HEAD: usize = 48;

/// `enum blktrace_act`: the driver could not take a request, which will be issued again.
const REQUEUE: u32 = 6;
const ISSUE: u32 = 7;
const COMPLETE: u32 = 8;
/// Set in the lower half of an action if the record carries a control group's number (Linux 4.14).
const WITH_CGROUP: u32 = 1 << 8;

const READ: u32 = 1 << 0;
const WRITE: u32 = 1 << 1;
const FLUSH: u32 = 1 << 2;
const SYNC: u32 = 1 << 3;
const NOTIFY: u32 = 1 << 10;
const AHEAD: u32 = 1 << 11;
const META: u32 = 1 << 12;
const DISCARD: u32 = 1 << 13;
const FUA: u32 = 1 << 15;

/// The kernel's device numbers have 20 bits for the minor (include/linux/kdev_t.h).
const MINOR_BITS: u32 = 20;

/// Reads a trace: one file, a directory of `*.blktrace.N`, or the common name of such files without `.blktrace.N`.
/// `device` (major, minor) chooses one of several. [`TargetError::Damaged`] for other formats, cut-off files and the
/// other byte order; [`TargetError::Usage`] for several devices without a choice.
pub fn import(path: &Path, device: Option<(u32, u32)>) -> Result<BlockTrace, TargetError> {
    let mut devices: BTreeMap<u32, DeviceEvents> = BTreeMap::new();
    for file in files(path)? {
        let bytes = input::regular(&file).map_err(TargetError::io("read", &file))?;
        parse(&bytes, &file, &mut devices)?;
    }
    let numbers: Vec<(u32, u32)> =
        devices.keys().map(|number| (number >> MINOR_BITS, number & ((1 << MINOR_BITS) - 1))).collect();
    let chosen = choose(&numbers, device, path)?;
    let found = devices.remove(&(chosen.0 << MINOR_BITS | chosen.1)).unwrap_or_default();
    let (trace, unissued) = assemble(found.events, &format!("{},{}", chosen.0, chosen.1));
    Ok(with_problems(trace, 0, unissued, found.failed))
}

#[derive(Debug, Default)]
pub(crate) struct DeviceEvents {
    events: Vec<Event>,
    failed: u64,
}

pub(crate) fn with_problems(mut trace: BlockTrace, lost: u64, unissued: u64, failed: u64) -> BlockTrace {
    let requests = uncompleted(&trace);
    let problems = [
        (lost, Problem::Lost { events: lost }),
        (unissued, Problem::Unissued { completions: unissued }),
        (requests, Problem::Uncompleted { requests }),
        (failed, Problem::Failed { requests: failed }),
    ];
    trace.set_account(None, problems.into_iter().filter(|(count, _)| *count > 0).map(|(_, problem)| problem).collect());
    trace
}

/// Reads, writes and discards without completion, unless none has one: a recording may hold issues only.
fn uncompleted(trace: &BlockTrace) -> u64 {
    let moves_data = |one: &Request| matches!(one.operation, Operation::Read | Operation::Write | Operation::Discard);
    let (mut with, mut without) = (0, 0);
    for request in trace.iter().filter(moves_data) {
        *if request.latency_ns.is_some() { &mut with } else { &mut without } += 1;
    }
    if with > 0 { without } else { 0 }
}

/// Sorts events by time, relative to the first, and pairs them. Also returns the number of completions whose request
/// was never issued.
pub(crate) fn assemble(mut events: Vec<Event>, device: &str) -> (BlockTrace, u64) {
    events.sort_by_key(Event::time_ns);
    let start_ns = events.first().map_or(0, Event::time_ns);
    let mut pairing = Pairing::new(BlockTrace::new(device, 0));
    for mut event in events {
        event.relative_to(start_ns, 0);
        pairing.take(&event);
    }
    let (trace, tally, _) = pairing.finish();
    (trace, tally.unmatched)
}

pub(crate) fn choose(found: &[(u32, u32)], wanted: Option<(u32, u32)>, path: &Path) -> Result<(u32, u32), TargetError> {
    let list = || found.iter().map(|(major, minor)| format!("{major},{minor}")).collect::<Vec<_>>().join(" ");
    match (found, wanted) {
        ([], _) => Err(TargetError::damaged(path, "the trace has no issued or completed request")),
        (_, Some(device)) if found.contains(&device) => Ok(device),
        (_, Some((major, minor))) => {
            Err(TargetError::damaged(path, format!("the trace has no device {major},{minor}; it has {}", list())))
        }
        ([one], None) => Ok(*one),
        _ => Err(TargetError::Usage(format!(
            "{} holds the requests of several devices ({}): choose one by appending #MAJOR,MINOR to the path",
            path.display(),
            list()
        ))),
    }
}

fn files(path: &Path) -> Result<Vec<PathBuf>, TargetError> {
    if path.is_file() {
        return Ok(vec![path.into()]);
    }
    let (folder, prefix) = match path.is_dir() {
        true => (path.to_path_buf(), String::new()),
        false => {
            let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
            (folder.into(), format!("{}.", path.file_name().unwrap_or_default().to_string_lossy()))
        }
    };
    let entries = fs::read_dir(&folder).map_err(TargetError::named("list", &folder))?;
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_part = name.rsplit_once(".blktrace.").is_some_and(|(_, cpu)| cpu.parse::<u32>().is_ok());
            is_part && name.starts_with(&prefix)
        })
        .map(|entry| entry.path())
        .collect();
    found.sort();
    match found.is_empty() {
        true => Err(TargetError::damaged(path, "no file NAME.blktrace.CPU was found there")),
        false => Ok(found),
    }
}

pub(crate) fn parse(bytes: &[u8], path: &Path, devices: &mut BTreeMap<u32, DeviceEvents>) -> Result<(), TargetError> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let record: &[u8; HEAD] = rest.first_chunk().ok_or_else(|| cut(path, bytes.len() - rest.len()))?;
        check_magic(u32_at(record, 0), path, bytes.len() - rest.len())?;
        let length = HEAD + usize::from(u16::from_le_bytes([record[46], record[47]]));
        rest = rest.get(length..).ok_or_else(|| cut(path, bytes.len() - rest.len()))?;
        let Some(request) = request(record) else { continue };
        let event = match u32_at(record, 28) & 0xFFFF & !WITH_CGROUP {
            REQUEUE => Event::requeue(&request),
            ISSUE => Event::Issue(request),
            COMPLETE => Event::completion(&request),
            _ => continue,
        };
        if request.is_nowhere() {
            return Err(TargetError::damaged(
                path,
                format!("it has a request at sector {}, which is beyond any device", request.sector),
            ));
        }
        let found = devices.entry(u32_at(record, 36)).or_default();
        // The error of a completion, a negative errno in 16 bits (include/uapi/linux/blktrace_api.h).
        found.failed += u64::from(matches!(event, Event::Complete { .. }) && record[44..46] != [0, 0]);
        found.events.push(event);
    }
    Ok(())
}

fn check_magic(magic: u32, path: &Path, offset: usize) -> Result<(), TargetError> {
    if magic & MAGIC_MASK == MAGIC {
        return Ok(());
    }
    if magic.swap_bytes() & MAGIC_MASK == MAGIC {
        return Err(TargetError::damaged(
            path,
            "the trace was recorded on a machine with the other byte order; convert it to text there (blkparse -i \
             NAME -o FILE) and import that with `senesce runs import blkparse`",
        ));
    }
    let what = if offset == 0 { "it is not a blktrace file" } else { "it is damaged" };
    Err(TargetError::damaged(path, format!("{what}: no record begins at byte {offset}")))
}

fn cut(path: &Path, offset: usize) -> TargetError {
    TargetError::damaged(path, format!("the trace is cut off inside the record at byte {offset}; copy it again"))
}

fn request(record: &[u8; HEAD]) -> Option<Request> {
    let action = u32_at(record, 28);
    let category = action >> 16;
    if category & NOTIFY != 0 {
        return None;
    }
    let time_ns = u64_at(record, 8);
    let sectors = u32_at(record, 24) / 512;
    Some(Request {
        issue_ns: time_ns,
        sync: category & SYNC != 0,
        meta: category & META != 0,
        ahead: category & AHEAD != 0,
        fua: category & FUA != 0,
        preflush: category & FLUSH != 0 && sectors > 0,
        ..Request::new(operation(category, sectors), u64_at(record, 16), sectors)
    })
}

fn operation(category: u32, sectors: u32) -> Operation {
    match category {
        category if category & DISCARD != 0 => Operation::Discard,
        category if category & FLUSH != 0 && sectors == 0 => Operation::Flush,
        category if category & WRITE != 0 => Operation::Write,
        category if category & READ != 0 => Operation::Read,
        _ => Operation::Other,
    }
}

fn u32_at(record: &[u8; HEAD], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|index| record[at + index]))
}

fn u64_at(record: &[u8; HEAD], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|index| record[at + index]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(time: u64, sector: u64, bytes: u32, action: u32, device: u32) -> Vec<u8> {
        let mut record = Vec::new();
        record.extend((MAGIC | 7).to_le_bytes());
        record.extend(1u32.to_le_bytes());
        record.extend(time.to_le_bytes());
        record.extend(sector.to_le_bytes());
        for word in [bytes, action, 4242, device, 0, 0] {
            record.extend(word.to_le_bytes());
        }
        record
    }

    fn two_cpus(directory: &Path) {
        let device = 8 << 20;
        let mut first = record(1000, 64, 4096, ISSUE | READ << 16, device);
        first.extend(record(3000, 64, 4096, COMPLETE | READ << 16, device));
        fs::write(directory.join("sda.blktrace.0"), first).unwrap();
        let mut second = record(2000, 640, 8192, ISSUE | (WRITE | SYNC | FUA | FLUSH) << 16, device);
        let mut note = record(0, 0, 0, NOTIFY << 16, 0);
        note[46] = 4;
        note.extend(b"bash");
        second.extend(note);
        fs::write(directory.join("sda.blktrace.1"), second).unwrap();
    }

    #[test]
    fn the_files_of_all_cpus_are_one_trace() {
        let directory = tempfile::tempdir().unwrap();
        two_cpus(directory.path());
        for path in [directory.path().to_path_buf(), directory.path().join("sda")] {
            let trace = import(&path, None).unwrap();
            let requests: Vec<_> = trace.iter().collect();
            assert_eq!(trace.device(), "8,0");
            assert_eq!(requests[0], Request { latency_ns: Some(2000), ..Request::new(Operation::Read, 64, 8) });
            let write = Request { issue_ns: 1000, sync: true, ..Request::new(Operation::Write, 640, 16) };
            assert_eq!(requests[1], Request { fua: true, preflush: true, ..write });
        }
    }

    fn imported(records: &[Vec<u8>]) -> Result<BlockTrace, TargetError> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.blktrace.0");
        fs::write(&path, records.concat()).unwrap();
        import(&path, None)
    }

    #[test]
    fn a_recording_begun_under_load_or_with_failed_requests_is_not_valid() {
        let issue = record(2, 8, 512, ISSUE | READ << 16, 8 << 20);
        let done = record(3, 8, 512, COMPLETE | READ << 16, 8 << 20);
        assert!(imported(&[issue.clone(), done.clone()]).unwrap().is_valid());
        let early = record(1, 64, 512, COMPLETE | WRITE << 16, 8 << 20);
        let trace = imported(&[early, issue.clone(), done.clone()]).unwrap();
        assert_eq!((trace.len(), trace.problems()), (1, &[Problem::Unissued { completions: 1 }][..]));
        let mut failed = done;
        failed[44..46].copy_from_slice(&(-libc::EIO as i16).to_le_bytes());
        let trace = imported(&[issue, failed]).unwrap();
        assert_eq!(trace.problems(), [Problem::Failed { requests: 1 }]);
    }

    #[test]
    fn a_request_that_is_issued_again_counts_once() {
        let at = |time, action, category| record(time, 8, 512, action | category << 16, 8 << 20);
        // BLK_TC_REQUEUE, BLK_TC_ISSUE and BLK_TC_COMPLETE with the kind of request.
        let records = [
            at(1, ISSUE, READ | 1 << 6),
            at(2, REQUEUE, READ | 1 << 5),
            at(3, ISSUE, READ),
            at(6, COMPLETE, READ | 1 << 7),
        ];
        let trace = imported(&records).unwrap();
        assert_eq!(trace.iter().map(|request| request.latency_ns).collect::<Vec<_>>(), [Some(5)]);
        assert!(trace.is_valid());
    }

    #[test]
    fn sector_beyond_any_device_is_refused() {
        let error = imported(&[record(1, 1 << 55, 512, ISSUE | READ << 16, 8 << 20)]).unwrap_err();
        assert!(error.to_string().contains("sector 36028797018963968"), "{error}");
        // A flush has no sector, whatever its record says.
        assert!(imported(&[record(1, u64::MAX, 0, ISSUE | FLUSH << 16, 8 << 20)]).is_ok());
    }

    #[test]
    fn several_devices_need_a_choice() {
        let directory = tempfile::tempdir().unwrap();
        let mut bytes = record(1, 0, 512, ISSUE | READ << 16, 8 << 20);
        bytes.extend(record(2, 8, 512, ISSUE | READ << 16, 7 << 20 | 3));
        let path = directory.path().join("x.blktrace.0");
        fs::write(&path, bytes).unwrap();
        assert!(matches!(import(&path, None), Err(TargetError::Usage(_))));
        assert_eq!(import(&path, Some((7, 3))).unwrap().len(), 1);
        assert!(matches!(import(&path, Some((9, 9))), Err(TargetError::Damaged { .. })));
    }

    #[test]
    fn other_byte_order_foreign_and_truncated_files_have_distinct_errors() {
        let message = |bytes: &[u8]| parse(bytes, Path::new("t"), &mut BTreeMap::new()).unwrap_err().to_string();
        let good = record(1, 0, 512, ISSUE | READ << 16, 8 << 20);
        let mut big_endian = good.clone();
        big_endian[..4].copy_from_slice(&(MAGIC | 7).to_be_bytes());
        assert!(message(&big_endian).contains("other byte order"));
        assert!(message(&[0u8; 60]).contains("not a blktrace file"));
        assert!(message(&good[..40]).contains("cut off"));
        let mut short_payload = good;
        short_payload[46] = 9;
        assert!(message(&short_payload).contains("cut off"));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), good: bool) {
            let mut all = if good { record(5, 5, 512, ISSUE | READ << 16, 1) } else { Vec::new() };
            all.extend(bytes);
            let _ = parse(&all, Path::new("t"), &mut BTreeMap::new());
        }
    }
}
