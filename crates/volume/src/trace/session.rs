//! Records the requests of one device.

use super::account::{Accounts, Border};
use super::event_format::{ZONE_APPEND, ZONE_MANAGEMENT_SEND};
use super::packed::BlockTrace;
use super::pairing::{Event, Pairing};
use super::ring_buffer::{Formats, PageCount, parse_page};
use super::tally::Tally;
use super::tracefs::{CommandOptions, EventCounters, Instance, InstanceOptions};
use super::validity::Problem;
use crate::block_device::BlockDevice;
use crate::error::TargetError;
use crate::setting::ChangedSetting;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Buffer per CPU: at 130 bytes for issue and completion it holds 60,000 requests between two readings.
const BUFFER_KIB: u64 = 8192;

const READER: &str = "block trace";

/// How often the buffers are emptied: rarely, to keep the load on the traced command low.
const READ_EVERY: Duration = Duration::from_millis(50);

/// An event needs less than this between its time stamp and its entry in the buffer.
const SETTLING_NS: u64 = 10_000_000;

/// A recording in progress. Dropped without [`TraceSession::stop`], it leaves nothing behind.
#[derive(Debug)]
pub struct TraceSession {
    instance: Instance,
    device: BlockDevice,
    _counting: Counting,
    settings: Vec<(String, String)>,
    start_ns: u64,
    begin: Border,
    stop: Arc<AtomicBool>,
    reader: Option<JoinHandle<std::io::Result<Collected>>>,
}

#[derive(Debug)]
struct Collected {
    trace: BlockTrace,
    tally: Tally,
    unfinished: u64,
    count: PageCount,
}

impl TraceSession {
    /// Starts to record the requests of exactly this device; for a partition only those inside it. Waits up to a second
    /// until the device is idle, to compare its counters from then on. [`TargetError::Missing`] for a device without a
    /// request queue (zram, dm, md), and without permission to trace.
    pub fn start(device: &BlockDevice) -> Result<Self, TargetError> {
        Self::start_with_buffer(device, BUFFER_KIB)
    }

    pub fn start_with_buffer(device: &BlockDevice, buffer_kib: u64) -> Result<Self, TargetError> {
        let disk = device.disk();
        if disk.attribute("queue/scheduler").is_none_or(|text| text == "none" && !has_request_queue(&disk)) {
            return Err(TargetError::missing(
                format!("a request queue of {}", device.path().display()),
                "the kernel shows no requests of devices such as zram, dm or md; trace the device below, or use an \
                 image",
            ));
        }
        let first_sector = match device.is_partition() {
            true => device.attribute("start").and_then(|text| text.parse().ok()).unwrap_or(0),
            false => 0,
        };
        let counting = Counting::on(&disk)?;
        let instance = Instance::new(&options(device, &disk, first_sector, buffer_kib))?;
        let pipes = instance.pipes()?;
        let start_ns = now_ns();
        let collector = Collector {
            formats: instance.formats,
            page_size: instance.page_size,
            part: device.is_partition().then(|| first_sector..first_sector + device.size().0 / 512),
            start_ns,
            count: PageCount::default(),
            pending: Vec::new(),
            pairing: Pairing::new(BlockTrace::new(device.name(), device.size().0)),
        };
        let begin = Border::begin(device, || instance.record(true))?;
        let settings = instance.settings();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let reader = std::thread::Builder::new().name(READER.into());
        let reader = reader
            .spawn(move || collector.collect(pipes, &stopped))
            .map_err(TargetError::io("start", Path::new(READER)))?;
        let device = device.clone();
        Ok(Self { instance, device, _counting: counting, settings, start_ns, begin, stop, reader: Some(reader) })
    }

    /// Returns the base of the request times, in nanoseconds of CLOCK_MONOTONIC.
    pub fn start_ns(&self) -> u64 {
        self.start_ns
    }

    /// Ends the recording, after waiting up to a second for an idle device. Losses and differences from the device's
    /// counters are in [`BlockTrace::problems`], not errors. Sync the command's writes before, or they come after the
    /// recording.
    pub fn stop(mut self) -> Result<BlockTrace, TargetError> {
        let mut problems = Vec::new();
        let end = Border::end(&self.device, || {
            problems = changed(&self.settings, &self.instance.settings());
            self.instance.record(false)
        })?;
        let Collected { mut trace, tally, unfinished, count } = self.join()?;
        let counters = self.instance.counters()?;
        problems.extend(losses(&count, counters));
        let accounts = Accounts {
            borders: [self.begin, end],
            tally,
            unfinished,
            is_partition: self.device.is_partition(),
            max_request_bytes: max_request_bytes(&self.device),
        };
        problems.extend(accounts.problems());
        trace.set_account(Some(accounts.device_stat()), problems);
        Ok(trace)
    }

    fn join(&mut self) -> Result<Collected, TargetError> {
        self.stop.store(true, Ordering::Release);
        if let Some(reader) = &self.reader {
            reader.thread().unpark();
        }
        let path = PathBuf::from("trace_pipe_raw");
        match self.reader.take().map(JoinHandle::join) {
            Some(Ok(collected)) => collected.map_err(TargetError::io("read", &path)),
            _ => Err(TargetError::damaged(&path, "the reader of the trace ended early")),
        }
    }
}

impl Drop for TraceSession {
    fn drop(&mut self) {
        let _ = self.join();
    }
}

fn has_request_queue(disk: &BlockDevice) -> bool {
    Path::new("/sys/block").join(disk.name()).join("mq").exists()
}

