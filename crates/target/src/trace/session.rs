//! Recording the requests of one device.

use super::packed::BlockTrace;
use super::pairing::{Event, Pairing};
use super::ring_buffer::{Formats, parse_page};
use super::tracefs::{Instance, InstanceOptions};
use crate::block_device::BlockDevice;
use crate::error::TargetError;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Buffer per CPU: at 130 bytes for issue and completion it holds 60,000 requests between two readings.
const BUFFER_KIB: u64 = 8192;

/// How often the buffers are emptied: seldom, so that the traced command is disturbed little.
const READ_EVERY: Duration = Duration::from_millis(50);

/// Between its time stamp and its place in the buffer an event needs less than this.
const SETTLING_NS: u64 = 10_000_000;

/// A recording in progress. Dropped without [`TraceSession::stop`], it leaves nothing behind.
#[derive(Debug)]
pub struct TraceSession {
    instance: Instance,
    stop: Arc<AtomicBool>,
    reader: Option<JoinHandle<std::io::Result<BlockTrace>>>,
}

impl TraceSession {
    /// Begins to record the requests of exactly this device; of a partition only those inside it.
    pub fn start(device: &BlockDevice) -> Result<Self, TargetError> {
        Self::start_with_buffer(device, BUFFER_KIB)
    }

    /// The same with another buffer per CPU, in KiB.
    pub fn start_with_buffer(device: &BlockDevice, buffer_kib: u64) -> Result<Self, TargetError> {
        let disk = device.disk();
        if disk.attribute("queue/scheduler").is_none_or(|text| text == "none" && !has_request_queue(&disk)) {
            return Err(TargetError::missing(
                format!("a request queue of {}", device.path().display()),
                "the kernel shows no requests of devices such as zram, dm or md; trace the device below, or use an image",
            ));
        }
        let first_sector = match device.is_partition() {
            true => device.attribute("start").and_then(|text| text.parse().ok()).unwrap_or(0),
            false => 0,
        };
        let options = InstanceOptions { filter: filter(device, &disk, first_sector), buffer_kib };
        let instance = Instance::new(&options)?;
        let pipes = instance.pipes()?;
        let collector = Collector {
            formats: instance.formats,
            page_size: instance.page_size,
            first_sector,
            start_ns: now_ns(),
            lost_events: 0,
            pending: Vec::new(),
            pairing: Pairing::new(BlockTrace::new(device.name(), device.size().0)),
        };
        instance.record(true)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let reader = std::thread::spawn(move || collector.collect(pipes, &stopped));
        Ok(Self { instance, stop, reader: Some(reader) })
    }

    /// Ends the recording and returns what was recorded. Lost events are counted in the trace.
    pub fn stop(mut self) -> Result<BlockTrace, TargetError> {
        self.instance.record(false)?;
        let mut trace = self.join()?;
        let lost = self.instance.lost_events()?;
        trace.set_lost_events(trace.lost_events().max(lost));
        Ok(trace)
    }

    fn join(&mut self) -> Result<BlockTrace, TargetError> {
        self.stop.store(true, Ordering::Release);
        if let Some(reader) = &self.reader {
            reader.thread().unpark();
        }
        let path = PathBuf::from("trace_pipe_raw");
        match self.reader.take().map(JoinHandle::join) {
            Some(Ok(trace)) => trace.map_err(TargetError::io("read", &path)),
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

/// Events carry the disk's number in the kernel's form, major << 20 | minor (include/linux/kdev_t.h).
fn filter(device: &BlockDevice, disk: &BlockDevice, first_sector: u64) -> String {
    let (major, minor) = disk.number();
    let whole = format!("dev == {}", u64::from(major) << 20 | u64::from(minor));
    match device.is_partition() {
        true => {
            format!("{whole} && sector >= {first_sector} && sector < {}", first_sector + device.size().0 / 512)
        }
        false => whole,
    }
}

/// What the reading thread needs and makes.
#[derive(Debug)]
struct Collector {
    formats: Formats,
    page_size: usize,
    first_sector: u64,
    start_ns: u64,
    lost_events: u64,
    pending: Vec<Event>,
    pairing: Pairing,
}

impl Collector {
    /// Reads the buffers of every CPU until told to stop, then what is left.
    fn collect(mut self, mut pipes: Vec<File>, stop: &AtomicBool) -> std::io::Result<BlockTrace> {
        let mut page = vec![0u8; self.page_size];
        loop {
            let last = stop.load(Ordering::Acquire);
            let settled_ns = if last { u64::MAX } else { now_ns().saturating_sub(SETTLING_NS) };
            for pipe in &mut pipes {
                while read_page(pipe, &mut page)? {
                    self.lost_events += parse_page(&page, &self.formats, &mut self.pending);
                }
            }
            self.settle(settled_ns);
            if last {
                let mut trace = self.pairing.finish();
                trace.set_lost_events(self.lost_events);
                return Ok(trace);
            }
            std::thread::park_timeout(READ_EVERY);
        }
    }

    /// Takes the events up to a moment before which no CPU can show another one, in the order of time. Times count from the
    /// start of the recording, sectors from the start of the device.
    fn settle(&mut self, until_ns: u64) {
        self.pending.sort_by_key(Event::time_ns);
        let count = self.pending.partition_point(|event| event.time_ns() < until_ns);
        for mut event in self.pending.drain(..count) {
            match &mut event {
                Event::Issue(request) => {
                    request.issue_ns = request.issue_ns.saturating_sub(self.start_ns);
                    request.sector = request.sector.saturating_sub(self.first_sector);
                }
                Event::Complete { now_ns, sector, .. } => {
                    *now_ns = now_ns.saturating_sub(self.start_ns);
                    *sector = sector.saturating_sub(self.first_sector);
                }
            }
            self.pairing.take(&event);
        }
    }
}

/// The clock of the events: CLOCK_MONOTONIC.
fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// One page, padded with zeroes. `false`: the buffer is empty.
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