/// Events carry the disk's number in the kernel's form, major << 20 | minor (include/linux/kdev_t.h). Completions
/// without sectors end flushes; their events do not name the partition.
fn options(device: &BlockDevice, disk: &BlockDevice, first_sector: u64, buffer_kib: u64) -> InstanceOptions {
    let (major, minor) = disk.number();
    let whole = format!("dev == {}", u64::from(major) << 20 | u64::from(minor));
    let (issue_filter, complete_filter) = match device.is_partition() {
        true => {
            let inside = format!("sector >= {first_sector} && sector < {}", first_sector + device.size().0 / 512);
            (format!("{whole} && {inside}"), format!("{whole} && (nr_sector == 0 || ({inside}))"))
        }
        false => (whole.clone(), whole),
    };
    InstanceOptions { issue_filter, complete_filter, commands: zone_commands(disk), buffer_kib }
}

/// Selects the zone commands of an NVMe drive that are recorded: those whose kind the block events do not show.
fn zone_commands(disk: &BlockDevice) -> Option<CommandOptions> {
    let zoned = disk.queue("zoned").is_some_and(|model| model != "none");
    let block: u64 = disk.queue("logical_block_size")?.parse().ok()?;
    (zoned && disk.name().starts_with("nvme")).then(|| CommandOptions {
        filter: format!("disk == \"{}\" && (opcode == {ZONE_MANAGEMENT_SEND} || opcode == {ZONE_APPEND})", disk.name()),
        block_sectors: block / 512,
    })
}

fn max_request_bytes(device: &BlockDevice) -> u64 {
    let kib = device.queue("max_sectors_kb").and_then(|text| text.parse().ok()).unwrap_or(1280u64);
    let discard = device.queue("discard_max_bytes").and_then(|text| text.parse().ok()).unwrap_or(0);
    (kib * 1024).max(discard)
}

/// The kernel's request accounting (`queue/iostats`), turned on until this is dropped.
#[derive(Debug)]
struct Counting {
    _turned_on: Option<ChangedSetting>,
}

impl Counting {
    fn on(disk: &BlockDevice) -> Result<Self, TargetError> {
        if disk.queue("iostats").as_deref() != Some("0") {
            return Ok(Self { _turned_on: None });
        }
        Ok(Self { _turned_on: Some(ChangedSetting::set(disk.queue_file("iostats"), "1")?) })
    }
}

fn changed(before: &[(String, String)], after: &[(String, String)]) -> Vec<Problem> {
    let pairs = before.iter().zip(after).filter(|(before, after)| before != after);
    pairs
        .map(|((setting, wanted), (_, found))| Problem::Changed {
            setting: setting.clone(),
            wanted: wanted.clone(),
            found: found.clone(),
        })
        .collect()
}

fn losses(count: &PageCount, counters: EventCounters) -> Vec<Problem> {
    let mut problems = Vec::new();
    // Both count the same events.
    let lost = counters.lost.max(count.missed);
    if lost > 0 {
        problems.push(Problem::Lost { events: lost });
    }
    if count.undecoded > 0 {
        problems.push(Problem::Undecoded { events: count.undecoded });
    }
    if count.failed > 0 {
        problems.push(Problem::Failed { requests: count.failed });
    }
    if counters.recorded != count.entries {
        problems.push(Problem::Uncounted { kernel: counters.recorded, found: count.entries });
    }
    problems
}

#[derive(Debug)]
struct Collector {
    formats: Formats,
    page_size: usize,
    /// The sectors of the partition; `None` for the whole disk.
    part: Option<Range<u64>>,
    start_ns: u64,
    count: PageCount,
    pending: Vec<Event>,
    pairing: Pairing,
}

impl Collector {
    fn collect(mut self, mut pipes: Vec<File>, stop: &AtomicBool) -> std::io::Result<Collected> {
        // If all CPUs are busy, a fair share would not suffice to empty the buffers in time. Tracing needs root, which
        // may usually raise the priority.
        let _ = senesce_sys::priority::set_thread_nice(-20);
        let mut page = vec![0u8; self.page_size];
        loop {
            let last = stop.load(Ordering::Acquire);
            let settled_ns = if last { u64::MAX } else { now_ns().saturating_sub(SETTLING_NS) };
            for pipe in &mut pipes {
                while read_page(pipe, &mut page)? {
                    self.count += parse_page(&page, &self.formats, &mut self.pending);
                }
            }
            self.settle(settled_ns);
            if last {
                let (trace, tally, unfinished) = self.pairing.finish();
                return Ok(Collected { trace, tally, unfinished, count: self.count });
            }
            std::thread::park_timeout(READ_EVERY);
        }
    }

    /// Sorts the events up to a time after which no CPU can add an earlier one. Times become relative to the start of
    /// the recording, sectors to the start of the device.
    fn settle(&mut self, until_ns: u64) {
        self.pending.sort_by_key(Event::time_ns);
        let count = self.pending.partition_point(|event| event.time_ns() < until_ns);
        let first_sector = self.part.as_ref().map_or(0, |part| part.start);
        for mut event in self.pending.drain(..count) {
            if self.part.as_ref().is_some_and(|part| event.is_elsewhere(part)) {
                continue;
            }
            event.relative_to(self.start_ns, first_sector);
            self.pairing.take(&event);
        }
    }
}

fn now_ns() -> u64 {
    senesce_sys::clock::monotonic().as_nanos() as u64
}

/// Reads one page, padded with zeros. `false`: the buffer is empty.
fn read_page(pipe: &mut File, page: &mut [u8]) -> std::io::Result<bool> {
    loop {
        match pipe.read(page) {
            Ok(0) => return Ok(false),
            Ok(length) => {
                page[length..].fill(0);
                return Ok(true);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
    }
}
